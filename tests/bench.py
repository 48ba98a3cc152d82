"""What the harness costs and how often each lab reproduces: nox -s bench [-- --runs 10 --reproduce 50 --lab shm]

Times are compared only with times of the same run, alternating, as ratios. The bare program is the same work, in the
same container, without anybody watching: each part of the plan as a plain loop over its loader.
"""

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from labs.catalog import LABS
from labs.harness import container
from labs.harness.lab import Lab
from labs.harness.limits import ROOT
from labs.harness.run import Request, describe

BARE = """
import importlib, multiprocessing, pathlib, sys
path, epochs, method = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
multiprocessing.set_start_method(method)
sys.path.insert(0, str(path.parent))
loader = importlib.import_module(path.stem).make_loader()
for _ in range(epochs):
    for batch in loader:
        pass
"""


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def bare(lab: Lab) -> None:
    """The parts of the lab's plan, one after the other, with nobody watching."""
    request = Request(lab, "failure")
    backend = container.choose("namespace", request.limits)
    _, plan = describe(request, backend)
    for _, part in plan["parts"]:
        argv = [sys.executable, "-c", BARE, part["program"], str(part["epochs"]), part["start_method"]]
        container.start(backend, argv, request.limits, f"loader-lab-{os.getpid()}-bench", lab.program).communicate()


def through_harness(lab: Lab) -> None:
    command = [sys.executable, "-m", "labs.harness", "lab", lab.name]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def through_nox(lab: Lab) -> None:
    command = [sys.executable, "-m", "nox", "-s", f"lab-{lab.name}"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


@contextmanager
def busy_cores() -> Iterator[None]:
    """Something else keeps every core busy."""
    others = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()


def _spin() -> None:
    while True:
        pass


def reproduced(lab: Lab, times: int) -> str:
    command = [sys.executable, "-m", "labs.harness", "lab", lab.name]
    good = sum(subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0 for _ in range(times))
    return f"{good} of {times}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10, help="pairs of runs to compare")
    parser.add_argument("--reproduce", type=int, default=50, help="reproductions to try, idle and again busy")
    parser.add_argument("--lab", choices=list(LABS), action="append", help="default: all")
    arguments = parser.parse_args()
    labs = [LABS[name] for name in arguments.lab or LABS]
    console = Console(width=None if sys.stdout.isatty() else 110)

    if arguments.runs:
        table = Table(title="Through the harness, compared with the bare program (median, least to most)")
        for heading in ("lab", "harness / bare", "bare, s", "nox adds, s"):
            table.add_column(heading)
        for lab in labs:
            ratios, seconds, added = [], [], []
            for _ in range(arguments.runs):
                alone = timed(lambda lab=lab: bare(lab))  # type: ignore[misc]
                watched = timed(lambda lab=lab: through_harness(lab))  # type: ignore[misc]
                noxed = timed(lambda lab=lab: through_nox(lab))  # type: ignore[misc]
                ratios.append(watched / alone)
                seconds.append(alone)
                added.append(noxed - watched)
            table.add_row(lab.name, spread(ratios, ".2f"), spread(seconds, ".2f"), spread(added, "+.2f"))
        console.print(table)
    if arguments.reproduce:
        table = Table(title="Reproductions")
        for heading in ("lab", "idle", "every core busy"):
            table.add_column(heading)
        for lab in labs:
            idle = reproduced(lab, arguments.reproduce)
            with busy_cores():
                busy = reproduced(lab, arguments.reproduce)
            table.add_row(lab.name, idle, busy)
        console.print(table)


if __name__ == "__main__":
    main()
