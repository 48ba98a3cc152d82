"""Go through the exercise loop as a learner would, and keep what it printed: nox -s record -- workshop

One exercise: what there is to do, an attempt that is still broken, a hint, and one that holds; then a mystery, and the
reports of two learners put together.
"""

import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from docs.make import recording
from labs.catalog import LABS
from labs.harness.limits import ROOT
from labs.workshop import mystery
from tests import fixes

NAME = recording.WORKSHOP
FOLDER = recording.RECORDED / NAME
LAB = LABS["pickle"]
# Fixes that the tests know, so that what is shown stays true.
BROKEN, HOLDS = "a function, but a local one", "a callable class"
MYSTERY = "freeze-result"
READY = "ready.txt"  # of the machine it was made on: not the same elsewhere


class Learner:
    """Somebody at a terminal of 80 columns, with a folder of their own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.copy = place / "workshop" / LAB.program.name

    def types(self, module: str, *arguments: str, code: int = 0) -> str:
        """What a command prints, as if the learner's folder were in the repository."""
        own = {"LOADER_LAB_WORKSHOP": str(self.place / "workshop"), "COLUMNS": "80", "NO_COLOR": "1"}
        command = [sys.executable, "-m", module, *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if done.returncode != code:
            raise recording.NotAsExpected(
                f"{' '.join(arguments) or module} ended with {done.returncode}: {done.stderr}"
            )
        shown = done.stdout.replace(f"{os.path.relpath(self.place, ROOT)}/", "").replace(f"{self.place}/", "")
        return "".join(f"{line.rstrip()}\n" for line in shown.strip("\n").splitlines())

    def checks(self, *options: str, code: int = 0) -> str:
        return self.types("labs.harness", "check", LAB.name, *self.runs, *options, code=code)

    def mends(self, name: str) -> None:
        self.copy.write_text(fix(name).write(self.place).read_text())

    @property
    def runs(self) -> tuple[str, str]:
        return "--runs", str(self.place / "runs")


@contextlib.contextmanager
def somebody() -> Iterator[Learner]:
    """In the repository, so that no path is longer than a learner's would be and breaks a line."""
    runs = ROOT / "runs"
    runs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs) as name:
        yield Learner(Path(name))


def loop(learner: Learner) -> dict[str, str]:
    """All transcripts but that of the machine."""
    told = {"begin.txt": learner.types("labs.workshop")}
    learner.mends(BROKEN)
    told["still-broken.txt"] = learner.checks(code=1)
    told["hint.txt"] = learner.checks("--hint")
    learner.mends(HOLDS)
    told["solved.txt"] = learner.checks()
    told["progress.txt"] = learner.types("labs.workshop")
    told["reset.txt"] = learner.types("labs.workshop", "--reset", LAB.name)
    told["mystery.txt"] = learner.types("labs.workshop", "--mystery", "--seed", str(seed()), *learner.runs)
    told["together.txt"] = together(learner)
    return told


def together(learner: Learner) -> str:
    """One learner has solved an exercise, the other has not begun."""
    folder = learner.place / "reports"
    folder.mkdir()
    for number, each in enumerate((learner, Learner(learner.place / "another")), 1):
        report = each.types("labs.workshop", "--report", "--name", f"desk {number}")
        (folder / f"desk-{number}.json").write_text(report)
    return learner.types(
        "labs.workshop", "--together", *map(str, sorted(folder.iterdir())), "--page", str(folder / "class.html")
    )


def fix(name: str) -> Any:
    return next(each for each in [*fixes.WRONG, *fixes.RIGHT] if (each.lab, each.name) == (LAB.name, name))


def seed() -> int:
    return next(number for number in range(1, mystery.MOST_SEEDS) if mystery.chosen(number).name == MYSTERY)


def write() -> None:
    with somebody() as learner:
        files = {**loop(learner), READY: learner.types("labs.workshop.ready", *learner.runs)}
    facts = {"recorded": datetime.date.today().isoformat(), "versions": versions(), "made_from": made_from()}
    recording.keep(FOLDER, {**files, "recording.json": json.dumps(facts, indent=2) + "\n"})


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": version("numpy"),
        "opencv": version("opencv-python-headless"),
        "kernel": platform.release().partition("-")[0],
    }


def made_from() -> dict[str, str]:
    """What a run of today is not compared with: the check of the machine."""
    path = ROOT / "labs" / "workshop" / "ready.py"
    return {path.relative_to(ROOT).as_posix(): recording.digest(path.read_text())}
