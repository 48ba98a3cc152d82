"""A stream of records from shard files, read by several workers.

Symptom: none. An epoch is as many times longer as there are workers, and each sample is seen that many times.
Cause:   every worker has its own copy of an IterableDataset and runs its __iter__ from the start. Nobody divides the
         work unless the dataset does.
Run:     nox -s lab-shards (each sample 4 times), nox -s fix-shards (once), nox -s check-shards (yours)
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

# Ten shards, four workers, and shards of different lengths: nothing here divides evenly.
RECORDS_IN_SHARD = (9, 14, 11, 8, 13, 10, 12, 7, 15, 6)
SIZE = 48
BATCH_SIZE = 8
NUM_WORKERS = 4


def make_shards() -> Path:
    """Write the shards of this exercise: each an archive of images and their ids."""
    folder = Path(tempfile.mkdtemp(prefix="shards-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=6)
    first = 0
    for shard, count in enumerate(RECORDS_IN_SHARD):
        images = rng.integers(0, 256, (count, 3, SIZE, SIZE), dtype=np.uint8)
        np.savez(folder / f"{shard:03}.npz", ids=np.arange(first, first + count), images=images)
        first += count
    return folder


class ShardStream(IterableDataset):
    """The records of all shards, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.shards = sorted(folder.glob("*.npz"))

    # --- the part that differs between the lab and its solution ---
    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for shard in self.shards:
            yield from self.records(shard)

    # --- from here on the same ---

    def records(self, shard: Path) -> Iterator[tuple[torch.Tensor, int]]:
        with np.load(shard) as archive:
            for image, record_id in zip(archive["images"], archive["ids"], strict=True):
                yield torch.from_numpy(image), int(record_id)


def make_loader() -> DataLoader:
    return DataLoader(ShardStream(make_shards()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


if __name__ == "__main__":
    for images, ids in make_loader():
        print(tuple(images.shape), ids.tolist())
