"""What a person reads after a run: did it fail, what proves it, what to do next."""

import ast
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labs.harness.findings import Evidence, megabytes
from labs.harness.findings.deliveries import padding_share
from labs.harness.findings.workers import waiting_share
from labs.harness.history import SCHEMA, History
from labs.harness.lab import Lab
from labs.harness.limits import ROOT
from labs.harness.verdict import HEALTHY, REPRODUCED, Verdict
from labs.harness.words import sentence

WIDTH = 80
BLOCKS = "▁▂▃▄▅▆▇█"
WORTH_A_CURVE = 0.1  # of /dev/shm: below that the curve is a flat line
NOISE = ("UserWarning: This DataLoader will create", "self.check_worker_number_rationality()")


def console() -> Console:
    made = Console(highlight=False)
    made.width = min(made.width, WIDTH) if made.is_terminal else WIDTH
    return made


def headline(verdict: Verdict) -> tuple[str, str]:
    """The verdict in words that cannot be misread, and how they look."""
    role, limits_changed = verdict.history.run["role"], verdict.history.run["limits"]["changed"]
    if limits_changed:
        words = {REPRODUCED: "REPRODUCED, with the limits you chose", HEALTHY: "HEALTHY, with the limits you chose"}
        return words.get(verdict.verdict, "INCONCLUSIVE, with the limits you chose"), "bold yellow"
    if verdict.as_expected:
        words = {
            "failure": "REPRODUCED, as it should",
            "control": "HEALTHY, as it should: without the cause nothing fails",
            "fix": "HEALTHY, as it should: the fix holds",
            "check": "HEALTHY: your fix holds",
        }
        return words[role], "bold green"
    if verdict.verdict == HEALTHY:
        return "NOT REPRODUCED: the broken program ran to its end. This lab failed to fail", "bold red"
    if role == "failure":
        return "INCONCLUSIVE: it failed, but not in the way this lab is about", "bold red"
    if "not-a-program" in {finding.id for finding in verdict.findings}:
        return "NOT RUN: the file cannot be used as it is", "bold red"
    if role == "check":
        still = verdict.verdict == REPRODUCED
        return ("STILL BROKEN: the failure is still there" if still else "NOT ACCEPTED: not the whole job"), "bold red"
    return f"BROKEN: the {role} should be healthy and is not", "bold red"


def job_in_words(job: dict[str, Any], start_method: str | None) -> str:
    """What a program has to do to be called healthy, in one line."""
    parts = [f"{len(job['ids'])} samples", epochs(job)]
    if job["batch_size"] > 1:
        parts.append(f"batches of about {job['batch_size']}")
    if not job["workers"]:
        return f"Job: {', '.join([*parts, 'any number of workers'])}"
    workers = "1 worker" if job["workers"] == 1 else f"{job['workers']} workers"
    ranks = f" in {job['ranks']} ranks," if job["ranks"] > 1 else ""
    started = f" started with {start_method}" if start_method else ""
    return f"Job: {', '.join([*parts, workers + ranks + started])}".rstrip(",")


def epochs(job: dict[str, Any]) -> str:
    return f"{job['epochs']} epochs" if job["epochs"] > 1 else "1 epoch"


def health(history: History) -> list[Evidence]:
    """What proves that a program did its whole job."""
    job, samples = history.job, history.samples()
    expected, may_drop = len(job["ids"]) * job["epochs"], job["may_drop"] * job["epochs"]
    workers = {sample.worker for sample in samples} - {None}
    peak = max(event["shm_used"] for event in history.shared_memory())
    rows = [
        Evidence(
            f"samples in {epochs(job)}, each once an epoch",
            str(len(samples)),
            f"{expected - may_drop} to {expected}" if may_drop else str(expected),
        ),
        Evidence("workers that delivered them", str(len(workers)), str(job["workers"] or "any number")),
        Evidence("/dev/shm at its fullest", megabytes(peak), f"under {megabytes(history.container['shm_total'])}"),
    ]
    if validated := history.samples("validation"):
        rows.insert(1, Evidence("samples in validation", str(len(validated)), str(expected)))
    if (padding := padding_share(history)) is not None:
        rows.append(Evidence("padding, of all that was delivered", f"{padding:.0%}", "less than half"))
    if job["most_waiting"] and (share := waiting_share(history)) is not None:
        rows.append(
            Evidence("share of the loop spent waiting for data", f"{share:.0%}", f"under {job['most_waiting']:.0%}")
        )
    return rows


