"""The exercise loop: nox -s workshop -- --help"""

import argparse
import os
import sys
from pathlib import Path

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labs.catalog import LABS
from labs.harness.__main__ import RUNS
from labs.harness.entry import Parser, complain, entry
from labs.harness.lab import Lab
from labs.harness.report import Page, nox_command, printed, show_steps
from labs.harness.verdict import AS_EXPECTED, WRONG_USAGE
from labs.harness.words import no_lab
from labs.workshop import exercises, mystery, progress, reports, watch
from labs.workshop.exercises import CHANGED, LEVELS, NOT_STARTED, SOLVED, STILL_BROKEN, Exercise

STATES = {
    NOT_STARTED: ("not started", "dim"),
    CHANGED: ("changed, not judged yet", "yellow"),
    STILL_BROKEN: ("still broken", "red"),
    SOLVED: ("solved", "green"),
}


def parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        "nox -s workshop -- [options]", "Your own copies of the broken programs, your progress, and what is next."
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--reset", type=lab, metavar="LAB", help="put one exercise back; yours is kept beside it")
    what.add_argument("--watch", nargs="*", type=lab, metavar="LAB", help="judge again on every save, until Ctrl-C")
    what.add_argument("--report", action="store_true", help="the state of every exercise as JSON, on standard output")
    what.add_argument("--together", nargs="+", type=Path, metavar="FILE", help="put many such reports together")
    what.add_argument("--mystery", action="store_true", help="a failure with its name hidden: which is it?")
    parser.add_argument("--name", help="whose report it is (with --report)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page, .html or .md (with --together)")
    parser.add_argument("--seed", type=int, metavar="N", help="which one, the same for every group (with --mystery)")
    parser.add_argument("--answer", type=lab, metavar="LAB", help="which you think it is (with --mystery)")
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help="where records go")
    arguments = parser.parse_args(argv)
    for option, needed in (("name", "report"), ("page", "together"), ("seed", "mystery"), ("answer", "mystery")):
        if getattr(arguments, option) is not None and not getattr(arguments, needed):
            parser.error(f"--{option} goes with --{needed}")
    if arguments.page and arguments.page.suffix not in reports.PAGES:
        parser.error(f"--page writes {' or '.join(reports.PAGES)}, and not {arguments.page.name}")
    return arguments


def lab(name: str) -> Lab:
    if name not in LABS:
        raise argparse.ArgumentTypeError(no_lab(name, LABS))
    return LABS[name]


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    if arguments.report:
        print(reports.as_json(reports.own(arguments.name)))
    elif arguments.together:
        return reports.together(arguments.together, arguments.page)
    elif arguments.mystery:
        return mystery.main(arguments.seed, arguments.answer, arguments.runs)
    elif arguments.reset:
        reset(arguments.reset)
    elif arguments.watch is not None:
        if not sys.stdout.isatty():
            complain("--watch is for a terminal; without one use nox -s check-LAB")
            return WRONG_USAGE
        exercises.make_copies()
        watch.watch(arguments.watch or exercises.in_order(), arguments.runs)
    else:
        made = exercises.make_copies()
        printed(lambda page: overview(page, exercises.look(), made))
    return AS_EXPECTED


def reset(lab: Lab) -> None:
    aside = exercises.put_back(lab)
    kept = f"; yours is kept as {aside.name}" if aside else ""
    print(f"Put back: {os.path.relpath(exercises.copy_of(lab))}{kept}")


def overview(page: Page, every: list[Exercise], made: int) -> None:
    """How far the learner is, and what comes next."""
    folder = os.path.relpath(progress.FOLDER)
    solved = sum(each.state == SOLVED for each in every)
    page.console.print()
    page.say(f"{solved} of {len(every)} exercises solved", "bold green" if solved else "bold")
    if made:
        programs = "broken programs are" if made > 1 else "broken program is"
        page.say(f"{made} {programs} new in {folder}/, for you to mend.")
    page.console.print()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for heading in ("exercise", "minutes", "difficulty", "state", "attempts", "hints"):
        table.add_column(heading, justify="right" if heading in ("minutes", "attempts", "hints") else "left")
    following = exercises.next_one(every)
    for each in every:
        words, style = describe(each)
        name = Text(each.lab.name, "bold" if each is following else "")
        counts = [str(count or "") for count in (each.record.attempts, each.record.hints)]
        table.add_row(name, str(each.lab.minutes), LEVELS[each.lab.difficulty], Text(words, style), *counts)
    page.console.print(Padding(table, (0, 0, 0, 2), expand=False))
    if following is None:
        page.heading("All of them are solved.")
    else:
        invite(page, following)


def describe(each: Exercise) -> tuple[str, str]:
    words, style = STATES[each.state]
    if each.changed_since:
        text = exercises.sha256(exercises.copy_of(each.lab))
        if text is None:
            words = "solved; no file now"
        elif exercises.is_untouched(each.lab):
            words = "solved; put back since"
        else:
            words = "solved; broken again" if text == each.record.judged_sha256 else "solved; changed since"
    return words, style


def invite(page: Page, each: Exercise) -> None:
    lab, nox, own = each.lab, nox_command(), os.path.relpath(exercises.copy_of(each.lab))
    page.heading(f"Next: {lab.name} ({lab.minutes} minutes, {LEVELS[lab.difficulty]})")
    page.say(f"After it you can {lab.goal}.")
    show_steps(
        page,
        [
            (f"{nox} -s lab-{lab.name}", "see it fail, and what proves it"),
            (f"edit {own}", "the marked part is enough; labs/ and solutions/ stay as they are"),
            (f"{nox} -s check-{lab.name}", "have yours judged; add -- --hint for a hint"),
        ],
        "What to do",
    )


if __name__ == "__main__":
    sys.exit(entry(main))
