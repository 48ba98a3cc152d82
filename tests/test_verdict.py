"""Verdicts: three values, against what was expected, and the exit code that follows."""

import pytest

from labs.harness.findings import Finding
from labs.harness.history import History
from labs.harness.verdict import HEALTHY, INCONCLUSIVE, REPRODUCED, judge
from tests import histories as h


@pytest.mark.parametrize(
    ("expect", "found", "verdict", "code"),
    [
        (REPRODUCED, ["bus-error"], REPRODUCED, 0),
        (REPRODUCED, [], HEALTHY, 1),
        (REPRODUCED, ["bus-error", "stalled"], INCONCLUSIVE, 1),
        (REPRODUCED, ["raised"], INCONCLUSIVE, 1),
        (HEALTHY, [], HEALTHY, 0),
        (HEALTHY, ["bus-error"], REPRODUCED, 1),
        (HEALTHY, ["lost"], INCONCLUSIVE, 1),
        (HEALTHY, ["not-a-program"], INCONCLUSIVE, 2),
        (None, ["bus-error"], REPRODUCED, 0),
        (None, [], HEALTHY, 0),
        (None, ["raised"], INCONCLUSIVE, 1),
    ],
)
def test_verdict(expect: str | None, found: list[str], verdict: str, code: int) -> None:
    """What was found, against what was expected."""
    run = {**h.run_event(), "expect": expect, "lab_findings": ["bus-error"]}
    result = judge(History([run, h.container()]), [Finding(name, "A sentence.") for name in found])
    assert (result.verdict, result.exit_code) == (verdict, code)


def test_a_lab_with_two_findings_needs_both() -> None:
    """Half of a failure is not the failure that the lab promises."""
    run = {**h.run_event(), "expect": REPRODUCED, "lab_findings": ["same-draws", "epochs-repeat"]}
    half = judge(History([run, h.container()]), [Finding("same-draws", "A sentence.")])
    assert half.verdict == INCONCLUSIVE and half.exit_code == 1
