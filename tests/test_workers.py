"""What "How workers work" and "Other messages" say and no lab shows: torch's own behaviour, by asking torch."""

import ast
import faulthandler
import inspect
import multiprocessing
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from docs.make.fragments import others
from docs.make.recording import shape
from labs.claims.inside.errors import raised
from labs.claims.inside.loaders import Asked, answers, as_list
from labs.claims.inside.loaders import asking as loader
from labs.harness import container
from labs.harness.limits import Limits
from tests.conftest import own_workers


class Stream(IterableDataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Any:
        worker = get_worker_info()
        return iter(range(worker.id, self.length, worker.num_workers))


def test_a_worker_is_a_process() -> None:
    """Not a thread: each has a pid of its own, and none has the main process's."""
    pids = set(answers(loader(lambda _: os.getpid())))
    assert len(pids) == 2 and os.getpid() not in pids


def test_workers_start_with_the_loop_and_anew_in_every_epoch() -> None:
    """Making a loader starts nothing; two epochs have four workers, or two where they are persistent."""
    anew, staying = loader(lambda _: os.getpid()), loader(lambda _: os.getpid(), persistent_workers=True)
    assert len({*answers(anew), *answers(anew)}) == 4
    assert len({*answers(staying), *answers(staying)}) == 2


def test_persistent_workers_keep_their_old_copy_of_the_dataset() -> None:
    """What is set on the dataset between epochs reaches new workers, and not those that stay."""
    for persistent, seen in ((False, 1), (True, 0)):
        made = DataLoader(
            Asked(lambda _: 0),
            collate_fn=as_list,
            num_workers=1,
            persistent_workers=persistent,
            multiprocessing_context="fork",
        )
        answers(made)
        made.dataset.question = lambda _: 1  # type: ignore[attr-defined]
        assert set(answers(made)) == {seen}


def test_batches_come_in_order_however_slow_a_worker_is() -> None:
    """The main process deals out the batches in turn, and puts them back in that order."""

    def slow_in_the_first(index: int) -> tuple[int, int]:
        worker = get_worker_info().id
        time.sleep(0.02 if worker == 0 else 0)
        return index, worker

    got = answers(loader(slow_in_the_first))
    assert [index for index, _ in got] == list(range(16))
    assert [worker for _, worker in got] == [0, 0, 1, 1] * 4


def test_work_is_dealt_out_ahead() -> None:
    """num_workers x prefetch_factor batches are asked for before the loop has taken one."""
    made = iter(loader(lambda index: index, prefetch_factor=3))
    assert made._send_idx == 2 * 3  # type: ignore[attr-defined]
    next(made)
    assert made._send_idx == 2 * 3 + 1  # type: ignore[attr-defined]


def test_collate_runs_in_the_worker() -> None:
    """Whenever there are workers."""
    made = loader(lambda index: index, collate_fn=lambda samples: [os.getpid()])
    assert os.getpid() not in answers(made)


def test_what_the_main_process_closes_stays_open_in_a_forked_worker() -> None:
    """Whoever reads from a pipe sees its end only when the workers are gone too; our check sees them."""
    reads, writes = os.pipe()
    held = iter(loader(lambda index: index))
    os.close(writes)
    assert select.select([reads], [], [], 0) == ([], [], []) and len(own_workers()) == 2
    del held
    assert os.read(reads, 1) == b"" and own_workers() == []
    os.close(reads)


def test_an_exception_in_a_worker_is_raised_again() -> None:
    """In the main process, with the worker's traceback in its message."""
    error = raised(lambda: answers(loader(lambda index: 1 // index)))
    assert isinstance(error, ZeroDivisionError)
    assert "Caught ZeroDivisionError in DataLoader worker process" in str(error)


def test_stop_iteration_from_a_dataset_ends_the_epoch_in_silence() -> None:
    """Half of the samples, and no exception."""

    def stop(index: int) -> int:
        if index >= 8:
            raise StopIteration
        return index

    made = iter(loader(stop))
    assert answers(made) == list(range(8))
    made._shutdown_workers()  # type: ignore[attr-defined]


def test_a_worker_has_one_torch_thread() -> None:
    """torch sets its own; what other libraries do is their business."""
    assert set(answers(loader(lambda _: torch.get_num_threads()))) == {1}


def test_the_global_generators_are_seeded_in_each_worker() -> None:
    """Of random, torch and NumPy; in every epoch anew."""

    def draw(_: int) -> tuple[float, float, float]:
        return random.random(), float(torch.rand(())), float(np.random.rand())

    made = loader(draw)
    drawn = answers(made) + answers(made)
    assert all(len(set(of_one)) == 32 for of_one in zip(*drawn, strict=True))


def test_a_workers_seed_differs_by_worker_and_epoch_and_can_be_had_again() -> None:
    """get_worker_info().seed follows from torch.manual_seed."""

    def two_epochs() -> list[int]:
        torch.manual_seed(7)
        made = loader(lambda _: get_worker_info().seed)
        return answers(made) + answers(made)

    assert len(set(two_epochs())) == 4 and two_epochs() == two_epochs()


def test_tensors_travel_as_files_and_arrays_through_the_pipe() -> None:
    """A tensor from a worker lies in shared memory; a NumPy array that a collate function returns does not."""
    tensor = next(iter(loader(lambda _: torch.zeros(4))))[0]
    assert tensor.is_shared()
    array = next(iter(loader(lambda _: np.zeros(4))))[0]
    assert isinstance(array, np.ndarray) and not torch.from_numpy(array).is_shared()


def test_drop_last_counts_for_each_worker_of_a_stream() -> None:
    """100 samples in batches of 16, dealt to the workers: 96, 96, 64 and none arrive with 1, 2, 4 and 8 of them."""
    arrived = []
    for workers in (1, 2, 4, 8):
        made = DataLoader(
            Stream(100), batch_size=16, num_workers=workers, drop_last=True, multiprocessing_context="fork"
        )
        arrived.append(sum(len(batch) for batch in made))
    assert arrived == [96, 96, 64, 0]


def test_samples_of_different_lengths_have_two_messages_in_a_worker() -> None:
    """If the first is longer than the average, torch speaks of storage and not of sizes; with no worker, never."""

    def said(*lengths: int, workers: int) -> str:
        made: Any = DataLoader([torch.zeros(n) for n in lengths], batch_size=3, num_workers=workers)  # type: ignore[arg-type]
        error = raised(lambda: next(iter(made)))
        assert isinstance(error, RuntimeError)
        return str(error)

    sizes, storage = "stack expects each tensor to be equal size", "Trying to resize storage that is not resizable"
    assert storage in said(9, 2, 3, workers=1)
    assert sizes in said(2, 3, 9, workers=1)
    assert sizes in said(9, 2, 3, workers=0)


def on_the_page(said: str) -> bool:
    """Is it shown there word for word, but for numbers?"""
    return any(shape(text).split(": ", 1)[1].strip() in shape(said) for text, _, _ in others())


def in_a_process_of_its_own(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script, for what cannot be done to the process that tests. Its semaphores stay in a container."""
    script = folder / "script.py"
    script.write_text(program)
    argv, name = [sys.executable, "-W", "ignore", str(script)], f"loader-lab-{os.getpid()}-script"
    process = container.start(container.BACKENDS["namespace"], argv, Limits(), name, script)
    said = [output.decode() for output in process.communicate(timeout=120)]
    return subprocess.CompletedProcess(argv, process.returncode, *said)


def last_words(die: Callable[[], None], keep_faulthandler: bool = False) -> list[str]:
    """What is raised when the only worker dies while the main process waits for it: the last exception first."""
    waiting = multiprocessing.get_context("fork").Event()

    def wait_and_die(_: int) -> None:
        waiting.wait()
        if not keep_faulthandler:  # pytest's would print
            faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        die()

    made = iter(loader(wait_and_die, workers=1))
    get = made._data_queue.get  # type: ignore[attr-defined]
    made._data_queue.get = lambda **options: (waiting.set(), get(**options))[1]  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError) as died:
        next(made)
    chain: list[BaseException] = [died.value]
    while chain[-1].__cause__:
        chain.append(chain[-1].__cause__)
    return [str(one).strip() for one in chain]


def test_what_is_said_of_a_worker_depends_on_how_it_died() -> None:
    """One line at the end for all of them; before it the signal or the exit code, and of exit code 0 nothing."""

    def signalled(number: int) -> list[str]:
        return last_words(lambda: os.kill(os.getpid(), number))

    ends = {
        "is killed by signal: Killed.": signalled(signal.SIGKILL),
        "is killed by signal: Bus error. It is possible that dataloader's workers": signalled(signal.SIGBUS),
        "is killed by signal: Segmentation fault.": signalled(signal.SIGSEGV),
        "is killed by signal: Aborted.": signalled(signal.SIGABRT),
        "is killed by signal: Terminated.": signalled(signal.SIGTERM),
        "exited unexpectedly with exit code 1. Details are lost due to multiprocessing.": last_words(
            lambda: os._exit(1)
        ),
        "exited unexpectedly with exit code 3.": last_words(lambda: sys.exit(3)),
    }
    for reason, (last, *before) in ends.items():
        assert last.endswith("exited unexpectedly") and on_the_page(last)
        assert reason in before[0]
    for leave in (sys.exit, lambda: os._exit(0)):
        last, *before = last_words(leave)
        assert last.endswith("exited unexpectedly") and before == [""]  # the queue was empty, and that is all


def test_faulthandler_has_to_be_enabled_in_the_worker(tmp_path: Path) -> None:
    """torch replaces a handler that was there before; one that comes later names the line."""

    def crash(file: IO[str], enable: bool) -> None:
        if enable:
            faulthandler.enable(file)
        os.kill(os.getpid(), signal.SIGSEGV)

    with open(tmp_path / "before", "w") as before, open(tmp_path / "after", "w") as after:
        last_words(lambda: crash(after, True))
        faulthandler.enable(before)
        try:
            last_words(lambda: crash(before, False), keep_faulthandler=True)
        finally:
            faulthandler.enable(sys.__stderr__)  # type: ignore[arg-type]
    assert "in crash" in (tmp_path / "after").read_text()
    assert (tmp_path / "before").read_text() == ""


def test_the_message_about_cuda_is_that_of_torchs_source() -> None:
    """There is no GPU to ask."""
    source = ast.parse(inspect.getsource(torch.cuda._lazy_init))
    texts = [node.value for node in ast.walk(source) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert any("re-initialize CUDA" in text and on_the_page(text) for text in texts)


def test_a_queue_whose_tensors_are_kept_runs_out_of_files(tmp_path: Path) -> None:
    """Each is an open file; with copies of them the same program runs to its end."""
    program = """
import resource
import torch.multiprocessing as mp
import torch

def send(queue, done):
    for number in range(200):
        queue.put(torch.tensor([number]))
    done.wait()

if __name__ == "__main__":
    fork = mp.get_context("fork")
    queue, done = fork.Queue(maxsize=8), fork.Event()
    sender = fork.Process(target=send, args=(queue, done), daemon=True)
    sender.start()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept = [queue.get() for _ in range(200)]
    done.set()
    sender.join()
"""
    kept = in_a_process_of_its_own(program, tmp_path)
    assert kept.returncode == 1 and on_the_page(kept.stderr.splitlines()[-1])
    assert in_a_process_of_its_own(program.replace("queue.get()", "queue.get().clone()"), tmp_path).returncode == 0


def test_a_main_process_too_large_to_fork(tmp_path: Path) -> None:
    """Three times 60% of the memory, never touched, are promised one by one and not all at once for a copy."""
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() != "0":
        pytest.skip("this machine promises more, or less, than Linux usually does")
    program = """
import mmap
from torch.utils.data import DataLoader

if __name__ == "__main__":
    lines = dict(line.split(":") for line in open("/proc/meminfo"))
    memory = sum(int(lines[name].split()[0]) << 10 for name in ("MemTotal", "SwapTotal"))
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    regions = [mmap.mmap(-1, memory * 6 // 10 >> 12 << 12, flags=private) for _ in range(3)]
    print(len(list(DataLoader(range(8), num_workers=1, multiprocessing_context="fork"))))
"""
    forked = in_a_process_of_its_own(program, tmp_path)
    assert forked.returncode == 1 and on_the_page(forked.stderr.splitlines()[-1]) and "os.fork()" in forked.stderr
    assert in_a_process_of_its_own(program.replace('"fork"', '"forkserver"'), tmp_path).stdout == "8\n"


def test_a_script_without_a_guard_starts_itself_again(tmp_path: Path) -> None:
    """Where workers are not forked. (The script of the test above has a guard, and runs with forkserver.)"""
    for method in ("spawn", "forkserver"):
        program = f"""
from torch.utils.data import DataLoader
print(list(DataLoader(range(8), num_workers=1, multiprocessing_context="{method}")))
"""
        said = in_a_process_of_its_own(program, tmp_path)
        assert said.returncode == 1 and on_the_page(said.stderr)
        assert said.stderr.splitlines()[-1].endswith("exited unexpectedly")


def test_more_workers_than_cpus_are_warned_of() -> None:
    """When the loader is made, before there is any worker."""
    cpus = len(os.sched_getaffinity(0))
    with pytest.warns(UserWarning) as warned:
        loader(lambda index: index, workers=cpus + 1)
    assert on_the_page(str(warned[0].message))
