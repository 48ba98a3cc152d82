"""The threads of each worker against the CPUs there are, one square for each."""

from collections.abc import Iterator

from docs.make.pictures import svg
from labs.harness.findings import find
from labs.harness.history import History

SIDE, A_ROW = 12, 36
STEP = svg.PLOT / A_ROW


def tells(failure: History) -> bool:
    return any(finding.id == "oversubscribed" for finding in find(failure))


def draw(failure: History, fix: History) -> str:
    cpus = failure.container["cpus"]
    says = (
        f"Threads against {cpus} CPUs, one square for each. Broken: {words(failure)} threads in the workers. "
        f"Fixed: {words(fix)}."
    )
    body: list[str] = []
    bottom = 0.0
    for name, history in (("broken", failure), ("fixed", fix)):
        lines, bottom = panel(name, history, bottom)
        body += lines
    return svg.picture(bottom, says, body)


def most_threads(history: History) -> list[int]:
    """Of each worker, at any moment at which somebody looked or a batch came."""
    pids = history.worker_pids()
    most = [0] * len(pids)
    for sample in history.all("sample"):
        for number, pid in enumerate(pids):
            most[number] = max(most[number], sample["processes"].get(str(pid), {}).get("threads", 0))
    for batch in history.all("batch"):
        for worker in set(batch["workers"]) - {None}:
            most[worker] = max(most[worker], batch["threads"] or 0)
    return most


def words(history: History) -> str:
    return " and ".join(map(str, most_threads(history)))


def panel(name: str, history: History, top: float) -> tuple[list[str], float]:
    style = "bad" if find(history) else "good"
    rows = [("CPUs", history.container["cpus"], "plain")]
    rows += [(f"worker {number}", count, style) for number, count in enumerate(most_threads(history))]
    body = [svg.text(4, top + 14, name, "title")]
    y = top + 26
    for label, count, kind in rows:
        body.append(svg.text(svg.LEFT - 6, y + 11, label, "right small"))
        body.append(svg.boxes(squares(count, y), SIDE - 3, SIDE - 3, kind))
        y += SIDE * ((count - 1) // A_ROW + 1)
        body.append(svg.text(svg.LEFT, y + 12, counted(label, count), "small"))
        y += 24
    return body, y


def squares(count: int, y: float) -> Iterator[tuple[float, float]]:
    return ((svg.LEFT + STEP * (n % A_ROW), y + SIDE * (n // A_ROW)) for n in range(count))


def counted(label: str, count: int) -> str:
    return f"{count} CPUs" if label == "CPUs" else f"{count} threads"
