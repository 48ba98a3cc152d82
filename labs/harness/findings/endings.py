"""Findings about how a run ended: dead, hung, or stopped by an exception."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from labs.harness.findings.finding import Evidence, Finding, some
from labs.harness.history import History
from labs.harness.limits import megabytes

PICKLING_ERRORS = {"PicklingError", "AttributeError", "TypeError"}
SIGBUS, SIGKILL = 7, 9


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


def shm_full(history: History) -> Finding | None:
    error = history.first("error")
    message = _deepest(error, "unable to allocate shared memory") if error else ""
    if not error or "unable to allocate shared memory" not in message:
        return None
    return Finding(
        "shm-full",
        "A batch did not fit into what was left of /dev/shm.",
        (
            Evidence(
                "free in /dev/shm", megabytes(error["shm_total"] - error["shm_used"]), "more than one batch needs"
            ),
            Evidence("batches before the exception", str(len(list(history.all("batch")))), "all"),
        ),
        message.splitlines()[-1],
    )


def no_files(history: History) -> Finding | None:
    error = history.first("error")
    message = _deepest(error, "Too many open files") if error else ""
    if not error or "Too many open files" not in message:
        return None
    counts = [batch.get("open_files", 0) for batch in history.all("batch")]
    limit = history.container["open_files"]
    return Finding(
        "no-files",
        "A process came to the end of the files it may have open.",
        (
            Evidence("open files of the main process, before it", str(max(counts, default=0)), f"under {limit}"),
            Evidence("batches before the exception", str(len(list(history.all("batch")))), "all"),
        ),
        message.splitlines()[-1],
    )


def oom(history: History) -> Finding | None:
    """The kernel killed somebody because the container, all its processes together, came to its memory limit."""
    error, ended = history.first("error"), history.first("exit")
    memory = (ended or {}).get("memory")
    dead = [exit["worker"] for exit in error["exits"] if exit["exitcode"] == -SIGKILL] if error else []
    main = not error and ended is not None and ended["status"] == -SIGKILL
    if not memory or not memory["kills"] or not (dead or main):
        return None
    pids = {str(pid) for pid in history.worker_pids()}
    in_main = max(
        (
            facts["rss"]
            for event in history.all("sample")
            for pid, facts in event["processes"].items()
            if pid not in pids
        ),
        default=0,
    )
    return Finding(
        "oom",
        f"{'The main process' if main else 'A worker'} was killed because the container was out of memory.",
        (
            Evidence("kills for memory in this container", str(memory["kills"]), "0"),
            Evidence("its memory, at its highest", megabytes(memory["peak"]), f"under {megabytes(memory['limit'])}"),
            Evidence("the main process alone, at its highest", megabytes(in_main), "not what the limit counts"),
        ),
        _deepest(error, "killed by signal") if error else "",
    )


def ranks_apart(history: History) -> Finding | None:
    """Ranks that train together must take as many steps: the one that has a batch more waits for the others."""
    if history.job.get("ranks", 1) < 2 or not (history.first("error") or history.first("stall")):
        return None
    steps = Counter(batch.get("rank", 0) for batch in history.all("batch"))
    ended = {event.get("rank", 0) for event in history.all("epoch_end")}
    if not ended or len(ended) == history.job["ranks"]:
        return None
    counts = ", ".join(
        f"rank {rank}: {steps[rank]}, {'and done' if rank in ended else 'and one under way'}"
        for rank in range(history.job["ranks"])
    )
    return Finding(
        "ranks-apart",
        "A rank was done with its epoch while another still had batches, and waited for it in vain.",
        (Evidence("batches before it broke", counts, "all done after the same number"),),
    )


def worker_died(history: History) -> Finding | None:
    error = history.first("error")
    dead = [exit for exit in error["exits"] if exit["exitcode"] not in (None, 0)] if error else []
    if not error or not dead or bus_error(history) or oom(history):
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
    if not error or any(check(history) for check in (bus_error, oom, shm_full, no_files, worker_died, unpicklable)):
        return None
    first = error["chain"][0]
    program = Path(history.run.get("program", "")).name
    # What a worker raised comes with its traceback in the message.
    told = first["message"] + error.get("traceback", "")
    places = re.findall(rf'{re.escape(program)}", line (\d+), in (\S+)', told)
    where = [Evidence("exception at", f"{program}:{places[-1][0]}, in {places[-1][1]}", "none")] if places else []
    return Finding(
        "raised",
        f"The program stopped with {first['type']}.",
        (*where, Evidence("batches before it", str(len(list(history.all("batch")))), "all")),
        f"{first['type']}: {first['message']}".strip().splitlines()[-1] if first["message"] else first["type"],
    )


def goes_on(history: History) -> Finding | None:
    """Run once more with what it has to refuse, the program did not raise, or stumbled as the broken one does."""
    part = "hopeless"
    error = history.first("error", part)
    # None, which OpenCV gives for what it cannot read, has no attributes: nobody decided to stop. Where the first run
    # has raised, that is said already.
    stumbled = error is not None and error["chain"][0]["type"] == "AttributeError" and not history.first("error")
    if not history.first("exit", part) or (error and not stumbled):
        return None
    constants = ", ".join(f"{name} = {value}" for name, value in history.job.get("must_stop_with", {}).items())
    untried = history.first("not_a_program", part)
    if untried:
        return Finding("goes-on", f"It could not be tried with {constants}: {untried['message']}.")
    if stumbled:
        return Finding(
            "goes-on",
            f"With {constants} the program stops with an AttributeError: it does not look at what it reads.",
            (Evidence(f"with {constants}", "AttributeError", "an exception of its own"),),
        )
    samples = sum(len(batch["ids"]) for batch in history.all("batch", part))
    return Finding(
        "goes-on",
        f"With {constants} the program should stop with an exception, and goes on.",
        (Evidence(f"with {constants}", f"{samples} samples", "an exception"),),
    )


def stalled(history: History) -> Finding | None:
    event = history.first("stall")
    if not event:
        return None
    said = [line for line in history.output("stderr") if re.match(r"\S*(Error|Exception)\b", line)]
    return Finding(
        "stalled",
        "The program hangs: no batch came, and every process slept.",
        (
            Evidence("seconds without a batch or any CPU time", f"{event['seconds']:.1f}", "0"),
            *(Evidence(f"where {who} stands", where, "at work") for who, where in standing(history)),
        ),
        said[-1] if said else "",
    )


def standing(history: History) -> list[tuple[str, str]]:
    """For a hang: where the main process and each worker stand: in the program, or else in torch, or at all."""
    event = history.first("stall") or history.first("overtime") or {"stacks": []}
    pids = history.worker_pids()
    program = Path(history.run.get("program", "")).name
    places = []
    for process in event["stacks"]:
        main_thread = process["stack"].split("\n\n")[-1]
        frames = re.findall(r'File "(.+)", line (\d+) in (\S+)', main_thread)
        own = [frame for frame in frames if Path(frame[0]).name == program]
        torch = [frame for frame in frames if "/site-packages/" in frame[0]]
        if frames and (process["pid"] in pids or "run_epochs" in main_thread or own):
            file, line, function = (own or torch or frames)[0]
            who = f"worker {pids.index(process['pid'])}" if process["pid"] in pids else "the main process"
            places.append((who, f"{function} ({Path(file).name}:{line})"))
    return places


def overtime(history: History) -> Finding | None:
    event = history.first("overtime")
    if not event:
        return None
    seconds = f"{event['seconds']:g} s"
    where = (Evidence(f"where {who} stands", place, "done") for who, place in standing(history))
    return Finding(
        "overtime", "The program was not done within its time.", (Evidence("time", f"over {seconds}", seconds), *where)
    )


def unfinished(history: History) -> Finding | None:
    """It ended on its own, before the job was done and without a word: os._exit, a crash of the main process."""
    ended = history.first("exit")
    explained = any(history.first(kind) for kind in ("error", "stall", "overtime", "not_a_program"))
    if not ended or explained or oom(history) or (history.first("done") and ended["status"] == 0):
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
