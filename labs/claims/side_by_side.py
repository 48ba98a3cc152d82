"""Measure many claims, several at a time, by processes of this same program.

Those that compare times come last, one after the other. None of the processes outlives this one.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator

from labs.claims.claim import Result
from labs.claims.table import CLAIMS
from labs.harness.limits import ROOT
from labs.harness.run import HarnessFailed
from labs.harness.verdict import AS_EXPECTED

AT_ONCE = 3  # a measurement waits more than it computes
PR_SET_PDEATHSIG = 1


def side_by_side(ids: list[str]) -> Iterator[Result]:
    """Results as they come."""
    alone = [id for id in ids if CLAIMS[id].alone]
    yield from measured(list(groups([id for id in ids if id not in alone])), AT_ONCE)
    yield from measured([[id] for id in alone], 1)


def groups(ids: list[str]) -> Iterator[list[str]]:
    """What is measured by one process: claims that look at the same lab share its runs. The longest first."""
    together: dict[str, list[str]] = defaultdict(list)
    for id in ids:
        together[CLAIMS[id].lab or id].append(id)
    yield from sorted(together.values(), key=len, reverse=True)


def measured(waiting: list[list[str]], at_once: int) -> Iterator[Result]:
    """Let processes measure groups, at most so many at a time, and pass on their results as they come."""
    with Processes() as processes:
        while waiting or processes:
            while waiting and len(processes) < at_once:
                processes.start(waiting.pop(0))
            for line in processes.lines():
                yield Result.from_dict(json.loads(line))


class Processes:
    """Several of this program, each measuring some claims and printing a line for each. None outlives this one."""

    def __init__(self) -> None:
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self.running.values():
            process.wait()
        self.selector.close()

    def __len__(self) -> int:
        return len(self.running)

    def start(self, ids: list[str]) -> None:
        command = [sys.executable, "-m", "labs.claims", "--lines", *ids]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            bufsize=0,  # what has been read and waits in a buffer would not be selected
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: we ask them to end
            preexec_fn=die_with(os.getpid()),
        )
        assert process.stdout
        self.running[process.stdout.fileno()] = process
        self.selector.register(process.stdout, selectors.EVENT_READ)

    def lines(self) -> Iterator[bytes]:
        """What they have printed since, and whether one has ended; one that failed ends everything."""
        for key, _ in self.selector.select():
            process = self.running[key.fd]
            assert process.stdout and process.stderr
            line = process.stdout.readline()
            if line:
                yield line
                continue
            self.selector.unregister(process.stdout)
            said = process.stderr.read().decode(errors="replace").strip()
            del self.running[key.fd]
            if process.wait() != AS_EXPECTED:
                raise HarnessFailed(said.removeprefix("loader-lab: "))
            for stream in (process.stdout, process.stderr):
                stream.close()


def die_with(parent: int) -> Callable[[], None]:
    """For a child: ask it to end when we are gone, however that happens; it takes its containers down."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
