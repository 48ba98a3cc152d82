"""For a group: a failure with its name hidden, to be found from the evidence."""

import random
import re
import secrets
import sys
import tempfile
from pathlib import Path

from labs.catalog import LABS
from labs.harness import container
from labs.harness.entry import complain
from labs.harness.lab import Lab
from labs.harness.limits import Refused
from labs.harness.report import NOISE, Page, cause, job_in_words, nox_command, printed, show_shared_memory
from labs.harness.run import HarnessFailed, Request, once
from labs.harness.verdict import AS_EXPECTED, NOT_AS_EXPECTED, WRONG_USAGE, Verdict
from labs.harness.words import did_you_mean, sentence
from labs.workshop import progress

TITLE = "mystery"
MOST_SEEDS = 10_000
LAST_LINES = 8


def suspects() -> list[Lab]:
    """What it may be: every lab with a single failure."""
    return [lab for _, lab in sorted(LABS.items()) if not lab.combines]


def chosen(seed: int) -> Lab:
    return random.Random(seed).choice(suspects())


def main(seed: int | None, answer: Lab | None, runs: Path) -> int:
    if answer:
        seed = progress.read().mystery if seed is None else seed
        if seed is None:
            complain("there is no mystery to answer yet: nox -s workshop -- --mystery")
            return WRONG_USAGE
        return judge_answer(chosen(seed), answer)
    seed = one_for_this_machine() if seed is None else seed
    verdict = run(chosen(seed), seed, runs)
    with progress.changing() as kept:
        kept.mystery = seed
    printed(lambda page: write(page, chosen(seed), verdict, seed))
    if sys.stdin.isatty() and sys.stdout.isatty():
        return ask(chosen(seed))
    printed(answer_later)
    return AS_EXPECTED


def one_for_this_machine() -> int:
    for _ in range(100):
        seed = secrets.randbelow(MOST_SEEDS)
        if any(backend.why_not(chosen(seed).limits) is None for backend in container.BACKENDS.values()):
            return seed
    raise Refused("no container can be started here; nox -s ready says why and what to do")


def run(lab: Lab, seed: int, runs: Path) -> Verdict:
    """The broken program under a name that says nothing, so that no path in its output gives it away."""
    try:
        backend = container.choose(None, lab.limits)
    except Refused:
        raise Refused(f"mystery {seed} cannot run on this machine: take another --seed, or see nox -s ready") from None
    backend.prepare()
    with tempfile.TemporaryDirectory(prefix="loader-lab-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = folder / "program.py"
        program.write_bytes(lab.program.read_bytes())
        verdict, _ = once(Request(lab, "failure", program, title=TITLE), backend, runs, quiet=False)
    if not verdict.as_expected:
        raise HarnessFailed("this failure did not show itself as it should; try again, or take another --seed")
    return verdict


def write(page: Page, lab: Lab, verdict: Verdict, seed: int) -> None:
    """Only what was seen: no names, no causes."""
    history = verdict.history
    job, workers = history.job, history.first("workers") or {}
    page.console.print()
    page.say(f"Mystery {seed}: what is wrong with this program?", "bold yellow")
    for finding in verdict.findings:
        page.say(finding.statement)
    page.say(job_in_words(job, workers.get("start_method")), "dim")
    page.table([row for finding in verdict.findings for row in finding.evidence])
    show_shared_memory(page, history)
    for finding in verdict.findings:
        if finding.message:
            page.heading("In its own words")
            page.say(finding.message, "yellow")
    code = lines_named(lab, " ".join(row.observed for finding in verdict.findings for row in finding.evidence))
    if code:
        page.heading("Where that is in the program")
        for line in code:
            page.say(line, "cyan")
    if printed_lines := last_lines(history.output("stderr")):
        page.heading("The last lines that it printed")
        for line in printed_lines:
            page.say(line, "dim")
    page.heading("Which of these labs is it?")
    page.say(", ".join(lab.name for lab in suspects()))


def answer_later(page: Page) -> None:
    page.heading("When you know it")
    page.command(f"{nox_command()} -s workshop -- --mystery --answer NAME")


def lines_named(lab: Lab, evidence: str) -> list[str]:
    """The lines of the program that the evidence points to, as a traceback would show them."""
    numbers = {int(number) for number in re.findall(r"(?:program\.py:|\bline )(\d+)", evidence)}
    text = lab.program.read_text().splitlines()
    return [f"{number}: {text[number - 1].strip()}" for number in sorted(numbers) if number <= len(text)]


def last_lines(output: list[str]) -> list[str]:
    """Without noise, and without folders, which are long and say nothing."""
    noise = (*NOISE, "^^^")
    lines = [line for line in output if not any(words in line for words in noise)]
    return [re.sub(r'/[^\s":]*/(?=[^/\s":]+\.py)', "", line) for line in lines[-LAST_LINES:]]


def ask(lab: Lab) -> int:
    """On a terminal: until the answer is right, or the group wants to think."""
    names = {each.name: each for each in suspects()}
    while True:
        try:
            answer = input("\n  Its name, or Enter alone to answer later: ").strip()
        except EOFError:
            answer = ""
        if not answer:
            printed(answer_later)
            return AS_EXPECTED
        if answer not in names:
            print(f"  There is no {answer!r} among them; {did_you_mean(answer, names)}".rstrip("; "))
        elif judge_answer(lab, names[answer]) == AS_EXPECTED:
            return AS_EXPECTED


def judge_answer(lab: Lab, answer: Lab) -> int:
    printed(lambda page: write_answer(page, lab, answer))
    return AS_EXPECTED if answer.name == lab.name else NOT_AS_EXPECTED


def write_answer(page: Page, lab: Lab, answer: Lab) -> None:
    page.console.print()
    if answer.name == lab.name:
        page.say(f"Right: it is {lab.name}.", "bold green")
        page.say(sentence(lab.fails))
        page.heading("Why")
        page.say(cause(lab))
        page.heading("What mends it")
        page.say(sentence(lab.advice))
        return
    page.say(f"No, it is not {answer.name}.", "bold red")
    page.say(f"{answer.name}: {sentence(answer.fails)}")
    if set(answer.findings) == set(lab.findings):
        page.say("What is found there is of the same kind, so look at the details of the evidence.")
    else:
        page.say("That leaves other evidence than this.")
    page.heading("Look here")
    page.say(lab.hints[0])
