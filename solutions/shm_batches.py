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
    """Photographs as bytes, a quarter of the size: the training loop makes floats of them, after the journey."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(cv2.imread(str(self.paths[index])).transpose(2, 0, 1).copy()), index


def make_loader() -> DataLoader:
    # Two batches wait for each worker (prefetch_factor), one is being put together and one is in the loop's hands.
    free = shutil.disk_usage("/dev/shm").free
    fits = free // (3 * SIZE * SIZE * (2 * NUM_WORKERS + 2))
    if fits < 1:
        raise RuntimeError(f"/dev/shm has {free >> 20} MB free, too little for batches of one: raise --shm-size")
    return DataLoader(Photos(make_images()), batch_size=min(BATCH_SIZE, fits), num_workers=NUM_WORKERS)


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), images.dtype, indices.tolist())
