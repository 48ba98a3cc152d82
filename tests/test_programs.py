"""Labs and solutions as texts: short, ordinary, and alike but for one marked region."""

import difflib
import os
import re
import sys

import pytest

from labs.catalog import LABS
from labs.harness import container
from labs.harness.lab import contents
from labs.harness.limits import ROOT, Limits
from tests.programs import SQL_POSTGRES

PAIRS = {**LABS, SQL_POSTGRES.file: SQL_POSTGRES}
START = "# --- the part that differs between the lab and its solution ---"
END = "# --- from here on the same ---"


@pytest.mark.parametrize("lab", PAIRS)
def test_solution_differs_in_the_marked_region_only(lab: str) -> None:
    """The same text before the region and after it, and another one within."""

    def parts(text: str) -> tuple[str, str, str]:
        before, _, rest = text.partition(START)
        region, _, after = rest.partition(END)
        return before, region, after

    broken, fixed = parts(PAIRS[lab].program.read_text()), parts(PAIRS[lab].solution.read_text())
    assert broken[0] == fixed[0] and broken[2] == fixed[2]
    assert broken[1] != fixed[1] and broken[1] and fixed[1]


@pytest.mark.parametrize("lab", PAIRS)
def test_a_program_is_short_and_ordinary(lab: str) -> None:
    """40 to 90 lines, nothing from the harness, a docstring with symptom, cause and command."""
    for path in (PAIRS[lab].program, PAIRS[lab].solution):
        text = path.read_text()
        assert 40 <= len(text.splitlines()) <= 90
        assert not re.search(r"^\s*(from|import) labs", text, re.M)
        assert all(f"\n{word}:" in text for word in ("Symptom", "Cause", "Run"))


@pytest.mark.parametrize("lab", LABS)
def test_a_program_runs_by_hand(lab: str) -> None:
    """`python solutions/NAME.py` is an ordinary program. (Run in a container: the host's /dev/shm is not for labs.)"""
    backend, limits = container.BACKENDS["namespace"], LABS[lab].limits
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if LABS[lab].ranks else []
    argv = [sys.executable, "-W", "ignore", *ranks, str(LABS[lab].solution)]
    process = container.start(backend, argv, limits, f"loader-lab-{os.getpid()}-hand", LABS[lab].solution)
    printed = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 0 and printed.count("\n") >= 4


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="forkserver is the default from Python 3.14 on")
@pytest.mark.parametrize("lab", [lab.name for lab in LABS.values() if lab.limits.start_method == "forkserver"])
def test_a_program_that_fails_under_forkserver_says_that_it_runs_by_hand(lab: str) -> None:
    """And it does, broken as it is, where fork is the default."""
    program = LABS[lab].program
    assert f"By itself (python labs/{program.name}) it works on Linux before Python 3.14" in program.read_text()
    argv = [sys.executable, "-W", "ignore", str(program)]
    name = f"loader-lab-{os.getpid()}-hand"
    process = container.start(container.BACKENDS["namespace"], argv, Limits(), name, program)
    printed = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 0 and printed.count("\n") >= 4


def test_programs_and_catalog_agree() -> None:
    """Every program is in the catalog, but for the one that needs a server, and each has its solution."""
    programs = {path.name for path in (ROOT / "labs").glob("*.py")} - {"__init__.py", "catalog.py"}
    solutions = {path.name for path in (ROOT / "solutions").glob("*.py")}
    assert programs == solutions == {lab.program.name for lab in PAIRS.values()}


def test_the_content_of_every_sample_is_known() -> None:
    """A fix is judged by content, so there is one on record for each sample of each lab."""
    assert {name: len(samples) for name, samples in contents().items()} == {
        lab.name: lab.samples for lab in LABS.values()
    }


def test_the_menu_line_of_a_lab_is_short() -> None:
    """It fits a line of `nox -l`, and says what goes wrong."""
    assert all(len(lab.fails) <= 80 for lab in LABS.values())


@pytest.mark.parametrize("lab", PAIRS)
def test_the_fix_reads_as_a_small_diff(lab: str) -> None:
    """At most 30 lines change."""
    texts = [path.read_text().splitlines() for path in (PAIRS[lab].program, PAIRS[lab].solution)]
    changed = [line for line in difflib.unified_diff(*texts, n=0, lineterm="") if re.match(r"[+-](?![+-])", line)]
    assert len(changed) <= 30
