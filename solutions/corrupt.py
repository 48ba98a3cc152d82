"""A folder of images, one of which cannot be read.

Symptom: AttributeError: 'NoneType' object has no attribute 'transpose', and the epoch is over.
Cause:   cv2.imread answers None where it cannot decode. Whatever a worker raises is raised again in the main process,
         where it ends the loop: one file takes the rest of the epoch with it.
Run:     nox -s lab-corrupt (stops), nox -s fix-corrupt (goes on), nox -s check-corrupt (yours)
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 47
UNREADABLE = 1
SIZE = 64
BATCH_SIZE = 8
NUM_WORKERS = 2


def make_images() -> Path:
    """Write the images of this exercise: small ones, of random pixels, and then a download that broke off."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=11)
    for index in range(IMAGES):
        cv2.imwrite(str(folder / f"{index:03}.png"), rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))
    for index in range(IMAGES, IMAGES + UNREADABLE):
        (folder / f"{index:03}.png").write_bytes(b"\x89PNG\r\n")
    return folder


# --- the part that differs between the lab and its solution ---
class Images(Dataset):
    """The images of a folder that can be read. The others are left out, counted and named; too many end the run."""

    def __init__(self, folder: Path, most_unreadable: float = 0.05) -> None:
        self.paths = sorted(folder.glob("*.png"))
        self.readable = [index for index, path in enumerate(self.paths) if cv2.imread(str(path)) is not None]
        lost = sorted(set(range(len(self.paths))) - set(self.readable))
        if len(lost) > most_unreadable * len(self.paths):
            raise RuntimeError(f"{len(lost)} of {len(self.paths)} images cannot be read: this is no accident")
        if lost:
            print(f"left out, unreadable: {[self.paths[index].name for index in lost]}")

    def __len__(self) -> int:
        return len(self.readable)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        index = self.readable[position]
        return torch.from_numpy(cv2.imread(str(self.paths[index])).transpose(2, 0, 1).copy()), index


def make_loader() -> DataLoader:
    dataset = Images(make_images())
    return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, shuffle=True)


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), indices.tolist())
