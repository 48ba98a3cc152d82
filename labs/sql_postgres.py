"""Images in a folder, and what is known about them in PostgreSQL, to which the dataset keeps a connection.

Symptom: another one in each run: an exception that makes no sense (prepared statement "_pg3_0" already exists), a loop
         that waits for ever, samples with the image and the label of another one.
Cause:   forked workers inherit the connection: one socket and one session, used by processes that do not know of each
         other. Each may read the answer to another's question.
Run:     PGHOST=... PGUSER=... python labs/sql_postgres.py, on a server where it may make a table
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np
import psycopg
import torch
from torch.utils.data import DataLoader, Dataset

IMAGES = 48
SIZE = 64
BATCH_SIZE = 8
NUM_WORKERS = 4


def make_images() -> Path:
    """Write the images of this exercise, and a table with the file and the label of each."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(seed=14)
    with psycopg.connect() as database:
        database.execute("drop table if exists lab_images")
        database.execute("create table lab_images (id integer primary key, file text, label integer)")
        for index in range(IMAGES):
            cv2.imwrite(str(folder / f"{index:03}.png"), rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))
            database.execute("insert into lab_images values (%s, %s, %s)", (index, f"{index:03}.png", index % 10))
    return folder


# --- the part that differs between the lab and its solution ---
class LabelledImages(Dataset):
    """Each image with its label, as the database has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = psycopg.connect()

    def __len__(self) -> int:
        return int(self.database.execute("select count(*) from lab_images").fetchone()[0])

    def describe(self, index: int) -> tuple[str, int]:
        return self.database.execute("select file, label from lab_images where id = %s", (index,)).fetchone()

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
