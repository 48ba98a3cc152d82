"""The judge against fixes that people really try."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.catalog import LABS
from labs.harness.findings import find
from labs.harness.history import History
from labs.harness.verdict import HEALTHY, REPRODUCED, judge
from tests.conftest import Experiment, Run
from tests.fixes import RIGHT, WRONG, Fix


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that anybody can read, as the ordinary user in a docker container has to."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.parametrize("fix", WRONG, ids=str)
def test_a_wrong_fix_is_rejected_for_the_right_reason(run: Run, folder: Path, fix: Fix) -> None:
    """Exit code 1, and the finding that says what is still wrong."""
    verdict = run(fix.lab, "check", fix.write(folder))
    print([finding.statement for finding in verdict.findings])
    assert {finding.id for finding in verdict.findings} & set(fix.rejected_for)
    assert verdict.exit_code == 1


@pytest.mark.parametrize("fix", RIGHT, ids=str)
def test_a_right_fix_is_accepted_whatever_it_looks_like(run: Run, folder: Path, fix: Fix) -> None:
    """No finding, exit code 0."""
    verdict = run(fix.lab, "check", fix.write(folder))
    assert [finding.statement for finding in verdict.findings] == []
    assert verdict.verdict == HEALTHY and verdict.exit_code == 0


@pytest.mark.parametrize("lab", LABS)
def test_every_lab_has_wrong_and_right_fixes(lab: str) -> None:
    """At least two right fixes that are not ours, and at least two wrong ones."""
    assert sum(fix.lab == lab for fix in RIGHT) >= 2
    assert sum(fix.lab == lab for fix in WRONG) >= 2


@pytest.mark.parametrize("lab", LABS)
def test_the_lab_itself_is_no_fix(experiment: Experiment, lab: str) -> None:
    """A learner who hands in the broken program is told that it is still broken."""
    run, *events = experiment(lab, "failure").history.events
    history = History([{**run, "role": "check", "expect": HEALTHY}, *events])
    verdict = judge(history, find(history))
    assert verdict.verdict == REPRODUCED and verdict.exit_code == 1
