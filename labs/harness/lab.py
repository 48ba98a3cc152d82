"""What a lab is: an experiment of three runs, and what goes with it.

The three are the failure, the control (the same broken program with only the cause taken away) and the fix (the
solution, under the failure's own limits).
"""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from labs.harness.limits import ROOT, Limits

CONTENTS = ROOT / "labs" / "contents.json"


@dataclass(frozen=True)
class Control:
    """How the cause is taken away: other limits, or other values for constants of the program."""

    says: str
    limits: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    workers: int | None = None
    ranks: int | None = None
    epochs: int | None = None


@dataclass(frozen=True)
class Lab:
    name: str
    fails: str  # one line for the menu: what goes wrong
    findings: tuple[str, ...]  # what a reproduction shows, and all that it shows
    samples: int
    workers: int
    control: Control
    advice: str  # what the fix does
    at_home: str  # for somebody who has this failure in a job of their own
    goal: str  # what a learner can do afterwards: "After this lab you can ..."
    hints: tuple[str, str, str]  # where to look, the mechanism, the fix
    minutes: int  # for a learner, from the first run to a fix that holds
    difficulty: int  # 1 to 3
    module: str = ""  # file name without .py, where the lab's name cannot be it
    limits: Limits = field(default_factory=Limits)
    epochs: int = 1
    random_content: bool = False  # every sample is meant to be new, and a run to be repeatable with torch.manual_seed
    any_start_method: bool = False  # another way to start workers is a fix here, and not a way out
    beside_fix: bool = False  # what runs is measured against the fix, in the same container
    patient: bool = False  # before each step the loop waits until as much is under way as there can be
    ranks: int = 0  # processes that train together, started by torchrun; 0: one, started as usual
    batch_size: int = 1  # the job is to be done in batches of at least half of this, on average
    worker_memory: int | None = None  # bytes that a worker may hold of its own
    most_waiting: float | None = None  # the share of the loop that may be spent waiting for data
    may_drop: int = 0  # samples that an epoch of training may leave out
    validation: dict[str, Any] = field(default_factory=dict)  # constants with which it validates, and drops none
    given: dict[str, Any] = field(default_factory=dict)  # constants of the job: a fix does not get to choose them
    must_stop_with: dict[str, Any] = field(default_factory=dict)  # constants with which a fix has to raise, not go on
    combines: tuple[str, ...] = ()  # the labs whose failures are all in this one

    @property
    def file(self) -> str:
        return self.module or self.name.replace("-", "_")

    @property
    def program(self) -> Path:
        return ROOT / "labs" / f"{self.file}.py"

    @property
    def solution(self) -> Path:
        return ROOT / "solutions" / f"{self.file}.py"

    def job(self, role: str, start_method: str) -> dict[str, Any]:
        """All that a program has to deliver to be called healthy."""
        control = self.control if role == "control" else None
        return {
            "ids": list(range(self.samples)),
            "epochs": self.in_role(role, "epochs"),
            "workers": self.in_role(role, "workers"),
            "ranks": self.in_role(role, "ranks") or 1,
            "start_method": None if self.any_start_method else start_method,
            "must_stop_with": self.must_stop_with,
            "content": "random" if self.random_content else "fixed",
            "batch_size": self.batch_size if control is None else 1,
            "may_drop": self.may_drop,
            "worker_memory": self.worker_memory,
            "most_waiting": self.most_waiting,
            "signatures": contents().get(self.name, {}),
        }

    def in_role(self, role: str, name: str) -> int:
        """How many workers, ranks or epochs there are: the control may have other numbers."""
        other = getattr(self.control, name) if role == "control" else None
        number: int = getattr(self, name) if other is None else other
        return number


@cache
def contents() -> dict[str, dict[str, list[str]]]:
    """What each sample looks like, for labs whose samples are always the same: lab, id, a signature for each tensor."""
    recorded: dict[str, dict[str, list[str]]] = json.loads(CONTENTS.read_text()) if CONTENTS.exists() else {}
    return recorded
