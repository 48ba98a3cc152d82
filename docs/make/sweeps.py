"""Labs whose question is *how much*: one number, measured in several variants of the program.

Each variant is a learner's file, run and watched as `nox -s check-LAB` does it; whether the judge accepts it is another
matter. record.py keeps a sweep's picture with the lab's recording.
"""

from collections.abc import Callable
from dataclasses import dataclass

from labs.catalog import LABS
from labs.harness.findings.deliveries import padding_share
from labs.harness.findings.workers import waiting_share
from labs.harness.history import History
from tests.fixes import ragged


@dataclass(frozen=True)
class Sweep:
    picture: str  # the name of its file
    of_what: str
    variants: dict[str, str]  # what it is called, and the program
    measure: Callable[[History], float | None]
    allowed: float = 0.5
    times: int = 1  # what depends on how busy the machine is, is run more than once; the median counts


def edited(lab: str, *edits: tuple[str, str]) -> str:
    """The lab's program with other words in some places, each of which must be there."""
    program = LABS[lab].program.read_text()
    for old, new in edits:
        assert old in program, f"{lab}: the lab no longer contains {old!r}"
        program = program.replace(old, new)
    return program


SWEEPS = {
    "starve": Sweep(
        "waiting",
        "share of the loop spent waiting for data",
        {
            f"{workers} worker{'' if workers == 1 else 's'}": edited(
                "starve", ("num_workers=0", f"num_workers={workers}")
            )
            for workers in (0, 1, 2, 3, 4, 8)
        },
        waiting_share,
        times=3,
    ),
    "ragged": Sweep(
        "padding",
        "share of padding in what was delivered",
        {
            "to the longest of all": edited("ragged", *ragged.padded("LONGEST")),
            "to the longest of the batch": edited("ragged", *ragged.padded("max(map(len, sentences))")),
            "the same, in buckets": LABS["ragged"].solution.read_text(),
        },
        padding_share,
    ),
}
