"""Images from a store that answers after a while, loaded in the process that trains.

Symptom: the device idles: most of each step goes by before there is anything to compute.
Cause:   with num_workers=0 loading and computing take turns. While a batch is loaded nothing is computed, and while
         it is computed nothing is loaded.
Run:     nox -s lab-starve (waits), nox -s fix-starve (overlaps), nox -s check-starve (yours)

The store and the device are played by a clock, so that the proportions are the same on every machine: an image takes
15 ms to arrive, a step 50 ms to compute.
"""

import os
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 160
SIZE = 32
BATCH_SIZE = 8
ANSWER_SECONDS = 0.015
STEP_SECONDS = 0.050


class Store(Dataset):
    """Images that are far away."""

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(ANSWER_SECONDS)
        image = np.random.default_rng(seed=index).integers(0, 256, (3, SIZE, SIZE), dtype=np.uint8)
        return torch.from_numpy(image), index


def train(loader: DataLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The loop over an epoch; each batch is handed on after the device has computed with it."""
    for images, indices in loader:
        time.sleep(STEP_SECONDS)
        yield images, indices


# --- the part that differs between the lab and its solution ---
def make_loader() -> DataLoader:
    return DataLoader(Store(), batch_size=BATCH_SIZE, num_workers=0)


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in train(make_loader()):
        print(f"process {os.getpid()}:", tuple(images.shape), indices.tolist())
