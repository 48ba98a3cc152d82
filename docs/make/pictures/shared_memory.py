"""How full /dev/shm was, second by second, in the failure and in the fix."""

from collections.abc import Iterator

from docs.make.pictures import svg
from labs.harness.findings import find, megabytes
from labs.harness.history import Event, History

CHART, PANEL = 96, 168
POINTS = 300


def tells(failure: History) -> bool:
    total = failure.container["shm_total"]
    half_full = any(event["shm_used"] > 0.5 * total for event in failure.shared_memory())
    return half_full or any("shared memory" in finding.message for finding in find(failure))


def draw(failure: History, fix: History) -> str:
    span = max(seconds(failure), seconds(fix))
    total = megabytes(failure.container["shm_total"])
    says = (
        f"How full /dev/shm of {total} was over time. The broken program: {peak(failure)} at the most; "
        f"{ending(failure)} The solution: {peak(fix)} at the most; every batch arrives."
    )
    body = [*panel("broken", failure, span, 0), *panel("fixed", fix, span, PANEL)]
    return svg.picture(2 * PANEL + 8, says, body)


def panel(name: str, history: History, span: float, top: float) -> Iterator[str]:
    looks, total = history.shared_memory(), history.container["shm_total"]
    start, ceiling = looks[0]["t"], top + 30
    floor = ceiling + CHART

    def x(event: Event) -> float:
        return svg.LEFT + svg.PLOT * min(1.0, float(event["t"] - start) / span)

    def y(used: int) -> float:
        return floor - CHART * float(used / total)

    yield svg.text(4, top + 14, name, "title")
    yield svg.text(svg.WIDTH - svg.RIGHT, top + 14, f"at its fullest {peak(history)}", "right")
    yield svg.line(svg.LEFT, ceiling, svg.WIDTH - svg.RIGHT, ceiling, "limit")
    yield svg.text(svg.LEFT - 6, ceiling + 4, megabytes(total), "right small")
    yield svg.text(svg.LEFT - 6, floor, "0", "right small")
    path = f"M{x(looks[0]):.1f} {floor:.1f}"
    for look in thinned(looks):
        path += f"H{x(look):.1f}V{y(look['shm_used']):.1f}"
    last = looks[-1]
    yield f'<path class="area" d="{path}H{x(last):.1f}V{floor:.1f}z"/>'
    yield svg.line(svg.LEFT, floor, svg.WIDTH - svg.RIGHT, floor)
    batches = list(history.all("batch"))
    yield svg.boxes(((x(batch) - 1, floor + 4) for batch in batches), 2, 8, "good")
    yield svg.text(svg.LEFT - 6, floor + 14, "batches" if batches else "no batch", "right small")
    for kind in ("error", "stall", "overtime"):
        for event in history.all(kind):
            yield svg.line(x(event), ceiling - 8, x(event), floor + 8, "line-bad")
    yield svg.text(svg.LEFT, floor + 31, ending(history), "small")
    yield svg.text(svg.WIDTH - svg.RIGHT, floor + 31, f"{span:.1f} s", "right small")


def thinned(looks: list[Event]) -> list[Event]:
    """What the eye can tell apart: the fullest look of each slice of time."""
    start, span = looks[0]["t"], (looks[-1]["t"] - looks[0]["t"]) or 1
    slices: dict[int, Event] = {}
    for look in looks:
        place = int(POINTS * (look["t"] - start) / span)
        if place not in slices or look["shm_used"] >= slices[place]["shm_used"]:
            slices[place] = look
    return list(slices.values())


def seconds(history: History) -> float:
    looks = history.shared_memory()
    return float(looks[-1]["t"] - looks[0]["t"]) or 0.1


def peak(history: History) -> str:
    return megabytes(max(look["shm_used"] for look in history.shared_memory()))


def ending(history: History) -> str:
    findings = find(history)
    return findings[0].statement if findings else "Every batch arrives."
