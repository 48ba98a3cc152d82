"""How a dataset, and what it holds, come to a worker."""

import multiprocessing
import os
import pickle
import re
import runpy
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

from labs.claims.claim import Case
from labs.claims.inside.errors import raised, words
from labs.claims.inside.loaders import answers, as_list, asking
from labs.harness.proc import own_memory

MB = 1 << 20
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
AT_THE_TOP = lambda index: index  # noqa: E731


def started(method: str) -> Any:
    """A way to start workers. Those of a forkserver are forked from a process that has imported all this once."""
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([__name__])
    return context


def same(index: int) -> int:
    return index


class Holding(Dataset[Any]):
    """A dataset that holds something, and of which each sample is the answer to a question about it."""

    def __init__(self, held: Any, question: Callable[[Any], Any] = id, length: int = 2) -> None:
        self.held, self.question, self.length = held, question, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.question(self.held)


def loading(dataset: Dataset[Any], method: str, workers: int = 2, **options: Any) -> "torch.utils.data.DataLoader[Any]":
    """A loader that asks each worker once."""
    context = started(method) if workers else None
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=1,
        num_workers=workers,
        collate_fn=as_list,
        multiprocessing_context=context,
        **options,
    )


def at_start(dataset: Dataset[Any], method: str) -> BaseException | None:
    """What is raised when the workers are started, before a batch is asked for."""
    return raised(lambda: iter(loading(dataset, method)))


def at_all(loader: "torch.utils.data.DataLoader[Any]") -> BaseException | None:
    """What is raised in one epoch."""
    return raised(lambda: answers(loader))


def unpicklable() -> dict[str, Any]:
    """What articles warn of: each cannot be pickled."""
    return {
        "a lambda": lambda: None,
        "an open file": open(os.devnull),
        "a database connection": sqlite3.connect(":memory:"),
    }


class Counted(Dataset[Any]):
    """Counts how often it is pickled, and knows whether it has come out of a pickle."""

    pickled = 0

    def __init__(self, length: int) -> None:
        self.length, self.arrived = length, False

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, _: int) -> bool:
        return self.arrived

    def __getstate__(self) -> dict[str, Any]:
        Counted.pickled += 1
        return {"length": self.length, "arrived": True}


def dataset_sent() -> Iterator[Case]:
    for method, number in (("fork", 2), ("forkserver", 2), ("spawn", 1)):  # each spawned worker has to import torch
        Counted.pickled = 0
        arrived = answers(loading(Counted(number), method, number))
        saw = f"made {Counted.pickled} pickles; {sum(arrived)} of {number} workers have it from one"
        yield Case(method, Counted.pickled == number and all(arrived), saw)


def error_type() -> Iterator[Case]:
    things = {
        "a lambda made inside a function": lambda: None,
        "a lambda at the top of a module": AT_THE_TOP,
        **{name: thing for name, thing in unpicklable().items() if name != "a lambda"},
        "a lock": threading.Lock(),
    }
    for name, thing in things.items():
        error = at_start(Holding(thing), "forkserver")
        yield Case(f"{name}, Python {PYTHON}", isinstance(error, pickle.PicklingError), words(error))


def silent_hang() -> Iterator[Case]:
    for name, thing in unpicklable().items():
        dataset = Holding(thing)
        error = at_start(dataset, "forkserver")
        workers = len(multiprocessing.active_children())
        saw = f"raised before the first batch, with {workers} workers started: {words(error)}"
        yield Case(f"{name}, forkserver", error is None, saw)
        came = len(answers(loading(dataset, "fork", timeout=30)))
        yield Case(f"{name}, fork", came < 2, f"{came} of 2 samples came")
    # What is returned is pickled by a thread in the worker, which drops what it cannot pickle and tells nobody.
    error = raised(lambda: answers(asking(lambda index: lambda: index, length=2, timeout=2)))
    hung = "timed out" in words(error)
    yield Case("a lambda in what a worker returns", hung, words(error), control=True)


def dumps_predicts() -> Iterator[Case]:
    free = shutil.disk_usage("/dev/shm").free
    situations: list[tuple[str, Any, str]] = [
        ("a list, forkserver", [1, 2], "forkserver"),
        ("a lambda, forkserver", lambda: None, "forkserver"),
        ("a lambda, fork", lambda: None, "fork"),
        ("a multiprocessing.Value, forkserver", started("forkserver").Value("i"), "forkserver"),
        ("a tensor larger than /dev/shm, forkserver", torch.empty(free + MB, dtype=torch.uint8), "forkserver"),
    ]
    for name, held, method in situations:
        dataset = Holding(held)
        told = raised(partial(pickle.dumps, dataset))
        error = at_all(loading(dataset, method, workers=1))
        saw = f"pickle.dumps: {'passes' if told is None else words(told)}. The workers: "
        saw += "start" if error is None else words(error)
        yield Case(name, (told is None) == (error is None), saw)


