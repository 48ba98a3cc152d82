"""What a person sees while a program runs: how full /dev/shm is, and a line for each worker."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from labs.harness.findings import megabytes
from labs.harness.history import Event

BAR = 40
STATES = {"R": "running", "S": "asleep", "D": "waiting for disk", "Z": "dead", "T": "stopped"}
DOING = {
    ("container", None): "importing torch",
    ("start", "subject"): "making the data",
    ("loader", "subject"): "starting workers",
    ("epoch", "subject"): "loading",
    ("start", "fix"): "measuring the fix beside it",
    ("start", "again"): "running it again with the same seed",
    ("start", "validation"): "validating",
    ("start", "hopeless"): "running it with what it has to refuse",
}
WORDS = {
    "failure": "the broken program",
    "control": "the program without the cause",
    "fix": "the solution",
    "check": "your program",
}


def bar(used: int, total: int) -> Text:
    if not total:
        return Text("")
    filled = round(BAR * used / total)
    style = "red" if used > 0.9 * total else "green"
    return Text("█" * filled, style) + Text("░" * (BAR - filled), "dim") + f" {megabytes(used)} of {megabytes(total)}"


class View:
    """The state of a run as it is now, made from its events."""

    def __init__(self, run: Event) -> None:
        self.title = f"lab {run['lab']}: {WORDS[run['role']]}, in a {run['backend']} container"
        self.started = time.monotonic()
        self.doing = "starting the container"
        self.shm = (0, 0)
        self.processes: dict[str, Event] = {}
        self.seen: set[str] = set()
        self.workers: dict[int, list[str]] = {}  # of each rank
        self.batches: Counter[int | None] = Counter()

    def note(self, event: Event) -> None:
        kind = event["kind"]
        if "shm_used" in event:
            self.shm = event["shm_used"], event.get("shm_total", self.shm[1])
        if kind == "sample":
            self.processes = event["processes"]
            self.seen |= self.processes.keys()
        elif kind == "workers":
            self.workers[event.get("rank", 0)] = [str(pid) for pid in event["pids"]]
        elif kind == "batch":
            self.batches.update(set(event["workers"]))
        elif kind == "start":
            self.workers.pop(event.get("rank", 0), None)
            self.batches = Counter()
        self.doing = DOING.get((kind, event.get("part")), self.doing)

    def worker(self, number: int, pid: str) -> list[str]:
        facts = self.processes.get(pid)
        batches = f"{self.batches[number]} batches"
        if facts is None:
            return [f"worker {number}", f"pid {pid}", "gone" if pid in self.seen else "starting", "", "", batches]
        state, threads = STATES.get(facts["state"], "alive"), f"{facts['threads']} threads"
        return [f"worker {number}", f"pid {pid}", state, threads, megabytes(facts["rss"]), batches]

    def __rich__(self) -> Group:
        workers = Table.grid(padding=(0, 2))
        for number, pid in enumerate(pid for rank in sorted(self.workers) for pid in self.workers[rank]):
            workers.add_row(*self.worker(number, pid))
        return Group(
            Text(f"{self.title}\n", "bold"),
            Text("/dev/shm  ") + bar(*self.shm),
            workers,
            Text(f"{time.monotonic() - self.started:.1f} s  {self.doing}", "dim"),
        )


@contextmanager
def watching(run: Event, quiet: bool) -> Iterator[Callable[[Event], None]]:
    """A live view on a terminal, one plain line where there is none."""
    console = Console()
    view = View(run)
    if quiet:
        yield lambda event: None
    elif console.is_terminal and not console.is_dumb_terminal:
        with Live(view, console=console, transient=True, refresh_per_second=12):
            yield view.note
        console.print(view.title, style="bold", highlight=False)
    else:
        print(view.title, flush=True)
        yield lambda event: None
