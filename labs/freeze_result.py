"""Batches with a name for each part, in a class that is made where it is used.

Symptom: training stands still, at its first batch, for ever. On stderr, if anybody looks: "Can't pickle <class ...>".
Cause:   what a worker returns is pickled by the queue's feeder thread, and a class made inside a function has no name
         to be pickled by. The thread prints the failure, drops the batch, and nobody is told (pytorch#142884).
Run:     nox -s lab-freeze-result (hangs), nox -s fix-freeze-result (runs), nox -s check-freeze-result (yours)
"""

import atexit
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

IMAGES = 48
SIZE = 64
BATCH_SIZE = 8
NUM_WORKERS = 2


def make_images() -> Path:
    """Write the images of this exercise: small ones, of random pixels."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=9)
    for index in range(IMAGES):
        cv2.imwrite(str(folder / f"{index:03}.png"), rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))
    return folder


class Images(Dataset):
    """The images of a folder."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(cv2.imread(str(self.paths[index])).transpose(2, 0, 1).copy()), index


# --- the part that differs between the lab and its solution ---
def make_collate() -> Callable:
    Batch = namedtuple("Batch", ["images", "indices"])

    def collate(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        return Batch(*default_collate(samples))

    return collate


# --- from here on the same ---


def make_loader() -> DataLoader:
    dataset = Images(make_images())
    return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, collate_fn=make_collate())


if __name__ == "__main__":
    for batch in make_loader():
        print(tuple(batch.images.shape), batch.indices.tolist())
