"""Scalable pictures that can be read in light and dark: the colours are the page's, or middling ones without a page."""

from collections.abc import Iterable
from html import escape

WIDTH, LEFT, RIGHT = 520, 74, 12
PLOT = WIDTH - LEFT - RIGHT
# Every rule names .run-picture: inside a page a style counts for the whole page.
STYLE = """
.run-picture text { font: 13px system-ui, sans-serif; fill: var(--md-default-fg-color, #777) }
.run-picture .title { font-weight: 600 }
.run-picture .small { font-size: 11.5px }
.run-picture .right { text-anchor: end }
.run-picture .middle { text-anchor: middle }
.run-picture .axis { stroke: var(--md-default-fg-color--light, #777); fill: none }
.run-picture .bad { fill: var(--picture-bad, #d9534f) }
.run-picture .good { fill: var(--picture-good, #3f9e6e) }
.run-picture .plain { fill: var(--picture-plain, #4a90d9) }
.run-picture .area { fill: var(--picture-plain, #4a90d9); fill-opacity: .35; stroke: var(--picture-plain, #4a90d9) }
.run-picture .line-bad { stroke: var(--picture-bad, #d9534f); stroke-width: 2; fill: none }
.run-picture .station { fill: var(--picture-plain, #4a90d9); fill-opacity: .12; stroke: var(--picture-plain, #4a90d9) }
.run-picture .limit { stroke: var(--picture-bad, #d9534f); stroke-dasharray: 5 4; fill: none }
.run-picture .new { fill: none; stroke: var(--picture-good, #3f9e6e); stroke-width: 1.5 }
.run-picture .again { fill: var(--picture-bad, #d9534f); fill-opacity: .3; stroke: var(--picture-bad, #d9534f) }
"""


def picture(height: float, says: str, body: Iterable[str]) -> str:
    """A whole picture; `says` is what it tells to somebody who does not see it."""
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="run-picture" viewBox="0 0 {WIDTH} {height:g}" role="img"'
    return f'{opening} aria-label="{escape(says)}">\n<style>{STYLE}</style>\n' + "\n".join(body) + "\n</svg>\n"


def text(x: float, y: float, words: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:g}" y="{y:g}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str = "axis") -> str:
    return f'<path class="{style}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def boxes(places: Iterable[tuple[float, float]], width: float, height: float, style: str) -> str:
    """Many equal boxes as one path: a few bytes for each."""
    path = "".join(f"M{x:.1f} {y:.1f}h{width:g}v{height:g}h-{width:g}z" for x, y in places)
    return f'<path class="{style}" d="{path}"/>' if path else ""
