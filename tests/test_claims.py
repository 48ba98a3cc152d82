"""Every claim comes out as the table says, by a measurement that could have come out otherwise."""

import inspect
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import Any

import psutil
import pytest

from docs.make import record_claims, record_release, recording
from docs.make.record_release import Release, asked_the_same, otherwise
from labs.catalog import LABS
from labs.claims import __main__
from labs.claims.bench import Bench, measure
from labs.claims.claim import (
    CANNOT,
    FALSE,
    ONLY_WHEN,
    TRUE,
    UNTIL,
    Case,
    Changed,
    Claim,
    NotSound,
    Result,
    Source,
    decide,
)
from labs.claims.table import CLAIMS, THEMES
from labs.harness.limits import ROOT, Refused
from labs.harness.run import HarnessFailed
from tests.conftest import Experiment, hear_signals
from tests.test_schemas import complaints

MEASURED = [claim.id for claim in CLAIMS.values() if claim.measure]


@pytest.mark.parametrize("id", MEASURED)
def test_a_claim_comes_out_as_the_table_says(experiment: Experiment, request: pytest.FixtureRequest, id: str) -> None:
    """Measured again, with the pinned torch; another release may change it, and then this says so."""
    claim = CLAIMS[id]
    if claim.needs:
        request.getfixturevalue(claim.needs)
    result = measure(claim, Bench(experiment))
    assert not result.not_run and not result.failed
    assert result.verdict == claim.verdict, "\n".join(f"{case.when}: {case.saw}" for case in result.cases)
    assert outcomes(result) == outcomes(record_claims.load()[id]), "nox -s record -- claims"


def outcomes(result: Result) -> list[tuple[str, bool, bool]]:
    """All but the numbers."""
    return [(recording.shape(case.when), case.holds, case.control) for case in result.cases]


def test_every_claim_is_recorded_and_no_other() -> None:
    """The page shows what was seen; if not: nox -s record -- claims."""
    recorded = record_claims.load()
    assert list(recorded) == list(CLAIMS)
    assert {id: result.verdict for id, result in recorded.items()} == {id: one.verdict for id, one in CLAIMS.items()}


def test_other_releases_are_compared_where_they_were_asked_the_same() -> None:
    """What was recorded counts for a claim that is as it was, not for one that has other cases since, or is gone."""
    now = {"same": Result("same", TRUE, (YES, NO_CONTROL)), "other": Result("other", TRUE, (YES,))}
    then = {**now, "other": Result("other", TRUE, (NO,)), "gone": Result("gone", TRUE, (YES,))}
    assert list(asked_the_same(Release("2.9.1", "", {}, then), now)) == ["same"]
    for release in record_release.load():
        assert asked_the_same(release, record_claims.load())


def test_what_came_out_otherwise_is_told() -> None:
    """A case that turned, or a program that was killed; and nothing where all is as it was."""
    now = Result("some-claim", TRUE, (YES, NO_CONTROL))
    turned = Result("some-claim", FALSE, (replace(YES, holds=False, saw="9"), NO_CONTROL))
    assert otherwise(now, now) == []
    assert otherwise(turned, now) == [("here", "9", "1")]
    [(_, then, _)] = otherwise(Result("some-claim", "none", failed="it failed: exit -7: Bus error"), now)
    assert "SIGBUS" in then


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


def claims(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labs.claims", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)


def test_one_claim_is_shown_in_full() -> None:
    """What is said, the verdict, every case, and what to believe instead."""
    done = claims("seed-identical")
    assert done.returncode == 0
    for words in (
        CLAIMS["seed-identical"].says,
        "true until torch 1.9",
        "8 different values in 8 draws",
        "What to believe",
    ):
        assert words in done.stdout


def test_several_are_a_table_or_json() -> None:
    """Progress goes to standard error: what is on standard output can be piped."""
    several = ("seed-identical", "gpu-utilisation")
    table, read = claims(*several), claims(*several, "--json")
    assert table.returncode == read.returncode == 0
    assert "2 of 2 claims came out as the table says" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 80
    assert complaints("claims", json.loads(read.stdout)) == []
    assert [one["id"] for one in json.loads(read.stdout)["claims"]] == [id for id in CLAIMS if id in several]


def test_a_claim_that_is_not_there() -> None:
    """One sentence, the nearest id, and the exit code of wrong usage."""
    done = claims("seed-identicle")
    assert done.returncode == 2 and "did you mean seed-identical" in done.stderr and not done.stdout


def test_a_claim_that_needs_docker_where_there_is_none() -> None:
    """Alone it cannot run; among others it is said, and the others count."""
    nowhere = {**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = claims("shm-default-64mb", env=nowhere)
    assert done.returncode == 77 and "docker does not answer" in done.stdout
    both = claims("shm-default-64mb", "gpu-utilisation", env=nowhere)
    assert both.returncode == 0 and "1 could not be measured on this machine" in " ".join(both.stdout.split())


def test_an_outcome_that_changed_is_not_as_expected(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """As with a release of torch that mends what the table calls false."""
    mended = replace(CLAIMS["seed-identical"], measure=lambda _: [YES, NO_CONTROL])
    monkeypatch.setitem(CLAIMS, "seed-identical", mended)
    assert __main__.main(["seed-identical"]) == 1
    assert "the table says: true until" in capsys.readouterr().out


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
def test_interrupted_while_measuring_nothing_is_left(number: signal.Signals) -> None:
    """Neither the processes that measure nor their containers; the fixture looks for leftovers."""
    several = [id for id in MEASURED if not CLAIMS[id].needs][:6]
    process = subprocess.Popen(
        [sys.executable, "-m", "labs.claims", *several],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
    )
    assert process.stderr and process.stderr.readline().startswith("  1 of")
    children = psutil.Process(process.pid).children()
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert psutil.wait_procs(children, timeout=30)[1] == []
    if number != signal.SIGKILL:
        assert process.returncode == 130 and said.splitlines()[-1].endswith("nothing is left running")


@pytest.mark.parametrize("cases", [[NO], Refused("no"), HarnessFailed("it broke")])
def test_a_measurement_that_breaks_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, cases: list[Case] | Exception
) -> None:
    """One that proves nothing or breaks ends with 99, one that cannot run here with 77, each with its reason."""

    def measured(_: Bench) -> list[Case]:
        if isinstance(cases, Exception):
            raise cases
        return cases

    monkeypatch.setitem(CLAIMS, "seed-identical", replace(CLAIMS["seed-identical"], measure=measured))
    assert __main__.main(["seed-identical"]) == (77 if isinstance(cases, Refused) else 99)
    assert ("not run here" if isinstance(cases, Refused) else "the measurement failed") in capsys.readouterr().out
