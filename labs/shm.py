"""Decoded images, cached in shared memory so that each is decoded once and every worker can use it.

Symptom: DataLoader worker (pid N) is killed by signal: Bus error.
Cause:   a file in /dev/shm is sparse. Creating it succeeds at any size; the first write past the limit is SIGBUS.
Run:     nox -s lab-shm (dies in 64 MB), nox -s fix-shm (holds), nox -s check-shm (yours)
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 32
SIZE = 1024
CROP = 128
BATCH_SIZE = 8
NUM_WORKERS = 4


def make_images() -> Path:
    """Write the photographs of this exercise: soft blotches of colour."""
    folder = Path(tempfile.mkdtemp(prefix="photos-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=1)
    for index in range(IMAGES):
        blotches = rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)
        photo = cv2.resize(blotches, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f"{index:03}.jpg"), photo)
    return folder


def decode(path: Path) -> np.ndarray:
    return cv2.imread(str(path), cv2.IMREAD_COLOR)


# --- the part that differs between the lab and its solution ---
class CachedPhotos(Dataset):
    """Photographs, decoded on first use and then kept as float32 in memory that all workers share."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.jpg"))
        shape = (len(self.paths), SIZE, SIZE, 3)
        self.cache = np.memmap(tempfile.TemporaryFile(dir="/dev/shm"), np.float32, "w+", shape=shape)
        self.is_cached = torch.zeros(len(self.paths), dtype=torch.bool).share_memory_()

    def photo(self, index: int) -> np.ndarray:
        if not self.is_cached[index]:
            self.cache[index] = decode(self.paths[index]) / np.float32(255)
            self.is_cached[index] = True
        return self.cache[index]

    # --- from here on the same ---

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        start = (SIZE - CROP) // 2
        crop = self.photo(index)[start : start + CROP, start : start + CROP]
        return torch.from_numpy(crop.transpose(2, 0, 1).copy()), index


def make_loader() -> DataLoader:
    return DataLoader(CachedPhotos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), indices.tolist())
