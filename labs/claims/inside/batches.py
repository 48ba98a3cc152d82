"""How samples become batches: who collates, what fits together, in which order they come."""

import multiprocessing
import os
import threading
import warnings
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data._utils.pin_memory import pin_memory

from labs.claims.claim import Case
from labs.claims.inside.errors import until_it_raises, words
from labs.claims.inside.loaders import Asked, answers, asking

SENTENCES = 6400

Pair = namedtuple("Pair", ["left", "right"])


def who_collates(samples: list[int]) -> tuple[int, bool]:
    return os.getpid(), threading.current_thread() is threading.main_thread()


def collate_main_thread() -> Iterator[Case]:
    for workers in (1, 4, 0):
        seen = list(asking(int, workers=workers, collate_fn=who_collates))
        here = sum(one == (os.getpid(), True) for one in seen)
        others = len({pid for pid, _ in seen} - {os.getpid()})
        saw = f"{here} of {len(seen)} batches were collated on the main thread, {len(seen) - here} in {others} workers"
        yield Case(f"num_workers={workers}", here == len(seen), saw, control=workers == 0)


def of_length(index: int) -> torch.Tensor:
    return torch.zeros(4 - index % 2)


def of_shape(index: int) -> torch.Tensor:
    return torch.zeros((3, 8, 6) if index % 2 else (3, 6, 8))


def array_of_length(index: int) -> np.ndarray:
    return np.zeros(4 - index % 2)


def list_of_length(index: int) -> list[int]:
    return [0] * (4 - index % 2)


def letters(index: int) -> str:
    return "a" * (4 - index % 2)


def by_default(question: Callable[[int], Any], workers: int = 2, **options: Any) -> "DataLoader[Any]":
    """Batches as torch's own collate makes them."""
    return asking(question, length=8, workers=workers, **{"batch_size": 4, "collate_fn": None, **options})


def collate_ragged() -> Iterator[Case]:
    ragged: dict[str, tuple[Callable[[int], Any], int]] = {
        "tensors of 4 and 3 numbers, num_workers=0": (of_length, 0),
        "tensors of 4 and 3 numbers, 2 workers": (of_length, 2),
        "images of 6 x 8 and 8 x 6 pixels, 2 workers": (of_shape, 2),
        "NumPy arrays of 4 and 3 numbers, 2 workers": (array_of_length, 2),
        "lists of 4 and 3 numbers, 2 workers": (list_of_length, 2),
    }
    for name, (question, workers) in ragged.items():
        _, error = until_it_raises(by_default(question, workers))
        yield Case(name, error is not None, words(error))
    _, error = until_it_raises(by_default(of_length, batch_size=1))
    yield Case("the same tensors, in batches of one", error is not None, words(error), control=True)
    _, error = until_it_raises(by_default(letters))
    yield Case("strings of 4 and 3 letters", error is not None, words(error), control=True)


def as_long_as_its_index(index: int) -> torch.Tensor:
    return torch.ones(index)


def pad(samples: list[torch.Tensor]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence(samples, batch_first=True)


def lengths() -> torch.Tensor:
    return torch.randint(10, 60, (SENTENCES,), generator=torch.Generator().manual_seed(0))


def padding(order: torch.Tensor, batch_size: int = 32) -> float:
    """How much of what a loader delivers is padding, when sentences of these lengths come in this order."""
    batches = order.view(-1, batch_size).tolist()
    dataset = Asked(as_long_as_its_index, 60)
    loader = DataLoader(dataset, batch_sampler=batches, collate_fn=pad, num_workers=2, multiprocessing_context="fork")
    tokens = places = 0
    for batch in loader:
        tokens, places = tokens + int(batch.sum()), places + batch.numel()
    return 1 - tokens / places


def collate_padding() -> Iterator[Case]:
    for size in (32, 8):
        wasted = padding(lengths(), size)
        saw = f"{wasted:.1%} of what is delivered is padding"
        yield Case(f"batches of {size}", abs(wasted - 0.36) < 0.02, saw, control=size != 32)


def collate_bucketing() -> Iterator[Case]:
    at_random = padding(lengths())
    tries = {
        "all sorted by length": (lengths().sort().values, False),
        "sorted within pools of 10 batches": (lengths().view(-1, 10 * 32).sort().values, False),
        "only shuffled once more": (lengths()[torch.randperm(SENTENCES)], True),
    }
    for name, (order, control) in tries.items():
        wasted = padding(order)
        saw = f"{wasted:.1%} padding, against {at_random:.1%} in an order at random"
        yield Case(name, wasted < at_random / 2, saw, control)


def an_image(index: int) -> torch.Tensor:
    return torch.rand(3, 8, 8)


def batchnorm_last_batch() -> Iterator[Case]:
    def epoch(model: nn.Module, **options: Any) -> tuple[bool, str]:
        """Does it break on 49 images in batches of 8?"""
        loader = asking(an_image, length=49, batch_size=8, collate_fn=None, **options)
        seen, error = until_it_raises(len(model(batch)) for batch in loader)
        return error is not None, f"{sum(seen)} of 49 images, {words(error)}"

    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.BatchNorm1d(4))
    breaking = {
        "BatchNorm1d after a linear layer": flat,
        "BatchNorm2d after pooling to one pixel": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(3)),
        "BatchNorm2d on images of 8 x 8 pixels": nn.BatchNorm2d(3),
    }
    for name, model in breaking.items():
        breaks, saw = epoch(model)
        yield Case(f"{name}, in training", breaks, saw)
    breaks, saw = epoch(flat, drop_last=True)
    yield Case("the first one, with drop_last=True", not breaks, saw)
    breaks, saw = epoch(flat.eval())
    yield Case("the first one, in validation", breaks, saw, control=True)


