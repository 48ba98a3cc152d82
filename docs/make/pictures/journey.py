"""A drawing of how a batch travels from a worker to the loop, and where each lab breaks it."""

from collections.abc import Iterator
from dataclasses import dataclass

from docs.make.pictures import svg

BOX, NAMES, LINE = 286, 300, 17
GAP, HEAD, PAD = 26, 26, 12


@dataclass(frozen=True)
class Station:
    process: str
    title: str
    happens: tuple[str, ...]
    labs: tuple[str, ...]
    leads: str = ""  # what goes on to the next station, and how


STATIONS = (
    Station(
        "main process",
        "start the workers",
        ("fork: each is a copy of everything;", "forkserver, spawn: a pickle of the dataset"),
        ("pickle", "sql", "sql-postgres", "deadlock", "handles", "augment"),
        "index queue: which samples to load",
    ),
    Station(
        "worker",
        "dataset: read and change samples",
        ("one copy of the dataset in each worker,", "with its own seed, threads and memory"),
        ("shm", "opencv", "corrupt", "shards", "ranks", "memory", "oom"),
    ),
    Station(
        "worker",
        "collate: samples become a batch",
        ("torch's own makes it in /dev/shm at once;", "one of your own, in ordinary memory"),
        ("shm-batches", "ragged"),
    ),
    Station(
        "worker, feeder thread",
        "pickle the batch for the pipe",
        ("tensors that are not yet in /dev/shm are", "moved there; what fails here is dropped"),
        ("freeze-shm", "freeze-result"),
        "/dev/shm: the data; pipe: where it is",
    ),
    Station(
        "main process",
        "open the batch",
        ("each tensor is an open file in /dev/shm", "as long as anybody looks into it"),
        ("fds",),
    ),
    Station(
        "main process",
        "your loop: use the batch",
        ("while it works, the workers prepare", "prefetch_factor batches each"),
        ("starve", "last-batch"),
    ),
)


def draw(labs: list[str]) -> str:
    """With those labs that there are."""
    body: list[str] = []
    y, process = 8.0, ""
    for station in STATIONS:
        if station.process != process:
            body.append(svg.text(4, y + 13, station.process, "title"))
            y += HEAD - 4
            process = station.process
        present = [name for name in station.labs if name in labs]
        height = max(PAD + LINE * (1 + len(station.happens)) + 8, 10 + LINE * -(-len(present) // 2) + 8)
        body += box(station, y, height)
        body += names(present, y, height)
        y += height
        body += arrow(y, station.leads)
        y += GAP + (LINE if station.leads else 0)
    body = body[:-2] if not STATIONS[-1].leads else body
    places = "; ".join(f"{one.title}: {', '.join(name for name in one.labs if name in labs)}" for one in STATIONS)
    says = f"How a batch travels: from the start of the workers to your loop. Labs that break it, by station. {places}."
    return svg.picture(y - GAP + 10, says, body)


def box(station: Station, y: float, height: float) -> Iterator[str]:
    yield f'<rect class="station" x="4" y="{y:g}" width="{BOX}" height="{height:g}" rx="6"/>'
    yield svg.text(14, y + PAD + 9, station.title, "title")
    for number, words in enumerate(station.happens, 1):
        yield svg.text(14, y + PAD + 9 + LINE * number, words, "small")


def names(labs: list[str], y: float, height: float) -> Iterator[str]:
    """In two columns beside the box, each with a mark."""
    top = y + height / 2 - LINE * -(-len(labs) // 2) / 2
    for number, name in enumerate(labs):
        x, line = NAMES + 110 * (number % 2), top + LINE * (number // 2)
        yield f'<path class="line-bad" d="M{x} {line + 5:g}l7 7m0 -7l-7 7"/>'
        yield svg.text(x + 12, line + 13, name)


def arrow(y: float, words: str) -> Iterator[str]:
    length = GAP - 6 + (LINE if words else 0)
    yield f'<path class="axis" d="M40 {y + 2:g}v{length - 4}m-4 -6l4 6l4 -6"/>'
    yield svg.text(54, y + 20, words, "small") if words else ""
