"""What the page "How workers work" says and no lab shows: torch's own behaviour, by asking torch."""

import os
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Asked(Dataset):
    """Sixteen samples, each the answer of the worker that loads it."""

    def __init__(self, question: Callable[[int], Any], length: int = 16) -> None:
        self.question, self.length = question, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.question(index)


class Stream(IterableDataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Any:
        worker = get_worker_info()
        return iter(range(worker.id, self.length, worker.num_workers))


def as_list(samples: list[Any]) -> list[Any]:
    return samples


def loader(question: Callable[[int], Any], workers: int = 2, **options: Any) -> DataLoader:
    options = {"batch_size": 2, "collate_fn": as_list, "multiprocessing_context": "fork", **options}
    return DataLoader(Asked(question), num_workers=workers, **options)


def answers(made: DataLoader) -> list[Any]:
    return [answer for batch in made for answer in batch]


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


def test_an_exception_in_a_worker_is_raised_again() -> None:
    """In the main process, with the worker's traceback in its message."""
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in DataLoader worker process"):
        answers(loader(lambda index: 1 // index))


def test_stop_iteration_from_a_dataset_ends_the_epoch_in_silence() -> None:
    """Half of the samples, and no exception."""

    def stop(index: int) -> int:
        if index >= 8:
            raise StopIteration
        return index

    assert answers(loader(stop)) == list(range(8))


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
        with pytest.raises(RuntimeError) as raised:
            next(iter(DataLoader([torch.zeros(n) for n in lengths], batch_size=3, num_workers=workers)))  # type: ignore[arg-type]
        return str(raised.value)

    sizes, storage = "stack expects each tensor to be equal size", "Trying to resize storage that is not resizable"
    assert storage in said(9, 2, 3, workers=1)
    assert sizes in said(2, 3, 9, workers=1)
    assert sizes in said(9, 2, 3, workers=0)
