"""What each worker held of its own at the end, in the failure and in the fix, one bar for each."""

from collections.abc import Iterator

from docs.make.pictures import svg
from labs.harness.findings import find, megabytes
from labs.harness.history import History

ROW, BAR = 24, 14


def tells(failure: History) -> bool:
    return any(finding.id == "memory-grew" for finding in find(failure))


def draw(failure: History, fix: History) -> str:
    allowed = failure.job["worker_memory"]
    most = 1.15 * max(*held(failure), *held(fix), allowed)
    says = (
        f"Memory of each worker's own at the end; the job allows {megabytes(allowed)}. "
        f"Broken: {words(failure)}. Fixed: {words(fix)}."
    )
    height = 58 + ROW * len(held(failure))
    body = [*panel("broken", failure, most, 0), *panel("fixed", fix, most, height)]
    return svg.picture(2 * height, says, body)


def held(history: History) -> list[int]:
    """In the last epoch, by worker."""
    return [size or 0 for size in list(history.all("epoch_end"))[-1]["own_memory"]]


def words(history: History) -> str:
    return ", ".join(map(megabytes, held(history)))


def panel(name: str, history: History, most: float, top: float) -> Iterator[str]:
    allowed, sizes = history.job["worker_memory"], held(history)
    limit = svg.LEFT + svg.PLOT * allowed / most
    bottom = top + 26 + ROW * len(sizes)
    yield svg.text(4, top + 14, name, "title")
    yield svg.text(svg.WIDTH - svg.RIGHT, top + 14, f"{megabytes(sum(sizes))} in all workers", "right")
    for number, size in enumerate(sizes):
        y, width = top + 28 + ROW * number, svg.PLOT * size / most
        yield svg.text(svg.LEFT - 6, y + 11, f"worker {number}", "right small")
        yield svg.boxes([(svg.LEFT, y)], round(width, 1), BAR, "bad" if size > allowed else "good")
        # Beside its bar, but never across the dashed line.
        beside = svg.LEFT + width if size > allowed or width + 64 < limit - svg.LEFT else limit
        yield svg.text(beside + 6, y + 11, megabytes(size), "small")
    yield svg.line(limit, top + 22, limit, bottom, "limit")
    yield svg.text(limit, bottom + 14, f"{megabytes(allowed)} allowed", "middle small")
