"""A dataset that counts what it loads, and a thread that sends the counts to a dashboard, both under one lock.

Symptom: training stands still, at its first batch, for ever. Nothing is printed.
Cause:   fork copies the lock as it is at that moment, held, and not the thread that holds it: in a worker nobody will
         ever release it.
Run:     nox -s lab-deadlock (hangs), nox -s fix-deadlock (runs), nox -s check-deadlock (yours)
"""

import atexit
import shutil
import tempfile
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 48
SIZE = 64
BATCH_SIZE = 8
NUM_WORKERS = 2

loaded: list[int] = []
loaded_lock = threading.Lock()


def make_images() -> Path:
    """Write the images of this exercise: small ones, of random pixels."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=10)
    for index in range(IMAGES):
        cv2.imwrite(str(folder / f"{index:03}.png"), rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))
    return folder


def send_counts(begun: threading.Event) -> None:
    """Tell the dashboard what has been loaded so far. It answers slowly, and until then nothing may be added."""
    with loaded_lock:
        begun.set()
        time.sleep(3)
        loaded.clear()


class CountedImages(Dataset):
    """The images of a folder; each that is loaded is counted."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with loaded_lock:
            loaded.append(index)
        return torch.from_numpy(cv2.imread(str(self.paths[index])).transpose(2, 0, 1).copy()), index


# --- the part that differs between the lab and its solution ---
def make_loader() -> DataLoader:
    begun = threading.Event()
    threading.Thread(target=send_counts, args=(begun,), daemon=True).start()
    begun.wait()
    return DataLoader(CountedImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


# --- from here on the same ---


if __name__ == "__main__":
    for images, indices in make_loader():
        print(tuple(images.shape), indices.tolist())
