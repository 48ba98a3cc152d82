"""Batches of photographs as float32, larger than the whole of a container's shared memory.

Symptom: RuntimeError: unable to allocate shared memory(shm) for file </torch_...>: No space left on device (28)
Cause:   a batch travels from a worker to the main process through /dev/shm, and docker gives a container 64 MB of it.
         In flight at once: batch bytes x (num_workers x prefetch_factor + 2).
Run:     nox -s lab-shm-batches (dies), nox -s fix-shm-batches (fits), nox -s check-shm-batches (yours)
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 96
SIZE = 512
BATCH_SIZE = 24
NUM_WORKERS = 2


def make_images() -> Path:
    """Write the photographs of this exercise: tiles of colour."""
    folder = Path(tempfile.mkdtemp(prefix="photos-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=7)
    for index in range(IMAGES):
        tiles = rng.integers(0, 256, (SIZE // 8, SIZE // 8, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{index:03}.png"), tiles.repeat(8, axis=0).repeat(8, axis=1))
    return folder


# --- the part that differs between the lab and its solution ---
class Photos(Dataset):
    """Photographs as float32 between 0 and 1: 3 MB each."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        photo = cv2.imread(str(self.paths[index])).transpose(2, 0, 1)
        return torch.from_numpy(photo.copy()).float() / 255, index


def make_loader() -> DataLoader:
    return DataLoader(Photos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), images.dtype, indices.tolist())
