"""Nothing of a run survives, whoever is killed with SIGKILL and whenever."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from labs.catalog import LABS
from labs.harness import container
from labs.harness import run as run_module
from labs.harness.limits import ROOT
from labs.harness.run import Request, once
from tests.conftest import hear_signals
from tests.programs import bent

SLOW = bent("        image = cv2.imread(", "        __import__('time').sleep(0.05)\n        image = cv2.imread(")
PATIENCE = 30.0


class Harness:
    """`check pickle` on a slow program, in a process of its own that can be watched and killed."""

    def __init__(self, folder: Path) -> None:
        program = folder / "attempt.py"
        program.write_text(SLOW)
        self.runs, self.tmp = folder / "runs", folder / "tmp"
        self.tmp.mkdir()
        self.process = psutil.Popen(
            [sys.executable, "-m", "labs.harness", "check", "pickle", str(program), "--runs", str(self.runs)],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.tmp)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_signals,
        )
        self.everybody: set[psutil.Process] = set()

    def __enter__(self) -> "Harness":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def family(self) -> list[psutil.Process]:
        """The harness, unshare, the first process, the conductor and its workers: each a child of the one before."""
        found = self.process.children(recursive=True)
        self.everybody.update(found)
        return found

    def history(self) -> list[dict[str, object]]:
        lines = [
            line for record in self.runs.glob("pickle/*/history.jsonl") for line in record.read_text().split("\n")[:-1]
        ]
        return [json.loads(line) for line in lines]

    def container(self) -> psutil.Process | None:
        """unshare, when it has made a container for a run (and not only tried whether it could)."""
        for child in self.family():
            try:
                if child.ppid() == self.process.pid and "labs.harness.watcher" in child.cmdline():
                    return child
            except psutil.NoSuchProcess:
                continue
        return None

    def wait_for(self, moment: str) -> None:
        """`spawn`: there is a container. Anything else: an event of this kind has been recorded."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.container() and (moment == "spawn" or any(event["kind"] == moment for event in self.history())):
                return
            time.sleep(0.002)
        raise AssertionError(f"never came to {moment}")

    def member(self, who: str) -> psutil.Process:
        if who == "harness":
            return self.process
        unshare = self.container()
        assert unshare
        chain = [unshare]
        while len(chain) < 3 and (children := chain[-1].children()):
            chain.append(children[0])
        if who != "worker":
            return chain[("unshare", "first process", "conductor").index(who)]
        # The conductor's own children are multiprocessing's helpers; the workers are children of its fork server.
        helpers = {process.pid for process in chain}
        return next(child for child in self.family() if child not in chain and child.ppid() not in helpers)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


CASES = [
    *[("harness", moment) for moment in ("spawn", "container", "start", "workers", "batch")],
    *[("unshare", moment) for moment in ("spawn", "container", "start", "workers", "batch")],
    *[("first process", moment) for moment in ("container", "start", "workers", "batch")],
    *[("conductor", moment) for moment in ("start", "workers", "batch")],
    *[("worker", moment) for moment in ("workers", "batch")],
]


@pytest.mark.parametrize(("who", "moment"), CASES, ids=[f"{who} at {moment}" for who, moment in CASES])
def test_nobody_survives_a_kill(tmp_path: Path, who: str, moment: str) -> None:
    """Kill one of them, then count: no process, nothing in the temp directory, never a verdict of health."""
    with Harness(tmp_path) as harness:
        harness.wait_for(moment)
        harness.member(who).kill()
        harness.process.communicate(timeout=PATIENCE)
    _, survivors = psutil.wait_procs(harness.everybody, timeout=5)
    assert alive(survivors) == []
    assert os.listdir(harness.tmp) == []
    expected = {
        "harness": {-9},
        "unshare": {77, 99},  # 77 when not a word had come out of it yet
        "first process": {99},
        "conductor": {1},
        "worker": {1},
    }
    assert harness.process.returncode in expected[who]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("moment", ["spawn", "start", "batch"])
def test_an_interruption_says_so_and_cleans_up(tmp_path: Path, number: signal.Signals, moment: str) -> None:
    """Ctrl-C, a request to end, a closed terminal: one sentence, no traceback, exit code 130, nothing left."""
    with Harness(tmp_path) as harness:
        harness.wait_for(moment)
        harness.process.send_signal(number)
        _, errors = harness.process.communicate(timeout=PATIENCE)
    assert errors == "loader-lab: interrupted; nothing is left running\n"
    assert harness.process.returncode == 130
    assert alive(list(harness.everybody)) == []
    assert os.listdir(harness.tmp) == []


@pytest.mark.parametrize("where", ["start", "end"])
def test_an_interruption_waits_while_a_container_is_started_or_taken_down(tmp_path, monkeypatch, where) -> None:  # type: ignore[no-untyped-def]
    """Ctrl-C when the container's process is there and nobody holds it yet, and a second Ctrl-C while it is ended."""
    processes = []
    module = {"start": container, "end": run_module}[where]
    step = getattr(module, where)

    def interrupted(*arguments: object) -> object:
        if where == "end":
            processes.append(arguments[0])
            signal.raise_signal(signal.SIGINT)
            return step(*arguments)
        processes.append(step(*arguments))
        signal.raise_signal(signal.SIGINT)
        return processes[0]

    monkeypatch.setattr(module, where, interrupted)
    request = Request(LABS["pickle"], "failure")
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        once(request, container.choose("namespace", request.limits), tmp_path)
    assert [process.returncode is not None for process in processes] == [True]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_conductor_that_leaves_children_behind_leaves_none(run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A program that starts processes of its own and ends: they end with the container."""
    path = tmp_path / "attempt.py"
    path.write_text("import subprocess\nsubprocess.Popen(['setsid', 'sleep', '98765'])\nraise SystemExit\n")
    run("pickle", "check", path)
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "98765"]]
