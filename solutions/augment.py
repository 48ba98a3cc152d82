"""Pairs to train a denoiser on: a random patch of one aerial photograph, and the noise to be added to it.

Symptom: none. Training runs, and learns from each patch as many times as there are workers, in every epoch again.
Cause:   torch seeds the global generators of torch, numpy and random in each worker, and no others: a generator that
         the dataset holds, and OpenCV's own, start in every worker, at every epoch, as the same copy.
Run:     nox -s lab-augment (repeats itself), nox -s fix-augment (does not), nox -s check-augment (yours)
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

PATCHES = 96
PATCH = 64
SIZE = 1024
BATCH_SIZE = 8
NUM_WORKERS = 4


def make_photo() -> Path:
    """Write the aerial photograph of this exercise."""
    folder = Path(tempfile.mkdtemp(prefix="aerial-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    fields = np.random.default_rng(seed=4).integers(0, 200, (128, 128, 3), dtype=np.uint8)
    cv2.imwrite(str(folder / "aerial.png"), cv2.resize(fields, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC))
    return folder / "aerial.png"


class RandomPatches(Dataset):
    """An epoch is PATCHES pairs, each meant to be new; the index only counts them."""

    def __init__(self, path: Path) -> None:
        self.photo = cv2.imread(str(path))
        self.rng = np.random.default_rng(seed=5)

    def __len__(self) -> int:
        return PATCHES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        top, left = self.rng.integers(0, SIZE - PATCH, size=2)
        patch = self.photo[top : top + PATCH, left : left + PATCH].transpose(2, 0, 1).copy()
        noise = cv2.randn(np.empty((PATCH, PATCH), np.float32), 0, 8)
        return torch.from_numpy(patch), torch.from_numpy(noise), index


# --- the part that differs between the lab and its solution ---
def seed_generators(worker_id: int) -> None:
    # The seed is the worker's own, new with new workers, and follows from torch.manual_seed.
    worker = torch.utils.data.get_worker_info()
    worker.dataset.rng = np.random.default_rng(worker.seed)
    cv2.setRNGSeed(worker.seed % 2**31)


def make_loader() -> DataLoader:
    return DataLoader(
        RandomPatches(make_photo()),
        batch_size=BATCH_SIZE,
        num_workers=NUM_WORKERS,
        worker_init_fn=seed_generators,
    )


# --- from here on the same ---


if __name__ == "__main__":
    for patches, noise, indices in make_loader():
        print(indices.tolist(), f"mean patch {patches.float().mean():.3f}, mean noise {noise.mean():+.4f}")
