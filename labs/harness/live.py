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
WORDS = {
    "failure": "the broken program",
    "control": "the broken program without the cause",
    "fix": "the solution",
    "check": "your program",
}


def bar(used: int, total: int) -> Text:
    filled = round(BAR * used / total) if total else 0
    style = "red" if used > 0.9 * total else "green"
    return Text("█" * filled, style) + Text("░" * (BAR - filled), "dim") + f" {megabytes(used)} of {megabytes(total)}"


class View:
    """The state of a run as it is now, made from its events."""

    def __init__(self, run: Event) -> None:
        self.title = f"lab {run['lab']}: {WORDS[run['role']]}, in a {run['backend']} container"
        self.started = time.monotonic()
        self.doing = "starting the container"
        self.sample: Event = {"shm_used": 0, "shm_total": 0, "processes": {}}
        self.workers: list[int] = []
        self.batches: Counter[int | None] = Counter()

    def note(self, event: Event) -> None:
        kind = event["kind"]
        if "shm_used" in event:
            self.sample = {**self.sample, **event}
        elif kind == "workers":
            self.workers, self.batches = event["pids"], Counter()
        elif kind == "batch":
            self.batches[event["worker"]] += 1
        doing = {
            "container": "importing torch",
            "start": "making the data",
            "loader": "starting workers",
            "epoch": "loading",
        }
        self.doing = doing.get(kind, self.doing)
        if event.get("part") == "fix" and kind == "start":
            self.doing = "measuring the fix beside it"
        if event.get("part") == "again" and kind == "start":
            self.doing = "running it again with the same seed"

    def __rich__(self) -> Group:
        workers = Table.grid(padding=(0, 2))
        for number, pid in enumerate(self.workers):
            facts = self.sample["processes"].get(str(pid))
            if facts is None:
                workers.add_row(f"worker {number}", f"pid {pid}", "gone", "", "", f"{self.batches[number]} batches")
                continue
            state = STATES.get(facts["state"], facts["state"])
            threads = f"{facts['threads']} threads"
            workers.add_row(
                f"worker {number}",
                f"pid {pid}",
                state,
                threads,
                megabytes(facts["rss"]),
                f"{self.batches[number]} batches",
            )
        return Group(
            Text(f"{self.title}\n", "bold"),
            Text("/dev/shm  ") + bar(self.sample["shm_used"], self.sample["shm_total"]),
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
    else:
        print(view.title, flush=True)
        yield lambda event: None
