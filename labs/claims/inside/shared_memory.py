"""What lies in /dev/shm, for how long, and what happens when there is no more of it."""

import copy
import ctypes
import gc
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch import multiprocessing as torch_multiprocessing
from torch.utils.data import DataLoader, Dataset, default_collate

from labs.claims.claim import Case
from labs.claims.inside.errors import raised, words
from labs.claims.inside.loaders import answers, as_list, asking

MB = 1 << 20
ALL_CAME = "all batches came"
FILES = Path("/proc/self/fd")
SHMMAX = Path("/proc/sys/kernel/shmmax")
IPC_PRIVATE, IPC_CREAT, IPC_RMID = 0, 0o1000, 0


def used() -> int:
    """Bytes of /dev/shm that are in use; files that have no name any more are counted."""
    return shutil.disk_usage("/dev/shm").used


def megabytes(*sizes: int) -> str:
    return f"{', '.join(f'{size / MB:.0f}' for size in sizes)} MB"


def block(size: int) -> Callable[[int], Tensor]:
    """For a dataset: samples of so many bytes."""
    return lambda _: torch.ones(size, dtype=torch.uint8)


def short(error: BaseException | None) -> str:
    """The end of what it says, where no file has a name that differs each time."""
    return words(error, ALL_CAME).rpartition(": ")[2]


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not happen")
        time.sleep(0.005)


@contextmanager
def sharing_by(strategy: str) -> Iterator[None]:
    before = torch_multiprocessing.get_sharing_strategy()
    torch_multiprocessing.set_sharing_strategy(strategy)
    try:
        yield
    finally:
        torch_multiprocessing.set_sharing_strategy(before)


class Patient:
    """A loader of blocks, one a batch, and a loop that looks only when all that can be under way is.

    Without that, how full /dev/shm gets depends on who is faster, the workers or the loop.
    """

    def __init__(self, size: int, batches: int, workers: int, **options: Any) -> None:
        self.made = torch_multiprocessing.get_context("fork").Value("i", 0)
        self.under_way = workers * options.get("prefetch_factor", 2)
        options = {"batch_size": 1, "collate_fn": self.collate, **options}
        self.loader = asking(block(size), batches, workers, **options)

    def collate(self, samples: list[Any]) -> Any:
        """torch's own, which makes the batch in shared memory or fails; either is counted."""
        try:
            return default_collate(samples)
        finally:
            with self.made.get_lock():
                self.made.value += 1

    def peak(self, kept: list[Any] | None = None) -> int:
        """How full /dev/shm gets in one epoch."""
        before, highest = self.made.value, 0
        for number, batch in enumerate(self.loader, 1):
            if kept is not None:
                kept.append(batch)
            due = before + min(len(self.loader), number + self.under_way)
            wait_until(lambda due=due: self.made.value >= due)  # type: ignore[misc]
            highest = max(highest, used())
        return highest


def shm_fills_over_epochs() -> Iterator[Case]:
    ways: list[tuple[str, str, dict[str, Any], list[Any] | None]] = [
        ("new workers in each epoch", "file_descriptor", {}, None),
        ("persistent_workers=True", "file_descriptor", {"persistent_workers": True}, None),
        ("sharing strategy file_system", "file_system", {}, None),
        ("a loop that keeps every batch", "file_descriptor", {}, []),
    ]
    for when, strategy, options, kept in ways:
        with sharing_by(strategy):
            patient = Patient(MB, batches=8, workers=2, **options)
            peaks = [patient.peak(kept) for _ in range(5)]
        saw = f"at its fullest in 5 epochs: {megabytes(*peaks)}"
        yield Case(when, peaks[-1] > 2 * peaks[0], saw, control=kept is not None)


def smaller_batches_cure() -> Iterator[Case]:
    """64 MB, 2 batches ahead for each worker."""
    ways = [
        ("batches of 2 MB, 4 workers", 2, 4, {}, False),
        ("batches of 10 MB, 1 worker", 10, 1, {}, False),
        ("batches of 10 MB, 4 workers, prefetch_factor=1", 10, 4, {"prefetch_factor": 1}, False),
        # Those that do not fit come last: a batch that failed may stay in /dev/shm.
        ("batches of 10 MB, 4 workers", 10, 4, {}, True),
        ("batches of 8 MB, 4 workers", 8, 4, {}, False),
        ("batches of 72 MB, 1 worker, prefetch_factor=1", 72, 1, {"prefetch_factor": 1}, False),
    ]
    for when, size, workers, options, control in ways:
        patient = Patient(size * MB, 12, workers, **options)
        error = raised(patient.peak)
        # The loop holds one batch while the others are under way.
        needed = f"{size * (patient.under_way + 1)} MB at the same time"
        yield Case(when, error is None, f"{needed}: {short(error)}", control)
        del patient, error


