"""What a learner reads about a fix of their own: the one thing that is still wrong, or how it compares with ours."""

import ast
import difflib
import os
import re
import textwrap
from pathlib import Path

from labs.harness import report
from labs.harness.lab import Lab
from labs.harness.report import Page
from labs.harness.verdict import Verdict
from labs.workshop import exercises, progress
from labs.workshop.exercises import is_copy
from labs.workshop.progress import Record

START = "# --- the part that differs between the lab and its solution ---"
END = "# --- from here on the same ---"
KINDS = ("where to look", "the mechanism", "the fix")
NUMBERS = ("first", "second", "third")
STYLES = {"+": "green", "-": "red"}
# Why a finding stands in the way of a fix, for any loader. A finding without an entry speaks for itself.
WHY_IT_MATTERS = {
    "tampered": "The judge believes only a record that the program has left alone.",
    "bus-error": "Somebody wrote into a file in /dev/shm beyond what is free there, and the kernel ends whoever does.",
    "oom": "The limit counts all processes together, and the kernel ends one of them when it is reached.",
    "shm-full": "More bytes were under way between the workers and the loop than /dev/shm holds.",
    "no-files": "Something is opened for every batch, and is still held when the next one comes.",
    "unpicklable": "Workers that are not forked are sent the dataset as a pickle, and this part cannot be in one.",
    "worker-died": "The loader cannot go on without it, and what it had loaded is gone.",
    "ranks-apart": "Every step needs all ranks, so all of them need the same number of batches.",
    "raised": "The job is done when every sample has come; an exception ends it before that.",
    "stalled": "The loop waits for a batch that nobody is working on any more.",
    "overtime": "The job has to be done within the lab's time; see where each process stood when it was over.",
    "unfinished": "The job is done when every sample has come, and the main process did not live that long.",
    "goes-on": "A program that skips what is broken has to know when that is too much to go on.",
    "duplicated": "Each sample of the job has to come exactly once in an epoch.",
    "lost": "Each sample of the job has to come in every epoch: a fix may not leave any out.",
    "thrown-away": "Work that is done and thrown away is still done: the workers have to load each sample once.",
    "wrong-content": "The samples have to be the lab's own: the same data in the same shape, and no stand-ins.",
    "small-batches": "The job is to train in batches, and one sample at a time is not that.",
    "mostly-padding": "Padding is computed with like everything else: more than half of it is work for nothing.",
    "same-draws": "Every content is meant to be new here, so no two workers may draw the same.",
    "epochs-repeat": "Every content is meant to be new here, so a second epoch has to draw again.",
    "not-repeatable": "With the same torch.manual_seed a run has to come out the same, or nobody can look into it.",
    "memory-grew": "What every worker has to read should be there once, and not once for each of them.",
    "starved": "Loading and computing should go on at the same time, not take turns.",
    "oversubscribed": "The workers are the parallelism; threads beyond the CPUs only wait for each other's turn.",
    "other-workers": "A fix keeps as many workers as the lab has, started in the same way: doing less is no fix.",
}


def note(verdict: Verdict, lab: Lab, file: Path) -> Record:
    """Keep the verdict on the learner's copy; any other file is judged and not kept."""
    findings = [finding.id for finding in verdict.findings]
    sha256 = verdict.history.run["sha256"]
    # A text that cannot be run is no attempt, and one that was saved again meanwhile may not be the one that ran.
    if not is_copy(file, lab) or "not-a-program" in findings or exercises.sha256(file) != sha256:
        return progress.read().of(lab.name)
    with progress.changing() as kept:
        record = kept.of(lab.name)
        record.note_verdict(sha256, findings[0] if findings else None)
    return record


def show(verdict: Verdict, lab: Lab, folder: Path, file: Path, record: Record) -> None:
    report.printed(lambda page: write(page, verdict, lab, folder, file, record))


def write(page: Page, verdict: Verdict, lab: Lab, folder: Path, file: Path, record: Record) -> None:
    words, style = report.headline(verdict)
    page.console.print()
    page.say(words, style)
    if is_copy(file, lab):
        counted = record.judged_sha256 == verdict.history.run["sha256"]
        attempt = f"attempt {record.attempts}" if counted else "not counted as an attempt"
        page.say(f"Your copy, {os.path.relpath(file)}: {attempt}.", "dim")
    job = verdict.history.job
    page.say(report.job_in_words(job, job["start_method"]), "dim")
    if verdict.as_expected:
        page.table(report.health(verdict.history))
        report.show_shared_memory(page, verdict.history)
        unchanged = exercises.sha256(file) == verdict.history.run["sha256"]
        same = unchanged and beside_ours(page, lab, file)
        page.heading("Why it works" if same else "Why ours works")
        page.say(f"{report.cause(lab)} So: {lab.advice}.")
    else:
        still_wrong(page, verdict)
    report.show_place(page, verdict.history, folder)
    report.show_steps(page, steps(verdict, lab, file, record))


