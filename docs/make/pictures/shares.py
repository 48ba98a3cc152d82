"""A share of the whole in several variants of a program, one bar for each."""

from collections.abc import Iterator

from docs.make.pictures import svg

LABELS, ROW, BAR = 190, 26, 15
PLOT = svg.WIDTH - LABELS - svg.RIGHT


def draw(of_what: str, shares: dict[str, float], allowed: float) -> str:
    measured = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    says = f"{of_what}: {measured}. The job allows {allowed:.0%}."
    return svg.picture(66 + ROW * len(shares), says, bars(of_what, shares, allowed))


def bars(of_what: str, shares: dict[str, float], allowed: float) -> Iterator[str]:
    limit, bottom = LABELS + PLOT * allowed, 28 + ROW * len(shares)
    yield svg.text(4, 14, of_what, "title")
    for number, (name, share) in enumerate(shares.items()):
        y = 30 + ROW * number
        yield svg.text(LABELS - 6, y + 12, name, "right small")
        yield svg.boxes([(LABELS, y)], round(PLOT * share, 1), BAR, "bad" if share > allowed else "good")
        # Beside its bar, but never across the dashed line.
        end = LABELS + PLOT * share
        yield svg.text((limit if limit - 34 < end < limit else end) + 5, y + 12, f"{share:.0%}", "small")
    yield svg.line(LABELS, 24, LABELS, bottom)
    yield svg.line(limit, 24, limit, bottom, "limit")
    yield svg.text(LABELS, bottom + 15, "0", "middle small")
    yield svg.text(limit, bottom + 15, f"{allowed:.0%} allowed", "middle small")
    yield svg.text(svg.WIDTH - svg.RIGHT, bottom + 15, "100%", "right small")
