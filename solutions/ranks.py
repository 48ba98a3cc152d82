"""Two processes train together, each with two workers, on shards that all of them read.

Symptom: an epoch is four times as long as it should be, and the model sees every record four times.
Cause:   an IterableDataset is copied into every worker of every rank, and nobody divides the shards: 2 ranks times 2
         workers are 4 copies. Dividing by worker, or by rank, alone still leaves 2.
Run:     nox -s lab-ranks (4 copies), nox -s fix-ranks (1), nox -s check-ranks (yours)
         by hand: torchrun --standalone --nproc-per-node 2 labs/ranks.py
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

SHARDS = 9
RECORDS = 10  # a shard
FEATURES = 64
BATCH_SIZE = 8
NUM_WORKERS = 2


def make_shards() -> list[Path]:
    """Write the shards of this exercise, of random records."""
    folder = Path(tempfile.mkdtemp(prefix="shards-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=18)
    for shard in range(SHARDS):
        np.save(folder / f"{shard:02}.npy", rng.random((RECORDS, FEATURES), dtype=np.float32))
    return sorted(folder.glob("*.npy"))


# --- the part that differs between the lab and its solution ---
class Records(IterableDataset):
    """The records of all shards, each with its number, dealt like cards to all workers of all ranks.

    Shards could be dealt too, if they were as many for everybody: nine are not, and the rank with more batches would
    wait in vain for the other. Records come out even, but for one, and with that every rank has as many batches.
    """

    def __init__(self, shards: list[Path]) -> None:
        self.shards = shards
        self.rank, self.ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker = torch.utils.data.get_worker_info()
        mine, everybody = self.rank * worker.num_workers + worker.id, self.ranks * worker.num_workers
        for number, shard in enumerate(self.shards):
            for place, record in enumerate(np.load(shard, mmap_mode="r")):
                if (number * RECORDS + place) % everybody == mine:
                    yield torch.from_numpy(record.copy()), number * RECORDS + place


# --- from here on the same ---


def make_loader() -> DataLoader:
    return DataLoader(Records(make_shards()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


def train(loader: DataLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The loop over an epoch: in every step the ranks add up their gradients, so each step needs all of them."""
    weights = torch.zeros(FEATURES, requires_grad=True)
    dist.init_process_group("gloo")
    for records, numbers in loader:
        (records @ weights - 1).square().sum().backward()
        dist.all_reduce(weights.grad)
        with torch.no_grad():
            weights -= 0.001 * weights.grad
        weights.grad = None
        yield records, numbers
    dist.destroy_process_group()


if __name__ == "__main__":
    for records, numbers in train(make_loader()):
        print(f"rank {os.environ['RANK']}:", tuple(records.shape), numbers.tolist())
