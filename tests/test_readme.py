"""The README shows what is true: its transcript, its table of labs, its commands."""

import os
import re
import subprocess
import sys

from docs.make.recording import shape
from labs.catalog import LABS
from labs.harness.limits import ROOT

# Nobody's exercises: a lab that somebody has yet to mend does not say why it fails.
ENVIRONMENT = {**os.environ, "LOADER_LAB_WORKSHOP": "/nowhere"}
README = (ROOT / "README.md").read_text()
MARKS = ("<!-- transcript of: nox -s lab-shm -->\n```text\n", "```\n<!-- end of transcript -->")


def transcript() -> str:
    return README.partition(MARKS[0])[2].partition(MARKS[1])[0]


def table() -> str:
    rows = [f"| `{lab.name}` | {lab.fails} | {lab.control.says} | {lab.advice} |" for lab in LABS.values()]
    return "\n".join(["| lab | what fails | without the cause | what mends it |", "|---|---|---|---|", *rows]) + "\n"


def test_the_transcript_is_what_a_run_prints() -> None:
    """Run it, and compare all but the numbers."""
    command = [sys.executable, "-m", "labs.harness", "lab", "shm"]
    printed = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=120).stdout
    assert shape(transcript()) == shape(printed)


def test_the_table_of_labs_is_the_catalogs() -> None:
    """Word for word."""
    assert table() in README


def test_every_command_exists() -> None:
    """Each session and option that the README names is there; CI runs the README's own test command."""
    sessions = set(re.findall(r"nox -s ([a-z-]+)", README))
    menu = subprocess.run([sys.executable, "-m", "nox", "-l"], cwd=ROOT, capture_output=True, text=True).stdout
    assert sessions and all(f"- {session} " in menu for session in sessions)
    for session, option in set(re.findall(r"nox -s ([a-z-]+) -- (--[a-z-]+)", README)):
        module = "labs.workshop" if session == "workshop" else "labs.harness"
        helped = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True)
        assert f"{option} " in helped.stdout
    test_command = next(line.split("#")[0].strip() for line in README.splitlines() if "nox -s tests" in line)
    assert f"\n{test_command}\n" in (ROOT / ".ci" / "run").read_text()


def write() -> None:
    """Put a fresh transcript and the table into the README: python -m tests.test_readme"""
    command = [sys.executable, "-m", "labs.harness", "lab", "shm"]
    printed = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    text = README.replace(MARKS[0] + transcript() + MARKS[1], MARKS[0] + printed + MARKS[1])
    old = re.search(r"\| lab \|.*?\n(?=\n)", text, re.S)
    assert old
    (ROOT / "README.md").write_text(text.replace(old[0], table()))


if __name__ == "__main__":
    write()
