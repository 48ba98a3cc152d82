"""What reaches the main process when something fails in a worker: an exception, a shorter epoch, or nothing at all."""

import gc
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader

from labs.claims.claim import Case
from labs.claims.inside.errors import raised, until_it_raises, words
from labs.claims.inside.loaders import answers, asking

FORK = multiprocessing.get_context("fork")
PATIENCE = 30  # seconds after which something that should have come is called frozen
RECORD = 8  # bytes
hung: list[Any] = []  # iterators whose workers will never answer: they end with this process


def write_records(count: int) -> Path:
    path = Path(tempfile.mkdtemp()) / "records"
    path.write_bytes(b"".join(number.to_bytes(RECORD, "big") for number in range(count)))
    return path


class Records:
    """Reads one record of a file; all workers stand at the barrier, with the file open, before each of their reads."""

    def __init__(self, path: Path, together: Any, shared: bool) -> None:
        self.path, self.together = path, together
        self.handle = os.open(path, os.O_RDONLY) if shared else None

    def __call__(self, index: int) -> int:
        handle = os.open(self.path, os.O_RDONLY) if self.handle is None else self.handle
        os.lseek(handle, index * RECORD, os.SEEK_SET)
        self.together.wait(PATIENCE)
        record = os.read(handle, RECORD)
        if self.handle is None:
            os.close(handle)
        return int.from_bytes(record, "big")


def freeze_file_reads() -> Iterator[Case]:
    path = write_records(32)
    tries = {
        "all workers open the same file": False,
        "all workers inherit a handle that was opened before they were forked": True,
    }
    for name, shared in tries.items():
        dataset = Records(path, FORK.Barrier(4), shared)
        read, error = until_it_raises(asking(dataset, length=32, workers=4, batch_size=1, timeout=PATIENCE))
        wrong = sum(number != place for place, [number] in enumerate(read))
        saw = f"{len(read)} of 32 reads came, 4 at a time; {wrong} with wrong content; {words(error)}"
        yield Case(name, bool(wrong or error), saw, control=shared)


class SlowRecords:
    """Reads a record under a lock, if there is one, and decodes it; sleeping stands for both."""

    def __init__(self, lock: Any, shared: bool, reading: float, decoding: float) -> None:
        self.path, self.together, self.lock = write_records(16), FORK.Barrier(4), lock
        self.reading, self.decoding = reading, decoding
        self.handle = os.open(self.path, os.O_RDONLY) if shared else None

    def read(self, index: int) -> int:
        handle = os.open(self.path, os.O_RDONLY) if self.handle is None else self.handle
        os.lseek(handle, index * RECORD, os.SEEK_SET)
        time.sleep(self.reading)
        return int.from_bytes(os.read(handle, RECORD), "big")

    def __call__(self, index: int) -> tuple[int, float, float]:
        self.together.wait(PATIENCE)
        begun = time.monotonic()
        if self.lock:
            with self.lock:
                record = self.read(index)
        else:
            record = self.read(index)
        time.sleep(self.decoding)
        return record, begun, time.monotonic()


def freeze_lock_fixes() -> Iterator[Case]:
    tries = {
        "each worker opens the file; a read takes 40 ms": (False, 0.04, 0.0),
        "one shared handle; a read takes 40 ms": (True, 0.04, 0.0),
        "one shared handle; a read takes 2 ms, and decoding 100 ms": (True, 0.002, 0.1),
    }
    for name, (shared, reading, decoding) in tries.items():
        wrong, seconds = [], []
        for lock in (None, FORK.Lock()):
            dataset = SlowRecords(lock, shared, reading, decoding)
            got = answers(asking(dataset, length=16, workers=4, batch_size=1, timeout=PATIENCE))
            wrong.append(sum(record != place for place, (record, _, _) in enumerate(got)))
            seconds.append(max(end for _, _, end in got) - min(begun for _, begun, _ in got))
        costs = seconds[1] / seconds[0]
        remedy = wrong[0] > 0 and wrong[1] == 0
        saw = f"wrong reads: {wrong[0]} of 16 without a lock, {wrong[1]} with it; it takes {costs:.1f} times as long"
        yield Case(name, remedy and costs < 2, saw)