def init_fn_lambda() -> Iterator[Case]:
    for method, control in (("spawn", False), ("forkserver", False), ("fork", True)):
        error = at_all(loading(Holding(None), method, worker_init_fn=lambda worker: None))
        saw = words(error, "2 of 2 samples came")
        yield Case(f"a lambda, {method}", error is not None, saw, control=control)
    error = at_all(loading(Holding(None), "forkserver", worker_init_fn=same))
    saw = words(error, "2 of 2 samples came")
    yield Case("a function of the module, forkserver", error is not None, saw, control=True)


set_before = False  # what a forked worker has from the main process, and one that has imported this module has not


def was_set(_: int) -> bool:
    return set_before


def fork_default() -> Iterator[Case]:
    global set_before
    set_before = True
    for when in (f"Python's own default, Python {PYTHON}", "the default of Python 3.14, set by hand: forkserver"):
        if "by hand" in when:
            started("forkserver")
            multiprocessing.set_start_method("forkserver", force=True)
        forked = answers(asking(was_set, length=2, batch_size=1, multiprocessing_context=None))
        saw = f"{multiprocessing.get_start_method()}: {sum(forked)} of 2 workers are copies of the main process"
        yield Case(when, all(forked), saw)


SCRIPT = """
from torch.utils.data import DataLoader

loader = DataLoader(range(4), num_workers=1, multiprocessing_context="{method}")
{guard}
    assert sum(len(batch) for batch in loader) == 4
"""


def run_script(script: Path, complaints: Path) -> None:
    """In a process that is forked for it, and has torch already: a script, as the python command would run it."""
    os.dup2(os.open(complaints, os.O_WRONLY | os.O_CREAT), 2)
    runpy.run_path(str(script), run_name="__main__")


def main_guard() -> Iterator[Case]:
    guards = {"without": "if True:", "with": 'if __name__ == "__main__":'}
    situations = [("spawn", "without"), ("forkserver", "without"), ("spawn", "with"), ("fork", "without")]
    with tempfile.TemporaryDirectory() as folder:
        for method, guard in situations:
            script, complaints = Path(folder) / f"{method}_{guard}.py", Path(folder) / f"{method}_{guard}.txt"
            script.write_text(SCRIPT.format(method=method, guard=guards[guard]))
            process = multiprocessing.get_context("fork").Process(target=run_script, args=(script, complaints))
            process.start()
            process.join()
            told = "bootstrapping phase" in complaints.read_text()
            saw = f"exit {process.exitcode}"
            saw += ': "... before the current process has finished its bootstrapping phase"' if told else ""
            control = guard == "with" or method == "fork"
            yield Case(f"{method}, {guard} the guard", process.exitcode != 0 and told, saw, control=control)


RECORDS, RECORD = 400, 100


