"""A loop that keeps one image of every batch, to look at after the epoch.

Symptom: RuntimeError: Too many open files. Communication with the workers is no longer possible.
Cause:   a tensor that came from a worker is a file in /dev/shm, held open for as long as the tensor, or any view of
         it, is alive. Keeping one image of a batch keeps the file of the whole batch, and files are counted.
Run:     nox -s lab-fds (dies with 256), nox -s fix-fds (holds), nox -s check-fds (yours)
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 300
SIZE = 16
BATCH_SIZE = 1
NUM_WORKERS = 2


def make_images() -> Path:
    """Write the images of this exercise: tiny ones, of random pixels."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=12)
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


def make_loader() -> DataLoader:
    return DataLoader(Images(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


# --- the part that differs between the lab and its solution ---
def train(loader: DataLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The loop over an epoch; each batch is handed on after it has been used."""
    to_look_at = []
    for images, indices in loader:
        to_look_at.append(images[0].clone())  # a copy in ordinary memory; the batch's file can be closed
        yield images, indices


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in train(make_loader()):
        print(tuple(images.shape), indices.tolist())
