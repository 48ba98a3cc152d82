"""Can this machine run every lab, and if not, what to do: nox -s ready"""

import os
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator
from functools import cache, partial
from importlib import metadata
from pathlib import Path

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labs.catalog import LABS
from labs.harness import container
from labs.harness.__main__ import RUNS
from labs.harness.container import available_memory
from labs.harness.engine import Engine, image
from labs.harness.entry import Parser, entry
from labs.harness.lab import Lab
from labs.harness.limits import ROOT, Limits, Refused, megabytes
from labs.harness.proc import cpus
from labs.harness.report import Page, nox_command, printed
from labs.harness.run import HarnessFailed, Request, once
from labs.harness.verdict import AS_EXPECTED, CANNOT_RUN

NEEDED_MEMORY, NEEDED_DISK, NEEDED_PYTHON = 2 << 30, 1 << 30, (3, 11)
LINUX = sys.platform.startswith("linux")
NO_CONTAINER = "no container can be started"
IS_HERE = "the container that you are in already"

Row = tuple[str, str, str]  # what, what was found, and why that is too little ("" if it is enough)


def machine() -> Iterator[Row]:
    """What there is, against what the labs need."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield "Python", python, "" if sys.version_info >= NEEDED_PYTHON else "3.11 or newer is needed"
    yield environment()
    disk = shutil.disk_usage(ROOT).free
    yield "disk", f"{megabytes(disk)} free", few(disk, NEEDED_DISK, "1 GB, for records and an image")
    if LINUX:  # elsewhere the engine has a machine of its own
        memory, count = available_memory(), cpus()
        words = "2 GB, for the runs without the cause"
        yield "memory", f"{megabytes(memory)} available", few(memory, NEEDED_MEMORY, words)
        yield "CPUs", str(count) if count > 1 else "1, which is enough, and slow", ""


def few(there: int, needed: int, words: str) -> str:
    return "" if there >= needed else f"it should be {words}"


def environment() -> Row:
    """The pinned packages, as they are installed."""
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["lab"]
    wrong = []
    for name, version in (package.split("==") for package in pinned):
        try:
            installed = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            installed = "missing"
        if installed != version:
            wrong.append(f"{name} is {installed}, not {version}")
    words = ", ".join(wrong)
    return "environment", f"{len(pinned) - len(wrong)} of {len(pinned)} packages as pinned", words


def containers() -> Iterator[Row]:
    for name in container.BACKENDS:
        reason = refusal(name, Limits().shm, None)
        answer = ("no" if reason else "yes") + (f" ({IS_HERE})" if name == "here" else "")
        if not reason and not has_image(name):
            answer = f"yes, once its image is built:\n{build_command(name)}"  # a command stands on a line of its own
        yield name, answer, reason or ""


def has_image(name: str) -> bool:
    """Whether a container can be started at once; what is no engine needs no image."""
    engine = container.BACKENDS[name]
    return not isinstance(engine, Engine) or engine.ask("image", "inspect", image()).returncode == 0


def build_command(name: str) -> str:
    return f"{nox_command()} -s image" + ("" if name == "docker" else f" -- {name}")


@cache
def refusal(name: str, shm: int, memory: int | None) -> str | None:
    """Asked once: an engine takes its time to answer."""
    return container.BACKENDS[name].why_not(Limits(shm=shm, memory=memory))


def why_not(lab: Lab) -> str | None:
    """Why no container here can run this lab, or the run that shows its cause; None where one can."""
    for limits in (lab.limits, Request(lab, "control").limits):
        if all(refusal(name, limits.shm, limits.memory) for name in container.BACKENDS):
            if limits.memory is not None:
                return "a limit on memory takes docker or podman"
            if LINUX and limits.shm > available_memory():
                return f"{megabytes(limits.shm)} of /dev/shm take as much memory"
            return NO_CONTAINER
    return None


def taken_by(lab: Lab) -> str:
    """The container that this lab would run in: the first that holds its limits."""
    return next(name for name in container.BACKENDS if not refusal(name, lab.limits.shm, lab.limits.memory))


def try_one(lab: Lab, runs: Path) -> Iterator[Row]:
    """The failure and the fix for real."""
    for role, words in (("failure", f"lab-{lab.name}"), ("fix", f"fix-{lab.name}")):
        request, began = Request(lab, role), time.monotonic()
        try:
            backend = container.choose(None, request.limits)
            backend.prepare()
            verdict, folder = once(request, backend, runs)
        except (Refused, HarnessFailed) as trouble:
            yield words, "did not run", str(trouble)
            return
        seconds = f"{verdict.verdict} in {time.monotonic() - began:.0f} s"
        yield words, seconds, "" if verdict.as_expected else f"not as it should: see {os.path.relpath(folder)}"


def show(heading: str, rows: Iterator[Row], needed: bool = True) -> bool:
    """A line for each as soon as it is known; whether all is well."""
    printed(lambda page: page.heading(heading))
    well = True
    for what, found, wrong in rows:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=12)
        table.add_column(overflow="fold")
        style = "green" if not wrong else "red" if needed else "dim"
        table.add_row(Text(what), Text(f"{found}: {wrong}" if wrong else found, style))
        printed(partial(put, table))
        well = well and not wrong
    return well


def put(table: Table, page: Page) -> None:
    page.console.print(Padding(table, (0, 0, 0, 2), expand=False))


def main(argv: list[str]) -> int:
    parser = Parser("nox -s ready", __doc__)
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help="where records go")
    runs = parser.parse_args(argv).runs
    well = show("This machine", machine())
    show("Containers (one is enough; a limit on memory takes docker or podman)", containers(), needed=False)
    cannot = {lab.name: reason for lab in LABS.values() if (reason := why_not(lab))}
    able = [lab for lab in LABS.values() if lab.name not in cannot]
    if able:
        quickest = min(able, key=lambda lab: lab.minutes)
        well = show("The quickest lab and its fix, for real", try_one(quickest, runs)) and well
    # After the trial, which builds an image if it needs one.
    engines = {lab.name: taken_by(lab) for lab in able}
    unbuilt = {name for name in set(engines.values()) if not has_image(name)}
    waiting = {lab: engine for lab, engine in engines.items() if engine in unbuilt}
    words = conclusion(cannot, well, waiting)
    ready = words.startswith("ready")
    commands = [build_command(name) for name in sorted(unbuilt)]
    printed(lambda page: conclude(page, words, "bold green" if ready else "bold red", commands))
    return AS_EXPECTED if ready else CANNOT_RUN


def conclude(page: Page, words: str, style: str, commands: list[str]) -> None:
    page.console.print()
    page.say(words, style)
    for command in commands:
        page.command(command)


def conclusion(cannot: dict[str, str], well: bool, waiting: dict[str, str]) -> str:
    """The one line that a person looks for; for each lab that waits for an image, whose that is."""
    if not cannot and well and not waiting:
        return f"ready: all {len(LABS)} labs can run here"
    if NO_CONTAINER in cannot.values() and len(cannot) == len(LABS):
        return f"not ready: no lab can run here, since {NO_CONTAINER}. {container.WHAT_HELPS}"
    reasons: dict[str, list[str]] = {}
    for name, reason in cannot.items():
        reasons.setdefault(reason, []).append(name)
    words = [f"{', '.join(names)} cannot ({why})" for why, names in reasons.items()]
    if not well:
        words.append("what is wrong stands above")
    for engine in sorted(set(waiting.values())):
        names = ", ".join(lab for lab in waiting if waiting[lab] == engine)
        words.append(f"{names} can once {engine} has its image, which takes minutes and a network")
    able = len(LABS) - len(cannot) - len(waiting)
    return f"not ready: {able} of {len(LABS)} labs can run here; {'; '.join(words)}"


if __name__ == "__main__":
    sys.exit(entry(main))
