"""The learner's copies of the broken programs: made, put back, and in which state each is."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from labs.catalog import LABS
from labs.harness.lab import Lab
from labs.workshop import progress
from labs.workshop.progress import Progress, Record, beside, explaining, keep

NOT_STARTED, CHANGED, STILL_BROKEN, SOLVED = "not-started", "changed", "still-broken", "solved"
LEVELS = {1: "easy", 2: "medium", 3: "hard"}


@dataclass(frozen=True)
class Exercise:
    """A lab as an exercise, in the state that it is in now."""

    lab: Lab
    record: Record
    state: str
    changed_since: bool = False  # it was solved, and the file is another one now

    @property
    def under_way(self) -> bool:
        return self.state in (CHANGED, STILL_BROKEN)


def copy_of(lab: Lab) -> Path:
    return progress.FOLDER / lab.program.name


def handed_out(lab: Lab) -> str:
    """The broken program as a learner gets it: without the sentence that says why it is broken.

    Its lines keep their numbers, so that a line that the lab's report names is the same one here.
    """
    text = lab.program.read_text(encoding="utf-8")
    start = text.index("Cause:")
    end = text.index("Run:", start)
    instead = f"Cause:   for you to find; for a hint: nox -s check-{lab.name} -- --hint"
    return text[:start] + instead + "\n" * text.count("\n", start, end) + text[end:]


def to_be_mended(lab: Lab) -> Path | None:
    """The learner's copy, as long as it is not for us to say what is wrong with it: no fix yet, and hints left."""
    each = exercise(lab, progress.read())
    begun = os.path.lexists(copy_of(lab)) and each.state != SOLVED and each.record.hints < len(lab.hints)
    return copy_of(lab) if begun else None


def is_copy(file: Path, lab: Lab) -> bool:
    """Whether a file, by its real path, is the learner's copy; that may be a link."""
    return file == copy_of(lab).resolve()


def in_order() -> list[Lab]:
    """Easiest first, and what combines several failures after all that it combines."""
    return sorted(LABS.values(), key=lambda lab: (bool(lab.combines), lab.difficulty, lab.minutes))


def sha256(path: Path) -> str | None:
    """Of what is in a file now; None where there is none, as for a moment while an editor saves."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def is_untouched(lab: Lab) -> bool:
    """Whether the learner's copy is as it was handed out, or not there."""
    return sha256(copy_of(lab)) in (None, hashlib.sha256(handed_out(lab).encode()).hexdigest())


def look() -> list[Exercise]:
    kept = progress.read()
    return [exercise(lab, kept) for lab in in_order()]


def exercise(lab: Lab, kept: Progress) -> Exercise:
    record, text = kept.records.get(lab.name, Record()), sha256(copy_of(lab))
    if record.solved_at:
        return Exercise(lab, record, SOLVED, text != record.solved_sha256)
    if text is not None and text == record.judged_sha256:
        return Exercise(lab, record, STILL_BROKEN)
    return Exercise(lab, record, NOT_STARTED if is_untouched(lab) else CHANGED)


def next_one(exercises: list[Exercise]) -> Exercise | None:
    """What was begun before what was not."""
    waiting = [each for each in exercises if each.state != SOLVED]
    return next((each for each in waiting if each.under_way), waiting[0] if waiting else None)


def make_copies() -> int:
    """A copy of each broken program where there is none yet; how many were made."""
    with progress.alone():
        missing = [lab for lab in in_order() if not os.path.lexists(copy_of(lab))]
        for lab in missing:
            keep(copy_of(lab), handed_out(lab))
    return len(missing)


def put_back(lab: Lab) -> Path | None:
    """The broken program again; what was there is kept, and its new name returned."""
    path, aside = copy_of(lab), None
    with progress.alone(), explaining():
        if not is_untouched(lab):
            aside = beside(path)
            path.rename(aside)
        keep(path, handed_out(lab))
    return aside
