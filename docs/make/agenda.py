"""Agendas for a workshop, planned anew at every build from the catalog's minutes and difficulty.

Which labs: one of each kind of failure before a second of any, in the catalog's order, as long as they fit. In which
order: from easy to hard, as `nox -s workshop` has them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest

from docs.make.fragments import LEVELS, SYMPTOMS, linked
from docs.make.markdown import escaped, table
from labs.catalog import LABS
from labs.harness.lab import Lab
from labs.workshop.exercises import in_order

# In the order in which a teacher gives time to them: what is loud, what is never noticed, what hangs, what is slow.
STOPS = "stops"
KINDS = (STOPS, "wrong-data", "stands-still", "slow")

LONGEST = 90  # minutes without a break
TALK = 5  # the story and the prediction before an exercise, the debrief after it
PAUSE, LUNCH = 15, 60


@dataclass(frozen=True)
class Format:
    name: str
    minutes: int
    spare: int = 0  # at least so many stay free, for what takes longer
    mystery: bool = True
    closing: bool = False
    lunch: bool = False


FORMATS = (
    Format("90 minutes", 90, mystery=False),
    Format("Half a day", 240, spare=10),
    Format("A day", 420, spare=20, closing=True, lunch=True),
)


@dataclass(frozen=True)
class Item:
    minutes: int
    title: str
    lab: Lab | None = None

    @property
    def rest(self) -> bool:
        return self.title in ("Break", "Lunch")


OPENING = Item(10, "Opening: how a batch travels, and the exercise loop shown once")
MYSTERY = Item(20, "Mystery: in groups, two failures with their names hidden")
DEBRIEF = Item(10, "Debrief: what will you look at first in a job of your own?")


def kind(lab: Lab) -> str:
    """What a person sees of it first."""
    symptom = SYMPTOMS.get(lab.findings[0], STOPS)
    return symptom if symptom in KINDS else STOPS


def by_importance() -> list[Lab]:
    """One of each kind, then the second of each, in the catalog's order; only what every machine can run."""
    # A limit on memory takes docker or podman, which not everybody in a room has.
    usual = [lab for lab in LABS.values() if not lab.combines and not lab.limits.memory]
    turns = zip_longest(*([lab for lab in usual if kind(lab) == each] for each in KINDS))
    return [lab for lab in chain.from_iterable(turns) if lab]


def plan(format: Format) -> list[Item]:
    closing = [lab for lab in LABS.values() if lab.combines] if format.closing else []
    needed = [name for lab in closing for name in lab.combines]
    chosen: list[Lab] = []
    for name in dict.fromkeys([*needed, *(lab.name for lab in by_importance())]):
        lab = LABS[name]
        if length(lay_out(format, [*chosen, lab], closing)) <= format.minutes - format.spare:
            chosen.append(lab)
    return lay_out(format, chosen, closing)


def lay_out(format: Format, chosen: list[Lab], closing: list[Lab]) -> list[Item]:
    work = [
        OPENING,
        *(exercise(lab, "Exercise") for lab in in_order() if lab in chosen),
        *([MYSTERY] if format.mystery else []),
        *(exercise(lab, "Closing exercise") for lab in closing),
        DEBRIEF,
    ]
    return with_breaks(work, format.lunch)


def exercise(lab: Lab, title: str) -> Item:
    return Item(TALK + lab.minutes, title, lab)


def with_breaks(work: list[Item], lunch: bool) -> list[Item]:
    """As few breaks as there must be, and the stretches between them as even as they can be."""
    stretches = next(
        found
        for most in range(max(item.minutes for item in work), LONGEST + 1)
        if len(found := divided(work, most)) == len(divided(work, LONGEST))
    )
    middle = len(stretches) // 2
    items = list(stretches[0])
    for number, stretch in enumerate(stretches[1:], 1):
        items += [Item(LUNCH, "Lunch") if lunch and number == middle else Item(PAUSE, "Break"), *stretch]
    return items


def divided(work: list[Item], most: int) -> list[list[Item]]:
    """In stretches of at most so many minutes."""
    stretches: list[list[Item]] = [[]]
    for item in work:
        if length([*stretches[-1], item]) > most:
            stretches.append([])
        stretches[-1].append(item)
    return stretches


def length(items: Iterable[Item]) -> int:
    return sum(item.minutes for item in items)


def markdown() -> str:
    """All agendas, for a page in a folder."""
    return "\n".join(one(format) for format in FORMATS)


def one(format: Format) -> str:
    items = plan(format)
    rows, at = [], 0
    for item in items:
        rows.append([clock(at), str(item.minutes), what(item)])
        at += item.minutes
    spare = f" {format.minutes - at} minutes are left for what takes longer." if at < format.minutes else ""
    return f"## {format.name}\n\nFrom 0:00 to {clock(format.minutes)}.{spare}\n\n" + table(
        ["from", "minutes", "what"], rows
    )


def what(item: Item) -> str:
    if item.lab is None:
        return f"*{item.title}*" if item.rest else item.title
    return f"{item.title} **{linked(item.lab, '../')}** ({LEVELS[item.lab.difficulty]}): {escaped(item.lab.goal)}"


def clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"
