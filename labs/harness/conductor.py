"""Inside the container: imports the program, iterates its loader, and reports what happened.

A report is a line of JSON on a pipe to the watcher, behind a key that the program does not know. Nothing here
judges: the conductor says which worker delivered which samples and what was raised, and others draw conclusions.
"""

import faulthandler
import hashlib
import importlib
import json
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labs.harness.proc import STACK_SIGNAL, shared_memory

if "LOADER_LAB_STACKS" in os.environ:
    # Forked workers inherit this; those that forkserver and spawn start import this module again as their main one.
    _stacks = open(os.environ["LOADER_LAB_STACKS"], "a")
    faulthandler.register(STACK_SIGNAL, file=_stacks, all_threads=True)

DIGESTED = 4096
SIGNED = 64
LONGEST_TEXT = 20_000


class NotAProgram(Exception):
    """The file does not keep the contract: a function make_loader() that returns a DataLoader of (data, ..., ids)."""


class Reporter:
    def __init__(self, descriptor: int, key: str) -> None:
        self._descriptor = descriptor
        self._key = key

    def __call__(self, kind: str, **facts: Any) -> None:
        facts = {"kind": kind, "t": time.monotonic(), **facts}
        view = memoryview(f"{self._key} {json.dumps(facts)}\n".encode())
        # When a worker dies, torch raises from a signal handler: not in the middle of a line.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


class Probe:
    """Sees each iterator of worker processes that torch makes, and which worker each batch comes from."""

    def __init__(self, report: Reporter) -> None:
        from torch.utils.data import dataloader

        self.workers: list[Any] = []
        self.handed_over = 0  # samples that came from workers
        self._last: int | None = None
        self._from: dict[int, deque[int]] = defaultdict(deque)  # id of a sample: the workers it came from
        iterator_class: Any = dataloader._MultiProcessingDataLoaderIter
        original_reset, original_process = iterator_class._reset, iterator_class._process_data
        self.machinery = [dataloader.DataLoader, iterator_class, dataloader._SingleProcessDataLoaderIter]

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

        iterator_class._reset, iterator_class._process_data = reset, process_data
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

    def threads(self, worker: int | None) -> int | None:
        """How many threads that worker has now; None if it has delivered its last and gone."""
        if worker is None:
            return None
        try:
            return len(os.listdir(f"/proc/{self.workers[worker].pid}/task"))
        except FileNotFoundError:
            return None


def load(path: Path, constants: dict[str, Any]) -> Any:
    """Import the program the way Python would if it lay beside us, so that workers can import it too."""
    sys.path.insert(0, str(path.parent))
    if path.stem in sys.modules or path.stem in sys.stdlib_module_names:
        raise NotAProgram(f"{path.name} has the name of a module that is in use already: rename the file")
    try:
        program = importlib.import_module(path.stem)
    except SyntaxError as error:
        raise NotAProgram(f"{path.name} is not valid Python: {error.msg} (line {error.lineno})") from None
    for name, value in constants.items():
        if not hasattr(program, name):
            raise NotAProgram(f"{path.name} has no constant {name}")
        setattr(program, name, value)
    if not callable(getattr(program, "make_loader", None)):
        raise NotAProgram(f"{path.name} has no function make_loader(): it must return the DataLoader to be judged")
    return program


def describe(batch: Any) -> dict[str, Any]:
    """What was delivered: the id of each sample, and for each of its tensors a digest and a coarse signature.

    The digest says whether two contents are the same. The signature (shape, kind of number, and the values at a few
    dozen places, scaled to a byte) says whether a content is what it should be, with room for a conversion that rounds
    differently.
    """
    import torch

    if not isinstance(batch, (tuple, list)) or len(batch) < 2 or not all(isinstance(x, torch.Tensor) for x in batch):
        raise NotAProgram(f"a batch must be (tensor, ..., ids), and this one is {type(batch).__name__}")
    *fields, ids = batch
    if ids.dim() != 1 or ids.is_floating_point() or any(tensor.shape[:1] != ids.shape for tensor in fields):
        raise NotAProgram("the last element of a batch must be the ids of its samples, one integer a sample")
    digests: list[list[str]] = [[] for _ in range(len(ids))]
    signatures: list[list[str]] = [[] for _ in range(len(ids))]
    for tensor in fields if len(ids) else []:
        flat = tensor.detach().reshape(len(ids), -1)
        # Fibonacci hashing: places all over the tensor, in no column or row, and always the same ones.
        places = torch.arange(min(DIGESTED, flat.shape[1])) * 2654435761 % flat.shape[1]
        some = flat[:, places].contiguous()
        few = some[:, :SIGNED]
        few = ((few.float() * 255).round() if few.is_floating_point() else few).clamp(0, 255).to(torch.uint8).numpy()
        look = f"{'x'.join(map(str, tensor.shape[1:]))}/{'float' if tensor.is_floating_point() else 'integer'}"
        for sample, row in enumerate(some.view(torch.uint8).numpy()):
            digests[sample].append(hashlib.blake2b(row.tobytes(), digest_size=8).hexdigest())
            signatures[sample].append(f"{look}/{few[sample].tobytes().hex()}")
    return {"ids": ids.tolist(), "digests": digests, "signatures": signatures}


