"""Findings about how a run ended: dead, hung, or stopped by an exception."""

from typing import Any

from labs.harness.findings.finding import Evidence, Finding, megabytes, some
from labs.harness.history import History

PICKLING_ERRORS = {"PicklingError", "AttributeError", "TypeError"}
SIGBUS = 7


def not_a_program(history: History) -> Finding | None:
    event = history.first("not_a_program")
    return Finding("not-a-program", event["message"]) if event else None


def bus_error(history: History) -> Finding | None:
    error = history.first("error")
    killed = [exit for exit in error["exits"] if exit["exitcode"] == -SIGBUS] if error else []
    if not error or not killed or error["shm_used"] < 0.95 * error["shm_total"]:
        return None
    return Finding(
        "bus-error",
        "A worker was killed by SIGBUS while /dev/shm was full.",
        (
            Evidence("workers killed by signal 7 (SIGBUS)", f"{len(killed)} of {len(error['exits'])}", "0"),
            Evidence(
                "/dev/shm in use at that moment",
                f"{megabytes(error['shm_used'])} of {megabytes(error['shm_total'])}",
                "room to spare",
            ),
        ),
        _deepest(error, "killed by signal"),
    )


def worker_died(history: History) -> Finding | None:
    error = history.first("error")
    dead = [exit for exit in error["exits"] if exit["exitcode"] not in (None, 0)] if error else []
    if not error or not dead or bus_error(history):
        return None
    how = some(f"worker {exit['worker']}: {_how(exit['exitcode'])}" for exit in dead)
    return Finding(
        "worker-died",
        "A worker process died.",
        (Evidence("how the workers ended", how, "all of them alive"),),
        _deepest(error, "worker"),
    )


def unpicklable(history: History) -> Finding | None:
    error = history.first("error")
    if not error or not error["unpicklable"] or history.first("workers") or history.first("batch"):
        return None
    if error["chain"][0]["type"] not in PICKLING_ERRORS:
        return None
    return Finding(
        "unpicklable",
        "Something that belongs to the loader cannot be pickled, so no worker could be started.",
        (
            Evidence("cannot be pickled", some(error["unpicklable"]), "nothing"),
            Evidence("batches before the exception", "0", "all"),
        ),
        f"{error['chain'][0]['type']}: {error['chain'][0]['message']}",
    )


def raised(history: History) -> Finding | None:
    error = history.first("error")
    if not error or bus_error(history) or worker_died(history) or unpicklable(history):
        return None
    first = error["chain"][0]
    return Finding(
        "raised",
        f"The program stopped with {first['type']}.",
        (Evidence("batches before it", str(len(list(history.all("batch")))), "all"),),
        f"{first['type']}: {first['message']}".strip().splitlines()[-1] if first["message"] else first["type"],
    )


def stalled(history: History) -> Finding | None:
    event = history.first("stall")
    if not event:
        return None
    return Finding(
        "stalled",
        "The program hangs: no batch came, and every process slept.",
        (
            Evidence("seconds without a batch or any CPU time", f"{event['seconds']:.1f}", "0"),
            Evidence("processes asleep", str(len(event["stacks"])), "some at work"),
        ),
    )


def overtime(history: History) -> Finding | None:
    event = history.first("overtime")
    if not event:
        return None
    seconds = f"{event['seconds']:g} s"
    return Finding(
        "overtime", "The program was not done within its time.", (Evidence("time", f"over {seconds}", seconds),)
    )


def unfinished(history: History) -> Finding | None:
    """It ended on its own, before the job was done and without a word: os._exit, a crash of the main process."""
    ended = history.first("exit")
    explained = any(history.first(kind) for kind in ("error", "stall", "overtime", "not_a_program"))
    if not ended or explained or (history.first("done") and ended["status"] == 0):
        return None
    return Finding(
        "unfinished",
        "The main process ended before the job was done, and raised nothing.",
        (Evidence("how it ended", _how(ended["status"]), "after the last batch, with status 0"),),
    )


def _how(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _deepest(error: dict[str, Any], words: str) -> str:
    """The message in an exception's chain that says most: the innermost with these words in it."""
    fitting: list[str] = [link["message"] for link in error["chain"] if words in link["message"]]
    return (fitting or [error["chain"][0]["message"]])[-1].strip()
