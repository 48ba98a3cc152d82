"""Pieces of Markdown for the pages of the workshop, made at every build from the catalog and the labs' own pages."""

import re
import textwrap
from itertools import count

from docs.make import agenda, recording
from docs.make.fragments import FRAGMENTS, LEVELS, linked, put, recorded_with
from docs.make.markdown import escaped, indented, table
from labs.catalog import LABS
from labs.harness.lab import Lab
from labs.harness.limits import ROOT
from labs.workshop import mystery
from labs.workshop.exercises import in_order

FOLDER = FRAGMENTS / "workshop"
PAGES = ROOT / "docs" / "labs"
INSTRUCTOR = "## For the instructor"

GROUPS = {
    "stops": "When a loader stops, or something runs out",
    "wrong-data": "When the data is wrong and nothing is said",
    "stands-still": "When it stands still",
    "slow": "When it is slow",
}


def write() -> None:
    put(FOLDER / "agendas.md", agenda.markdown())
    put(FOLDER / "goals.md", goals())
    put(FOLDER / "notes.md", notes())
    put(FOLDER / "mysteries.md", mysteries())
    put(FOLDER / "recorded-with.md", recorded_with(recording.load_from(recording.RECORDED / recording.WORKSHOP)))


def goals() -> str:
    """What a participant can do afterwards, by what a person sees of the failure."""
    single = [lab for lab in in_order() if not lab.combines]
    groups = {title: [lab for lab in single if agenda.kind(lab) == kind] for kind, title in GROUPS.items()}
    groups["When there are several at once"] = [lab for lab in in_order() if lab.combines]
    return "\n".join(
        f"**{title}**, you can\n\n" + "".join(f"- {escaped(lab.goal)} ({linked(lab, '../')})\n" for lab in labs)
        for title, labs in groups.items()
    )


def notes() -> str:
    """What each lab's page tells an instructor, folded, in the order of the exercises."""
    told = [(lab, note) for lab in in_order() if (note := note_of(lab))]
    return "\n".join(
        f'??? note "{lab.name} ({lab.minutes} minutes, {LEVELS[lab.difficulty]})"\n\n'
        + indented(f"The lab's page: {linked(lab, '../')}.\n\n{note}")
        + "\n"
        for lab, note in told
    )


def note_of(lab: Lab) -> str:
    """The text in the fold under the page's last heading; nothing as long as there is no page."""
    page = PAGES / f"{lab.name}.md"
    if not page.exists():
        return ""
    lines = page.read_text(encoding="utf-8").partition(INSTRUCTOR)[2].splitlines()
    folded = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line)).strip()
    # What is near the lab's page is not near this one.
    folded = re.sub(r"\]\((?=[\w-]+\.md)", "](../labs/", folded)
    return re.sub(r"\]\((?=#)", f"](../labs/{lab.name}.md", folded)


def mysteries() -> str:
    """The first number that hides each failure, for whoever runs the round."""
    numbers: dict[str, int] = {}
    for number in count(1):
        numbers.setdefault(mystery.chosen(number).name, number)
        if len(numbers) == len(mystery.suspects()):
            break
    rows = [[f"`{number}`", linked(LABS[name], "../")] for name, number in sorted(numbers.items(), key=lambda n: n[1])]
    return table(["`--seed`", "hides"], rows)