class OwnError(Exception):
    """An exception of one's own, that a module has a name for."""


class TwoArguments(Exception):
    def __init__(self, path: str, line: int) -> None:
        super().__init__(f"{path}:{line}")


def raising(make: Callable[[], BaseException], at: int = 6) -> Callable[[int], int]:
    def question(index: int) -> int:
        if index == at:
            raise make()
        return index

    return question


def a_class_without_a_name() -> BaseException:
    class Hidden(Exception):
        pass

    return Hidden("bad sample")


def freeze_exception() -> Iterator[Case]:
    tries: dict[str, tuple[Callable[[], BaseException], int]] = {
        "ValueError": (lambda: ValueError("bad sample"), PATIENCE),
        "an exception class of one's own": (lambda: OwnError("bad sample"), PATIENCE),
        "an exception class made inside a function": (a_class_without_a_name, 2),
    }
    for name, (make, seconds) in tries.items():
        _, error = until_it_raises(asking(raising(make), timeout=seconds))
        froze = "timed out" in str(error)
        saw = f"no batch and no exception within {seconds} s" if froze else f"the loop raises {words(error)}"
        yield Case(name, froze, saw)


def freeze_none() -> Iterator[Case]:
    image, array = torch.zeros(3), np.zeros(3)
    batches: dict[str, list[Any]] = {
        "None, tensor, tensor": [None, image, image],
        "tensor, None, tensor": [image, None, image],
        "pairs of a tensor and a label, and None": [(image, 0), None, (image, 2)],
        "arrays, and None": [array, None, array],
        "labels, and None": [0, None, 2],
        "None, and captions": [None, "a cat", "a dog"],
        "captions, and None": ["a cat", None, "a dog"],
    }
    for name, batch in batches.items():
        loader = asking(batch.__getitem__, length=3, batch_size=3, collate_fn=None, timeout=PATIENCE)
        came, error = until_it_raises(loader)
        saw = words(error).partition("; found")[0] if error else f"the batch is {came[0]}"
        yield Case(name, error is None, saw)


