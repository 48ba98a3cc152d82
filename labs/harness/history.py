"""The record of one run: a list of events, kept as JSON lines.

The first event, `run`, says what was asked for; the watcher and the conductor add what happened. Everything that is
concluded about a run is concluded from this record alone, so a run can be judged again, elsewhere and later.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

SCHEMA = 1
SUBJECT = "subject"

Event = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """One delivery of one sample."""

    epoch: int
    worker: int | None
    id: int
    digests: tuple[str, ...]
    signatures: tuple[str, ...]


class History:
    """The events of a run, and the questions that findings ask of them."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)

    @classmethod
    def load(cls, path: Path) -> "History":
        with path.open() as lines:
            history = cls(json.loads(line) for line in lines)
        if history.run.get("schema") != SCHEMA:
            raise ValueError(f"{path} has schema {history.run.get('schema')}; this version reads schema {SCHEMA}")
        return history

    def all(self, kind: str, part: str = SUBJECT) -> Iterator[Event]:
        return (event for event in self.events if event["kind"] == kind and event.get("part", part) == part)

    def first(self, kind: str, part: str = SUBJECT) -> Event | None:
        return next(self.all(kind, part), None)

    @property
    def run(self) -> Event:
        return self.first("run") or {}

    @property
    def job(self) -> dict[str, Any]:
        return dict(self.run.get("job", {}))

    @property
    def container(self) -> Event:
        return self.first("container") or {}

    def only(self, part: str, **job: Any) -> "History":
        """The same run, as if this part had been its subject, with another job."""
        run = {**self.run, "job": {**self.job, **job}, "parts": [SUBJECT]}
        others = [event for event in self.events if event["kind"] != "run" and event.get("part", part) == part]
        return History([run, *({**event, "part": SUBJECT} if "part" in event else event for event in others)])

    def worker_pids(self) -> list[int]:
        """Of the first workers of all ranks, in the order of their numbers."""
        first = {event.get("rank", 0): event["pids"] for event in reversed(list(self.all("workers")))}
        return [pid for rank in sorted(first) for pid in first[rank]]

    def samples(self, part: str = SUBJECT) -> list[Sample]:
        return [
            Sample(batch["epoch"], worker, id, tuple(digests), tuple(signatures))
            for batch in self.all("batch", part)
            for worker, id, digests, signatures in zip(
                batch["workers"], batch["ids"], batch["digests"], batch["signatures"], strict=True
            )
        ]

    @cached_property
    def by_epoch(self) -> dict[int, list[Sample]]:
        epochs: dict[int, list[Sample]] = defaultdict(list)
        for sample in self.samples():
            epochs[sample.epoch].append(sample)
        return dict(epochs)

    def shared_memory(self) -> list[Event]:
        """Every look at /dev/shm from the making of the loader to the last that was heard of it, in order of time."""
        first = (self.first("loader") or self.container)["t"]
        kinds = ("batch", "epoch_end", "error", "stall", "overtime")
        last = max((event["t"] for kind in kinds for event in self.all(kind)), default=first)
        looks = [event for event in self.events if "shm_used" in event and event.get("part", SUBJECT) == SUBJECT]
        within = [event for event in looks if first <= event["t"] <= last]
        return sorted(within or looks[:1], key=lambda event: float(event["t"]))

    def finished_epochs(self) -> list[int]:
        """The epochs that every rank has come to the end of."""
        ends = Counter(event["epoch"] for event in self.all("epoch_end"))
        return [epoch for epoch, ranks in ends.items() if ranks >= self.job.get("ranks", 1)]

    def output(self, stream: str) -> list[str]:
        return [event["text"] for event in self.all("output") if event["stream"] == stream]
