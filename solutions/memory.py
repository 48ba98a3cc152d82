"""A log of events, read once into a Python list, which every worker is to share.

Symptom: memory grows by the size of the list with every worker, until the machine swaps or somebody is killed.
Cause:   fork shares the list, and reading it is writing: Python counts references inside each object, so every page
         that a worker looks at is copied for it. gc.freeze() does not help.
Run:     nox -s lab-memory (grows), nox -s fix-memory (is shared), nox -s check-memory (yours)
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

EVENTS = 1_200_000
USERS = 24
BATCH_SIZE = 2
NUM_WORKERS = 4


def make_log() -> Path:
    """Write the log of this exercise: purchases of many users, in the order in which they happened."""
    folder = Path(tempfile.mkdtemp(prefix="log-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    amounts = np.random.default_rng(seed=15).random(EVENTS)
    lines = (f"user {event % USERS:03} paid {amounts[event]:.4f}\n" for event in range(EVENTS))
    (folder / "events.log").write_text("".join(lines))
    return folder / "events.log"


# --- the part that differs between the lab and its solution ---
class Purchases(Dataset):
    """What each user has paid, in order: one packed array, which is one object however many events there are."""

    def __init__(self, log: Path) -> None:
        with log.open() as lines:
            pairs = ((int(line[5:8]), float(line[14:])) for line in lines)
            self.events = np.fromiter(pairs, dtype=[("user", np.int16), ("amount", np.float32)])

    def __len__(self) -> int:
        return USERS

    def __getitem__(self, user: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(self.events["amount"][self.events["user"] == user]), user


# --- from here on the same ---


def make_loader() -> DataLoader:
    return DataLoader(Purchases(make_log()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


if __name__ == "__main__":
    for amounts, users in make_loader():
        print(tuple(amounts.shape), users.tolist())
