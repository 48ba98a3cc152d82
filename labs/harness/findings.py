"""What can be said about a run: each finding is a pure function of its history, with its evidence.

A finding is a general statement about any loader. None of them knows which lab it looks at: what a run should have
delivered stands in its history (`job`), and the rest is what was seen. A healthy run has no findings at all.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from labs.harness.history import History, Sample

PICKLING_ERRORS = {"PicklingError", "AttributeError", "TypeError"}
OWN_THREADS = 2  # of a worker: its main thread, and the one that feeds its results into the queue
SAME_CONTENT = 4  # steps of 255 by which a pixel may differ: decoders and conversions round differently
SIGBUS = 7


@dataclass(frozen=True)
class Evidence:
    what: str
    observed: str
    expected: str


@dataclass(frozen=True)
class Finding:
    id: str
    statement: str
    evidence: tuple[Evidence, ...] = ()
    message: str = ""  # torch's or Python's own words

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def megabytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MB"


def some(items: Iterable[Any], most: int = 5) -> str:
    """The first few of many, for a sentence."""
    listed = list(items)
    return ", ".join(map(str, listed[:most])) + (f" and {len(listed) - most} more" if len(listed) > most else "")


# How a run can end -----------------------------------------------------------------------------------------------


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


# What was delivered ------------------------------------------------------------------------------------------------


def duplicated(history: History) -> Finding | None:
    worst: Counter[int] = Counter()
    for samples in history.by_epoch.values():
        worst = max(worst, Counter(sample.id for sample in samples), key=lambda copies: max(copies.values(), default=0))
    repeated = {id: copies for id, copies in worst.items() if copies > 1}
    if not repeated:
        return None
    copies, _ = Counter(repeated.values()).most_common(1)[0]
    every = "Every sample" if len(repeated) == len(worst) else f"{len(repeated)} of {len(worst)} samples"
    return Finding(
        "duplicated",
        f"{every} came {copies} times in one epoch.",
        (
            Evidence("deliveries in one epoch", str(sum(worst.values())), str(len(worst))),
            Evidence("deliveries of each sample", some(f"{n} times" for n in sorted(set(worst.values()))), "1"),
        ),
    )


def lost(history: History) -> Finding | None:
    expected = set(history.job["ids"])
    for epoch in history.finished_epochs():
        missing = sorted(expected - {sample.id for sample in history.by_epoch.get(epoch, [])})
        if missing:
            return Finding(
                "lost",
                f"{len(missing)} of {len(expected)} samples never came in epoch {epoch}, and nothing was raised.",
                (
                    Evidence("samples in the epoch", str(len(expected) - len(missing)), str(len(expected))),
                    Evidence("missing", some(missing), "none"),
                ),
            )
    return None


def wrong_content(history: History) -> Finding | None:
    """A sample that does not belong to the job, or whose content is not what the job says (where it is not random)."""
    known = set(history.job["ids"])
    signatures = {int(id): tuple(fields) for id, fields in history.job.get("signatures", {}).items()}
    wrong = {
        sample.id
        for sample in history.samples()
        if sample.id not in known or (sample.id in signatures and not _alike(sample.signatures, signatures[sample.id]))
    }
    if not wrong:
        return None
    return Finding(
        "wrong-content",
        f"{len(wrong)} samples have a content that is not theirs.",
        (Evidence("samples with other content", some(sorted(wrong)), "none"),),
    )


def same_draws(history: History) -> Finding | None:
    """Two workers delivered one sequence of contents, under different ids: they drew the same random numbers."""
    for samples in history.by_epoch.values():
        for field in range(_fields(samples)):
            by_worker: dict[int | None, list[tuple[int, str]]] = defaultdict(list)
            for sample in samples:
                by_worker[sample.worker].append((sample.id, sample.digests[field]))
            pairs = list(combinations(sorted(by_worker.items(), key=str), 2))
            same = [(a, b) for (a, left), (b, right) in pairs if _same_sequence(left, right)]
            if same:
                contents = [digest for sequence in by_worker.values() for _, digest in sequence]
                return Finding(
                    "same-draws",
                    "Different workers drew the same random numbers.",
                    (
                        Evidence("pairs of workers with equal sequences", f"{len(same)} of {len(pairs)}", "0"),
                        Evidence("distinct contents in an epoch", f"{len(set(contents))} of {len(contents)}", "all"),
                    ),
                )
    return None


def epochs_repeat(history: History) -> Finding | None:
    if history.job.get("content") != "random" or len(history.by_epoch) < 2:
        return None
    first, second = (
        {sample.id: sample.digests for sample in history.by_epoch[epoch]} for epoch in sorted(history.by_epoch)[:2]
    )
    common = first.keys() & second.keys()
    repeats = max(
        (sum(first[id][field] == second[id][field] for id in common) for field in range(_fields(history.by_epoch[0]))),
        default=0,
    )
    if repeats <= 0.05 * len(common):
        return None
    return Finding(
        "epochs-repeat",
        "The second epoch repeats the random numbers of the first.",
        (Evidence("samples that are the same in both epochs", f"{repeats} of {len(common)}", "0"),),
    )


def not_repeatable(history: History) -> Finding | None:
    """The same program with the same torch.manual_seed, in a new process, delivered something else."""
    once = {(sample.epoch, sample.id): sample.digests for sample in history.samples()}
    again = {(sample.epoch, sample.id): sample.digests for sample in history.samples("again")}
    common = once.keys() & again.keys()
    different = sum(once[key] != again[key] for key in common)
    if not different:
        return None
    return Finding(
        "not-repeatable",
        "The same torch.manual_seed gave other samples when the program was run again.",
        (Evidence("samples that differ between the two runs", f"{different} of {len(common)}", "0"),),
    )


# Who did it --------------------------------------------------------------------------------------------------------


def oversubscribed(history: History) -> Finding | None:
    cpus = history.container.get("cpus", 0)
    threads: dict[int, int] = defaultdict(int)
    for batch in history.all("batch"):
        if batch["threads"] is not None:
            threads[batch["worker"]] = max(threads[batch["worker"]], batch["threads"] - OWN_THREADS)
    most = max(threads.values(), default=0)
    if not cpus or most <= cpus:
        return None
    evidence = [Evidence("threads of a worker, beside its own two", str(most), f"at most {cpus}, the CPUs here")]
    switches, rate = beside_the_fix(history)
    if switches and rate:
        evidence.append(
            Evidence("involuntary context switches, to the fix", f"{switches:.0f} times as many", "as many")
        )
        evidence.append(Evidence("samples a second, to the fix", f"{rate:.2f} times as many", "as many"))
    return Finding(
        "oversubscribed", "Each worker has more threads at work than the container has CPUs.", tuple(evidence)
    )


def other_workers(history: History) -> Finding | None:
    """Not the workers that the job asks for: too few, or some that did nothing, or another start method."""
    wanted, method = history.job["workers"], history.job["start_method"]
    finished = history.finished_epochs()
    if not finished or not wanted:
        return None
    busy = {sample.worker for sample in history.by_epoch.get(finished[0], [])}
    delivering = len(busy - {None})
    if delivering < wanted or None in busy:
        started = len((history.first("workers") or {"pids": []})["pids"])
        return Finding(
            "other-workers",
            f"The work was done by {delivering} workers; the job has {wanted}.",
            (
                Evidence("workers started", str(started), str(wanted)),
                Evidence("workers that delivered samples", str(delivering), str(wanted)),
            ),
        )
    methods = {event["start_method"] for event in history.all("workers")}
    if methods != {method}:
        return Finding(
            "other-workers",
            f"The workers were started with {some(sorted(map(str, methods)))}; the job says {method}.",
            (Evidence("start method of the workers", some(sorted(map(str, methods))), method),),
        )
    return None


def tampered(history: History) -> Finding | None:
    """Something wrote into the record, or replaced what delivers the batches. What the record says proves nothing."""
    foreign = len(list(history.all("foreign")))
    replaced = [name for done in history.all("done") for name in done["replaced"]]
    if not foreign and not replaced:
        return None
    return Finding(
        "tampered",
        "The program interfered with how it is watched.",
        (
            Evidence("lines in the record that are not the conductor's", str(foreign), "0"),
            Evidence("parts of torch's loader replaced", some(replaced) or "none", "none"),
        ),
    )


FINDINGS: dict[str, Callable[[History], Finding | None]] = {
    "not-a-program": not_a_program,
    "tampered": tampered,
    "bus-error": bus_error,
    "unpicklable": unpicklable,
    "worker-died": worker_died,
    "raised": raised,
    "stalled": stalled,
    "overtime": overtime,
    "unfinished": unfinished,
    "duplicated": duplicated,
    "lost": lost,
    "wrong-content": wrong_content,
    "same-draws": same_draws,
    "epochs-repeat": epochs_repeat,
    "not-repeatable": not_repeatable,
    "oversubscribed": oversubscribed,
    "other-workers": other_workers,
}


def find(history: History) -> list[Finding]:
    return [finding for check in FINDINGS.values() if (finding := check(history)) is not None]


def beside_the_fix(history: History) -> tuple[float | None, float | None]:
    """Involuntary context switches and samples a second as ratios to the fix, which ran in the same container."""

    def measure(part: str) -> tuple[float, float]:
        switches = sum(event["worker_involuntary_switches"] for event in history.all("epoch_end", part))
        batches = list(history.all("batch", part))
        if len(batches) < 2:
            return switches, 0.0
        seconds = batches[-1]["t"] - batches[0]["t"]
        return switches, sum(len(batch["ids"]) for batch in batches[1:]) / seconds if seconds else 0.0

    (switches, rate), (fixed_switches, fixed_rate) = measure("subject"), measure("fix")
    return (switches / fixed_switches if fixed_switches else None, rate / fixed_rate if fixed_rate else None)


def _how(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _deepest(error: dict[str, Any], words: str) -> str:
    """The message in an exception's chain that says most: the innermost with these words in it."""
    fitting: list[str] = [link["message"] for link in error["chain"] if words in link["message"]]
    return (fitting or [error["chain"][0]["message"]])[-1].strip()


def _fields(samples: list[Sample]) -> int:
    return min((len(sample.digests) for sample in samples), default=0)


def _same_sequence(left: list[tuple[int, str]], right: list[tuple[int, str]]) -> bool:
    """Most places hold the same content under different ids, and it is not one content over and over."""
    length = min(len(left), len(right))
    equal = [a[1] for a, b in zip(left, right, strict=False) if a[1] == b[1] and a[0] != b[0]]
    return length > 1 and len(equal) >= length / 2 and len(set(equal)) > len(equal) / 2


def _alike(observed: tuple[str, ...], expected: tuple[str, ...]) -> bool:
    if len(observed) != len(expected):
        return False
    for one, other in zip(observed, expected, strict=True):
        (shape, _, values), (other_shape, _, other_values) = one.partition(":"), other.partition(":")
        pairs = zip(bytes.fromhex(values), bytes.fromhex(other_values), strict=False)
        if shape != other_shape or any(abs(a - b) > SAME_CONTENT for a, b in pairs):
            return False
    return True
