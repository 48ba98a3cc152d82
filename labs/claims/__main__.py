"""Put the claims to the test: nox -s claims [-- ID ...] [--json]

Each claim is measured in containers of its own. Several at a time, by processes of this same program, but for those
that compare times: they come last, one after the other.
"""

import argparse
import contextlib
import ctypes
import difflib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator

from labs.claims import report
from labs.claims.bench import Bench, measure
from labs.claims.claim import NotSound, Result
from labs.claims.table import CLAIMS
from labs.harness.entry import entry
from labs.harness.limits import ROOT
from labs.harness.run import HarnessFailed
from labs.harness.verdict import AS_EXPECTED, CANNOT_RUN, NOT_AS_EXPECTED

AT_ONCE = 3  # a measurement waits more than it computes
PR_SET_PDEATHSIG = 1


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="loader-lab",
        usage="nox -s claims -- [ID ...] [--json]",
        description="Put what people say about multi-worker loading to the test.",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="a claim, like shm-fills-over-epochs; default: all")
    parser.add_argument("--json", action="store_true", help="the results as JSON, alone on standard output")
    parser.add_argument("--list", action="store_true", help="the claims' ids and words; nothing is run")
    parser.add_argument("--lines", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    for unknown in (id for id in arguments.ids if id not in CLAIMS):
        near = difflib.get_close_matches(unknown, CLAIMS, n=1, cutoff=0.4)
        meant = f"; did you mean {near[0]}?" if near else ""
        parser.error(f"there is no claim called {unknown!r}{meant} nox -s claims -- --list shows all")
    return arguments


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    ids = list(dict.fromkeys(arguments.ids)) or list(CLAIMS)
    if arguments.list:
        for id in ids:
            print(f"{id}\n    {CLAIMS[id].says}")
        return AS_EXPECTED
    if arguments.lines:
        bench = Bench()
        for id in ids:
            print(json.dumps(one(id, bench).as_dict()), flush=True)
        return AS_EXPECTED
    results: dict[str, Result] = {}
    for result in [one(ids[0], Bench())] if len(ids) == 1 else in_processes(ids):
        results[result.id] = result
        if len(ids) > 1:
            print(report.progress(len(results), len(ids), result), file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps(as_json(results), indent=2))
    elif len(ids) == 1:
        report.one(results[ids[0]])
    else:
        report.table(results)
    return exit_code(results)


def one(id: str, bench: Bench) -> Result:
    try:
        return measure(CLAIMS[id], bench)
    except NotSound as reason:
        raise HarnessFailed(str(reason)) from None


def exit_code(results: dict[str, Result]) -> int:
    if not all(report.agrees(result) for result in results.values()):
        return NOT_AS_EXPECTED
    # One that was asked for and could not be measured is no success; among many it is said, and does not spoil them.
    only = len(results) == 1 and next(iter(results.values())).not_run
    return CANNOT_RUN if only else AS_EXPECTED


def as_json(results: dict[str, Result]) -> dict[str, object]:
    return {
        "schema": 1,
        "as_expected": all(report.agrees(result) for result in results.values()),
        "claims": [
            {
                "id": id,
                "says": CLAIMS[id].says,
                "source": vars(CLAIMS[id].source),
                "expected": CLAIMS[id].verdict,
                "in_words": CLAIMS[id].in_words,
                **results[id].as_dict(),
            }
            for id in CLAIMS
            if id in results
        ],
    }


def groups(ids: list[str]) -> Iterator[list[str]]:
    """What is measured by one process: claims that look at the same lab share its runs. The longest first."""
    together: dict[str, list[str]] = defaultdict(list)
    for id in ids:
        together[CLAIMS[id].lab or id].append(id)
    yield from sorted(together.values(), key=len, reverse=True)


def in_processes(ids: list[str]) -> Iterator[Result]:
    alone = [id for id in ids if CLAIMS[id].alone]
    yield from measured(list(groups([id for id in ids if id not in alone])), AT_ONCE)
    yield from measured([[id] for id in alone], 1)


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


if __name__ == "__main__":
    sys.exit(entry(main))
