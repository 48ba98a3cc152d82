"""Workers that turn photographs with OpenCV, each with as many threads as a 64-core host has cores, on 2 CPUs.

Symptom: every CPU is busy, and much of it with changing from one thread to another. Nothing is raised.
Cause:   OpenCV starts a pool of threads in every worker, for all CPUs that it may use; torch limits only its own.
         On a host with 64 cores, in a container that has a share of them and no quota, two workers are 128 threads.
         Here OPENCV_FOR_THREADS_NUM=64 plays that host, and the 128 threads take turns on 2 CPUs.
Run:     nox -s lab-opencv (crowded), nox -s fix-opencv (calm), nox -s check-opencv (yours)
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
SIZE = 256
VIEWS = 20
BATCH_SIZE = 4
NUM_WORKERS = 2


def make_images() -> Path:
    """Write the photographs of this exercise: tiles of colour."""
    folder = Path(tempfile.mkdtemp(prefix="photos-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=3)
    for index in range(IMAGES):
        tiles = rng.integers(0, 256, (SIZE // 8, SIZE // 8, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{index:03}.png"), tiles.repeat(8, axis=0).repeat(8, axis=1))
    return folder


class TurnedPhotos(Dataset):
    """Each photograph in VIEWS small views, turned a little further from one to the next."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        photo = cv2.imread(str(self.paths[index]))
        views = []
        for angle in np.linspace(0, 360, VIEWS, endpoint=False):
            turn = cv2.getRotationMatrix2D((SIZE / 2, SIZE / 2), angle, 1.0)
            views.append(cv2.warpAffine(photo, turn, (SIZE, SIZE))[::4, ::4])
        return torch.from_numpy(np.stack(views)), index


# --- the part that differs between the lab and its solution ---
def make_loader() -> DataLoader:
    return DataLoader(TurnedPhotos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), indices.tolist())
