"""nox -s new-lab: what it lays out, and what it refuses."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labs.harness.limits import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project without its history: a new lab is not for this one."""
    for folder in ("labs", "solutions", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def new_lab(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return harness(copy, "labs.harness.new_lab", *arguments)


def harness(copy: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", module, *arguments], cwd=copy, capture_output=True, text=True)


def test_what_is_laid_out_runs_and_fails(copy: Path) -> None:
    """The new program is in the catalog, fails with what stands for its failure, and its solution holds."""
    result = new_lab(copy, "my-failure")
    assert result.returncode == 0 and "labs/my_failure.py" in result.stdout
    lab, fix = (harness(copy, "labs.harness", action, "my-failure") for action in ("lab", "fix"))
    assert lab.returncode == 0 and "REPRODUCED, as it should" in lab.stdout and "TODO: the failure" in lab.stdout
    assert fix.returncode == 0 and "HEALTHY, as it should" in fix.stdout
    cases = "from tests.fixes import WRONG; print([fix.lab for fix in WRONG][-1])"
    said = subprocess.run([sys.executable, "-c", cases], cwd=copy, capture_output=True, text=True)
    assert said.stdout == "my-failure\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name the new lab"),
        (("shm",), "there is a lab called 'shm' already"),
        (("My Lab",), "is no name for a lab"),
        (("pickle-",), "is no name for a lab"),
        (("queue",), "would hide a module of Python's own"),
        (("catalog",), "labs/catalog.py is there already"),
    ],
)
def test_what_cannot_be_a_lab_is_refused(copy: Path, arguments: tuple[str, ...], words: str) -> None:
    """One sentence, exit code 2, and nothing is written."""
    before = sorted(copy.rglob("*.py"))
    result = new_lab(copy, *arguments)
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and words in result.stderr
    assert sorted(copy.rglob("*.py")) == before