@dataclass
class Sample:
    number: int


def in_words(batch: Any) -> str:
    """What the default collate made: containers by what is in them, tensors by type and shape."""
    if isinstance(batch, torch.Tensor):
        return f"a tensor of {str(batch.dtype).removeprefix('torch.')}, shape {tuple(batch.shape)}"
    if isinstance(batch, dict):
        return f"a dict of {in_words(next(iter(batch.values())))}"
    return f"a {type(batch).__name__} of {len(batch)}, the first {in_words(batch[0])}"


def collate_default_types() -> Iterator[Case]:
    samples: dict[str, tuple[Any, type]] = {
        "a NumPy array": (np.zeros(3), torch.Tensor),
        "an int": (1, torch.Tensor),
        "a float": (0.5, torch.Tensor),
        "a NumPy number": (np.float32(0.5), torch.Tensor),
        "a dict of arrays": ({"a": np.zeros(3)}, dict),
        "a named tuple of numbers": (Pair(1, 2), Pair),
        "a list of numbers": ([1, 2], list),
        "a tuple of numbers": ((1, 2), tuple),
        "a dataclass": (Sample(1), Sample),
        "None": (None, type(None)),
        "an array of strings": (np.array(["a"]), torch.Tensor),
    }
    for name, (sample, kept) in samples.items():
        batches, error = until_it_raises(by_default(([sample] * 8).__getitem__))
        saw = words(error).partition("; found")[0] if error else f"a batch is {in_words(batches[0])}"
        yield Case(f"a sample is {name}", error is None and type(batches[0]) is kept, saw)


class Stream(IterableDataset[Any]):
    """A stream that makes its batches itself."""

    def __iter__(self) -> Iterator[np.ndarray]:
        yield np.zeros((5, 3))
        yield np.zeros((4, 3))


def an_array(index: int) -> np.ndarray:
    return np.zeros(3)


