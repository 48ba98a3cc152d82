"""Inside the container: imports the program, iterates its loader, and reports what happened.

A report is a line of JSON on a pipe to the watcher, behind a key that the program does not know. Nothing here
judges: the conductor says which worker delivered which samples and what was raised, and others draw conclusions.
"""

import contextlib
import faulthandler
import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labs.harness import ranks
from labs.harness.batches import NotAProgram, look_into
from labs.harness.probe import Probe
from labs.harness.proc import STACK_SIGNAL, shared_memory
from labs.harness.raised import LONGEST_TEXT, chain, unpicklable

if "LOADER_LAB_STACKS" in os.environ:
    # Forked workers inherit this; those that forkserver and spawn start import this module again as their main one.
    _stacks = open(os.environ["LOADER_LAB_STACKS"], "a")
    faulthandler.register(STACK_SIGNAL, file=_stacks, all_threads=True)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """When a worker dies, torch raises from its signal handler, whatever is under way: not in the middle of our work.

    To block the signal would not do: any other thread can take it, and Python runs the handler in this one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGCHLD, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, handler)
        if came and callable(handler):
            handler(signal.SIGCHLD, None)


class Reporter:
    def __init__(self, descriptor: int, key: str, rank: int | None = None) -> None:
        self._descriptor = descriptor
        self._key = key
        self._always = {} if rank is None else {"rank": rank}

    def __call__(self, kind: str, **facts: Any) -> None:
        facts = {"kind": kind, "t": time.monotonic(), **self._always, **facts}
        view = memoryview(f"{self._key} {json.dumps(facts)}\n".encode())
        with undisturbed():
            while view:
                view = view[os.write(self._descriptor, view) :]


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


def run_epochs(train: Callable[[Any], Any], loader: Any, epochs: int, report: Reporter, probe: Probe) -> None:
    for epoch in range(epochs):
        before, handed_over = resource.getrusage(resource.RUSAGE_CHILDREN), probe.handed_over
        report("epoch", epoch=epoch)
        for batch in train(loader):
            with undisturbed():
                waited = probe.waited()
                described = look_into(batch)
                workers = probe.came_from(described["ids"])
                report(
                    "batch",
                    epoch=epoch,
                    workers=[probe.number(worker) for worker in workers],
                    threads=probe.threads(workers[0] if workers else None),
                    waited=waited,
                    open_files=len(os.listdir("/proc/self/fd")),
                    shm_used=shared_memory()[0],
                    **described,
                )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        report(
            "epoch_end",
            epoch=epoch,
            handed_over=probe.handed_over - handed_over,
            worker_involuntary_switches=after.ru_nivcsw - before.ru_nivcsw,
            own_memory=probe.own_memory(),
        )


def report_error(error: BaseException, loader: Any, report: Reporter, probe: Probe) -> None:
    used, total = shared_memory()
    exits = [{"worker": probe.number(n), "pid": w.pid, "exitcode": w.exitcode} for n, w in enumerate(probe.workers)]
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


def conduct(plan: dict[str, Any], report: Reporter, rank: int = 0) -> None:
    import torch
    from torch.utils.data import DataLoader

    report("start", torch=torch.__version__, python=sys.version.split()[0])
    multiprocessing.set_start_method(plan["start_method"])
    probe = Probe(report, rank, plan["patient"])
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
    descriptors = [int(text) for text in sys.argv[1:]]
    if ranks.mine() is None:
        plan = json.loads(sys.stdin.buffer.read())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if plan["ranks"]:
            sys.exit(ranks.launch(plan, descriptors))
        conduct(plan, Reporter(descriptors[0], plan.pop("key")))
    else:
        rank, plan, descriptor = ranks.receive(descriptors)
        conduct(plan, Reporter(descriptor, plan.pop("key"), rank), rank)


if __name__ == "__main__":
    main()
