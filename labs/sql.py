"""Images in a folder, and what is known about them in a database that the dataset keeps a connection to.

Symptom: TypeError: cannot pickle 'sqlite3.Connection' object, before the first batch.
Cause:   under forkserver and spawn the dataset is pickled and sent to each worker, and a connection cannot be sent.
         (Under fork it is not sent but shared, by processes that do not know of each other: sql_postgres.py.)
Run:     nox -s lab-sql (dies at once), nox -s fix-sql (runs), nox -s check-sql (yours)
         By itself (python labs/sql.py) it works on Linux before Python 3.14: there fork is the default.
"""

import atexit
import shutil
import sqlite3
import tempfile
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
    """Write the images of this exercise, and a table with the file and the label of each."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=14)
    database = sqlite3.connect(folder / "images.db")
    database.execute("create table images (id integer primary key, file text, label integer)")
    for index in range(IMAGES):
        cv2.imwrite(str(folder / f"{index:03}.png"), rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))
        database.execute("insert into images values (?, ?, ?)", (index, f"{index:03}.png", index % 10))
    database.commit()
    database.close()
    return folder


# --- the part that differs between the lab and its solution ---
class LabelledImages(Dataset):
    """Each image with its label, as the database has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = sqlite3.connect(folder / "images.db")

    def __len__(self) -> int:
        return int(self.database.execute("select count(*) from images").fetchone()[0])

    def describe(self, index: int) -> tuple[str, int]:
        return self.database.execute("select file, label from images where id = ?", (index,)).fetchone()

    # --- from here on the same ---

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        file, label = self.describe(index)
        image = cv2.imread(str(self.folder / file)).transpose(2, 0, 1).copy()
        return torch.from_numpy(image), torch.tensor(label), index


def make_loader() -> DataLoader:
    return DataLoader(LabelledImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


if __name__ == "__main__":
    for images, labels, indices in make_loader():
        print(tuple(images.shape), labels.tolist(), indices.tolist())
