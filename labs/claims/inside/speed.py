"""What takes time, and what saves it. Waiting is played by a clock, computing is counted in CPU seconds.

Waiting takes as long on a busy machine as on an idle one, and so do CPU seconds: what is concluded here are ratios of
the one or the other, never seconds on the wall that somebody else's work could stretch.
"""

import os
import resource
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler, TensorDataset

from labs.claims.claim import Case
from labs.claims.inside.errors import raised
from labs.claims.inside.loaders import answers, asking
from labs.harness.proc import cpus

STEP = 0.02  # a device that computes, played by a clock


def wait(seconds: float, index: int) -> int:
    time.sleep(seconds)
    return index


def compute(index: int) -> int:
    """About a millisecond of a CPU."""
    return sum(number * number for number in range(20_000))


def seconds_of(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def cpu_seconds_of(act: Callable[[], Any]) -> float:
    """CPU seconds of this process and of the workers that it has started and seen end."""

    def used() -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    begun = used()
    act()
    return used() - begun


def second_epoch(question: Callable[[int], Any], length: int, workers: int) -> float:
    """Seconds of an epoch whose workers are there already."""
    stay = {"persistent_workers": True} if workers else {}
    loader = asking(question, length, workers, **stay)
    if workers:
        answers(loader)
    return seconds_of(lambda: answers(loader))


def speedup() -> Iterator[Case]:
    alone, four = (second_epoch(partial(wait, 0.02), 48, workers) for workers in (0, 4))
    saw = f"{alone / four:.1f} times as fast with 4 workers as with none"
    yield Case("each sample waits 20 ms, for a disk or a network", 2.5 <= alone / four < 5.5, saw)
    alone, four = (cpu_seconds_of(lambda: answers(asking(compute, 500, workers, batch_size=10))) for workers in (0, 4))  # noqa: B023
    saw = f"{alone:.2f} CPU seconds with none, {four:.2f} with 4 workers: at best {alone / four:.1f} times as fast"
    yield Case("each sample computes", 2.5 <= alone / four < 5.5, saw)


def start_slowly(worker: int) -> None:
    time.sleep(5)


def restart_cost() -> Iterator[Case]:
    cost = cpu_seconds_of(lambda: answers(asking(nothing, 8, workers=4))) / 4
    yield Case("fork", cost >= 5, f"{cost:.2f} CPU seconds for each worker")
    fresh = {"workers": 1, "multiprocessing_context": "spawn"}
    cost = cpu_seconds_of(lambda: answers(asking(nothing, 8, **fresh)))
    yield Case("spawn, which imports torch again", cost >= 5, f"{cost:.2f} CPU seconds for each worker")
    waited = seconds_of(lambda: answers(asking(nothing, 8, worker_init_fn=start_slowly)))
    yield Case("fork, and a worker_init_fn that takes 5 seconds", waited >= 5, f"{waited:.1f} seconds in all")


def nothing(index: int) -> int:
    return index


class Pairs(Dataset[Any]):
    """What one writes for tensors in memory."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.inputs, self.labels = tensors

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.labels[index]


class Batches(Pairs):
    """The same, and it can be asked for a whole batch."""

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[indices], self.labels[indices]


def as_it_is(batch: Any) -> Any:
    return batch


def tensor_dataset() -> Iterator[Case]:
    tensors, size = (torch.rand(4096, 32), torch.arange(4096)), 64
    dataset = TensorDataset(*tensors)
    in_batches = BatchSampler(SequentialSampler(dataset), size, drop_last=False)
    loaders: dict[str, DataLoader[Any]] = {
        "TensorDataset": DataLoader(dataset, size),
        "class": DataLoader(Pairs(*tensors), size),
        "batches": DataLoader(Batches(*tensors), size, collate_fn=as_it_is),
        "indexed": DataLoader(dataset, batch_size=None, sampler=in_batches),
    }
    cost = dict.fromkeys(loaders, 1000000000.0)
    for _ in range(5):  # taking turns, and of each the best
        for name, loader in loaders.items():
            cost[name] = min(cost[name], cpu_seconds_of(lambda: sum(1 for _ in loader)))  # noqa: B023
    times = {name: cost["TensorDataset"] / cost[name] for name in loaders}

    def case(when: str, name: str, control: bool = False) -> Case:
        saw = f"TensorDataset takes {times[name]:.1f} times the CPU seconds of it"
        return Case(when, 0.6 < times[name] < 1.7, saw, control)

    yield case("a class with __getitem__", "class")
    yield case("a class with __getitems__, which indexes once for a batch", "batches")
    yield case("TensorDataset itself, asked for whole batches (batch_size=None)", "indexed", control=True)


class Looked:
    """A label from a database and an image from a file, with the CPU seconds that each of the two took."""

    def __init__(self, folder: Path, query: str, key: Callable[[int], Any], away: float = 0) -> None:
        self.folder, self.query, self.key, self.away = folder, query, key, away
        self.database: sqlite3.Connection | None = None

    def __call__(self, index: int) -> tuple[float, float]:
        if self.database is None:
            self.database = sqlite3.connect(self.folder / "images.db")
        begun = time.thread_time()
        self.database.execute(self.query, (self.key(index),)).fetchone()
        time.sleep(self.away)
        asked = time.thread_time()
        cv2.imread(str(self.folder / "image.jpg"))
        return asked - begun + self.away, time.thread_time() - asked


def sql_queries(rows: int = 200_000, size: int = 256) -> Iterator[Case]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        cv2.imwrite(str(folder / "image.jpg"), np.random.default_rng(0).integers(0, 256, (size, size, 3), np.uint8))
        with sqlite3.connect(folder / "images.db") as database:
            database.execute("create table images (id integer primary key, file text, label integer)")
            database.executemany("insert into images values (?, ?, 0)", ((row, f"{row}.jpg") for row in range(rows)))
        by_id = "select label from images where id = ?"
        ways = {
            "SQLite, by the primary key": Looked(folder, by_id, as_it_is),
            "SQLite, by a column that has no index": Looked(
                folder, "select label from images where file = ?", lambda index: f"{rows - 1 - index}.jpg"
            ),
            "a server that answers after 20 ms, played by a clock": Looked(folder, by_id, as_it_is, away=0.02),
        }
        for when, way in ways.items():
            queries, images = zip(*answers(asking(way, 16)), strict=True)
            share = sum(queries) / (sum(queries) + sum(images))
            yield Case(when, share > 0.5, f"{share:.0%} of a sample's time is the query")


def counted_cpus() -> dict[str, int]:
    """What is said here about the number of CPUs, by whom."""
    host = os.cpu_count() or 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DataLoader([0], num_workers=host)
    warned = [str(warning.message) for warning in caught if "suggested max number of worker" in str(warning.message)]
    suggested = int(warned[0].partition("system is ")[2].split()[0].rstrip(",")) if warned else host
    return {"host": host, "bound": len(os.sched_getaffinity(0)), "allowed": cpus(), "suggested": suggested}


def waiting(load: Callable[[int], Any], workers: int, steps: int, step: float = STEP, **options: Any) -> float:
    """Seconds that a loop waits for its data in the second half of an epoch: in the first the workers start."""
    batches = iter(asking(load, steps, workers, batch_size=1, **options))
    waited = []
    for _ in range(steps):
        waited.append(seconds_of(lambda: next(batches)))
        time.sleep(step)
    return sum(waited[steps // 2 :])


def per_gpu() -> Iterator[Case]:
    for when, ratio, other in (("half a step", 0.5, 1), ("3 steps", 3.0, 1), ("12 steps", 12.0, 12)):
        waits = {workers: waiting(partial(wait, ratio * STEP), workers, steps=12) for workers in (4, other)}
        shares = {workers: waited / (waited + 6 * STEP) for workers, waited in waits.items()}
        saw = f"the loop waits {shares[4]:.0%} of its time with 4 workers, {shares[other]:.0%} with {other}"
        yield Case(f"a batch takes {when} to load", shares[4] < 0.3 < shares[other], saw)


class Timed:
    """Computes, and says which CPU seconds of its process it used, from when to when."""

    def __call__(self, index: int) -> tuple[int, float, float]:
        begun = time.process_time()
        compute(index)
        return os.getpid(), begun, time.process_time()


def work_of(workers: int, length: int) -> float:
    """CPU seconds of the workers between the first sample of each and its last."""
    spans: dict[int, tuple[float, float]] = {}
    for pid, begun, ended in answers(asking(Timed(), length, workers)):
        first, last = spans.get(pid, (begun, ended))
        spans[pid] = min(first, begun), max(last, ended)
    return sum(ended - begun for begun, ended in spans.values())


def more_than_cores() -> Iterator[Case]:
    one, many = (second_epoch(partial(wait, 0.01), 64, workers) for workers in (1, 8))
    faster = one / many
    yield Case("each sample waits 10 ms", faster < 0.67, f"8 workers are {faster:.1f} times as fast as 1")
    one, many = (work_of(workers, 320) for workers in (1, 8))
    yield Case("each sample computes", many > 1.5 * one, f"8 workers use {many / one:.2f} times the CPU seconds of 1")
    one, many = (cpu_seconds_of(lambda: answers(asking(nothing, 32, workers))) for workers in (1, 8))  # noqa: B023
    saw = f"8 workers use {many / one:.1f} times the CPU seconds of 1"
    yield Case("next to nothing to do, and the workers start anew each epoch", many > 1.5 * one, saw)


def at_times(index: int) -> int:
    """A batch in sixteen takes as long as ten steps; the others take no time."""
    return wait(10 * STEP if index % 16 == 15 else 0, index)


def deeper_prefetch() -> Iterator[Case]:
    ways = {
        "each batch takes as long as 3 steps": (partial(wait, 3 * STEP), 12),
        "one batch in 16 takes as long as 10 steps, the others no time": (at_times, 48),
    }
    for when, (load, steps) in ways.items():
        shallow, deep = (waiting(load, 1, steps, prefetch_factor=factor) for factor in (2, 16))
        saw = f"the loop waits {shallow * 1000:.0f} ms with prefetch_factor=2, {deep * 1000:.0f} ms with 16"
        yield Case(when, shallow > 2 * deep, saw)


def prefetch_default() -> Iterator[Case]:
    default = DataLoader([0], num_workers=1).prefetch_factor
    yield Case("num_workers=1", default == 2, f"prefetch_factor is {default}")
    error = raised(lambda: DataLoader([0], num_workers=0, prefetch_factor=2))
    yield Case("num_workers=0, prefetch_factor=2", isinstance(error, ValueError), named(error))
    error = raised(lambda: DataLoader([0], num_workers=1, prefetch_factor=2))
    yield Case("num_workers=1, prefetch_factor=2", isinstance(error, ValueError), named(error), control=True)


def named(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}" if error else "nothing is raised"
