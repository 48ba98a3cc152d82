"""Sentences of different lengths, put into batches as they are.

Symptom: RuntimeError: stack expects each tensor to be equal size, but got [11] at entry 0 and [44] at entry 1
         (or, where the first sentence is longer than the average: Trying to resize storage that is not resizable)
Cause:   torch's own collate stacks samples into one tensor, and a tensor has no room for rows of different lengths.
Run:     nox -s lab-ragged (dies at once), nox -s fix-ragged (pads and masks), nox -s check-ragged (yours)

A padded batch is (tokens, mask, numbers): the mask is True where there is a token and False where there is padding.
"""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

SENTENCES = 320
SHORTEST, LONGEST = 10, 59
BATCH_SIZE = 32
NUM_WORKERS = 2


class Sentences(Dataset):
    """Sentences of random words: the number of a word is its token, and 0 is no word."""

    def __init__(self) -> None:
        rng = np.random.default_rng(seed=23)
        self.lengths = rng.integers(SHORTEST, LONGEST + 1, SENTENCES)
        self.tokens = [torch.from_numpy(rng.integers(1, 256, length)) for length in self.lengths]

    def __len__(self) -> int:
        return SENTENCES

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return self.tokens[number], number


# --- the part that differs between the lab and its solution ---
def make_loader() -> DataLoader:
    return DataLoader(Sentences(), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


# --- from here on the same ---


if __name__ == "__main__":
    for tokens, *_, numbers in make_loader():
        print(tuple(tokens.shape), len(numbers))
