"""Findings about the workers: which there were, how many threads they had, and whether one can believe the record."""

from collections import defaultdict

from labs.harness.findings.finding import Evidence, Finding, some
from labs.harness.history import History

OWN_THREADS = 2  # of a worker: its main thread, and the one that feeds its results into the queue


def oversubscribed(history: History) -> Finding | None:
    cpus = history.container.get("cpus", 0)
    threads: dict[int, int] = defaultdict(int)
    for batch in history.all("batch"):
        if batch["threads"] is not None:
            threads[batch["worker"]] = max(threads[batch["worker"]], batch["threads"] - OWN_THREADS)
    most = max(threads.values(), default=0)
    if not cpus or most <= 2 * cpus:
        return None
    evidence = [Evidence("threads of a worker, beside its own two", str(most), f"about {cpus}, the CPUs here")]
    switches, rate = beside_the_fix(history)
    if switches and rate:
        evidence.append(
            Evidence("involuntary context switches, to the fix", f"{switches:.0f} times as many", "as many")
        )
        evidence.append(Evidence("samples a second, to the fix", f"{rate:.2f} times as many", "as many"))
    return Finding("oversubscribed", "Each worker has far more threads than the container has CPUs.", tuple(evidence))


def other_workers(history: History) -> Finding | None:
    """Not the workers that the job asks for: too few, or some that did nothing, or another start method."""
    wanted, method = history.job["workers"], history.job["start_method"]
    if not wanted:
        return None
    for epoch in history.finished_epochs():
        busy = {sample.worker for sample in history.by_epoch.get(epoch, [])}
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
    if methods - {method}:
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