def batch_size_none() -> Iterator[Case]:
    stream = DataLoader(Stream(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    tries = {
        "8 samples of 3 numbers": (by_default(an_array, batch_size=None), 8 * [(3,)], False),
        "a stream of arrays of 5 x 3 and 4 x 3": (stream, [(5, 3), (4, 3)], False),
        "the 8 samples, with batch_size=1": (by_default(an_array, batch_size=1), 8 * [(3,)], True),
    }
    for name, (loader, wanted, control) in tries.items():
        shapes = [tuple(one.shape) for one in loader if isinstance(one, torch.Tensor)]
        saw = "tensors: " + ", ".join(f"{count} of shape {shape}" for shape, count in Counter(shapes).items())
        yield Case(name, shapes == wanted, saw, control)


class AtOnce(Dataset[Any]):
    """Each sample says with how many others it was asked for."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return 1

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [len(indices)] * len(indices)


def getitems_batch() -> Iterator[Case]:
    tries: dict[str, tuple[Dataset[Any], int | None, int]] = {
        "the dataset itself, 2 workers": (AtOnce(), 4, 2),
        "the dataset itself, num_workers=0": (AtOnce(), 4, 0),
        "a Subset of it, as random_split makes them": (Subset(AtOnce(), range(8)), 4, 2),
        "a ConcatDataset of two of it": (ConcatDataset([AtOnce(), AtOnce()]), 4, 2),
    }
    for name, (dataset, size, workers) in tries.items():
        loader = DataLoader(dataset, size, num_workers=workers, multiprocessing_context="fork" if workers else None)
        asked = {int(number) for batch in loader for number in batch}
        yield Case(name, asked == {4}, f"asked for {', '.join(map(str, sorted(asked)))} at a time, in batches of 4")


class Gated:
    """The first sample does not come before the gate is open; another one may open it."""

    def __init__(self, opens: int | None = None) -> None:
        self.gate, self.opens = multiprocessing.get_context("fork").Event(), opens

    def __call__(self, index: int) -> int:
        if index == self.opens:
            self.gate.set()
        if index == 0:
            self.gate.wait()
        return index


def in_order() -> Iterator[Case]:
    """Worker 1 gets samples 1 and 3: the first sample is not there before worker 1 is done with 1."""
    came = answers(asking(Gated(opens=3), length=12, batch_size=1))
    saw = f"they came as {', '.join(map(str, came[:4]))}, ..."
    yield Case("batch 0 is not ready before batch 1 is", came == sorted(came), saw)
    held = Gated()
    came = []
    for batch in asking(held, length=12, batch_size=1, in_order=False):
        held.gate.set()
        came += batch
    saw = f"they came as {', '.join(map(str, came[:4]))}, ..."
    yield Case("the same, with in_order=False", came == sorted(came), saw, control=True)


def in_order_slow_sample() -> Iterator[Case]:
    """Sample 0 never comes. Of 12 batches of one, its worker has two, and the other worker could make the rest."""
    for in_order, seconds in ((True, 1), (False, 30)):
        held = Gated()
        batches = iter(asking(held, length=12, batch_size=1, timeout=seconds, in_order=in_order))
        came, error = until_it_raises(islice(batches, 10))
        held.gate.set()  # or its worker would have to be waited for
        saw = f"{len(came)} of the 10 batches that do not need its worker come, {words(error)}"
        yield Case(f"a sample that never comes, in_order={in_order}", len(came) == (0 if in_order else 10), saw)
    came = answers(asking(int, length=12, batch_size=1, timeout=30))
    yield Case("no slow sample", not came, f"{len(came)} of 12 batches come", control=True)


class Part:
    """Stands for a tensor: there is no GPU to pin it for, so it only notes that it was asked to."""

    def __init__(self) -> None:
        self.asked = False

    def pin_memory(self) -> "Part":
        self.asked = True
        return self


@dataclass
class Batch:
    images: Any
    labels: Any


class PinnedBatch(Batch):
    def pin_memory(self) -> "PinnedBatch":
        self.images, self.labels = self.images.pin_memory(), self.labels.pin_memory()
        return self


def pin_memory_custom_batch() -> Iterator[Case]:
    tries: dict[str, tuple[Callable[[Part, Part], Any], int, bool]] = {
        "a dataclass": (Batch, 0, False),
        "the same with a pin_memory method": (PinnedBatch, 2, False),
        "a dict": (lambda one, other: {"one": one, "other": other}, 0, True),
        "a named tuple": (Pair, 0, True),
    }
    for name, (make, claimed, control) in tries.items():
        parts = Part(), Part()
        pin_memory(make(*parts))
        pinned = sum(part.asked for part in parts)
        yield Case(f"{name}, of two tensors", pinned == claimed, f"{pinned} of 2 are pinned", control)


def pin_memory_no_gpu() -> Iterator[Case]:
    for asked in (True, False):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batches = iter(asking(an_array, collate_fn=None, pin_memory=asked))
            batch = next(batches)
        threads = sum("pin_memory" in thread.name for thread in threading.enumerate())
        said = [str(one.message) for one in caught if "pin_memory" in str(one.message)]
        pinned = "pinned" if batch.is_pinned() else "not pinned"
        saw = f"{said[0] if said else 'No warning.'} The batch is {pinned}, and {threads} threads pin."
        holds = len(said) == 1 and not batch.is_pinned() and not threads
        yield Case(f"pin_memory={asked}", holds, saw, control=not asked)
