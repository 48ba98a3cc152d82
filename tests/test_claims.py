"""Every claim comes out as the table says, by a measurement that could have come out otherwise."""

import inspect

import pytest

from labs.catalog import LABS
from labs.claims.bench import Bench, measure
from labs.claims.claim import CANNOT, FALSE, ONLY_WHEN, TRUE, UNTIL, Case, Changed, Claim, NotSound, Source, decide
from labs.claims.table import CLAIMS, THEMES
from tests.conftest import Experiment

MEASURED = [claim.id for claim in CLAIMS.values() if claim.measure]


@pytest.mark.parametrize("id", MEASURED)
def test_a_claim_comes_out_as_the_table_says(experiment: Experiment, request: pytest.FixtureRequest, id: str) -> None:
    """Measured again, with the pinned torch; another release may change it, and then this says so."""
    claim = CLAIMS[id]
    if claim.needs:
        request.getfixturevalue(claim.needs)
    result = measure(claim, Bench(experiment))
    assert not result.not_run
    assert result.verdict == claim.verdict, "\n".join(f"{case.when}: {case.saw}" for case in result.cases)


def a_claim(verdict: str = TRUE, changed: Changed | None = None) -> Claim:
    return Claim("some-claim", Source("somebody"), "It is so.", verdict, "It is so.", changed=changed)


YES, NO = Case("here", True, "1"), Case("there", False, "0")
YES_CONTROL, NO_CONTROL = Case("here", True, "1", control=True), Case("there", False, "0", control=True)


@pytest.mark.parametrize(
    ("cases", "changed", "verdict"),
    [
        ((YES, NO_CONTROL), None, TRUE),
        ((NO, YES_CONTROL), None, FALSE),
        ((NO, YES_CONTROL), Changed("torch 1.9", "pytorch#1"), UNTIL),
        ((YES, NO), None, ONLY_WHEN),
    ],
)
def test_a_verdict_follows_from_the_cases(cases: tuple[Case, ...], changed: Changed | None, verdict: str) -> None:
    """Controls do not count for it."""
    assert decide(a_claim(changed=changed), cases) == verdict


@pytest.mark.parametrize("cases", [(), (YES, YES), (NO,), (NO, NO_CONTROL), (YES_CONTROL, NO_CONTROL)])
def test_a_measurement_that_could_not_have_come_out_otherwise_is_refused(cases: tuple[Case, ...]) -> None:
    """With no case, with cases that all agree, or with controls alone, there is no verdict."""
    with pytest.raises(NotSound):
        decide(a_claim(), cases)


def test_ids_are_unique() -> None:
    """The table has as many entries as the themes have claims."""
    assert len(CLAIMS) == sum(len(claims) for claims in THEMES.values())


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_an_entry_is_complete(claim: Claim) -> None:
    """What is said, by whom, what to believe, and what each kind of verdict needs beside it."""
    assert claim.id.replace("-", "").isalnum() and claim.id == claim.id.lower()
    assert claim.says.endswith(".") and claim.believe.endswith(".") and claim.source.title
    assert claim.verdict in (TRUE, FALSE, ONLY_WHEN, UNTIL, CANNOT)
    assert bool(claim.when) == (claim.verdict == ONLY_WHEN)
    assert claim.changed is not None or claim.verdict != UNTIL
    assert (bool(claim.setting) and claim.measure is not None) or claim.verdict == CANNOT
    assert not claim.lab or claim.lab in LABS
    assert claim.measure is None or (callable(claim.measure) and len(inspect.signature(claim.measure).parameters) == 1)
