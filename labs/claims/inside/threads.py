"""Threads that libraries start in workers, and what becomes of them over a fork."""

import ctypes
import hashlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from labs.claims.claim import Case
from labs.claims.inside.errors import raised
from labs.claims.inside.loaders import answers, asking

SIZE = 512


def turn(index: int = 0) -> str:
    """A picture, turned by OpenCV, which does it in parallel where it may: the digest of what comes out."""
    import cv2  # not before the variables are set that it is said to read

    picture = np.random.default_rng(index).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    by = cv2.getRotationMatrix2D((SIZE / 2, SIZE / 2), 30, 1.0)
    return hashlib.sha256(cv2.warpAffine(picture, by, (SIZE, SIZE)).tobytes()).hexdigest()


def multiply() -> None:
    """A product of matrices, by NumPy's BLAS."""
    matrix = np.ones((SIZE, SIZE))
    matrix @ matrix


def add() -> None:
    """A sum that torch divides among its threads."""
    torch.ones(1 << 22).add_(1).sum().item()


def more_threads(act: Callable[[], Any]) -> int:
    """How many threads this process has more, once it has done this."""
    before = len(os.listdir("/proc/self/task"))
    act()
    return len(os.listdir("/proc/self/task")) - before


def in_a_worker(act: Callable[[], Any]) -> int:
    """How many threads a forked worker has more, once it has done this. It has sent nothing before: no feeder yet."""
    return int(answers(asking(lambda _: more_threads(act), length=1, workers=1))[0])


def having_set(name: str, act: Callable[[], Any], first: Callable[[], Any] | None = None) -> Callable[[], None]:
    """Set a variable of the environment to 1 in the worker, and then do this."""

    def all_of_it() -> None:
        if first:
            first()
        os.environ[name] = "1"
        act()

    return all_of_it


def threads(number: int) -> str:
    return f"{number or 'no'} more thread{'s' if number > 1 else ''}"


def set_none_and_turn() -> None:
    import cv2

    cv2.setNumThreads(0)
    turn()


def opencv_variable() -> Iterator[Case]:
    """The container has OPENCV_OPENMP_NUM_THREADS=1 in its environment."""
    name = "OPENCV_OPENMP_NUM_THREADS"
    assert os.environ[name] == "1"
    number = in_a_worker(turn)
    yield Case(f"{name}=1 in the environment", number == 0, f"OpenCV has started {threads(number)}")
    number = in_a_worker(having_set("OPENCV_FOR_THREADS_NUM", turn))
    yield Case("OPENCV_FOR_THREADS_NUM=1", number == 0, f"OpenCV has started {threads(number)}", control=True)
    number = in_a_worker(set_none_and_turn)
    yield Case("cv2.setNumThreads(0) in the worker", number == 0, f"OpenCV has started {threads(number)}", control=True)


def opencv_after_import() -> Iterator[Case]:
    import cv2  # noqa: F401 (the workers are forked with it)

    number = in_a_worker(having_set("OPENCV_OPENMP_NUM_THREADS", turn))
    yield Case("OPENCV_OPENMP_NUM_THREADS=1, after import cv2", number == 0, f"OpenCV has started {threads(number)}")
    number = in_a_worker(having_set("OPENCV_FOR_THREADS_NUM", turn))
    yield Case("OPENCV_FOR_THREADS_NUM=1, after import cv2", number == 0, f"OpenCV has started {threads(number)}")
    number = in_a_worker(having_set("OPENCV_FOR_THREADS_NUM", turn, first=turn))
    saw = f"OpenCV has started {threads(number)}"
    yield Case("OPENCV_FOR_THREADS_NUM=1, after OpenCV has turned a picture", number == 0, saw)


PICTURES = 16


class Busy:
    """A thread of the main process that has OpenCV blur a large picture, again and again."""

    def __enter__(self) -> None:
        self.over, self.begun = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        self.begun.wait()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def work(self) -> None:
        import cv2

        large = np.zeros((4096, 4096), np.uint8)
        while not self.over.is_set():
            self.begun.set()
            cv2.GaussianBlur(large, (5, 5), 0)


def said_of(error: BaseException | None) -> str:
    """What was raised, and for what reason: the signal that a worker died of is in the reason."""
    whole = []
    while error is not None:
        whole.append(str(error).strip())
        error = error.__cause__
    return ", because: ".join(whole)


def turn_and_count(index: int) -> tuple[str, int]:
    return turn(index), len(os.listdir("/proc/self/task"))


def turned() -> tuple[int, int, str]:
    """How many of the pictures that two forked workers turn are right, how many threads they have, what was raised."""
    came: list[tuple[str, int]] = []
    error = raised(lambda: came.extend(answers(asking(turn_and_count, length=PICTURES, timeout=30))))
    right = sum(digest == turn(index) for index, (digest, _) in enumerate(came))
    return right, max((number for _, number in came), default=0), said_of(error)


