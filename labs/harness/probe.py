"""Inside torch's loader: which workers there are, what they deliver, how long the loop waits, what they hold."""

import multiprocessing
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from labs.harness.batches import ids_of
from labs.harness.proc import own_memory


class Probe:
    """Sees each iterator of worker processes that torch makes, and which worker each batch comes from."""

    def __init__(self, report: Callable[..., None], rank: int = 0, patient: bool = False) -> None:
        from torch.utils.data import dataloader

        self.workers: list[Any] = []
        self.handed_over = 0  # samples that came from workers
        self._held: list[int | None] = []  # memory of each worker's own, when it was told to end
        self._rank = rank
        self._waited = 0.0
        self._last: int | None = None
        self._from: dict[int, deque[int]] = defaultdict(deque)  # id of a sample: the workers it came from
        iterator_class: Any = dataloader._MultiProcessingDataLoaderIter
        base_class: Any = dataloader._BaseDataLoaderIter
        original_reset, original_process = iterator_class._reset, iterator_class._process_data
        original_next, original_shutdown = base_class.__next__, iterator_class._shutdown_workers
        self.machinery = [
            dataloader.DataLoader,
            base_class,
            iterator_class,
            dataloader._SingleProcessDataLoaderIter,
        ]

        def reset(iterator: Any, loader: Any, first_iter: bool = False) -> None:
            # The workers are up and have no work yet: whatever kills one of them comes after this line.
            self.workers = list(iterator._workers)
            report(
                "workers",
                pids=[worker.pid for worker in self.workers],
                start_method=getattr(type(self.workers[0]), "_start_method", None)
                or multiprocessing.get_start_method(),
            )
            original_reset(iterator, loader, first_iter)

        def process_data(iterator: Any, data: Any, worker: int) -> Any:
            self._last = worker
            ids = ids_of(data)
            self.handed_over += len(ids)
            for id in ids:
                self._from[id].append(worker)
            return original_process(iterator, data, worker)

        def next_batch(iterator: Any) -> Any:
            start = time.monotonic()
            try:
                if patient:
                    wait_until_all_is_done(iterator)
                return original_next(iterator)
            finally:
                # A thread that loads ahead waits so that the loop need not.
                if threading.current_thread() is threading.main_thread():
                    self._waited += time.monotonic() - start

        def shutdown_workers(iterator: Any) -> None:
            # All work is done and every worker still has what it has come to hold.
            if not iterator._shutdown:
                self._held = [own_memory(worker.pid) for worker in iterator._workers]
            original_shutdown(iterator)

        iterator_class._reset, iterator_class._process_data = reset, process_data
        iterator_class._shutdown_workers = shutdown_workers
        base_class.__next__ = next_batch
        self.untouched = self.fingerprint()

    def fingerprint(self) -> dict[str, Any]:
        """The methods that deliver batches, to see afterwards that the program has left them alone."""
        return {f"{owner.__name__}.{name}": method for owner in self.machinery for name, method in vars(owner).items()}

    def replaced(self) -> list[str]:
        now = self.fingerprint()
        return sorted(name for name in now | self.untouched if now.get(name) is not self.untouched.get(name))

    def came_from(self, ids: list[int]) -> list[int | None]:
        """The worker that each sample of a delivered batch came from, also when it was held back or regrouped."""
        last, self._last = self._last, None
        return [self._from[id].popleft() if self._from[id] else last for id in ids]

    def number(self, worker: int | None) -> int | None:
        """The number of a worker among those of all ranks."""
        return None if worker is None else self._rank * len(self.workers) + worker

    def own_memory(self) -> list[int | None]:
        """What each worker held of its own at the end of the epoch, also where workers stay for the next."""
        held, self._held = self._held, []
        return held or [own_memory(worker.pid) for worker in self.workers]

    def waited(self) -> float:
        """Seconds that the loop has waited for data since this was last asked."""
        waited, self._waited = self._waited, 0.0
        return round(waited, 6)

    def threads(self, worker: int | None) -> int | None:
        """How many threads that worker has now; None if it has delivered its last and gone."""
        if worker is None:
            return None
        try:
            return len(os.listdir(f"/proc/{self.workers[worker].pid}/task"))
        except FileNotFoundError:
            return None


def wait_until_all_is_done(iterator: Any, seconds: float = 1.0) -> None:
    """As a slow loop would: every worker has done all it was asked for, and all of that waits to be taken.

    A fix that holds only because the loop is fast holds by luck. Where a batch was lost on its way there is nothing to
    wait for, so there is an end to it.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        queue = getattr(iterator, "_worker_result_queue", None)
        if queue is None or queue.qsize() >= iterator._tasks_outstanding:
            return
        time.sleep(0.002)
