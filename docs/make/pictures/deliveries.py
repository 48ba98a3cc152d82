"""Who delivered which sample, in one epoch of the failure and of the fix."""

from collections.abc import Iterator

from docs.make.pictures import svg
from labs.harness.findings import find
from labs.harness.history import History

ROW = 20
ABOUT = {"duplicated", "lost", "thrown-away"}


def tells(failure: History) -> bool:
    return bool(failure.by_epoch) and any(finding.id in ABOUT for finding in find(failure))


def draw(failure: History, fix: History) -> str:
    workers = len(failure.worker_pids()) or 1
    height = 74 + ROW * workers
    says = f"Which worker delivered which sample in the first epoch. Broken: {summary(failure)} Fixed: {summary(fix)}"
    body = [*panel("broken", failure, workers, 0), *panel("fixed", fix, workers, height)]
    return svg.picture(2 * height, says, body)


def panel(name: str, history: History, workers: int, top: float) -> Iterator[str]:
    ids = history.job["ids"]
    samples = history.by_epoch.get(0, [])
    step = svg.PLOT / len(ids)
    bottom = top + 28 + ROW * workers
    style = "bad" if find(history) else "good"
    yield svg.text(4, top + 14, name, "title")
    yield svg.text(svg.WIDTH - svg.RIGHT, top + 14, summary(history), "right small")
    for worker in range(workers):
        y = top + 28 + ROW * worker
        yield svg.text(svg.LEFT - 6, y + 12, called(worker, workers, history), "right small")
        own = {sample.id for sample in samples if sample.worker == worker and 0 <= sample.id < len(ids)}
        yield svg.boxes(((svg.LEFT + step * id, y) for id in sorted(own)), round(max(step - 0.6, 0.8), 2), 14, style)
    yield svg.line(svg.LEFT, bottom, svg.WIDTH - svg.RIGHT, bottom)
    yield svg.text(svg.LEFT, bottom + 16, "sample 0", "small")
    yield svg.text(svg.WIDTH - svg.RIGHT, bottom + 16, f"sample {len(ids) - 1}", "right small")


def called(worker: int, workers: int, history: History) -> str:
    """Workers are numbered through over all ranks."""
    of_a_rank = workers // history.job.get("ranks", 1)
    return f"worker {worker}" if of_a_rank == workers else f"rank {worker // of_a_rank}, w {worker % of_a_rank}"


def summary(history: History) -> str:
    samples, known = history.by_epoch.get(0, []), set(history.job["ids"])
    distinct = {sample.id for sample in samples} & known
    strange = sum(sample.id not in known for sample in samples)
    words = f"{len(samples)} deliveries, {len(distinct)} of {len(known)} samples"
    return f"{words}, {strange} that do not exist." if strange else f"{words}."
