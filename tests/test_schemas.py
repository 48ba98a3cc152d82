"""The JSON Schemas of the reference describe what is really written."""

import json

import pytest
from jsonschema import Draft202012Validator

from labs.catalog import LABS
from labs.harness.limits import ROOT
from tests.conftest import Experiment, Run
from tests.programs import GOOD, bent

REFERENCE = ROOT / "docs" / "reference"


def complaints(name: str, *values: object) -> list[str]:
    schema = json.loads((REFERENCE / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    return [f"{error.json_path}: {error.message}" for value in values for error in validator.iter_errors(value)]


@pytest.mark.parametrize("role", ("failure", "control", "fix"))
@pytest.mark.parametrize("lab", LABS)
def test_every_event_and_every_verdict_is_as_described(experiment: Experiment, lab: str, role: str) -> None:
    """Of real runs, as they come back from JSON."""
    verdict = experiment(lab, role)
    assert complaints("history", *json.loads(json.dumps(verdict.history.events))) == []
    assert complaints("verdict", json.loads(json.dumps(verdict.as_dict()))) == []


def test_so_is_a_file_that_cannot_be_used(check: Run) -> None:
    """The event and the verdict of a program without make_loader."""
    verdict = check("pickle", bent("def make_loader", "def make_a_loader", GOOD))
    assert complaints("history", *json.loads(json.dumps(verdict.history.events))) == []
    assert complaints("verdict", json.loads(json.dumps(verdict.as_dict()))) == []


def test_the_schemas_refuse_what_is_not_described() -> None:
    """An event of no known kind, a batch without its samples, and a verdict that is none."""
    assert complaints("history", {"kind": "surprise"})
    assert complaints("history", {"kind": "batch", "t": 1.0, "part": "subject"})
    assert complaints("verdict", {"verdict": "perhaps"})
    assert complaints("claims", {"schema": 1, "as_expected": True, "claims": [{"id": "hearsay"}]})
