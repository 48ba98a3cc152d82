"""The same batches that do not fit, put together by a collate_fn of one's own: now nothing is raised.

Symptom: training stands still, at its first batch, for ever. On stderr, if anybody looks: "unable to allocate shared
         memory(shm) ... No space left on device (28)".
Cause:   torch's own collate allocates the batch in shared memory, and a failure there is raised. Any other tensor is
         moved there by the queue's feeder thread: it prints the failure, drops the batch, and nobody is told.
Run:     nox -s lab-freeze-shm (hangs), nox -s fix-freeze-shm (fits), nox -s check-freeze-shm (yours)
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
    rng = np.random.default_rng(seed=8)
    for index in range(IMAGES):
        tiles = rng.integers(0, 256, (SIZE // 8, SIZE // 8, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{index:03}.png"), tiles.repeat(8, axis=0).repeat(8, axis=1))
    return folder


class Photos(Dataset):
    """Photographs as bytes."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(cv2.imread(str(self.paths[index])).transpose(2, 0, 1).copy()), index


# --- the part that differs between the lab and its solution ---
def collate(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    # torch's own collate allocates in shared memory, so that a failure is raised; floats are made after the journey.
    images, indices = torch.utils.data.default_collate(samples)
    return images, indices


def make_loader() -> DataLoader:
    # Two batches wait for each worker (prefetch_factor), one is being put together and one is in the loop's hands.
    fits = shutil.disk_usage("/dev/shm").free // (3 * SIZE * SIZE * (2 * NUM_WORKERS + 2))
    return DataLoader(
        Photos(make_images()),
        batch_size=max(1, min(BATCH_SIZE, fits)),
        num_workers=NUM_WORKERS,
        collate_fn=collate,
        timeout=60,  # whatever is lost on the way from now on, it is said
    )


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), images.dtype, indices.tolist())
