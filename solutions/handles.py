"""Records from one file that the dataset opens when it is made, as one would without workers.

Symptom: none. Some records never come, and others are nonsense: the end of one and the beginning of another.
Cause:   a forked worker inherits the open file, and with it one position in it, shared by all. Each worker reads the
         next block from wherever the others have left it, and blocks do not end where records do.
Run:     nox -s lab-handles (torn records), nox -s fix-handles (whole ones), nox -s check-handles (yours)
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

RECORDS = 500
RECORD = np.dtype([("id", "<u4"), ("signal", "u1", 96)])
BATCH_SIZE = 8
NUM_WORKERS = 4


def make_file() -> Path:
    """Write the recording of this exercise: records of 100 bytes, a number and a signal."""
    folder = Path(tempfile.mkdtemp(prefix="recording-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    records = np.zeros(RECORDS, RECORD)
    records["id"] = np.arange(RECORDS)
    records["signal"] = np.random.default_rng(seed=13).integers(0, 256, (RECORDS, 96))
    (folder / "recording.bin").write_bytes(records.tobytes())
    return folder / "recording.bin"


# --- the part that differs between the lab and its solution ---
class Recording(IterableDataset):
    """The records of a file, dealt to the workers; each opens the file for itself, when it begins."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with self.path.open("rb") as file:
            for number in range(first, RECORDS, step):
                file.seek(number * RECORD.itemsize)
                record = np.frombuffer(file.read(RECORD.itemsize), RECORD)[0]
                yield torch.from_numpy(record["signal"].copy()), int(record["id"])


# --- from here on the same ---


def make_loader() -> DataLoader:
    return DataLoader(Recording(make_file()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


if __name__ == "__main__":
    for signals, ids in make_loader():
        print(tuple(signals.shape), ids.tolist())
