"""A picture of one run (SVG): how full /dev/shm was, when each worker delivered, and how it ended."""

from collections.abc import Callable, Iterator
from html import escape

from labs.harness.findings import Finding, megabytes
from labs.harness.history import Event, History

Place = Callable[[Event], float]  # where on the time axis an event belongs

WIDTH, LEFT, RIGHT, TOP, CHART, ROW = 760, 90, 20, 30, 120, 22
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #333 }
  .axis { stroke: #999 }
  .limit { stroke: #c62828; stroke-dasharray: 4 3 }
  .fill { fill: #64b5f6; fill-opacity: .5; stroke: #1976d2 }
  .batch { fill: #388e3c }
  .end { stroke: #c62828; stroke-width: 2 }
  @media (prefers-color-scheme: dark) { text { fill: #ddd } }
"""


def draw(history: History, findings: list[Finding]) -> str:
    looks = history.shared_memory()
    start, end = looks[0]["t"], looks[-1]["t"]
    workers = history.worker_pids()
    height = CHART + 80 + ROW * len(workers)

    def x(event: Event) -> float:
        share: float = (event["t"] - start) / ((end - start) or 1)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, share))

    title = escape(f"lab {history.run['lab']}, {history.run['role']}")
    body = [
        *_shared_memory(looks, history.container["shm_total"], x),
        *_deliveries(list(history.all("batch")), len(workers), x),
        *_endings(history, findings, height, x),
        f'<text x="{WIDTH - RIGHT}" y="{TOP - 8}" text-anchor="end">{title}: {end - start:.1f} s</text>',
    ]
    size = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n' + "\n".join(body) + "\n</svg>\n"


def _shared_memory(looks: list[Event], total: int, x: Place) -> Iterator[str]:
    bottom = TOP + CHART
    yield f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{TOP}" y2="{TOP}"/>'
    yield f'<text x="{LEFT}" y="{TOP - 8}">/dev/shm, {megabytes(total)}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    line = " ".join(f"{x(look):.1f},{bottom - CHART * look['shm_used'] / total:.1f}" for look in looks)
    yield f'<polygon class="fill" points="{x(looks[0]):.1f},{bottom} {line} {x(looks[-1]):.1f},{bottom}"/>'


def _deliveries(batches: list[Event], workers: int, x: Place) -> Iterator[str]:
    for number in range(workers):
        y = TOP + CHART + 14 + ROW * number
        yield f'<text x="8" y="{y + 12}">worker {number}</text>'
        for batch in batches:
            if number in batch["workers"]:
                yield f'<rect class="batch" x="{x(batch) - 2:.1f}" y="{y}" width="4" height="14"/>'


def _endings(history: History, findings: list[Finding], height: int, x: Place) -> Iterator[str]:
    for kind in ("error", "stall", "overtime"):
        for event in history.all(kind):
            yield f'<line class="end" x1="{x(event):.1f}" x2="{x(event):.1f}" y1="{TOP}" y2="{height - 28}"/>'
    for finding in findings[:1]:
        yield f'<text x="{LEFT}" y="{height - 8}">{escape(finding.statement)}</text>'
    legend = "green: a batch arrives; red: the end" if findings else "green: a batch arrives"
    yield f'<text x="{WIDTH - RIGHT}" y="{height - 8}" text-anchor="end">{legend}</text>'