def start_when_full() -> str:
    """What starting workers raises when /dev/shm has not one page left."""
    with open("/dev/shm/full", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage("/dev/shm").free)
        error = raised(lambda: answers(asking(int, 4)))
    return words(error)


class Pictures(Dataset[Tensor]):
    """24 pictures of 3 MB, all loaded at the start or each when it is asked for."""

    def __init__(self, eager: bool) -> None:
        self.loaded = torch.ones(24, 3 * MB, dtype=torch.uint8) if eager else None

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Tensor:
        return torch.ones(3 * MB, dtype=torch.uint8) if self.loaded is None else self.loaded[index]


def shm_lazy_loading() -> Iterator[Case]:
    """Cured: loading all at the start fails, and loading when asked does not."""
    for when, start, batch_size in (
        ("batches of 72 MB, workers forked", "fork", 24),
        ("batches of 3 MB, workers started with forkserver", "forkserver", 1),
    ):
        errors = {}
        for eager in (True, False):
            loader = DataLoader(Pictures(eager), batch_size, num_workers=1, multiprocessing_context=start)
            errors[eager] = raised(lambda loader=loader: [len(batch) for batch in loader])  # type: ignore[misc]
        saw = f"in __init__: {short(errors[True])}; in __getitem__: {short(errors[False])}"
        yield Case(when, errors[True] is not None and errors[False] is None, saw)


def shm_shmmax() -> Iterator[Case]:
    """In a container whose kernel.shmmax is 1 MB."""
    limit = f"kernel.shmmax is {megabytes(int(SHMMAX.read_text()))}"
    error = raised(lambda: answers(asking(block(8 * MB), 4, collate_fn=None, batch_size=1)))
    yield Case("batches of 8 MB", error is not None, f"{limit}: {words(error, ALL_CAME)}")
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(IPC_PRIVATE, ctypes.c_size_t(8 * MB), IPC_CREAT | 0o600)
    said = os.strerror(ctypes.get_errno()) if segment == -1 else "made"
    if segment != -1:
        libc.shmctl(segment, IPC_RMID, None)
    yield Case("a System V segment of 8 MB (shmget)", segment == -1, f"{limit}: {said}", control=True)


def as_arrays(samples: list[Any]) -> Any:
    return np.stack(samples)


def as_bytes(samples: list[Any]) -> Any:
    return [sample.tobytes() for sample in samples]


