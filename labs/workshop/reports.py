"""What an instructor gets: the state of every exercise of one learner as JSON, and many of them in one table."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labs.harness.entry import complain
from labs.harness.limits import Refused
from labs.harness.report import Page, printed
from labs.harness.verdict import AS_EXPECTED, WRONG_USAGE
from labs.workshop import exercises
from labs.workshop.exercises import CHANGED, NOT_STARTED, SOLVED, STILL_BROKEN, Exercise
from labs.workshop.progress import now

SCHEMA = 1
KIND = "loader-lab-workshop"
LARGEST = 1 << 20
PAGES = (".html", ".md")
MARKS = {NOT_STARTED: "·", CHANGED: "~", STILL_BROKEN: "x", SOLVED: "✓"}
LEGEND = "✓ solved, x still broken, ~ changed and not judged yet, · not started; (2) attempts, ? hints"


class Foreign(Exception):
    """Not a report of ours; the text says why."""


@dataclass(frozen=True)
class Entry:
    """One exercise of one learner."""

    lab: str
    state: str
    attempts: int
    hints: int
    changed_since_solved: bool = False
    began_at: str | None = None
    judged_at: str | None = None
    solved_at: str | None = None
    finding: str | None = None
    minutes: int | None = None
    difficulty: int | None = None


@dataclass(frozen=True)
class Report:
    name: str | None
    at: str
    exercises: list[Entry] = field(default_factory=list)

    @property
    def solved(self) -> int:
        return sum(entry.state == SOLVED for entry in self.exercises)


def own(name: str | None) -> Report:
    return Report(name, now(), [entry(each) for each in exercises.look()])


def entry(each: Exercise) -> Entry:
    lab, record = each.lab, each.record
    return Entry(
        lab.name,
        each.state,
        record.attempts,
        record.hints,
        each.changed_since,
        record.began_at,
        record.judged_at,
        record.solved_at,
        record.finding,
        lab.minutes,
        lab.difficulty,
    )


def as_json(report: Report) -> str:
    return json.dumps({"kind": KIND, "schema": SCHEMA, **asdict(report)}, indent=2)


def load(path: Path) -> Report:
    """A report from its file; whatever is not one is refused, since it comes from somebody else's machine."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise Foreign("it is far larger than a report")
        given = json.loads(content)
    except OSError as error:
        raise Foreign(str(error.strerror).lower()) from None
    except (ValueError, RecursionError):
        raise Foreign("it is not JSON") from None
    if not isinstance(given, dict) or given.get("kind") != KIND:
        raise Foreign("it was not written by nox -s workshop -- --report")
    if given.get("schema") != SCHEMA:
        raise Foreign(f"it has schema {given.get('schema')!r}, and this version reads schema {SCHEMA}")
    try:
        return checked(given, path.stem)
    except (KeyError, TypeError, ValueError):
        raise Foreign("a part of it is missing, or is not what it should be") from None


def checked(given: dict[str, Any], stem: str) -> Report:
    entries = [Entry(**each) for each in given["exercises"]]
    for each in entries:
        counts = (each.attempts, each.hints)
        if each.state not in MARKS or any(type(count) is not int or count < 0 for count in counts):
            raise ValueError
        if not re.fullmatch("[a-z0-9-]{1,40}", each.lab):
            raise ValueError
    if len({each.lab for each in entries}) != len(entries) or not isinstance(given["name"], str | None):
        raise ValueError
    # It goes to a terminal, where some characters are commands.
    name = "".join(letter if letter.isprintable() else " " for letter in given["name"] or stem)
    return Report(name[:60], str(given["at"]), entries)


def together(paths: list[Path], page: Path | None) -> int:
    """All reports that can be read in one table; what had to be left out is said, and is the exit code."""
    read: list[Report] = []
    for path in paths:
        try:
            read.append(load(path))
        except Foreign as reason:
            complain(f"{path} is left out: {reason}")
    read.sort(key=lambda report: (-report.solved, report.name or ""))
    if read:
        printed(lambda sheet: write(sheet, read))
    if read and page:
        text = as_html(read) if page.suffix == ".html" else as_markdown(read)
        try:
            page.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Refused(f"cannot write {page}: {error.strerror}") from None
        print(f"\n  The same as a page: {os.path.relpath(page)}")
    return AS_EXPECTED if len(read) == len(paths) else WRONG_USAGE


def labs_of(reports: list[Report]) -> list[str]:
    """In the order of the workshop, and labs that are not in this catalog after them."""
    known = [lab.name for lab in exercises.in_order()]
    named = {entry.lab for report in reports for entry in report.exercises}
    return [lab for lab in known if lab in named] + sorted(named - set(known))