def sparkline(history: History, width: int = 40) -> str:
    """How full /dev/shm was over the run, against its size: the fullest moment of each slice of time."""
    samples = history.shared_memory()
    total = history.container["shm_total"]
    first, last = samples[0]["t"], samples[-1]["t"]
    slices: list[float | None] = [None] * width
    for sample in samples:
        place = min(width - 1, int(width * (sample["t"] - first) / (last - first or 1)))
        slices[place] = max(slices[place] or 0.0, sample["shm_used"] / total)
    line, fill = "", 0.0
    for slice in slices:
        fill = fill if slice is None else slice  # nobody looked in this slice: it was as before
        line += BLOCKS[min(7, int(fill * 8))]
    return line


class Page:
    """Lines for a terminal, or for a file, at most WIDTH wide."""

    def __init__(self) -> None:
        self.console = console()

    def say(self, text: str, style: str = "", indent: int = 2) -> None:
        self.console.print(Padding(Text(text, style), (0, 0, 0, indent), expand=False))

    def command(self, text: str) -> None:
        """On one line whatever its length, so that it can be copied."""
        self.console.print(Text(f"    {text}", "cyan"), soft_wrap=True)

    def heading(self, text: str) -> None:
        self.console.print()
        self.say(text, "bold")

    def table(self, evidence: list[Evidence]) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
        for heading in ("What proves it", "observed", "expected"):
            table.add_column(heading, overflow="fold")
        for row in evidence:
            table.add_row(Text(row.what), Text(row.observed, "bold"), Text(row.expected, "dim"))
        self.console.print(Padding(table, (1, 0, 0, 2), expand=False))


def printed(write: Callable[[Page], None]) -> None:
    """Print what is written on a page."""
    page = Page()
    with page.console.capture() as captured:
        write(page)
    # Tables are padded to their width: not for a file, nor for somebody who copies from the terminal.
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def show(verdict: Verdict, lab: Lab, folder: Path, exercise: Path | None = None) -> None:
    """The whole report, in the order in which a person asks."""
    printed(lambda page: write(page, verdict, lab, folder, exercise))


def write(page: Page, verdict: Verdict, lab: Lab, folder: Path, exercise: Path | None = None) -> None:
    """Who has the lab as an exercise before them, in this file, is not told why it fails, nor what mends it."""
    history = verdict.history
    words, style = headline(verdict)
    page.console.print()
    page.say(words, style)
    for finding in verdict.findings:
        page.say(finding.statement)
    page.say(job_in_words(history.job, history.job["start_method"]), "dim")
    if "not-a-program" not in {finding.id for finding in verdict.findings}:
        page.table([row for finding in verdict.findings for row in finding.evidence] or health(history))
        show_shared_memory(page, history)
        show_messages(page, verdict)
    if history.run["role"] == "failure" and verdict.verdict == REPRODUCED and not exercise:
        page.heading("Why")
        page.say(cause(lab))
        page.heading("In a job of your own")
        page.say(sentence(lab.at_home))
    show_place(page, history, folder)
    show_steps(page, next_steps(verdict, lab, exercise))


def show_steps(page: Page, steps: list[tuple[str, str]], heading: str = "Next") -> None:
    page.heading(heading)
    for command, why in steps:
        page.command(command)
        page.say(why, indent=6)


def show_shared_memory(page: Page, history: History) -> None:
    """The curve, where there is one to see."""
    total = history.container["shm_total"]
    peak = max(event["shm_used"] for event in history.shared_memory())
    if peak >= WORTH_A_CURVE * total:
        page.heading(f"/dev/shm  {sparkline(history)}  peak {megabytes(peak)}")
        page.say(f"{'█ is full: ' + megabytes(total):>{10 + 40}}", "dim")