def ids_of(batch: Any) -> list[int]:
    """The ids of a batch as it comes from a worker; none where it has not got its final form yet."""
    try:
        return [int(id) for id in batch[-1].tolist()]
    except Exception:
        return []


def unpicklable(name: str, value: Any, depth: int = 6) -> Iterator[str]:
    """The smallest parts of value that cannot be pickled, as the expressions that reach them."""
    try:
        pickle.dumps(value)
        return
    except Exception:
        pass
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts = [(f"{name}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple, set)):
        parts = [(f"{name}[{position}]", item) for position, item in enumerate(value)]
    elif hasattr(value, "__dict__") and not callable(value):
        parts = [(f"{name}.{key}", item) for key, item in vars(value).items()]
    found = [inner for part, item in parts for inner in unpicklable(part, item, depth - 1)] if depth else []
    yield from found or [f"{name} ({getattr(value, '__qualname__', type(value).__qualname__)})"]


def words(error: BaseException) -> str:
    """What an exception says, if it can say it, in characters that every terminal can be given."""
    try:
        text = str(error)
    except Exception:
        text = "(its __str__ fails)"
    return text[:LONGEST_TEXT].encode("utf-8", "backslashreplace").decode()


def chain(error: BaseException) -> list[dict[str, str]]:
    """The exception and what caused it, outermost first."""
    links: list[dict[str, str]] = []
    current: BaseException | None = error
    while current is not None and len(links) < 10:
        links.append({"type": type(current).__name__, "message": words(current)})
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return links


def run_epochs(train: Callable[[Any], Any], loader: Any, epochs: int, report: Reporter, probe: Probe) -> None:
    for epoch in range(epochs):
        before, handed_over = resource.getrusage(resource.RUSAGE_CHILDREN), probe.handed_over
        report("epoch", epoch=epoch)
        for batch in train(loader):
            described = look_into(batch)
            workers = probe.came_from(described["ids"])
            threads = probe.threads(workers[0] if workers else None)
            report("batch", epoch=epoch, workers=workers, threads=threads, shm_used=shared_memory()[0], **described)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        report(
            "epoch_end",
            epoch=epoch,
            handed_over=probe.handed_over - handed_over,
            worker_involuntary_switches=after.ru_nivcsw - before.ru_nivcsw,
        )


def look_into(batch: Any) -> dict[str, Any]:
    try:
        return describe(batch)
    except NotAProgram:
        raise
    except Exception as error:
        raise NotAProgram(f"a batch holds something that cannot be looked into: {error}") from None


def report_error(error: BaseException, loader: Any, report: Reporter, probe: Probe) -> None:
    used, total = shared_memory()
    exits = [{"worker": n, "pid": w.pid, "exitcode": w.exitcode} for n, w in enumerate(probe.workers)]
    sent: dict[str, Any] = {}
    if loader is not None and not probe.workers:
        # It failed while workers were started: look at what is sent to them.
        sent = {name: getattr(loader, name) for name in ("dataset", "collate_fn", "worker_init_fn")}
    report(
        "error",
        chain=chain(error),
        traceback="".join(traceback.format_exception(error))[-LONGEST_TEXT:].encode("utf-8", "replace").decode(),
        shm_used=used,
        shm_total=total,
        exits=exits,
        unpicklable=[text for name, value in sent.items() for text in unpicklable(name, value)],
    )


def conduct(plan: dict[str, Any], report: Reporter) -> None:
    import torch
    from torch.utils.data import DataLoader

    report("start", torch=torch.__version__, python=sys.version.split()[0])
    multiprocessing.set_start_method(plan["start_method"])
    probe = Probe(report)
    loader: Any = None

    def attempt() -> BaseException | None:
        nonlocal loader
        try:
            torch.manual_seed(plan["seed"])
            program = load(Path(plan["program"]), plan["constants"])
            made = program.make_loader()
            if not isinstance(made, DataLoader):
                raise NotAProgram(f"make_loader() returned {type(made).__name__}, not a torch DataLoader")
            loader = made
            report("loader", num_workers=loader.num_workers, batch_size=loader.batch_size)
            # A program may bring its own loop over an epoch, which hands on each batch; the plain one is the default.
            run_epochs(getattr(program, "train", iter), loader, plan["epochs"], report, probe)
        except BaseException as error:
            return error
        return None

    error = attempt()
    if isinstance(error, NotAProgram):
        report("not_a_program", message=str(error))
    elif error is not None:
        report_error(error, loader, report, probe)
    report("done", replaced=probe.replaced())
    if error is not None:
        # Torn-down workers can keep an interpreter waiting at its exit, and nothing here outlives the container anyway.
        os._exit(0)


def main() -> None:
    plan = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    conduct(plan, Reporter(int(sys.argv[1]), plan.pop("key")))


if __name__ == "__main__":
    main()