def read_so_far() -> int:
    """Bytes that this process has read, from files and pipes."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


def transfer_shared_memory() -> Iterator[Case]:
    array = np.ones(8 * MB, np.uint8)
    ways: list[tuple[str, Callable[[int], Any], Any]] = [
        ("tensors, torch's own collate", lambda _: torch.from_numpy(array), None),
        ("tensors, a collate_fn of one's own", lambda _: torch.from_numpy(array), as_list),
        ("NumPy arrays, torch's own collate", lambda _: array, None),
        ("NumPy arrays, a collate_fn that returns an array", lambda _: array, as_arrays),
        ("bytes", lambda _: array, as_bytes),
    ]
    for when, question, collate in ways:
        before = read_so_far()
        # The only batch of its loader: what there is in /dev/shm is its own.
        batches = list(asking(question, 1, workers=1, batch_size=1, collate_fn=collate))
        in_memory, through_pipe = used(), read_so_far() - before
        saw = f"8 MB batch: {megabytes(in_memory)} in /dev/shm, {megabytes(through_pipe)} read from the pipe"
        yield Case(when, in_memory >= 8 * MB > through_pipe, saw)
        del batches


def view_sends_storage() -> Iterator[Case]:
    ways: list[tuple[str, Callable[[Tensor], Tensor], Any, bool]] = [
        ("a view, in a collate_fn that returns a list", lambda whole: whole[:1024], as_list, False),
        ("a view, in torch's own collate", lambda whole: whole[:1024], None, False),
        ("a copy of the view (clone), in a list", lambda whole: whole[:1024].clone(), as_list, True),
    ]
    for when, cut, collate, control in ways:
        question = lambda _, cut=cut: cut(torch.ones(8 * MB, dtype=torch.uint8))  # noqa: E731
        batches = list(asking(question, 1, workers=1, batch_size=1, collate_fn=collate))
        saw = f"1 KB of a tensor of 8 MB: {used() / MB:.1f} MB in /dev/shm"
        yield Case(when, used() > 4 * MB, saw, control)
        del batches


def open_files() -> int:
    """Of this process, and of loaders that are done with none."""
    gc.collect()
    return len(list(FILES.iterdir()))


def pair(_: int) -> tuple[Tensor, Tensor]:
    """A picture and its label."""
    return torch.ones(16), torch.ones(1)


def files_kept(keep: Callable[[Any], Any], batches: int = 40) -> int:
    """How many more files are open after so many batches, of each of which something was kept."""
    before = open_files()
    kept = [keep(batch) for batch in asking(pair, batches, batch_size=1, collate_fn=None)]
    more = open_files() - before
    del kept
    return more


def file_per_tensor() -> Iterator[Case]:
    whole: Callable[[Any], Any] = lambda batch: batch  # noqa: E731
    for when, keep, files in (
        ("the two tensors of each batch", whole, 80),
        ("one of them", lambda batch: batch[1], 40),
        ("a view of one of them", lambda batch: batch[0][0, :1], 40),
    ):
        found = files_kept(keep)
        yield Case(f"kept of 40 batches: {when}", abs(found - files) < 8, f"{found} files more")
    with sharing_by("file_system"):
        found = files_kept(whole)
    yield Case("the same two tensors, sharing strategy file_system", found > 40, f"{found} files more", control=True)


def keep_copies() -> Iterator[Case]:
    """Cured: no file stays open for what is kept of 40 batches of two tensors."""
    for when, keep, control in (
        ("copy.deepcopy(batch)", copy.deepcopy, False),
        ("images.clone()", lambda batch: batch[0].clone(), False),
        ("images.detach()", lambda batch: batch[0].detach(), True),
        ("images.numpy()", lambda batch: batch[0].numpy(), True),
    ):
        found = files_kept(keep)
        yield Case(f"kept of 40 batches: {when}", found < 8, f"{found} files more", control)


def ulimit_cures() -> Iterator[Case]:
    """The hard limit is 512; the program raises its own, as the advice says."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limit, batches, control in ((128, 200, True), (hard, 200, False), (hard, 600, False)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        error = raised(lambda batches=batches: files_kept(lambda batch: batch[1], batches))  # type: ignore[misc]
        said = "Too many open files" if "Too many open files" in str(error) else words(error, ALL_CAME)
        what = f"{batches} batches, a tensor kept of each, ulimit -n {limit}"
        yield Case(what, error is None, said, control)
        del error


def strategy_of_a_worker(_: int) -> str:
    return torch_multiprocessing.get_sharing_strategy()


def strategy_reaches_workers() -> Iterator[Case]:
    with sharing_by("file_system"):
        for when, options in (
            ("workers forked", {}),
            ("workers started with forkserver", {"multiprocessing_context": "forkserver"}),
        ):
            found = set(answers(asking(strategy_of_a_worker, 2, workers=1, **options)))
            yield Case(when, found == {"file_system"}, f"the worker shares by {', '.join(found)}")


def leave_files(strategy: str, ready: Any) -> None:
    """A training process that keeps its batches, and then waits to be killed."""
    os.setsid()
    torch_multiprocessing.set_sharing_strategy(strategy)
    loader = asking(block(MB), 8, batch_size=1, collate_fn=None)
    kept = list(loader)
    ready.send(len(kept))
    signal.pause()


def managers() -> list[int]:
    """The daemons that torch starts to clean up after processes that share by file_system."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().startswith("torch_shm_manag") and "State:\tZ" not in (
                folder / "status"
            ).read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def file_system_leaks() -> Iterator[Case]:
    """Left in /dev/shm by 8 batches of 1 MB, when the process that kept them is killed and its daemon has ended."""
    fork = torch_multiprocessing.get_context("fork")
    for when, strategy, with_daemon, control in (
        ("file_system, the program is killed", "file_system", False, False),
        ("file_system, all of the job is killed, torch_shm_manager too", "file_system", True, False),
        ("file_descriptor, the program is killed", "file_descriptor", False, True),
    ):
        for left in Path("/dev/shm").glob("torch_*"):
            left.unlink()
        ready, inside = fork.Pipe()
        process = fork.Process(target=leave_files, args=(strategy, inside))
        process.start()
        ready.recv()
        for daemon in managers() if with_daemon else []:
            os.kill(daemon, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        wait_until(lambda: not managers())
        files = len(list(Path("/dev/shm").glob("torch_*")))
        yield Case(when, files > 0, f"{files} files, {megabytes(used())} in use", control)
