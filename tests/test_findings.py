"""Findings on hand-written histories: for each, a record that trips it and one beside it that does not."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.harness.findings import FINDINGS, find
from labs.harness.history import History
from tests import histories as h

Events = list[dict[str, Any]]


def fired(events: Events) -> set[str]:
    return {finding.id for finding in find(History(events))}


def dead(exitcode: int, used: int) -> dict[str, Any]:
    return h.error("DataLoader worker (pid 10) is killed", "RuntimeError", exits=[exit_of(exitcode)], shm_used=used)


def exit_of(code: int | None) -> dict[str, Any]:
    return {"worker": 0, "pid": 10, "exitcode": code}


def epoch_of(contents: str, epoch: int, shuffled: bool = False) -> Events:
    """One letter a sample: the first half from worker 0, the rest from worker 1."""
    half = len(contents) // 2
    ids = list(range(len(contents)))[:: -1 if shuffled else 1]
    return [
        h.batch(ids[:half], 0, epoch, list(contents[:half])),
        h.batch(ids[half:], 1, epoch, list(contents[half:])),
        h.epoch_end(epoch),
    ]


def random_epochs(first: str, second: str, content: str = "random", shuffled: bool = False) -> Events:
    job = h.run_event(content=content, epochs=2, ids=list(range(len(first))))
    return [job, h.container(), h.workers(), *epoch_of(first, 0), *epoch_of(second, 1, shuffled), *h.done()]


def again(*batches: dict[str, Any]) -> Events:
    return in_part("again", *batches)


def in_part(part: str, *events: dict[str, Any]) -> Events:
    return [{**event, "part": part} for event in (*events, h.event("exit", status=0))]


def sampled(threads: int, pid: int = 5) -> dict[str, Any]:
    return h.event("sample", processes={str(pid): {"threads": threads, "rss": 1}})


def dropping(*ids: int) -> Events:
    """An epoch for each of these samples, which does not come in it."""
    return [
        event
        for epoch, dropped in enumerate(ids)
        for event in (
            h.batch([id for id in range(2) if id != dropped], 0, epoch),
            h.batch([id for id in range(2, 4) if id != dropped], 1, epoch),
            h.epoch_end(epoch),
        )
    ]


def memory(kills: int) -> dict[str, int]:
    return {"limit": 1 << 30, "peak": 1 << 30, "kills": kills}


def loop(part: str = "subject", waited: float = 0.1, step: float = 1.0) -> Events:
    """Two steps of a loop, from one batch to the next, and how much of each was waiting."""
    batches = [h.batch([0, 1], 0), h.batch([2, 3], 1)]
    return [{**one, "part": part, "t": step * n, "waited": step * waited} for n, one in enumerate(batches, 1)]


START: Events = [h.run_event(), h.container()]
UP: Events = [*START, h.workers()]
ALL: Events = [*UP, h.batch([0, 1], 0), h.batch([2, 3], 1)]
RANKS: Events = [h.run_event(ranks=2), *ALL[1:]]
END: Events = [h.epoch_end(), *h.done()]

TRIPS: dict[str, list[Events]] = {
    "not-a-program": [[*START, h.event("not_a_program", message="no make_loader()"), *h.done()]],
    "tampered": [
        [*ALL, h.event("foreign", text="{}"), *END],
        [*ALL, h.epoch_end(), *h.done(replaced=["DataLoader.__iter__"])],
    ],
    "bus-error": [[*UP, dead(-7, 100), *h.done()], [*UP, dead(-7, 96), *h.done()]],
    "oom": [
        [*UP, dead(-9, 0), h.event("exit", status=0, memory=memory(kills=1))],
        [*UP, sampled(2), h.event("exit", status=-9, memory=memory(kills=2))],
    ],
    "shm-full": [[*UP, h.error("Caught:\nRuntimeError: unable to allocate shared memory(shm)", "RuntimeError")]],
    "no-files": [[*UP, h.error("Too many open files. Communication", "RuntimeError"), *h.done()]],
    "unpicklable": [[*START, h.error("no", "PicklingError", unpicklable=["dataset.f"]), *h.done()]],
    "worker-died": [[*UP, dead(-9, 0), *h.done()], [*UP, dead(3, 0), *h.done()], [*UP, dead(-7, 10), *h.done()]],
    "ranks-apart": [
        [*RANKS, h.epoch_end(rank=1), h.error("Connection closed by peer", "RuntimeError"), *h.done()],
        [*RANKS, h.epoch_end(rank=0), h.event("stall", seconds=5.0, stacks=[]), h.event("exit", status=-9)],
    ],
    "raised": [[*UP, h.error(), *h.done()], [*UP, h.error("", "MemoryError"), *h.done()]],
    "stalled": [[*UP, h.event("stall", seconds=5.0, stacks=[]), h.event("exit", status=-9)]],
    "overtime": [[*UP, h.event("overtime", seconds=60, stacks=[]), h.event("exit", status=-9)]],
    "unfinished": [
        [*UP, h.event("exit", status=0)],
        [*UP, h.event("exit", status=-11)],
        [*ALL, h.epoch_end(), *h.done(status=1)],
    ],
    "goes-on": [
        [*ALL, *END, *in_part("hopeless", h.batch([0, 1], 0))],
        [*ALL, *END, *in_part("hopeless", h.event("not_a_program", message="no constant UNREADABLE"))],
        [*ALL, *END, *in_part("hopeless", h.event("stall", seconds=5.0, stacks=[]))],
        [*ALL, *END, *in_part("hopeless", h.error(kind="AttributeError"))],
    ],
    "duplicated": [[*UP, h.batch([0, 1], 0), h.batch([2, 3, 3], 1), *END]],
    "lost": [
        [*UP, h.batch([0, 1], 0), h.batch([2], 1), *END],
        [h.run_event(may_drop=1), *UP[1:], *dropping(3, 3, 3, 3), *h.done()],  # always the same
    ],
    "wrong-content": [
        [*UP, h.batch([0, 1], 0), h.batch([2, 3], 1), h.batch([7], 1), *END],
        [h.run_event(signatures={"0": ["1/integer/10"]}), *ALL[1:], *END],
        [h.run_event(signatures={"0": ["1/integer/01"]}), *ALL[1:], *END],  # a label has no room
        [h.run_event(signatures={"0": ["2/integer/00"]}), *ALL[1:], *END],
        [h.run_event(signatures={"0": ["1/integer/00"] * 2}), *ALL[1:], *END],
        [h.run_event(signatures={"0": ["1/float/"]}), *ALL[1:], *END],
    ],
    "thrown-away": [[*ALL, h.epoch_end(handed_over=8), *h.done()]],
    "small-batches": [[h.run_event(batch_size=5), *ALL[1:], *END]],
    "mostly-padding": [[*UP, h.batch([0, 1], 0, padding=[6, 10]), h.batch([2, 3], 1, padding=[5, 10]), *END]],
    "same-draws": [
        random_epochs("abcdabcd", "efghijkl"),  # worker 1 is a copy of worker 0
        random_epochs("abcddabc", "efghijkl"),  # the same, shifted
        random_epochs("aaaabbbb", "ccccdddd"),  # each worker repeats itself
    ],
    "epochs-repeat": [
        random_epochs("abcdefgh", "abcdefgh"),
        random_epochs("abcdefgh", "abcdefgh", shuffled=True),
        random_epochs("abcdefgh", "efghijkl"),
    ],
    "not-repeatable": [
        [*ALL, *END, *again(h.batch([0, 1], 0), h.batch([2, 3], 1, contents=["other", "content of 3"]))],
        [*ALL, *END, *again()],
    ],
    "memory-grew": [[h.run_event(worker_memory=100), *ALL[1:], h.epoch_end(own_memory=[3, 101]), *h.done()]],
    "starved": [
        [h.run_event(most_waiting=0.5), *ALL[1:3], *loop(waited=0.6), *END],
        [h.run_event(most_waiting=0.5), *ALL[1:3], *loop(step=5.0), *loop("fix"), *END],  # waits little, and is slow
    ],
    "oversubscribed": [
        [*UP, {**h.batch([0, 1], 0), "threads": 7}, h.batch([2, 3], 1), *END],
        [*ALL, sampled(19), *END],
    ],
    "other-workers": [
        [*UP, h.batch([0, 1], 0), h.batch([2, 3], 0), *END],
        [*UP, h.batch([0, 1], 0), h.batch([2], 1), h.batch([3], None), *END],
        [*START, h.workers([10, 11, 12]), *ALL[3:], *END],
        [*START, h.workers(start_method="spawn"), *ALL[3:], *END],
    ],
}  # fmt: skip

DOES_NOT_TRIP: dict[str, list[Events]] = {
    "shm-full": [[*UP, h.error("unable to do it", "RuntimeError"), *h.done()]],
    "no-files": [[*UP, h.error("Too many cooks", "OSError"), *h.done()]],
    "bus-error": [[*UP, dead(-7, 90), *h.done()], [*UP, dead(-9, 100), *h.done()]],
    "unpicklable": [
        [*ALL, h.error("no", "PicklingError", unpicklable=["dataset.f"]), *h.done()],
        [*START, h.error("no", "ZeroDivisionError", unpicklable=["dataset.f"]), *h.done()],
        [*START, h.error("no", "AttributeError"), *h.done()],
    ],
    "worker-died": [
        [*UP, h.error(exits=[exit_of(None), exit_of(0)]), *h.done()],
        [*UP, dead(-9, 0), h.event("exit", status=0, memory=memory(kills=1))],
    ],
    "oom": [
        [*UP, dead(-9, 0), h.event("exit", status=0, memory=memory(kills=0))],
        [*UP, dead(-9, 0), h.event("exit", status=0, memory=None)],
        [*UP, dead(-7, 100), h.event("exit", status=0, memory=memory(kills=1))],
    ],
    "ranks-apart": [
        [*RANKS, h.epoch_end(rank=0), h.epoch_end(rank=1), *h.done()],
        [*RANKS, h.error(), *h.done()],
    ],
    "small-batches": [[h.run_event(batch_size=4), *ALL[1:], *END]],
    "mostly-padding": [[*UP, h.batch([0, 1], 0, padding=[5, 10]), h.batch([2, 3], 1, padding=[5, 10]), *END]],
    "memory-grew": [
        [h.run_event(worker_memory=100), *ALL[1:], h.epoch_end(own_memory=[100, None]), *h.done()],
        [*ALL, h.epoch_end(own_memory=[1 << 40]), *h.done()],
    ],
    "starved": [
        [h.run_event(most_waiting=0.5), *ALL[1:3], *loop(waited=0.4), *END],
        [h.run_event(most_waiting=0.5), *ALL[1:3], *loop(step=1.5), *loop("fix"), *END],
        [*UP, *loop(waited=0.9), *END],
    ],
    "raised": [[*UP, dead(-7, 100), *h.done()], [*UP, dead(-9, 0), *h.done()]],
    "goes-on": [[*ALL, *END, *in_part("hopeless", h.batch([0, 1], 0), h.error())], [*ALL, *END]],
    "lost": [
        [*UP, h.batch([0, 1], 0), h.error(), *h.done()],
        [h.run_event(may_drop=1), *UP[1:], *dropping(3, 3, 3, 0), *h.done()],
        [h.run_event(may_drop=1), *UP[1:], *dropping(3, 3, 3), *h.done()],
    ],
    "wrong-content": [[h.run_event(signatures={"0": ["1/float/04"]}), *ALL[1:], *END]],
    "thrown-away": [[*ALL, h.epoch_end(handed_over=4), *h.done()]],
    "same-draws": [
        random_epochs("abcdefgh", "abcdefgh"),
        random_epochs("aabbefgh", "ijklmnop"),  # two by chance
        random_epochs("abcdabcd", "efghijkl", content="fixed"),
    ],
    "epochs-repeat": [
        random_epochs("abcdefgh", "ijklmnop"),
        random_epochs("abcdefgh", "abcdefgh", content="fixed"),
    ],
    "not-repeatable": [[*ALL, *END, *again(h.batch([0, 1], 0), h.batch([2, 3], 1))], [*ALL, *END]],
    "oversubscribed": [
        [*UP, {**h.batch([0, 1], 0), "threads": 6}, {**h.batch([2, 3], 1), "threads": None}, *END],
        [*ALL, sampled(18), sampled(90, pid=10), *END],
    ],
    "other-workers": [[h.run_event(workers=0), h.container(), h.batch([0, 1, 2, 3], None), *END]],
}  # fmt: skip


def test_what_is_found_in_validation_is_found() -> None:
    """A program may drop a sample in training, and none in validation."""
    training = [
        {**h.run_event(may_drop=1), "parts": ["subject", "validation"]},
        *UP[1:],
        h.batch([0, 1], 0),
        h.batch([2], 1),
    ]
    whole, short = ([{**event, "part": "validation"} for event in events] for events in (ALL[2:], training[2:]))
    end = [{**event, "part": "validation"} for event in END]
    assert fired([*training, *END, *whole, *end]) == set()
    found = find(History([*training, *END, *short, *end]))
    assert [finding.id for finding in found] == ["lost"] and found[0].statement.startswith("In validation: 1 of 4")


@pytest.mark.parametrize("second", [10, 11])
def test_ranks_are_judged_together(second: int) -> None:
    """Two ranks with one worker each are two workers, and an epoch is over when both have come to its end."""
    both = [{**h.workers([10]), "rank": 0}, {**h.workers([second]), "rank": 1}]
    deliveries = [{**h.batch([0, 1], 0), "rank": 0}, {**h.batch([2, 3], 1), "rank": 1}]
    ends = [h.epoch_end(rank=0, handed_over=2), h.epoch_end(rank=1, handed_over=2)]
    job = h.run_event(ranks=2)
    assert fired([job, h.container(), *both, *deliveries, *ends, *h.done()]) == set()
    assert fired([job, h.container(), *both, *deliveries[:1], *ends[:1], *h.done()]) == set()  # nobody knows yet
    assert fired([job, h.container(), *both, *deliveries[:1], *ends, *h.done()]) == {
        "lost",
        "other-workers",
        "thrown-away",
    }


def cases(table: dict[str, list[Events]]) -> list[Any]:
    return [pytest.param(name, events, id=f"{name}-{n}") for name, all in table.items() for n, events in enumerate(all)]


@pytest.mark.parametrize(("name", "events"), cases(TRIPS))
def test_trips(name: str, events: Events) -> None:
    """A record of the failure makes the finding fire, with a sentence to say it."""
    assert name in fired(events)
    finding = FINDINGS[name](History(events))
    assert finding is not None and finding.id == name and finding.statement.strip()


@pytest.mark.parametrize(("name", "events"), cases(DOES_NOT_TRIP))
def test_does_not_trip(name: str, events: Events) -> None:
    """A record that only looks like the failure leaves the finding silent."""
    assert name not in fired(events)


def test_every_finding_is_shown_to_fire() -> None:
    """No finding without a record that trips it."""
    assert TRIPS.keys() == FINDINGS.keys()


def test_a_healthy_run_has_no_findings() -> None:
    """All of the job, by the workers of the job: nothing to say."""
    assert fired(h.healthy()) == set()


@given(st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_duplicates_are_counted_exactly(copies: list[int]) -> None:
    """However often each sample comes, the deliveries in the evidence add up."""
    ids = [id for id, times in enumerate(copies) for _ in range(times)]
    finding = FINDINGS["duplicated"](History([*UP, h.batch(ids, 0), *END]))
    assert (finding is not None) == any(times > 1 for times in copies)
    if finding:
        assert finding.evidence[0].observed == str(sum(copies)) and finding.evidence[0].expected == "4"


@given(st.permutations(range(12)), st.integers(1, 4), st.integers(1, 5))
def test_no_order_of_delivery_is_a_finding(order: list[int], workers: int, size: int) -> None:
    """Any order, batch size and dealing of all samples to all workers is healthy."""
    numbers = count()
    batches = [h.batch(order[i : i + size], next(numbers) % workers) for i in range(0, 12, size)]
    used = len({event["workers"][0] for event in batches})
    job = h.run_event(ids=list(range(12)), workers=used)
    assert fired([job, h.container(), h.workers(range(used)), *batches, *END]) == set()


@given(st.sets(st.integers(0, 11), min_size=1))
def test_whatever_is_lost_is_missed(missing: set[int]) -> None:
    """Leave out any samples at all: the finding counts them."""
    ids = [id for id in range(12) if id not in missing]
    events = [h.run_event(ids=list(range(12))), h.container(), h.workers(), h.batch(ids, 0), *END]
    finding = FINDINGS["lost"](History(events))
    assert finding is not None and finding.statement.startswith(f"{len(missing)} of 12")


@given(st.data())
def test_findings_never_crash_on_a_record_that_stops_early(data: st.DataObject) -> None:
    """A record can end after any line; what is there is judged, or nothing is said."""
    source = data.draw(st.sampled_from([events for all in TRIPS.values() for events in all]))
    fired(source[: data.draw(st.integers(1, len(source)))])
