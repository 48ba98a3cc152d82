"""What workers load in advance, what they keep from epoch to epoch, and what they see of the dataset."""

import os
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler, get_worker_info

from labs.claims.claim import Case
from labs.claims.inside.loaders import answers, asking

SAMPLES = 16
LONGEST_WAIT = 30.0


class Counted(Sampler[int]):
    """Deals out indices, and counts how many it has dealt: nothing else can be loaded."""

    def __init__(self) -> None:
        self.dealt = 0

    def __iter__(self) -> Iterator[int]:
        for index in range(100):
            self.dealt += 1
            yield index


def in_advance(workers: int, taken: int = 0, **options: Any) -> list[int]:
    """How many batches each worker has loaded that the loop has not taken, after it has taken some."""
    loaded, sampler = torch.zeros(max(workers, 1), dtype=torch.int64).share_memory_(), Counted()

    def load(index: int) -> int:
        worker = get_worker_info()
        loaded[worker.id if worker else 0] += 1
        return index

    loader = asking(load, length=100, workers=workers, sampler=sampler, batch_size=1, **options)
    batches, deadline = iter(loader), time.monotonic() + LONGEST_WAIT
    for _ in range(taken):
        next(batches)
    while int(loaded.sum()) < sampler.dealt and time.monotonic() < deadline:
        time.sleep(0.005)
    # The loop takes from the workers in turn.
    gone = torch.bincount(torch.arange(taken) % max(workers, 1), minlength=max(workers, 1))
    return [int(count) for count in loaded - gone]


def prefetch() -> Iterator[Case]:
    for factor in (1, 2, 5):
        ready = in_advance(2, taken=3, prefetch_factor=factor)
        saw = f"after 3 batches were taken {ready[0]} and {ready[1]} more had been loaded"
        yield Case(f"2 workers, prefetch_factor={factor}", ready == [factor, factor], saw)
    ready = in_advance(0, taken=3)
    yield Case("num_workers=0", ready[0] > 0, f"{ready[0]} batches in advance", control=True)


def prefetch_in_all() -> Iterator[Case]:
    for workers in (1, 2, 4):
        ready = [sum(in_advance(workers, taken)) for taken in (0, 5)]
        saw = f"{ready[0]} batches before the first was taken, {ready[1]} after five were"
        yield Case(f"num_workers={workers}", ready == [2 * workers] * 2, saw)
    ready = [sum(in_advance(2, taken, prefetch_factor=4)) for taken in (0, 5)]
    yield Case("num_workers=2, prefetch_factor=4", ready == [4, 4], f"{ready[0]} and {ready[1]} batches", control=True)


class Remembering:
    """State that a dataset's copy keeps: how many samples it has loaded so far."""

    def __init__(self) -> None:
        self.loaded = 0

    def __call__(self, index: int) -> tuple[int, int]:
        self.loaded += 1
        return os.getpid(), self.loaded


def lives(**options: Any) -> list[tuple[set[int], int]]:
    """For each of two epochs: who loaded, and how many samples a copy of the dataset remembers at most."""
    loader = asking(Remembering(), SAMPLES, **options)
    epochs = [answers(loader) for _ in range(2)]
    return [({pid for pid, _ in epoch}, max(loaded for _, loaded in epoch)) for epoch in epochs]


def persistent() -> Iterator[Case]:
    for when, control in (("persistent_workers=True", False), ("persistent_workers=False, the default", True)):
        (first, _), (second, remembered) = lives(persistent_workers=not control)
        same = len(first & second)
        saw = f"{same} of 2 workers are the same in the second epoch, and {remembered} samples are remembered"
        yield Case(when, same == 2 and remembered == SAMPLES, saw, control)


def recreated() -> Iterator[Case]:
    (first, _), (second, _) = lives()
    yield Case("two whole epochs", not first & second, f"{len(first & second)} of 2 workers are the same")
    loader = asking(Remembering(), SAMPLES)
    left, again = ({pid for pid, _ in next(iter(loader))} for _ in range(2))
    yield Case("an epoch that is left with break", not left & again, f"{len(left & again)} of 1 worker is the same")
    (first, _), (second, _) = lives(persistent_workers=True)
    same = len(first & second)
    yield Case("persistent_workers=True", not same, f"{same} of 2 workers are the same", control=True)


class Cached:
    """Says of each sample whether it had to be loaded, or was in the cache."""

    def __init__(self) -> None:
        self.cache: dict[int, bytes] = {}

    def __call__(self, index: int) -> bool:
        must_load = index not in self.cache
        self.cache[index] = b"a sample"
        return must_load


def cache_in_dict() -> Iterator[Case]:
    stay = {"persistent_workers": True}
    settings: dict[str, dict[str, Any]] = {
        "num_workers=0": {"workers": 0},
        "2 workers, the defaults": {},
        "2 workers, persistent_workers=True": stay,
        "the same, shuffled": {**stay, "shuffle": True, "generator": torch.Generator().manual_seed(0)},
    }
    for when, options in settings.items():
        loader = asking(Cached(), 64, **options)
        loads = [sum(answers(loader)) for _ in range(3)]
        saw = f"{loads[0]}, {loads[1]} and {loads[2]} of 64 samples loaded in three epochs"
        yield Case(when, loads[2] < loads[0] / 2, saw)


class Filled:
    """Writes into a tensor that the dataset holds."""

    def __init__(self, cache: torch.Tensor) -> None:
        self.cache = cache

    def __call__(self, index: int) -> bool:
        must_load = not self.cache[index]
        self.cache[index] = 1
        return must_load


def cache_in_shared_tensor() -> Iterator[Case]:
    def case(when: str, cache: torch.Tensor, control: bool = False, **options: Any) -> Case:
        answers(asking(Filled(cache), SAMPLES, **options))
        seen = int(cache.sum())
        return Case(when, seen == SAMPLES, f"the main process sees {seen} of {SAMPLES} entries", control)

    yield case("share_memory_(), 2 workers, fork", torch.zeros(SAMPLES).share_memory_())
    start = {"workers": 1, "multiprocessing_context": "forkserver"}
    yield case("share_memory_(), 1 worker, forkserver", torch.zeros(SAMPLES).share_memory_(), **start)
    yield case("an ordinary tensor, fork", torch.zeros(SAMPLES), control=True)


class Dated:
    """Says which epoch its copy of the dataset believes in."""

    def __init__(self, epoch: Any) -> None:
        self.epoch = epoch

    def __call__(self, index: int) -> int:
        return int(self.epoch)


def attributes() -> Iterator[Case]:
    settings = {"num_workers=0": {"workers": 0}, "2 workers, the defaults": {}}
    for when, options in {**settings, "2 workers, persistent_workers=True": {"persistent_workers": True}}.items():
        question = Dated(0)
        loader, seen = asking(question, SAMPLES, **options), []
        for question.epoch in range(3):
            seen.append(sorted(set(answers(loader))))
        yield Case(when, seen == [[0], [1], [2]], told(seen))
    shared = torch.zeros((), dtype=torch.int64).share_memory_()
    loader, seen = asking(Dated(shared), SAMPLES, persistent_workers=True), []
    for epoch in range(3):
        shared.fill_(epoch)
        seen.append(sorted(set(answers(loader))))
    yield Case("the same, kept in a tensor in shared memory", seen == [[0], [1], [2]], told(seen), control=True)


def told(seen: list[list[int]]) -> str:
    return f"epochs 0, 1, 2; the workers saw {', '.join('/'.join(map(str, epoch)) for epoch in seen)}"