def cause(lab: Lab) -> str:
    """Why it fails, in the words of the program's own docstring."""
    docstring = ast.get_docstring(ast.parse(lab.program.read_text())) or ""
    return sentence(" ".join(docstring.partition("Cause:")[2].partition("\nRun:")[0].split()))


def show_messages(page: Page, verdict: Verdict) -> None:
    """What torch or Python said, word for word."""
    for finding in verdict.findings:
        if finding.message:
            page.heading("In its own words")
            page.say(finding.message, "yellow")
    explained = verdict.as_expected or any(finding.message for finding in verdict.findings)
    lines = [line for line in verdict.history.output("stderr") if not any(words in line for words in NOISE)]
    printed = [] if explained else lines[-6:]
    if printed:
        page.heading("The last lines that it printed")
        for line in printed:
            page.say(line, "dim")


def show_place(page: Page, history: History, folder: Path) -> None:
    run, place, start = history.run, history.container, history.first("start") or {}
    limits = f"/dev/shm of {megabytes(place['shm_total'])} (measured inside), {place['cpus']} CPUs"
    page.heading("Where")
    page.say(f"{run['backend']} container, {limits}", indent=4)
    page.say(f"Python {place['python']}, torch {start.get('torch', 'not imported')}", indent=4)
    page.say(f"{os.path.relpath(folder)}/: history.jsonl, verdict.json, timeline.svg", indent=4)


def nox_command() -> str:
    """nox, as it has to be called from where the person is."""
    return "nox" if Path.cwd() == ROOT else f"nox -f {os.path.relpath(ROOT / 'noxfile.py')}"


def next_steps(verdict: Verdict, lab: Lab, exercise: Path | None = None) -> list[tuple[str, str]]:
    role, nox = verdict.history.run["role"], nox_command()
    broken, solution = os.path.relpath(lab.program), os.path.relpath(lab.solution)
    control = (f"{nox} -s lab-{lab.name} -- --control", f"the same program with {lab.control.says}: healthy")
    fix = (f"{nox} -s fix-{lab.name}", "the solution, in the same container: healthy")
    own = (f"{nox} -s workshop", f"a copy for you to mend; {nox} -s check-{lab.name} judges it")
    if role == "fix":
        return [(f"diff {broken} {solution}", f"what was changed: {lab.advice}"), own]
    if exercise:
        return [
            (f"edit {os.path.relpath(exercise)}", f"your copy, to mend; {nox} -s check-{lab.name} judges it"),
            (f"{nox} -s check-{lab.name} -- --hint", "why it fails and what mends it, a hint at a time"),
            (
                f"{nox} -s docs -- serve",
                f"the page labs/{lab.name}.html has all of it at once, for somebody whose own job has failed",
            ),
        ]
    return {"failure": [control, own, fix], "control": [own, fix]}[role]


def as_json(verdicts: list[Verdict]) -> dict[str, Any]:
    if len(verdicts) == 1:
        return verdicts[0].as_dict()
    good = sum(verdict.as_expected for verdict in verdicts)
    return {
        "schema": SCHEMA,
        "as_expected": good == len(verdicts),
        "runs": len(verdicts),
        "runs_as_expected": good,
        "verdicts": [verdict.as_dict() for verdict in verdicts],
    }


def one_line(number: int, of: int, verdict: Verdict) -> None:
    words, style = headline(verdict)
    found = ", ".join(finding.id for finding in verdict.findings) or "no findings"
    line = (
        Text(f"{number:>{len(str(of))}} of {of}  ") + Text(words.partition(":")[0], style) + Text(f"  {found}", "dim")
    )
    console().print(line)


def summary(verdicts: list[Verdict]) -> None:
    good = sum(verdict.as_expected for verdict in verdicts)
    style = "bold green" if good == len(verdicts) else "bold red"
    history = verdicts[0].history
    size = megabytes(history.container["shm_total"])
    console().print(Text(f"{good} of {len(verdicts)} runs as expected", style))
    console().print(Text(f"{history.run['backend']} container, /dev/shm of {size} (measured inside)", "dim"))