def opencv_in_workers(failure: str) -> Iterator[Case]:
    """With a pool as on a host with 64 CPUs: workers whose parent has no pool yet, has one, and has it at work."""

    def case(when: str) -> Case:
        right, number, error = turned()
        assert error or right == PICTURES, f"{right} of {PICTURES}"
        saw = f"{right} of {PICTURES} pictures are right, {number} threads in a worker; {error or 'nothing was raised'}"
        return Case(when, failure in error, saw)

    yield case("OpenCV is first used in the workers")
    turn()
    yield case("the main process has used OpenCV before the fork")
    with Busy():
        yield case("a thread of the main process is using OpenCV at the fork")


def opencv_segfault() -> Iterator[Case]:
    yield from opencv_in_workers("Segmentation fault")
    said = said_of(raised(lambda: answers(asking(lambda _: ctypes.string_at(0), length=1, workers=1))))
    yield Case("a worker that reads at address 0", "Segmentation fault" in said, said, control=True)


def wait_for(lock: threading.Lock) -> int:
    with lock:
        return 0


def outcome(question: Callable[[int], Any], timeout: float = 2) -> str:
    """Whether one sample comes from a forked worker. One that hangs is killed: the loader would wait for its end."""
    iterator: Any = iter(asking(question, length=1, workers=1, timeout=timeout))
    error = raised(lambda: next(iterator))
    if error is not None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch would raise for it
        for worker in iterator._workers:
            worker.kill()
    return str(error or "it runs")


def opencv_deadlock() -> Iterator[Case]:
    yield from opencv_in_workers("timed out")
    lock = threading.Lock()
    with lock:
        said = outcome(lambda _: wait_for(lock))
    yield Case("a lock that is held at the fork", "timed out" in said, said, control=True)


def add_with_threads(_: int) -> int:
    torch.set_num_threads(2)
    return more_threads(add)


def torch_one_thread() -> Iterator[Case]:
    asked = answers(asking(lambda _: (torch.get_num_threads(), more_threads(add)), length=2, batch_size=1))
    (number, started), *_ = asked
    saw = f"torch.get_num_threads() is {number}; a large sum starts {threads(started)}"
    yield Case("2 workers on 2 CPUs", set(asked) == {(1, 0)}, saw)
    # Forked, so that no thread of the loader above comes or goes meanwhile.
    number, started = in_a_process(lambda: (torch.get_num_threads(), more_threads(add)))
    saw = f"torch.get_num_threads() is {number}; a large sum starts {threads(started)}"
    yield Case("the main process", (number, started) == (1, 0), saw, control=True)
    number = in_a_worker(multiply)
    yield Case("NumPy in a worker", number == 0, f"a product of matrices starts {threads(number)}", control=True)


def program(cured: bool) -> dict[str, Any]:
    """A program that computes something before it starts workers, with torch's threads as they are, or with one."""
    if cured:
        torch.set_num_threads(1)
    add()
    held = threading.Lock()
    with held:
        waits = outcome(lambda _: wait_for(held))
    return {
        "torch": answers(asking(lambda _: torch.get_num_threads(), length=1, workers=1))[0],
        "OpenCV": in_a_worker(turn),
        "lock": waits,
        "again": outcome(add_with_threads, timeout=30 if cured else 2),
    }


def in_a_process(act: Callable[[], Any]) -> Any:
    """What it returns, in a process that is forked for it: what it does to its threads is gone with it."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(act()))
    process.start()
    theirs.close()
    process.join()
    return ours.recv()


def one_thread_in_main() -> Iterator[Case]:
    before, after = in_a_process(partial(program, False)), in_a_process(partial(program, True))
    names = {
        "torch": "threads that torch uses in a worker",
        "OpenCV": "threads that OpenCV starts in a worker",
        "lock": "a worker that waits for a lock held at the fork",
        "again": "a worker that has set torch's threads to 2 again, forked after the main process has used its own",
    }
    for what, name in names.items():
        saw = f"without: {before[what]}; with set_num_threads(1): {after[what]}"
        yield Case(name, before[what] != after[what], saw)


def omp_variable() -> dict[str, int]:
    """In a container that has OMP_NUM_THREADS, or has not: the threads that each library comes to."""
    import cv2  # noqa: F401 (its import alone starts the threads of a BLAS: they are not what is counted)

    return {
        "torch": torch.get_num_threads() - 1,
        "NumPy": in_a_worker(multiply),
        "OpenCV": in_a_worker(turn),
        "NumPy, late": in_a_worker(having_set("OMP_NUM_THREADS", multiply)),
    }
