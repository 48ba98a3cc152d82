"""Who holds how much memory, and what becomes of a worker that is killed."""

import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from labs.claims.claim import Case
from labs.claims.inside.errors import raised
from labs.claims.inside.loaders import answers, asking
from labs.harness.proc import own_memory, read_text

MB = 1 << 20
OBJECTS = 250_000


def texts(length: int = OBJECTS) -> list[str]:
    return [f"a line of text with the number {number:08}" for number in range(length)]


def size_of(objects: Iterable[Any]) -> int:
    return sum(sys.getsizeof(each) + 8 for each in objects)


def look_at(objects: Iterable[Any]) -> None:
    for _ in objects:
        pass


def growth(act: Callable[[], Any]) -> float:
    """MB by which each of two forked workers comes to hold more of its own while it does this; the one with more."""

    def question(index: int) -> int:
        before = own_memory(os.getpid()) or 0
        act()
        return (own_memory(os.getpid()) or 0) - before

    return max(answers(asking(question, length=2, batch_size=1))) / MB


def copied(when: str, act: Callable[[], Any], size: int, control: bool = False, is_cure: bool = False) -> Case:
    """The claim is that what is read is copied; or, of a cure, that it is not."""
    grew = growth(act)
    most = size / MB / 2
    saw = f"a worker comes to hold {grew:.0f} MB of its own; the data has {size / MB:.0f} MB"
    return Case(when, grew < most if is_cure else grew > most, saw, control)


def copy_on_read() -> Iterator[Case]:
    lines = texts()
    yield copied("a list of strings", partial(look_at, lines), size_of(lines))
    yield copied("the same list, and nobody looks at it", int, size_of(lines), control=True)
    del lines
    rows = {number: (float(number), float(-number)) for number in range(OBJECTS)}
    yield copied("a dict of tuples", partial(look_at, rows.values()), size_of(rows.values()))
    del rows
    array = np.array(texts(), dtype="S")
    yield copied("the lines as one array of bytes", partial(look_at, array), array.nbytes, control=True)


def arrays_cure() -> Iterator[Case]:
    lines = texts()
    array = np.array(lines, dtype="S")
    yield copied("strings, as one NumPy array of bytes", partial(look_at, array), array.nbytes, is_cure=True)
    numbers = np.arange(4 * OBJECTS, dtype=np.float64)
    yield copied("numbers, as one NumPy array", partial(look_at, numbers), numbers.nbytes, is_cure=True)
    objects = np.array(lines, dtype=object)
    yield copied("strings, as a NumPy array of dtype object", partial(look_at, objects), size_of(lines), is_cure=True)


def collector_frozen() -> Iterator[Case]:
    lines = texts()
    gc.freeze()
    yield copied("a list of strings that the workers read", partial(look_at, lines), size_of(lines), is_cure=True)
    gc.unfreeze()
    del lines
    nested = [[number] for number in range(OBJECTS)]
    size = size_of(nested)
    yield copied("no gc.freeze(), and the collector runs", gc.collect, size, is_cure=True, control=True)
    gc.freeze()
    yield copied("lists that nobody reads while the collector runs in the workers", gc.collect, size, is_cure=True)
    gc.unfreeze()


def managed() -> Iterator[Case]:
    pages = [f"{number:04}" * 1000 for number in range(4000)]
    size = size_of(pages)

    def read_all(pages: Any) -> None:
        for index in range(4000):
            pages[index]

    with multiprocessing.Manager() as manager:
        shared = manager.list(pages)
        case = copied("a list of a multiprocessing.Manager", partial(read_all, shared), size, is_cure=True)
        read_all(pages)  # once, so that each page is here
        microseconds = [seconds(partial(read_all, each)) / 4000 * 1e6 for each in (shared, pages)]
    price = f"; a read takes {microseconds[0]:.0f} microseconds, of a list {microseconds[1]:.2f}"
    yield Case(case.when, case.holds, case.saw + price)
    yield copied("an ordinary list", partial(read_all, pages), size, control=True, is_cure=True)


def seconds(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


ROW = 16 << 10  # numbers in a sample: 64 KB


class Rows(Dataset[Any]):
    """Samples in a file: read at once, mapped, or read when asked for."""

    def __init__(self, path: str, how: str) -> None:
        self.path, self.length = path, Path(path).stat().st_size // (4 * ROW)
        shape = (self.length, ROW)
        self.rows = (
            np.fromfile(path, np.float32).reshape(shape)
            if how == "at once"
            else np.memmap(path, np.float32, "r", shape=shape)
            if how == "mapped"
            else None
        )

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rows is not None:
            return torch.from_numpy(self.rows[index].copy())
        return torch.from_numpy(np.fromfile(self.path, np.float32, ROW, offset=index * 4 * ROW))


def held() -> int:
    """Bytes of this process that are no file's."""
    return int(read_text("/proc/self/status").partition("RssAnon:")[2].split()[0]) << 10


def preload() -> Iterator[Case]:
    small, large = (NamedTemporaryFile() for _ in range(2))
    for file, rows in ((small, 256), (large, 1024)):
        np.ones((rows, ROW), np.float32).tofile(file)
        file.flush()

    def grew(file: Any, how: str, batch: int = 8) -> float:
        before, most = held(), 0
        for _ in DataLoader(Rows(file.name, how), batch):
            most = max(most, held())
        return (most - before) / MB

    grew(small, "when asked")  # the first loop pays for what it imports
    few, many = grew(small, "at once"), grew(large, "at once")
    saw = f"{few:.0f} MB for 16 MB of data, {many:.0f} MB for 64 MB"
    yield Case("read in __init__", 15 < few < 32 and 63 < many < 80, saw)
    few, many, wide = grew(small, "when asked"), grew(large, "when asked"), grew(large, "when asked", 128)
    saw = f"{few:.1f} MB for 16 MB of data, {many:.1f} MB for 64 MB; {wide:.0f} MB with batches of 8 MB instead of 0.5"
    yield Case("read in __getitem__", few < 4 and many < 4 and 7 < wide < 32, saw)
    many = grew(large, "mapped")
    yield Case("mapped in __init__ (np.memmap)", many > 32, f"{many:.1f} MB for 64 MB of data", control=True)


def end_by(number: int, index: int) -> int:
    os.kill(os.getpid(), number)
    return index


def killed_by_hand() -> dict[str, str]:
    """What the loader says of a worker that got a signal, with memory for everybody."""
    said = {}
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        loader = asking(partial(end_by, number), workers=1)
        error = raised(lambda: answers(loader))  # noqa: B023
        while error and error.__cause__:
            error = error.__cause__
        said[number.name] = str(error).strip()
    return said
