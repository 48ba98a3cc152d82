"""Every lab is an experiment of three runs. One matrix: each finding against each of them."""

import pytest

from labs.catalog import LABS
from labs.harness.findings import FINDINGS
from labs.harness.verdict import HEALTHY, REPRODUCED
from tests.conftest import Experiment

ROLES = ("failure", "control", "fix")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("lab", LABS)
def test_findings_fire_where_they_must_and_nowhere_else(experiment: Experiment, lab: str, role: str) -> None:
    """The failure shows exactly the lab's findings; the control and the fix show none of all there are."""
    verdict = experiment(lab, role)
    fired = {name for name, check in FINDINGS.items() if check(verdict.history)}
    assert fired == (set(LABS[lab].findings) if role == "failure" else set())
    assert verdict.verdict == (REPRODUCED if role == "failure" else HEALTHY)
    assert verdict.as_expected and verdict.exit_code == 0


def test_shm_shows_signal_memory_and_message(experiment: Experiment) -> None:
    """A bus error is told by the worker's exit status, a full /dev/shm and torch's own words."""
    verdict = experiment("shm", "failure")
    error = verdict.history.first("error")
    assert error is not None
    assert -7 in [exit["exitcode"] for exit in error["exits"]]
    assert error["shm_used"] >= 0.95 * error["shm_total"] == 0.95 * (64 << 20)
    assert "is killed by signal: Bus error." in verdict.findings[0].message


def test_pickle_names_the_attribute(experiment: Experiment) -> None:
    """Which part of the dataset cannot be pickled is said by the expression that reaches it."""
    evidence = experiment("pickle", "failure").findings[0].evidence[0]
    assert evidence.observed.startswith("dataset.transforms[0] (make_transforms.<locals>.<lambda>")


def test_opencv_is_measured_against_its_fix_in_the_same_run(experiment: Experiment) -> None:
    """Context switches and throughput are ratios to the fix, which ran in the same container."""
    verdict = experiment("opencv", "failure")
    threads, switches, rate = verdict.findings[0].evidence
    assert threads.observed == "64" and float(switches.observed.split()[0]) > 3 and "times as many" in rate.observed
    assert verdict.history.first("batch", "fix") is not None


def test_augment_repeats_across_workers_and_epochs(experiment: Experiment) -> None:
    """Four workers are four copies of one sequence, and the second epoch is the first again."""
    evidence = [row.observed for finding in experiment("augment", "failure").findings for row in finding.evidence]
    assert evidence == ["6 of 6", "24 of 96", "96 of 96"]


def test_shards_come_once_for_each_worker(experiment: Experiment) -> None:
    """105 records and four workers are 420 deliveries."""
    assert experiment("shards", "failure").findings[0].evidence[0].observed == "420"