def still_wrong(page: Page, verdict: Verdict) -> None:
    """The first finding: they stand in the order of what makes the rest meaningless."""
    first, *others = verdict.findings
    page.heading("What is still wrong")
    page.say(" ".join([first.statement, WHY_IT_MATTERS.get(first.id, "")]).strip())
    if first.id != "not-a-program":
        page.table(list(first.evidence))
        report.show_shared_memory(page, verdict.history)
        report.show_messages(page, verdict)
    if others:
        page.heading("After that")
        for finding in others:
            page.say(finding.statement)


def beside_ours(page: Page, lab: Lab, file: Path) -> bool:
    """How the learner's fix differs from ours; whether it does not."""
    changes = difference(file, lab.solution)
    ours = os.path.relpath(lab.solution)
    page.heading(f"Your fix (-) beside ours (+, {ours})" if changes else f"Your fix is the same as ours, {ours}")
    for line in changes:
        for part in folded(line):
            page.say(part, STYLES.get(line[:1], ""), indent=4)
    return not changes


def difference(own: Path, ours: Path) -> list[str]:
    """How the two programs differ, in the part in which solutions differ from labs where both have it.

    Comments and blank lines alone are no difference.
    """
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in (own, ours)]
    marked = [marked_part(text) for text in texts]
    mine, theirs = marked if all(marked) else map(without_docstring, texts)
    if statements(mine) == statements(theirs):
        return []
    changes = list(difflib.unified_diff(mine.splitlines(), theirs.splitlines(), n=1, lineterm=""))[3:]
    return [" ..." if line.startswith("@@") else line.rstrip() for line in changes]


def marked_part(text: str) -> str:
    return textwrap.dedent(text.partition(START)[2].partition(END)[0].strip("\n"))


def without_docstring(text: str) -> str:
    """Ours says why the broken one is broken, and a learner's copy does not."""
    return re.sub(r'\A""".*?"""\n+', "", text, count=1, flags=re.S)


def statements(text: str) -> str:
    """A text as Python sees it; a part that is no program by itself as it is written."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return text


def folded(line: str, width: int = 74) -> list[str]:
    """A line of a diff that is too long for a terminal goes on below: behind an arrow, or as another comment."""
    code = line[1:]
    margin = line[:1] + code[: len(code) - len(code.lstrip())]
    indent = margin if code.lstrip().startswith("#") else f"{margin}  ↳ "
    lines = textwrap.wrap(line, width - 2, subsequent_indent=indent, break_on_hyphens=False)
    if len(line) <= width:
        return [line]
    comment = next((number for number, part in enumerate(lines) if "# " in part), len(lines))
    return lines[: comment + 1] + [f"{margin}# {part.removeprefix(indent)}" for part in lines[comment + 1 :]]


def steps(verdict: Verdict, lab: Lab, file: Path, record: Record) -> list[tuple[str, str]]:
    nox, own = report.nox_command(), os.path.relpath(file)
    if verdict.as_expected:
        return [(f"{nox} -s workshop", "your exercises, and which is next")]
    named = "" if is_copy(file, lab) else f" -- {own}"
    again = (f"{nox} -s check-{lab.name}{named}", f"once you have changed {own}")
    if record.hints < len(lab.hints):
        what = f"the {NUMBERS[record.hints]} of {len(lab.hints)} hints: {KINDS[record.hints]}"
        return [(f"{nox} -s check-{lab.name} -- --hint", what), again]
    return [
        again,
        (f"{nox} -s fix-{lab.name}", f"our solution, {os.path.relpath(lab.solution)}, in the same container"),
    ]


def hint(lab: Lab) -> None:
    """One hint more than the last time, and those before it once again."""
    with progress.changing() as kept:
        record = kept.of(lab.name)
        before = record.hints
        record.note_hint(len(lab.hints))
    report.printed(lambda page: write_hints(page, lab, before, record.hints))


def write_hints(page: Page, lab: Lab, before: int, taken: int) -> None:
    for number, (kind, text) in enumerate(zip(KINDS, lab.hints, strict=True)):
        if number < taken:
            page.heading(f"Hint {number + 1} of {len(lab.hints)}: {kind}")
            page.say(text, "dim" if number < before else "")
    nox = report.nox_command()
    page.console.print()
    if before == len(lab.hints):
        page.say(f"There are no more hints. The solution is in {os.path.relpath(lab.solution)}.")
    elif taken < len(lab.hints):
        page.say(f"The next one, {KINDS[taken]}:", "dim")
        page.command(f"{nox} -s check-{lab.name} -- --hint")
    else:
        page.say(f"This was the last one. The solution is in {os.path.relpath(lab.solution)}.", "dim")
