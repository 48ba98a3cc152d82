"""A classifier with BatchNorm, and one image more than full batches.

Symptom: ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 16])
Cause:   in training BatchNorm takes mean and variance of the batch, and one sample has no variance. 49 images in
         batches of 8 leave one for the last batch: the epoch runs for six batches and dies on the seventh.
Run:     nox -s lab-last-batch (dies at the end), nox -s fix-last-batch (ends), nox -s check-last-batch (yours)

The same program validates with TRAINING = False: there every image counts.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

IMAGES = 49
SIZE = 16
BATCH_SIZE = 8
NUM_WORKERS = 2
TRAINING = True


def make_images() -> Path:
    """Write the images of this exercise: tiny ones, of random pixels."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=17)
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


model = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))


def train(loader: DataLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The loop over an epoch, of training or of validation; each batch is handed on after it has been used."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train(TRAINING)
    for images, indices in loader:
        loss = model(images.float() / 255).square().mean()
        if TRAINING:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield images, indices


# --- the part that differs between the lab and its solution ---
def make_loader() -> DataLoader:
    dataset = Images(make_images())
    return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, shuffle=TRAINING)


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in train(make_loader()):
        print(tuple(images.shape), indices.tolist())
