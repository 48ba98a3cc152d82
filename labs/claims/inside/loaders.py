"""Small datasets for measurements: what a sample is, is the answer to a question."""

from collections.abc import Callable, Iterable
from typing import Any

from torch.utils.data import DataLoader, Dataset


class Asked(Dataset[Any]):
    """Each sample is the answer of the worker that loads it. One that is to be pickled is a module's function."""

    def __init__(self, question: Callable[[int], Any], length: int = 16) -> None:
        self.question, self.length = question, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.question(index)


def as_list(samples: list[Any]) -> list[Any]:
    return samples


def asking(question: Callable[[int], Any], length: int = 16, workers: int = 2, **options: Any) -> "DataLoader[Any]":
    """A loader whose batches are lists of answers; fork, unless another context is given."""
    start = {"multiprocessing_context": "fork"} if workers else {}
    options = {"batch_size": 2, "collate_fn": as_list, **start, **options}
    return DataLoader(Asked(question, length), num_workers=workers, **options)


def answers(batches: Iterable[Any]) -> list[Any]:
    """One epoch."""
    return [answer for batch in batches for answer in batch]
