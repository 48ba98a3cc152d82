"""What can be said about a run: each finding is a pure function of its history, with its evidence.

A finding is a general statement about any loader. None of them knows which lab it looks at: what a run should have
delivered stands in its history (`job`), and the rest is what was seen. A healthy run has no findings at all.
"""

from collections.abc import Callable
from dataclasses import replace

from labs.harness.findings import deliveries, endings, workers
from labs.harness.findings.finding import Evidence, Finding
from labs.harness.history import History
from labs.harness.limits import megabytes

__all__ = ["FINDINGS", "Evidence", "Finding", "find", "megabytes"]

# The order is that of a report: what makes the rest meaningless first.
FINDINGS: dict[str, Callable[[History], Finding | None]] = {
    "not-a-program": endings.not_a_program,
    "tampered": workers.tampered,
    "bus-error": endings.bus_error,
    "oom": endings.oom,
    "shm-full": endings.shm_full,
    "no-files": endings.no_files,
    "unpicklable": endings.unpicklable,
    "worker-died": endings.worker_died,
    "ranks-apart": endings.ranks_apart,
    "raised": endings.raised,
    "stalled": endings.stalled,
    "overtime": endings.overtime,
    "unfinished": endings.unfinished,
    "goes-on": endings.goes_on,
    "duplicated": deliveries.duplicated,
    "lost": deliveries.lost,
    "thrown-away": deliveries.thrown_away,
    "wrong-content": deliveries.wrong_content,
    "small-batches": deliveries.small_batches,
    "mostly-padding": deliveries.mostly_padding,
    "same-draws": deliveries.same_draws,
    "epochs-repeat": deliveries.epochs_repeat,
    "not-repeatable": deliveries.not_repeatable,
    "memory-grew": workers.memory_grew,
    "starved": workers.starved,
    "oversubscribed": workers.oversubscribed,
    "other-workers": workers.other_workers,
}


def find(history: History) -> list[Finding]:
    """All that can be said of a run, and of its validation, in which nothing may be left out."""
    found = [finding for check in FINDINGS.values() if (finding := check(history)) is not None]
    if "validation" in history.run.get("parts", ()):
        validation = history.only("validation", may_drop=0)
        found += [replace(one, statement=f"In validation: {one.statement}") for one in find(validation)]
    return found
