"""Claims for a terminal: the table, or one of them in full."""

import textwrap

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labs.claims.claim import CANNOT, FALSE, ONLY_WHEN, TRUE, UNTIL, Claim, Result
from labs.claims.table import CLAIMS, THEMES
from labs.harness.report import Page, nox_command, printed

STYLES = {TRUE: "bold green", FALSE: "bold red", ONLY_WHEN: "bold yellow", UNTIL: "bold magenta", CANNOT: "dim"}


def agrees(result: Result) -> bool:
    return bool(result.not_run) or result.verdict == CLAIMS[result.id].verdict


def table(results: dict[str, Result]) -> None:
    """All that were asked for, in the table's order."""
    printed(lambda page: write_table(page, results))


def write_table(page: Page, results: dict[str, Result]) -> None:
    for theme, claims in THEMES.items():
        asked = [claim for claim in claims if claim.id in results]
        if not asked:
            continue
        page.heading(theme)
        rows = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False, expand=True)
        rows.add_column(width=24)
        rows.add_column(ratio=1)
        for claim in asked:
            rows.add_row(verdict_of(results[claim.id], claim), Text(claim.says) + Text(f"\n{claim.id}", "dim"))
        page.console.print(Padding(rows, (0, 0, 0, 2)))
    for result in results.values():
        if result.failed:
            page.heading(f"{result.id} has no verdict: the measurement failed")
            page.say(result.failed)
    page.heading(in_all(results))


def in_all(results: dict[str, Result]) -> str:
    good = sum(agrees(result) and not result.not_run for result in results.values())
    left = [result for result in results.values() if result.not_run]
    words = f"{good} of {len(results)} claims came out as the table says."
    if left:
        words += f" {len(left)} could not be measured on this machine: {left[0].not_run}"
    return words


def verdict_of(result: Result, claim: Claim) -> Text:
    if result.not_run:
        return Text("not run here", "dim")
    if result.failed:
        return Text("the measurement failed", "bold red")
    if not agrees(result):
        return Text(f"{result.verdict}\n(the table says: {claim.verdict})", "bold red")
    return Text(claim.in_words, STYLES[claim.verdict])


def one(result: Result) -> None:
    printed(lambda page: write_one(page, result, CLAIMS[result.id]))


def write_one(page: Page, result: Result, claim: Claim) -> None:
    page.console.print()
    page.say(claim.says, "bold")
    page.say(f"{claim.source.title}", "dim")
    page.console.print()
    verdict = verdict_of(result, claim)
    page.say(verdict.plain, str(verdict.style))
    if result.not_run or result.failed:
        page.say(result.not_run or result.failed)
    for case in result.cases:
        page.heading(f"{'control: ' if case.control else ''}{case.when}")
        page.say(f"{'as claimed' if case.holds else 'not as claimed'}: {case.saw}", indent=4)
    if claim.setting:
        page.heading("Measured with")
        page.say(claim.setting, indent=4)
    page.heading("What to believe")
    page.say(claim.believe, indent=4)
    if claim.changed:
        page.heading(f"Since {claim.changed.release}")
        page.say(f"{claim.changed.where} {claim.changed.what}", indent=4)
    if claim.lab:
        page.heading("Try it")
        page.say(f"{nox_command()} -s lab-{claim.lab}", "cyan", indent=4)


def progress(number: int, of: int, result: Result) -> str:
    words = "not run here" if result.not_run else result.failed or result.verdict
    return f"{number:>3} of {of}  {textwrap.shorten(f'{result.id}: {words}', 66)}"
