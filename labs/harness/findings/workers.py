"""Findings about the workers: which there were, their threads and memory, how long they kept the loop waiting, and
whether one can believe the record.
"""

from collections import defaultdict
from itertools import product

from labs.harness.findings.finding import Evidence, Finding, some
from labs.harness.history import SUBJECT, History
from labs.harness.limits import megabytes

# Of a worker: the threads that feed its results into the queue and hand out its files; its main thread is one of a
# pool. The main process has a few more (torch's and OpenCV's pools, helpers of multiprocessing), so only a crowd there
# is worth a word.
OWN_THREADS = 2


def oversubscribed(history: History) -> Finding | None:
    """A worker, or the main process, with far more threads than there are CPUs for them."""
    cpus = history.container.get("cpus", 0)
    workers = {pid for event in history.all("workers") for pid in event["pids"]}
    in_worker = max((batch["threads"] or 0 for batch in history.all("batch")), default=0) - OWN_THREADS
    others = [
        facts["threads"]
        for sample in history.all("sample")
        for pid, facts in sample["processes"].items()
        if int(pid) not in workers
    ]
    in_main = max(others, default=0) - len(workers)  # it has one for each worker, to send it what it has to do
    if not cpus or (in_worker <= 2 * cpus and in_main <= 8 * cpus):
        return None
    who, most = ("a worker", in_worker) if in_worker > 2 * cpus else ("the main process", in_main)
    evidence = [Evidence(f"threads of {who}, beside its own", str(most), f"about {cpus}, the CPUs here")]
    switches, rate = beside_the_fix(history)
    if switches and rate:
        evidence.append(
            Evidence("involuntary context switches, by the fix's", f"{switches:.0f} times as many", "as many")
        )
        evidence.append(Evidence("samples a second, by the fix's", f"{rate:.2f} times as many", "as many"))
    return Finding(
        "oversubscribed", f"{who.capitalize()} has far more threads than the container has CPUs.", tuple(evidence)
    )


def other_workers(history: History) -> Finding | None:
    """Not the workers that the job asks for: too few, or some that did nothing, or another start method."""
    wanted, method = history.job["workers"], history.job["start_method"]
    if not wanted:
        return None
    for epoch in history.finished_epochs():
        busy = {sample.worker for sample in history.by_epoch.get(epoch, [])}
        if not busy:
            continue  # nothing came at all: that is another finding
        started = _started(history)
        if len(busy - {None}) != wanted or None in busy or started != {wanted}:
            by_main = " and the main process" if None in busy else ""
            return Finding(
                "other-workers",
                f"Workers that did the work: {len(busy - {None})}{by_main}. The job has {wanted}.",
                (
                    Evidence("workers started", some(sorted(started)) or "0", str(wanted)),
                    Evidence("workers that delivered samples", str(len(busy - {None})), str(wanted)),
                ),
            )
    methods = {event["start_method"] for event in history.all("workers")}
    if method and methods - {method}:
        return Finding(
            "other-workers",
            f"The workers were started with {some(sorted(map(str, methods)))}; the job says {method}.",
            (Evidence("start method of the workers", some(sorted(map(str, methods))), method),),
        )
    return None


def _started(history: History) -> set[int]:
    """How many workers all ranks together started for an epoch; more than one number where that differed."""
    by_rank: dict[int, set[int]] = defaultdict(set)
    for event in history.all("workers"):
        by_rank[event.get("rank", 0)].add(len(event["pids"]))
    return {sum(counts) for counts in product(*by_rank.values())} - {0}


def memory_grew(history: History) -> Finding | None:
    """Workers that came to hold more than the job allows. A forked worker holds next to nothing of its own at first."""
    allowed = history.job.get("worker_memory")
    held = [bytes or 0 for end in history.all("epoch_end") for bytes in end.get("own_memory", ())]
    if not allowed or max(held, default=0) <= allowed:
        return None
    workers = len(history.worker_pids())
    return Finding(
        "memory-grew",
        "Each worker came to hold memory of its own that it could share with the others.",
        (
            Evidence("memory of a worker's own, at the end", megabytes(max(held)), f"under {megabytes(allowed)}"),
            Evidence(f"of all {workers} workers together", megabytes(sum(held[-workers:])), "next to nothing"),
        ),
    )


def starved(history: History) -> Finding | None:
    """The loop waits for data most of the time, or is done far later than the fix that ran beside it."""
    share, fixed_share = waiting_share(history), waiting_share(history, "fix")
    _, rate = beside_the_fix(history)
    allowed = history.job.get("most_waiting")  # a loop that only reads is always waiting: then this is no failure
    if not allowed or share is None or (share <= allowed and (rate is None or rate >= 0.5)):
        return None
    expected = f"under {allowed:.0%}" + (f"; {fixed_share:.0%} in the fix" if fixed_share is not None else "")
    evidence = [Evidence("share of the loop spent waiting for data", f"{share:.0%}", expected)]
    if rate is not None:
        evidence.append(Evidence("samples a second, by the fix's", f"{rate:.2f} times as many", "as many"))
    return Finding("starved", "The loop waits for data where it could be working.", tuple(evidence))


def waiting_share(history: History, part: str = SUBJECT) -> float | None:
    """How much of its time the loop waited for data, from the first batch to the last."""
    batches = [batch for batch in history.all("batch", part) if "waited" in batch]
    seconds = batches[-1]["t"] - batches[0]["t"] if batches else 0.0
    return sum(batch["waited"] for batch in batches[1:]) / seconds if seconds > 0 else None


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
