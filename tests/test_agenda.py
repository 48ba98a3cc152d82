"""The agendas of the workshop: planned from the catalog, and fit to be taught from."""

import dataclasses

import pytest

from docs.make import agenda
from docs.make.agenda import FORMATS, LONGEST, Format, Item
from labs.catalog import LABS
from labs.workshop.exercises import in_order

NAMES = [format.name for format in FORMATS]


def faults(format: Format, items: list[Item]) -> set[str]:
    """All that would make an agenda unfit."""
    labs = [item.lab for item in items if item.lab]
    single = [lab for lab in labs if not lab.combines]
    order = [lab.name for lab in in_order()]
    places = [order.index(lab.name) for lab in labs if lab.name in order]
    told = {
        "too long": agenda.length(items) > format.minutes,
        "no such lab": any(LABS.get(lab.name) is not lab for lab in labs),
        "not for every machine": any(lab.limits.memory for lab in labs),
        "a lab twice": len({lab.name for lab in labs}) < len(labs),
        "does not begin with the easiest": not single or single[0].name != order[0],
        "not from easy to hard": places != sorted(places),
        "too long without a break": longest_stretch(items) > LONGEST,
        "rest at an end": items[0].rest or items[-1].rest,
        "less time than the catalog says": any(item.minutes < item.lab.minutes for item in items if item.lab),
        "no closing exercise": format.closing and not any(lab.combines for lab in labs),
        "a closing exercise of failures not met before": any(
            not set(lab.combines) <= {other.name for other in labs[:number]} for number, lab in enumerate(labs)
        ),
    }
    return {fault for fault, there in told.items() if there}


def longest_stretch(items: list[Item]) -> int:
    stretches = [0]
    for item in items:
        stretches = [*stretches, 0] if item.rest else [*stretches[:-1], stretches[-1] + item.minutes]
    return max(stretches)


@pytest.mark.parametrize("format", FORMATS, ids=NAMES)
def test_an_agenda_can_be_taught(format: Format) -> None:
    """It fits its time, goes from easy to hard, and lets people rest."""
    assert faults(format, agenda.plan(format)) == set()


@pytest.mark.parametrize("format", FORMATS, ids=NAMES)
def test_an_agenda_uses_its_time(format: Format) -> None:
    """At most an eighth of it is left over."""
    assert format.minutes - agenda.length(agenda.plan(format)) <= format.minutes / 8


@pytest.mark.parametrize("format", FORMATS, ids=NAMES)
def test_even_a_short_workshop_shows_loud_and_silent_failures(format: Format) -> None:
    """The bus error, the pickle, and data that is wrong without a word."""
    labs = [item.lab for item in agenda.plan(format) if item.lab]
    assert {"shm", "pickle"} <= {lab.name for lab in labs}
    assert any(agenda.kind(lab) == "wrong-data" for lab in labs)


def test_every_kind_of_failure_is_in_half_a_day() -> None:
    """And in a day."""
    for format in FORMATS[1:]:
        assert {agenda.kind(item.lab) for item in agenda.plan(format) if item.lab} == set(agenda.KINDS)


@pytest.mark.parametrize(
    ("fault", "spoil"),
    [
        ("too long", lambda items: [*items, agenda.DEBRIEF, agenda.DEBRIEF, agenda.DEBRIEF, agenda.DEBRIEF]),
        ("no such lab", lambda items: [swapped(item) for item in items]),
        ("not for every machine", lambda items: [*items, agenda.exercise(LABS["oom"], "Exercise")]),
        ("a lab twice", lambda items: [*items, items[1]]),
        ("does not begin with the easiest", lambda items: items[2:]),
        ("not from easy to hard", lambda items: items[::-1]),
        ("too long without a break", lambda items: [item for item in items if not item.rest]),
        ("rest at an end", lambda items: [*items, Item(15, "Break")]),
        (
            "less time than the catalog says",
            lambda items: [dataclasses.replace(i, minutes=1) for i in items],
        ),
        ("no closing exercise", lambda items: [item for item in items if not (item.lab and item.lab.combines)]),
        ("a closing exercise of failures not met before", lambda items: [items[0], *items[-2:]]),
    ],
)
def test_an_unfit_agenda_is_found_out(fault: str, spoil: object) -> None:
    """Each fault, made on purpose in the agenda of a day."""
    format = FORMATS[-1]
    assert callable(spoil) and fault in faults(format, spoil(agenda.plan(format)))


def swapped(item: Item) -> Item:
    return dataclasses.replace(item, lab=item.lab and dataclasses.replace(item.lab, name="nowhere"))


def test_longer_labs_make_other_agendas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan follows the catalog: a lab that would take an hour more has no place in 90 minutes."""
    longer = dataclasses.replace(LABS["augment"], minutes=LABS["augment"].minutes + 60)
    monkeypatch.setitem(LABS, "augment", longer)
    assert "augment" not in {item.lab.name for item in agenda.plan(FORMATS[0]) if item.lab}


def test_the_tables_begin_at_zero_and_add_up() -> None:
    """What is printed is the plan."""
    for format in FORMATS:
        rows = [line.split(" | ") for line in agenda.one(format).splitlines() if line[:3].strip("| ").isdigit()]
        starts = [int(row[0].strip("| ").partition(":")[0]) * 60 + int(row[0].partition(":")[2]) for row in rows]
        lengths = [int(row[1]) for row in rows]
        assert starts == [sum(lengths[:number]) for number in range(len(rows))] and len(rows) > 3