def exception_type() -> Iterator[Case]:
    tries: dict[str, Callable[[], BaseException]] = {
        "ValueError": lambda: ValueError("bad sample"),
        "KeyError": lambda: KeyError("label"),
        "FileNotFoundError, errno 2": lambda: FileNotFoundError(2, "No such file", "a.png"),
        "a class whose constructor takes two arguments": lambda: TwoArguments("a.csv", 3),
        "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    }
    for name, make in tries.items():
        _, error = until_it_raises(asking(raising(make), timeout=PATIENCE))
        saw = f"arrives as {type(error).__name__}" + (f", errno {error.errno}" if isinstance(error, OSError) else "")
        yield Case(name, type(error) is type(make()), saw)


def exception_stop_iteration() -> Iterator[Case]:
    tries: dict[str, Callable[[], BaseException]] = {
        "ValueError": lambda: ValueError("bad sample"),
        "IndexError": lambda: IndexError("no such sample"),
        "StopIteration, as next(reader) raises it": lambda: StopIteration(),
    }
    for name, make in tries.items():
        for workers in (0, 2):
            got, error = until_it_raises(asking(raising(make), workers=workers))
            saw = f"{2 * len(got)} of 16 samples, then {type(error).__name__ if error else 'the end, without an error'}"
            yield Case(f"{name}, num_workers={workers}", error is not None, saw)


def kept(loader: "DataLoader[Any]") -> Iterator[Any]:
    """What comes; but workers that never answer are not waited for."""
    batches = iter(loader)
    hung.append(batches)
    yield from batches


def timeout_ends_hang() -> Iterator[Case]:
    never = FORK.Event()
    tries: dict[str, tuple[Callable[[int], Any], int, int, bool]] = {
        "a worker waits for ever": (lambda _: never.wait(), 2, 1, False),
        "a sample that cannot be pickled": (lambda index: lambda: index, 2, 1, False),
        "num_workers=0": (int, 0, 1, False),
        "workers that answer": (int, 2, PATIENCE, True),
    }
    for name, (question, workers, seconds, control) in tries.items():
        _, error = until_it_raises(kept(asking(question, workers=workers, timeout=seconds)))
        yield Case(name, "timed out" in str(error), words(error), control)


def not_the_first(index: int) -> float:
    return 1 / index


def break_leaves_workers() -> Iterator[Case]:
    def alive() -> int:
        return len(multiprocessing.active_children())

    for _ in asking(int):
        during = alive()
        break
    saw = f"{during} workers during the loop, {alive()} after it"
    yield Case("for batch in loader: break", alive() > 0, saw)

    def epoch() -> None:
        for _ in asking(int):
            raise ValueError("in the training step")

    try:
        epoch()
    except ValueError as error:
        kept = error
    yield Case("an exception in the loop, kept with its traceback", alive() > 0, f"{alive()} after {words(kept)}")

    gc.disable()  # else it may come by before anybody has looked
    with suppress(ZeroDivisionError):
        answers(asking(not_the_first, workers=1))
    workers, begun = multiprocessing.active_children(), time.monotonic()
    gc.collect()
    for worker in workers:
        worker.join()
    saw = f"{len(workers)} worker after it was caught; gc.collect() takes {time.monotonic() - begun:.0f} s to end it"
    yield Case("an exception in a worker, caught and not kept", bool(workers), saw)
    gc.enable()

    iterator = iter(asking(int))
    next(iterator)
    after = alive()
    del iterator
    saw = f"{after} workers after the break, {alive()} after del iterator"
    yield Case("an iterator that a variable holds", after > 0 and alive() == 0, saw)

    loader = asking(int, persistent_workers=True)
    for _ in loader:
        break
    after = alive()
    del loader
    saw = f"{after} workers after the break, {alive()} after del loader"
    yield Case("persistent_workers=True", after > 0 and alive() == 0, saw)


class Dying:
    """Ends the worker that asks it, as soon as it may."""

    def __init__(self, started: Any, die: Callable[[], None]) -> None:
        self.started, self.die = started, die

    def __call__(self, index: int) -> None:
        self.started.wait()
        self.die()


def exited_unexpectedly_memory() -> Iterator[Case]:
    deaths: dict[str, Callable[[], None]] = {
        "SIGKILL, which the kernel sends when memory is out (lab oom)": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "a crash in native code (SIGSEGV)": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        "sys.exit(3) in a library": lambda: sys.exit(3),
    }
    for name, die in deaths.items():
        started = FORK.Event()
        # Torch hears of a worker's death by a signal, for which it listens as soon as it has started them all.
        batches = iter(asking(Dying(started, die), workers=1))
        started.set()
        _, error = until_it_raises(batches)
        said = []
        while error:
            said.append(re.sub(r" \(pid(\(s\))? [\d, ]+\)", "", str(error)).split(". ")[0].strip(". \n"))
            error = error.__cause__ or error.__context__
        # Below the sentence that everybody quotes stands the one that tells; Queue.get's own comes last.
        told = [line for line in said if "signal" in line or "exit code" in line]
        yield Case(name, any(line.endswith("Killed") for line in told), "; caused by: ".join(dict.fromkeys(said)))


def write_images(damage: Callable[[bytes], bytes]) -> list[Path]:
    """Sixteen JPEGs, one of them damaged."""
    folder = Path(tempfile.mkdtemp())
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    encoded = cv2.imencode(".jpg", image)[1].tobytes()
    paths = [folder / f"{number:02}.jpg" for number in range(16)]
    for number, path in enumerate(paths):
        path.write_bytes(damage(encoded) if number == 6 else encoded)
    return paths


def corrupt_file_epoch() -> Iterator[Case]:
    def reading(paths: list[Path]) -> Callable[[int], Any]:
        return lambda index: np.mean(cv2.imread(str(paths[index])).transpose(2, 0, 1))  # type: ignore[union-attr]

    unreadable = reading(write_images(lambda encoded: encoded[:20]))
    half = reading(write_images(lambda encoded: encoded[: len(encoded) // 2]))
    for name, question, workers in (
        ("the head of a JPEG and no more, 2 workers", unreadable, 2),
        ("the head of a JPEG and no more, num_workers=0", unreadable, 0),
        ("half a JPEG, read with OpenCV, 2 workers", half, 2),
    ):
        batches, error = until_it_raises(asking(question, workers=workers))
        got = answers(batches)
        wrong = sum(abs(mean - got[0]) > 1 for mean in got)
        saw = f"{len(got)} of 16 images, {wrong} of them with another content; {words(error)}"
        yield Case(name, len(got) < 16 and error is not None, saw)
    iterator = iter(asking(unreadable))
    before, error = until_it_raises(iterator)
    after, _ = until_it_raises(iterator)
    saw = f"{len(before)} of 8 batches, {words(error)}, and when it is asked again {len(after)} more"
    yield Case("an iterator that is asked again after the error", not after, saw, control=True)


class Held:
    """Counts under a lock, which another thread of the main process holds when the workers are started."""

    def __init__(self) -> None:
        self.lock, self.started = threading.Lock(), threading.Event()

    def hold(self) -> None:
        taken = threading.Event()

        def send_counts() -> None:
            with self.lock:
                taken.set()
                self.started.wait()

        threading.Thread(target=send_counts, daemon=True).start()
        taken.wait()

    def __call__(self, index: int) -> int:
        with self.lock:
            return index


def with_lock_held(workers: int, held: bool) -> list[Any]:
    dataset = Held()
    if held:
        dataset.hold()
    seconds = 0 if not workers else 2 if held else PATIENCE
    batches = iter(asking(dataset, workers=workers, timeout=seconds))
    dataset.started.set()
    hung.append(batches)
    return answers(batches)


def starting_a_process(index: int) -> int:
    helper = FORK.Process(target=int)
    helper.start()
    helper.join()
    return index


def large(index: int) -> torch.Tensor:
    return torch.zeros(3 << 18)


def zero_workers_diagnosis() -> Iterator[Case]:
    def of_large(size: int, workers: int) -> list[Any]:
        return [len(batch) for batch in asking(large, workers=workers, length=32, batch_size=size, collate_fn=None)]

    def not_picklable(workers: int, start: str | None) -> list[Any]:
        return answers(asking(lambda index: index, workers=workers, multiprocessing_context=start))

    Act = Callable[[], Any]
    tries: dict[str, tuple[Act, Act, str, Act]] = {
        "a lambda on the dataset, forkserver": (
            lambda: not_picklable(2, "forkserver"),
            lambda: not_picklable(0, None),
            "2 workers that are forked",
            lambda: not_picklable(2, "fork"),
        ),
        "a lock that a thread holds when the workers are forked": (
            lambda: with_lock_held(2, True),
            lambda: with_lock_held(0, True),
            "2 workers, started when it is free",
            lambda: with_lock_held(2, False),
        ),
        "a dataset that starts processes itself": (
            lambda: answers(asking(starting_a_process)),
            lambda: answers(asking(starting_a_process, workers=0)),
            "one worker",
            lambda: answers(asking(starting_a_process, workers=1)),
        ),
        # The last: what did not fit may stay in /dev/shm, where semaphores need room, too.
        "batches of 48 MB, 64 MB of /dev/shm": (
            lambda: of_large(16, 2),
            lambda: of_large(16, 0),
            "2 workers with batches of 6 MB",
            lambda: of_large(2, 2),
        ),
    }
    for name, (failing, with_zero, other, with_workers) in tries.items():
        mended, zero, failed = raised(with_workers), raised(with_zero), raised(failing)
        assert failed and not zero, f"{name}: num_workers=0 does not make a problem go away: {failed}, {zero}"
        problem = re.sub(r" for file <\S+>", "", words(failed))
        saw = f"2 workers: {problem}; num_workers=0: fine; {other}: {words(mended) if mended else 'fine'}"
        yield Case(name, mended is not None, saw, control=other == "one worker")
