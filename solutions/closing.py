"""A stream of photographs to train a denoiser on: each turned at random, with noise of its own. The closing exercise.

Symptom: none. An epoch is longer than it should be, loading is slow, and the model learns less than it could.
Cause:   three at once, each with a lab of its own. A worker starts as a copy: of a stream that nobody divides, of a
         generator that nobody seeds, and of a library that starts threads for a whole host.
Run:     nox -s lab-closing (all three), nox -s fix-closing (none), nox -s check-closing (yours)
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

PHOTOS_IN_SHARD = (9, 14, 11, 8, 13, 10, 7)
SIZE = 256
BATCH_SIZE = 8
NUM_WORKERS = 3


def make_shards() -> Path:
    """Write the shards of this exercise: each an archive of photographs, tiles of colour, and their ids."""
    folder = Path(tempfile.mkdtemp(prefix="shards-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=16)
    first = 0
    for shard, count in enumerate(PHOTOS_IN_SHARD):
        tiles = rng.integers(0, 200, (count, SIZE // 8, SIZE // 8, 3), dtype=np.uint8)
        photos = tiles.repeat(8, axis=1).repeat(8, axis=2)
        np.savez(folder / f"{shard:03}.npz", ids=np.arange(first, first + count), photos=photos)
        first += count
    return folder


def turned(photo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    turn = cv2.getRotationMatrix2D((SIZE / 2, SIZE / 2), rng.uniform(0, 360), 1.0)
    return cv2.warpAffine(photo, turn, (SIZE, SIZE))[::4, ::4]


class NoisyPhotos(IterableDataset):
    """Triples of a noisy photograph, the noise that is in it, and an id. Each time round all of them are new."""

    def __init__(self, folder: Path) -> None:
        self.shards = sorted(folder.glob("*.npz"))
        self.rng = np.random.default_rng(seed=17)

    def triples(self, shard: Path, rng: np.random.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        with np.load(shard) as archive:
            for photo, photo_id in zip(archive["photos"], archive["ids"], strict=True):
                clean = torch.from_numpy(turned(photo, rng).copy())
                noise = torch.from_numpy(rng.normal(0, 8, clean.shape).astype(np.float32))
                yield clean + noise, noise, int(photo_id)

    # --- the part that differs between the lab and its solution ---
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        worker = torch.utils.data.get_worker_info()
        mine = self.shards if worker is None else self.shards[worker.id :: worker.num_workers]
        # The seed is the worker's own, new with new workers (in each epoch, if they do not stay), and follows from
        # torch.manual_seed. Workers that stay (persistent_workers) would draw the same again: make it once for those.
        rng = self.rng if worker is None else np.random.default_rng(worker.seed)
        for shard in mine:
            yield from self.triples(shard, rng)


def no_threads_of_its_own(worker_id: int) -> None:
    cv2.setNumThreads(0)


def make_loader() -> DataLoader:
    return DataLoader(
        NoisyPhotos(make_shards()),
        batch_size=BATCH_SIZE,
        num_workers=NUM_WORKERS,
        worker_init_fn=no_threads_of_its_own,
    )


# --- from here on the same ---


if __name__ == "__main__":
    for photos, noise, ids in make_loader():
        print(tuple(photos.shape), f"mean noise {noise.mean():+.4f}", ids.tolist())
