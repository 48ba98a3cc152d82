"""One way to run a program from a test, and one check after every test: nothing is left behind."""

import gc
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import psutil
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from labs.catalog import LABS
from labs.claims.table import CLAIMS
from labs.harness import container
from labs.harness.container import Backend
from labs.harness.run import Request, once
from labs.harness.verdict import Verdict

pytest_plugins = ["tests.engines"]

Run = Callable[..., Verdict]
Experiment = Callable[[str, str], Verdict]


def hear_signals() -> None:
    """For a process to be interrupted: whoever started the tests may have had them ignore signals (nohup, &)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def leftovers() -> set[str]:
    """What a run could leave on the machine: processes, and files of torch, NumPy and multiprocessing in /dev/shm."""
    processes = set()
    for process in psutil.process_iter():
        try:
            run = process.environ().get("LOADER_LAB")
            if run and process.status() != psutil.STATUS_ZOMBIE and not somebody_elses(run):
                processes.add(f"{process.pid} {' '.join(process.cmdline())[:100]}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    ours = ("torch_", "tmp", "psm_", "sem.")
    return processes | {f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if name.startswith(ours)}


def somebody_elses(run: str) -> bool:
    """A run belongs to the process in its name; one that is alive and not of our family is not our business."""
    owner = run.split("-")[2] if run.count("-") == 3 else ""
    if not owner or not psutil.pid_exists(int(owner)):
        return False
    family = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    return int(owner) not in family


def new_leftovers(before: set[str], seconds: float = 10) -> set[str]:
    """What is there now and was not before. Tests run side by side: what goes away by itself was a neighbour's."""
    deadline = time.monotonic() + seconds
    while (new := leftovers() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    return new


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Every test leaves the machine as it found it."""
    before = leftovers()
    yield
    assert new_leftovers(before) == set()
    assert own_workers() == []


def own_workers() -> list[multiprocessing.Process]:
    """Workers that were forked from the tests themselves. They inherit what is open here: a server or a browser that
    ends when its standard input closes would wait for them for ever."""
    if multiprocessing.active_children():
        gc.collect()  # An exception that was caught holds the frames it went through, and so the loader.
    return multiprocessing.active_children()


def shares_with(test: str) -> str:
    """Tests that share what is dear, an engine, the built site or a lab's experiment, are all run by one process."""
    if "test_site.py" in test or "test_pages.py" in test:
        return "site"
    if "podman" in test:
        return "podman"
    if "test_engine.py" in test or "oom" in test:
        return "docker"
    if "test_postgres.py" in test:
        return "postgres"
    if measured := re.search(r"test_a_claim_comes_out_as_the_table_says\[(.+)\]", test):
        # A claim that looks at a lab finds its runs where they were made.
        claim = CLAIMS[measured[1]]
        return "docker" if claim.needs else f"experiment {claim.lab}" if claim.lab else test
    of_lab = re.search(rf"\[({'|'.join(sorted(LABS, key=len, reverse=True))})(-failure|-control|-fix)?\]", test)
    return f"experiment {of_lab[1]}" if of_lab else test


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return shares_with(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduler:
    return Scheduler(config, log)


def fitting(request: Request, fixtures: pytest.FixtureRequest) -> Backend:
    """A namespace container; for a lab that is about memory, which a namespace cannot limit, docker."""
    if request.limits.memory is None:
        return container.choose("namespace", request.limits)
    docker: Backend = fixtures.getfixturevalue("docker")
    return docker


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Run a lab's program in a role, or a file against a lab, and judge it."""

    def run(lab: str, role: str = "failure", file: Path | None = None, **changes: object) -> Verdict:
        wanted = Request(LABS[lab], role, file, changes)
        return once(wanted, fitting(wanted, request), tmp_path / "runs")[0]

    return run


@pytest.fixture(scope="session")
def experiment(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Experiment:
    """The verdict on a lab in a role: run once, looked at from several sides."""

    @cache
    def experiment(lab: str, role: str) -> Verdict:
        wanted = Request(LABS[lab], role)
        return once(wanted, fitting(wanted, request), tmp_path_factory.mktemp("runs"))[0]

    return experiment


@pytest.fixture
def check(run: Run, tmp_path: Path) -> Callable[[str, str], Verdict]:
    """Judge a program, given as text, against a lab."""

    def check(lab: str, text: str) -> Verdict:
        path = tmp_path / "attempt.py"
        path.write_text(text)
        return run(lab, "check", path)

    return check