def by_lab(reports: list[Report]) -> Iterator[list[str]]:
    for lab in labs_of(reports):
        entries = [entry for report in reports for entry in report.exercises if entry.lab == lab]
        begun = sum(entry.state != NOT_STARTED or bool(entry.attempts or entry.hints) for entry in entries)
        solved = sum(entry.state == SOLVED for entry in entries)
        attempts, hints = (sum(getattr(entry, what) for entry in entries) for what in ("attempts", "hints"))
        yield [lab, f"{solved} of {len(entries)}", str(begun), str(attempts), str(hints)]


def by_learner(reports: list[Report]) -> Iterator[list[str]]:
    for report in reports:
        attempts, hints = (sum(getattr(entry, what) for entry in report.exercises) for what in ("attempts", "hints"))
        solved = f"{report.solved} of {len(report.exercises)}"
        yield [report.name or "", solved, working_on(report), str(attempts), str(hints)]


def working_on(report: Report) -> str:
    """What was changed or judged and is not solved, or else what a hint was asked for, or else what one can say."""
    open_ones = [entry for entry in report.exercises if entry.state != SOLVED]
    begun = [entry for entry in open_ones if entry.state in (CHANGED, STILL_BROKEN)]
    begun = begun or [entry for entry in open_ones if entry.attempts or entry.hints]
    if begun:
        return begun[0].lab
    if not report.solved:
        return "(not begun yet)"
    return f"(next: {open_ones[0].lab})" if open_ones else "(all solved)"


LABS_HEADINGS = ["exercise", "solved by", "begun by", "attempts", "hints"]
LEARNERS_HEADINGS = ["learner", "solved", "is working on", "attempts", "hints"]
NUMERIC = {"solved by", "begun by", "solved", "attempts", "hints"}


def write(page: Page, reports: list[Report]) -> None:
    for headings, rows in ((LABS_HEADINGS, by_lab(reports)), (LEARNERS_HEADINGS, by_learner(reports))):
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
        for heading in headings:
            table.add_column(heading, justify="right" if heading in NUMERIC else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        page.console.print(Padding(table, (1, 0, 0, 2), expand=False))


def marks(reports: list[Report]) -> Iterator[list[str]]:
    """A row for each learner: how each exercise stands."""
    for report in reports:
        of = {entry.lab: entry for entry in report.exercises}
        yield [report.name or "", *(mark(of.get(lab)) for lab in labs_of(reports))]


def mark(entry: Entry | None) -> str:
    if entry is None:
        return ""
    attempts = f" ({entry.attempts})" if entry.attempts else ""
    return MARKS[entry.state] + attempts + "?" * min(3, entry.hints)


def tables(reports: list[Report]) -> list[tuple[str, list[str], list[list[str]]]]:
    return [
        ("By exercise", LABS_HEADINGS, list(by_lab(reports))),
        ("By learner", LEARNERS_HEADINGS, list(by_learner(reports))),
        ("All of it", ["learner", *labs_of(reports)], list(marks(reports))),
    ]


def learners(reports: list[Report]) -> str:
    return "1 learner" if len(reports) == 1 else f"{len(reports)} learners"


def as_markdown(reports: list[Report]) -> str:
    def row(cells: list[str]) -> str:
        plain = (escape(cell, quote=False).replace("|", r"\|").replace("`", "'") for cell in cells)
        return f"| {' | '.join(plain)} |"

    lines = [f"# Workshop: {learners(reports)}", ""]
    for title, headings, rows in tables(reports):
        lines += [f"## {title}", "", row(headings), f"|{'---|' * len(headings)}", *map(row, rows), ""]
    return "\n".join([*lines, LEGEND, ""])


STYLE = """
  :root { color-scheme: light dark }
  body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem }
  .wide { overflow-x: auto }
  table { border-collapse: collapse; margin-bottom: 1rem }
  th, td { text-align: left; padding: .25rem .75rem; border-bottom: 1px solid #8886; white-space: nowrap }
"""


def as_html(reports: list[Report]) -> str:
    def row(cells: list[str], tag: str = "td") -> str:
        first, *others = map(escape, cells)
        scope = "col" if tag == "th" else "row"
        return f'<tr><th scope="{scope}">{first}</th>{"".join(f"<{tag}>{cell}</{tag}>" for cell in others)}</tr>'

    body = [f"<h1>Workshop: {learners(reports)}</h1>"]
    for title, headings, rows in tables(reports):
        inner = "\n".join([f"<thead>{row(headings, 'th')}</thead>", "<tbody>", *map(row, rows), "</tbody>"])
        body.append(f'<h2>{title}</h2>\n<div class="wide" tabindex="0"><table>\n{inner}\n</table></div>')
    body.append(f"<p>{LEGEND}</p>")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Workshop</title>'
    head += f"<style>{STYLE}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"
