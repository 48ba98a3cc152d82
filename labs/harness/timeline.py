"""A picture of one run (SVG): how full /dev/shm was, when each worker delivered, and how it ended."""

from collections.abc import Callable, Iterator
from html import escape

from labs.harness.findings import megabytes
from labs.harness.history import Event, History

Place = Callable[[Event], float]  # where on the time axis an event belongs

WIDTH, LEFT, RIGHT, CHART, ROW = 760, 90, 20, 120, 22
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #333 }
  .axis { stroke: #999 }
  .limit { stroke: #c62828; stroke-dasharray: 4 3 }
  .fill { fill: #64b5f6; fill-opacity: .5; stroke: #1976d2 }
  .batch { fill: #388e3c }
  .end { stroke: #c62828; stroke-width: 2 }
  @media (prefers-color-scheme: dark) { text { fill: #ddd } }
"""


def draw(history: History) -> str:
    events = [event for event in history.events if event.get("part") == "subject"]
    start, end = (events[0]["t"], events[-1]["t"]) if events else (0.0, 1.0)
    workers: list[int] = next((event["pids"] for event in events if event["kind"] == "workers"), [])
    height = CHART + 70 + ROW * max(1, len(workers))

    def x(event: Event) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * float(event["t"] - start) / float(end - start or 1)

    title = f"lab {history.run['lab']}, {history.run['role']}"
    body = [*_shared_memory(history, events, x), *_deliveries(events, workers, x), *_ending(events, height, x)]
    seconds = f'<text x="{WIDTH - RIGHT}" y="{height - 8}" text-anchor="end">{end - start:.1f} s</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">\n'
        f"<style>{STYLE}</style>\n" + "\n".join([*body, seconds]) + "\n</svg>\n"
    )


def _shared_memory(history: History, events: list[Event], x: Place) -> Iterator[str]:
    total = history.container.get("shm_total", 1)
    top, bottom = 30, 30 + CHART
    points = [(x(event), bottom - CHART * event["shm_used"] / total) for event in events if "shm_used" in event]
    yield f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top}" y2="{top}"/>'
    yield f'<text x="{LEFT}" y="{top - 8}">/dev/shm: {megabytes(total)}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    if points:
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        yield f'<polygon class="fill" points="{points[0][0]:.1f},{bottom} {line} {points[-1][0]:.1f},{bottom}"/>'


def _deliveries(events: list[Event], workers: list[int], x: Place) -> Iterator[str]:
    for number in range(len(workers)):
        y = 30 + CHART + 14 + ROW * number
        yield f'<text x="8" y="{y + 12}">worker {number}</text>'
        for event in events:
            if event["kind"] == "batch" and event["worker"] == number:
                yield f'<rect class="batch" x="{x(event):.1f}" y="{y}" width="4" height="14"/>'


def _ending(events: list[Event], height: int, x: Place) -> Iterator[str]:
    for event in events:
        if event["kind"] in ("error", "stall", "overtime"):
            words = event["chain"][-1]["message"].splitlines()[0] if event["kind"] == "error" else event["kind"]
            yield f'<line class="end" x1="{x(event):.1f}" x2="{x(event):.1f}" y1="30" y2="{height - 28}"/>'
            yield f'<text x="{LEFT}" y="{height - 8}">{escape(words[:80])}</text>'
