"""A dataset whose transforms include a lambda, as half the tutorials write it.

Symptom: AttributeError: Can't pickle local object ... (PicklingError from Python 3.14 on), before the first batch.
Cause:   under forkserver and spawn the dataset is pickled and sent to each worker, and a lambda has no name to send.
         Linux forked, and pickled nothing, until Python 3.14 made forkserver the default.
Run:     nox -s lab-pickle (dies at once), nox -s fix-pickle (holds), nox -s check-pickle (yours)
         By itself (python labs/pickling.py) it works on Linux before Python 3.14: there fork is the default.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 48
SIZE = 64
BATCH_SIZE = 8
NUM_WORKERS = 2


def make_images() -> Path:
    """Write the images of this exercise: small ones, of random pixels."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=2)
    for index in range(IMAGES):
        cv2.imwrite(str(folder / f"{index:03}.png"), rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))
    return folder


class Images(Dataset):
    """The images of a folder, each passed through the transforms in turn."""

    def __init__(self, folder: Path, transforms: list[Callable]) -> None:
        self.paths = sorted(folder.glob("*.png"))
        self.transforms = transforms

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = cv2.imread(str(self.paths[index]))
        for transform in self.transforms:
            image = transform(image)
        return image, index


def to_tensor(image: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float() / 255


# --- the part that differs between the lab and its solution ---
def mirror(image: np.ndarray) -> np.ndarray:
    return image[:, ::-1]


def make_transforms() -> list[Callable]:
    return [mirror, to_tensor]


# --- from here on the same ---


def make_loader() -> DataLoader:
    dataset = Images(make_images(), make_transforms())
    return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), indices.tolist())