def number_of(record: bytes) -> int:
    """Each record is its number, over and over: a torn one is none."""
    return int.from_bytes(record[:4], "little") if record == record[:4] * (RECORD // 4) else -1


def handles_without_position() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.bin"
        path.write_bytes(b"".join(number.to_bytes(4, "little") * (RECORD // 4) for number in range(RECORDS)))
        file = path.open("rb")
        mapped = np.memmap(path, np.uint8, "r").reshape(RECORDS, RECORD)
        ways: dict[str, Callable[[int], bytes]] = {
            "os.pread at a place of its own": lambda index: os.pread(file.fileno(), RECORD, index * RECORD),
            "np.memmap": lambda index: mapped[index].tobytes(),
        }
        for name, read in ways.items():
            records = answers(asking(read, length=RECORDS, workers=4))
            right = sum(number_of(record) == index for index, record in enumerate(records))
            saw = f"{right} of {RECORDS} records are right"
            yield Case(f"{name}, opened in __init__, 4 forked workers", right < RECORDS, saw)
        error = at_start(Holding(file), "forkserver")
        yield Case("an open file, forkserver", error is not None, words(error))


def own_bytes(address: int, size: int) -> int:
    """How much of this piece of memory no other process has: read from the mappings of this process."""
    own, within = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            begin, end = (int(number, 16) for number in mapping.groups())
            within = begin < address + size and address < end
        elif within and line.startswith(("Private_Clean", "Private_Dirty")):
            own += int(line.split()[1]) << 10
    return own


def read_and_weigh(held: dict[str, Any]) -> dict[str, int]:
    """In a worker: read everything, and see what is this process's own then."""
    held["array"].sum(), held["tensor"].sum()
    worker = get_worker_info()
    if worker is not None:
        held["marks"][worker.id] = 1
    own = {name: own_bytes(pointer, held[name].nbytes) for name, pointer in pointers(held).items()}
    if "list" in held:
        before = own_memory(os.getpid()) or 0
        own["length"] = sum(len(text) for text in held["list"])
        own["list"] = (own_memory(os.getpid()) or 0) - before
    return own


def pointers(held: dict[str, Any]) -> dict[str, int]:
    return {"array": held["array"].ctypes.data, "tensor": held["tensor"].data_ptr()}


SIZE = 16 * MB


def data(**more: Any) -> dict[str, Any]:
    ones = np.ones(SIZE, np.uint8)
    return {"array": ones, "tensor": torch.from_numpy(ones.copy()).clone(), "marks": torch.zeros(2), **more}


def megabytes(sizes: list[int]) -> str:
    least, most = (f"{size / MB:.1f}" for size in (min(sizes), max(sizes)))
    return f"each worker has {least if least == most else f'{least} to {most}'} MB of its own"


def copied(name: str, method: str, workers: list[dict[str, int]]) -> Case:
    own = [worker[name] for worker in workers]
    return Case(f"{name.replace('array', 'NumPy array')}, {method}", min(own) > SIZE / 2, megabytes(own))


def dataset_copied() -> Iterator[Case]:
    texts = [f"{number:064}" for number in range(SIZE // 100)]
    workers = answers(loading(Holding(data(list=texts), read_and_weigh), "fork"))
    for name in ("array", "tensor", "list"):
        yield copied(name, "fork", workers)
    workers = answers(loading(Holding(data(), read_and_weigh), "forkserver"))
    for name in ("array", "tensor"):
        yield copied(name, "forkserver", workers)


def tensors_shared() -> Iterator[Case]:
    for method, number in (("forkserver", 2), ("spawn", 1)):  # each spawned worker has to import torch
        held = data()
        workers = answers(loading(Holding(held, read_and_weigh, length=number), method, number))
        shared = held["marks"].sum() == number
        own = [worker["tensor"] for worker in workers]
        saw = f"{megabytes(own)} of {SIZE // MB}; "
        saw += "what they write the main process reads" if shared else "what they write the main process does not see"
        yield Case(f"a tensor, {method}", max(own) < SIZE / 2 and bool(shared), saw)
        own = [worker["array"] for worker in workers]
        yield Case(f"a NumPy array, {method}", max(own) < SIZE / 2, f"{megabytes(own)} of {SIZE // MB}", control=True)


def one_worker() -> Iterator[Case]:
    for workers in (1, 0):
        loaders = set(answers(asking(lambda _: os.getpid(), workers=workers)))
        elsewhere = os.getpid() not in loaders
        saw = f"the samples are loaded {'by a process of its own' if elsewhere else 'by the main process'}"
        yield Case(f"num_workers={workers}", elsewhere and len(loaders) == 1, saw, control=workers == 0)


class Fragile(Dataset[Any]):
    """Cannot be unpickled where it has to be: as when a module or a file is missing in the worker."""

    def __init__(self) -> None:
        self.module = "one that only the main process has"

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return index

    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("this worker has no such module")


ALL_CAME = "no error, 2 of 2 samples"
SILENCE = "the program ends, and nothing is said"


def seen(dataset: Dataset[Any], workers: int, method: str = "fork") -> str:
    """What a program sees of a failure, that program being a process of its own: it may end with it."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def program() -> None:
        try:
            theirs.send(f"no error, {len(answers(loading(dataset, method, workers)))} of 2 samples")
        except BaseException as error:
            theirs.send(words(error))

    process = multiprocessing.get_context("fork").Process(target=program)
    process.start()
    theirs.close()
    process.join()
    try:
        return str(ours.recv())
    except EOFError:
        return SILENCE


def real_error() -> Iterator[Case]:
    situations: list[tuple[str, Dataset[Any], str]] = [
        ("sys.exit() below __getitem__", Holding("no licence", sys.exit), "fork"),
        ("a library that ends the process", Holding(3, os._exit), "fork"),
        ("a dataset that a spawned worker cannot unpickle", Fragile(), "spawn"),
    ]
    for name, dataset, method in situations:
        with_workers, without = seen(dataset, 1, method), seen(dataset, 0)
        assert "exited unexpectedly" in with_workers, with_workers
        shown = without not in (ALL_CAME, SILENCE)
        yield Case(name, shown, f'with a worker: "{with_workers}". With none: {without}')
