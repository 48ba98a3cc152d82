"""Crops of photographs that each worker keeps once it has read them, in a container with 768 MB of memory.

Symptom: the first epoch runs, and in the second: DataLoader worker (pid 41) is killed by signal: Killed.
Cause:   the limit counts all processes of the container together. Every worker fills a cache of its own, and when the
         photographs are dealt anew each epoch, each worker comes to hold all of them.
Run:     nox -s lab-oom (is killed), nox -s fix-oom (fits), nox -s check-oom (yours)
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

PHOTOS = 40
SIZE = 1024
CROP = 64
BATCH_SIZE = 4
NUM_WORKERS = 2


def make_photos() -> Path:
    """Write the photographs of this exercise: tiles of colour."""
    folder = Path(tempfile.mkdtemp(prefix="photos-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=19)
    for index in range(PHOTOS):
        tiles = rng.integers(0, 256, (SIZE // 8, SIZE // 8, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{index:03}.png"), tiles.repeat(8, axis=0).repeat(8, axis=1))
    return folder


# --- the part that differs between the lab and its solution ---
class Crops(Dataset):
    """The middle of each photograph, which is read when it is needed. The system keeps the files in memory, once."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def read(self, index: int) -> np.ndarray:
        return cv2.imread(str(self.paths[index])).astype(np.float32) / 255

    # --- from here on the same ---

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        start = (SIZE - CROP) // 2
        crop = self.read(index)[start : start + CROP, start : start + CROP]
        return torch.from_numpy(crop.transpose(2, 0, 1).copy()), index


def make_loader() -> DataLoader:
    dataset, stay = Crops(make_photos()), {"shuffle": True, "persistent_workers": True}
    return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, **stay)


if __name__ == "__main__":
    loader = make_loader()
    for epoch in range(3):
        for crops, indices in loader:
            print(epoch, tuple(crops.shape), indices.tolist())
