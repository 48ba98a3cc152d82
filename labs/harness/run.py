"""One run, from what was asked to its verdict: describe it, execute it in a container, record it, judge it."""

import contextlib
import datetime
import hashlib
import json
import os
import secrets
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.harness import container, timeline
from labs.harness.container import Backend
from labs.harness.engine import last_line
from labs.harness.findings import find
from labs.harness.history import SCHEMA, Event, History
from labs.harness.interrupts import hold_interrupts
from labs.harness.lab import Lab
from labs.harness.limits import ROOT, Limits, Refused
from labs.harness.live import watching
from labs.harness.verdict import HEALTHY, REPRODUCED, Verdict, judge

STALL_SECONDS = 5.0
GRACE_SECONDS = 20.0


class HarnessFailed(Exception):
    """The machinery broke, not the program: no verdict."""


@dataclass(frozen=True)
class Request:
    """What to run: a lab's broken program (`failure`), that without the cause (`control`), its `fix`, or a `check`."""

    lab: Lab
    role: str
    file: Path | None = None
    changes: dict[str, Any] = field(default_factory=dict)  # of limits, by the person who asked
    title: str = ""  # what the run is called in its record, where that is not to be the lab's name

    @property
    def limits(self) -> Limits:
        control = self.lab.control.limits if self.role == "control" else {}
        return self.lab.limits.changed(**{**control, **self.changes})

    @property
    def program(self) -> Path:
        return self.file or (self.lab.solution if self.role == "fix" else self.lab.program)


def describe(request: Request, backend: Backend) -> tuple[Event, dict[str, Any]]:
    """The first event of the history, and the plan for the watcher."""
    lab, role, program, limits = request.lab, request.role, request.program, request.limits
    control = lab.control if role == "control" else None
    part: dict[str, Any] = {
        "program": str(program),
        "constants": control.constants if control else lab.given,
        "start_method": limits.start_method,
        "epochs": lab.in_role(role, "epochs"),
        "ranks": lab.in_role(role, "ranks"),
        "patient": lab.patient,
        "seed": secrets.randbelow(1 << 31),
    }
    parts = [("subject", part)]
    # A learner waits for a second run only where it is judged how fast theirs is.
    if lab.beside_fix and (role == "failure" or (role == "check" and lab.most_waiting)):
        parts.append(("fix", {**part, "program": str(lab.solution)}))
    if lab.validation:
        parts.append(("validation", {**part, "constants": {**part["constants"], **lab.validation}}))
    if lab.must_stop_with and role in ("fix", "check"):
        parts.append(("hopeless", {**part, "constants": {**lab.given, **lab.must_stop_with}}))
    if lab.random_content:
        parts.append(("again", part))
    run = {
        "kind": "run",
        "schema": SCHEMA,
        "lab": request.title or lab.name,
        "role": role,
        "program": os.path.relpath(program),
        "sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "backend": backend.name,
        "limits": {**vars(limits), "changed": sorted(request.changes)},
        "parts": [name for name, _ in parts],
        "seed": part["seed"],
        "constants": part["constants"],
        "expect": None if request.changes else REPRODUCED if role == "failure" else HEALTHY,
        "lab_findings": lab.findings,
        "job": lab.job(role, limits.start_method),
    }
    return run, {"parts": parts, "seconds": limits.seconds, "stall_seconds": STALL_SECONDS}


def execute(plan: dict[str, Any], limits: Limits, backend: Backend, note: Callable[[Event], None]) -> None:
    """Run the plan in a container and pass every event to note."""
    program = Path(plan["parts"][0][1]["program"])
    with started(backend, [sys.executable, "-m", "labs.harness.watcher"], limits, program) as process:
        assert process.stdin and process.stdout and process.stderr
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(plan).encode() + b"\n")
            process.stdin.flush()
        deadline = time.monotonic() + len(plan["parts"]) * limits.seconds + GRACE_SECONDS
        kinds = set()
        for line in lines_until(process, deadline):
            event = json.loads(line)
            kinds.add(event["kind"])
            note(event)
        if "end" not in kinds:
            said = last_line(process.stderr.read().decode(errors="replace"))
            if not kinds:
                raise Refused(f"the {backend.name} container could not be started: {said}")
            raise HarnessFailed(f"the {backend.name} container ended before the run did: {said}")


@contextlib.contextmanager
def started(backend: Backend, argv: list[str], limits: Limits, program: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a container. Whatever happens, the container is gone afterwards."""
    name = f"loader-lab-{os.getpid()}-{secrets.token_hex(4)}"
    let_interrupt = hold_interrupts()
    process = container.start(backend, argv, limits, name, program)
    try:
        let_interrupt()
        yield process
    finally:
        let_interrupt = hold_interrupts()
        end(process)
        backend.remove(name)
        let_interrupt()


def end(process: subprocess.Popen[bytes]) -> None:
    """Cut the lifeline and wait: when the client is gone, so is all that it started."""
    assert process.stdin and process.stdout and process.stderr
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()  # a watcher that waits for us to read would not look at its lifeline
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stderr.close()


def lines_until(process: subprocess.Popen[bytes], deadline: float) -> Iterator[bytes]:
    assert process.stdout
    unread = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return
            *lines, unread = (unread + data).split(b"\n")
            yield from lines
    raise HarnessFailed("the container did not end in time")


def new_folder(runs: Path, lab: str) -> Path:
    """runs/LAB/TIME, for the record of one run."""
    stamp = datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    folder = runs / lab / f"{stamp}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Refused(f"cannot write the record of this run: {error}. Name another folder with --runs DIR") from None
    return folder


def point_latest_to(folder: Path) -> None:
    """runs/LAB/latest is the last run that came to its end."""
    link = folder.parent / f".latest-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(folder.parent / "latest")


def once(request: Request, backend: Backend, runs: Path = ROOT / "runs", quiet: bool = True) -> tuple[Verdict, Path]:
    """Run it, record it, judge it."""
    run, plan = describe(request, backend)
    limits = request.limits
    folder = new_folder(runs, run["lab"])
    events: list[Event] = []
    with (folder / "history.jsonl").open("w") as record, watching(run, quiet) as show:

        def note(event: Event) -> None:
            events.append(event)
            record.write(json.dumps(event) + "\n")
            record.flush()
            show(event)

        note(run)
        execute(plan, limits, backend, note)
    history = History(events)
    given = history.container["shm_total"]
    if given > limits.shm + (1 << 16) or (given < limits.shm - (1 << 16) and backend.name != "here"):
        raise HarnessFailed(f"asked for {limits.shm} bytes of /dev/shm and got {given}")
    verdict = judge(history, find(history))
    (folder / "verdict.json").write_text(json.dumps(verdict.as_dict(), indent=2) + "\n")
    (folder / "timeline.svg").write_text(timeline.draw(history, verdict.findings), encoding="utf-8")
    point_latest_to(folder)
    return verdict, folder
