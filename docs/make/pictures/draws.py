"""What each worker drew, by the number of the content: the same number is the same random content."""

from collections.abc import Iterator

from docs.make.pictures import svg
from labs.harness.findings import find
from labs.harness.history import History

SHOWN, ROW = 8, 24
ABOUT = {"same-draws", "epochs-repeat"}


def tells(failure: History) -> bool:
    return any(finding.id in ABOUT for finding in find(failure))


def draw(failure: History, fix: History) -> str:
    workers = sorted({sample.worker or 0 for sample in failure.samples()})
    height = 46 + 2 * (ROW * len(workers) + 26)
    says = (
        f"The first {SHOWN} contents that each worker drew, numbered in the order in which they first appear. "
        f"Broken: {distinct(failure)} different ones among {shown(failure)}. Fixed: {distinct(fix)} among {shown(fix)}."
    )
    body = [*panel("broken", failure, workers, 0), *panel("fixed", fix, workers, height)]
    return svg.picture(2 * height, says, body)


def numbers(history: History) -> dict[tuple[int, int], list[int]]:
    """For each epoch and worker, its first contents by number."""
    seen: dict[tuple[str, ...], int] = {}
    drawn: dict[tuple[int, int], list[int]] = {}
    for epoch, samples in sorted(history.by_epoch.items()):
        for worker in sorted({sample.worker or 0 for sample in samples}):
            first = [sample.digests for sample in samples if (sample.worker or 0) == worker][:SHOWN]
            drawn[epoch, worker] = [seen.setdefault(content, len(seen) + 1) for content in first]
    return drawn


def distinct(history: History) -> int:
    return len({number for row in numbers(history).values() for number in row})


def shown(history: History) -> int:
    return sum(len(row) for row in numbers(history).values())


def panel(name: str, history: History, workers: list[int], top: float) -> Iterator[str]:
    drawn, step = numbers(history), svg.PLOT / SHOWN
    yield svg.text(4, top + 14, name, "title")
    yield svg.text(
        svg.WIDTH - svg.RIGHT, top + 14, f"{distinct(history)} different contents of {shown(history)}", "right"
    )
    y = top + 22
    first_seen: set[int] = set()
    for epoch in sorted(history.by_epoch)[:2]:
        yield svg.text(svg.LEFT, y + 14, f"epoch {epoch}", "small")
        y += 20
        for worker in workers:
            yield svg.text(svg.LEFT - 6, y + 15, f"worker {worker}", "right small")
            for place, number in enumerate(drawn.get((epoch, worker), [])):
                x = svg.LEFT + step * place
                again = number in first_seen
                first_seen.add(number)
                yield svg.boxes([(x, y)], round(step - 4, 1), ROW - 4, "again" if again else "new")
                yield svg.text(x + step / 2 - 2, y + 15, str(number), "middle small")
            y += ROW
        y += 6
