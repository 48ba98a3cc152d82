"""What a learner has done so far: attempts, hints, what is solved. One small file in the learner's folder keeps it."""

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labs.harness.entry import complain
from labs.harness.limits import ROOT, Refused

SCHEMA = 1
FOLDER = Path(os.environ.get("LOADER_LAB_WORKSHOP") or ROOT / "workshop").resolve()
NAME = ".progress.json"


@dataclass
class Record:
    """One exercise. A hash says which text it was that was judged, so that a change after it can be seen."""

    attempts: int = 0
    hints: int = 0
    began_at: str | None = None  # the first attempt or hint
    judged_at: str | None = None
    judged_sha256: str | None = None
    finding: str | None = None  # what was wrong when it was last judged
    solved_at: str | None = None
    solved_sha256: str | None = None

    def __post_init__(self) -> None:
        for name in ("attempts", "hints"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}")
        for each in dataclasses.fields(self)[2:]:
            if not isinstance(getattr(self, each.name), str | None):
                raise ValueError(f"{each.name} is {getattr(self, each.name)!r}")

    def note_hint(self, most: int) -> None:
        self.began_at = self.began_at or now()
        self.hints = min(most, self.hints + 1)

    def note_verdict(self, sha256: str, finding: str | None) -> None:
        self.attempts += 1
        self.judged_at, self.judged_sha256, self.finding = now(), sha256, finding
        self.began_at = self.began_at or self.judged_at
        if finding is None:
            self.solved_at, self.solved_sha256 = self.solved_at or self.judged_at, sha256


@dataclass
class Progress:
    records: dict[str, Record] = field(default_factory=dict)
    mystery: int | None = None  # the number of the failure that a group is looking for

    def of(self, lab: str) -> Record:
        return self.records.setdefault(lab, Record())

    def as_json(self) -> str:
        records = {lab: vars(record) for lab, record in self.records.items()}
        return json.dumps({"schema": SCHEMA, "mystery": self.mystery, "exercises": records}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        kept = json.loads(text)
        if kept["schema"] != SCHEMA or not isinstance(kept["mystery"], int | None):
            raise ValueError("not a record of this version")
        return cls({lab: Record(**record) for lab, record in kept["exercises"].items()}, kept["mystery"])


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def read() -> Progress:
    if not FOLDER.is_dir():
        return Progress()
    with alone():
        return load()


@contextlib.contextmanager
def changing() -> Iterator[Progress]:
    """The progress, to be changed: what was changed is kept, all of it or nothing."""
    with alone():
        progress = load()
        yield progress
        keep(FOLDER / NAME, progress.as_json())


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One at a time: a watching terminal and another one may both judge."""
    with explaining():
        FOLDER.mkdir(parents=True, exist_ok=True)
        folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def explaining() -> Iterator[None]:
    """What the operating system does not allow in the learner's folder, as one sentence."""
    try:
        yield
    except OSError as error:
        raise Refused(
            f"cannot keep your exercises in {os.path.relpath(FOLDER)}: {error.strerror} ({error.filename}). "
            "Make it writable, or name another folder in the variable LOADER_LAB_WORKSHOP"
        ) from None


def load() -> Progress:
    path = FOLDER / NAME
    with explaining():
        try:
            return Progress.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Progress()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            aside = beside(path)
            path.rename(aside)
    complain(f"the record of your progress could not be read; it is kept as {os.path.relpath(aside)}, a new one begins")
    return Progress()


def keep(path: Path, text: str) -> None:
    """Write a file so that whoever looks sees the old one or the new one, also when the machine stops in between."""
    fresh = path.with_name(f".{path.name.lstrip('.')}-{os.getpid()}.new")
    with explaining():
        try:
            with fresh.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)


def beside(path: Path) -> Path:
    """A name for a backup of this file that nothing has yet."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{number}.bak")).exists():
        number += 1
    return aside
