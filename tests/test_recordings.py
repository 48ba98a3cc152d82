"""What the site shows of the labs is what they are and do today."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.make import record, record_claims, record_release, record_workshop, recording
from docs.make.transcript import transcript
from labs.catalog import LABS
from labs.harness.limits import ROOT
from tests.conftest import Experiment

MOST_IN_ALL, MOST_IN_A_FILE = 3 << 20, 300 << 10


@pytest.mark.parametrize("lab", LABS)
def test_a_recording_is_of_the_programs_as_they_are(lab: str) -> None:
    """Both programs, the experiment and the fixes are those that were recorded; if not: nox -s record -- LAB."""
    assert recording.load(LABS[lab])["made_from"] == record.made_from(LABS[lab])


@pytest.mark.parametrize("role", recording.ROLES)
@pytest.mark.parametrize("lab", LABS)
def test_a_transcript_is_what_a_run_prints(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, lab: str, role: str
) -> None:
    """All but the numbers, and the message where there are several, in a run of today."""
    monkeypatch.chdir(ROOT)
    printed = transcript(experiment(lab, role), LABS[lab], ROOT / "runs" / lab / "today")
    recorded = (recording.folder(LABS[lab]) / f"{role}.txt").read_text()
    assert without_message(recording.shape(printed)) == without_message(recording.shape(recorded))


def without_message(transcript: str) -> str:
    """Which message comes may depend on how the samples were shuffled."""
    return re.sub(r"In its own words .*? (Why|Where) ", "", transcript)


def test_the_exercise_loop_prints_what_was_recorded() -> None:
    """All but the numbers, when somebody goes through it today; if not: nox -s record -- workshop."""
    with record_workshop.somebody() as learner:
        today = record_workshop.loop(learner)
    recorded = {path.name: path.read_text() for path in record_workshop.FOLDER.glob("*.txt")}
    assert recorded.pop(record_workshop.READY)
    assert {name: recording.shape(text) for name, text in today.items()} == {
        name: recording.shape(text) for name, text in recorded.items()
    }


def test_the_check_of_the_machine_is_the_one_that_was_recorded() -> None:
    """Its output differs from machine to machine, so it is the program that is compared."""
    made = json.loads((record_workshop.FOLDER / "recording.json").read_text())
    assert made["made_from"] == record_workshop.made_from()


def test_the_exercise_loop_is_recorded_as_if_in_the_repository() -> None:
    """No way up out of it, whatever folder the learner had."""
    assert [path.name for path in record_workshop.FOLDER.iterdir() if "../" in path.read_text()] == []


def test_recordings_stay_small() -> None:
    """The repository is for reading: 3 MB for all of them, 300 KB for one file."""
    sizes = {path: path.stat().st_size for path in recording.RECORDED.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < MOST_IN_ALL
    assert {path.name for path, size in sizes.items() if size > MOST_IN_A_FILE} == set()


def test_no_recording_is_left_of_a_lab_that_is_gone() -> None:
    """A folder for each lab, one for the exercise loop, two for the claims, and no other."""
    others = {record_workshop.NAME, record_claims.NAME, record_release.NAME}
    assert {path.name for path in recording.RECORDED.iterdir()} == {*LABS, *others}


def test_a_recording_does_not_say_where_it_was_made() -> None:
    """No path of the machine: neither of the repository, nor of the interpreter, nor a temporary one."""
    texts = {path: path.read_text() for path in recording.RECORDED.rglob("*") if path.is_file()}
    places = ("/tmp/", "/home/", "/root/", "site-packages", str(ROOT))
    assert {path.name: place for path, text in texts.items() for place in places if place in text} == {}


def test_transcripts_fit_a_terminal() -> None:
    """80 columns, and no colour."""
    for path in recording.RECORDED.rglob("*.txt"):
        assert max(map(len, path.read_text().splitlines())) <= 80 and "\x1b" not in path.read_text()


@pytest.mark.parametrize(
    "picture", sorted(recording.RECORDED.rglob("*.svg")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_picture_can_be_read_by_everybody(picture: Path) -> None:
    """It is well-formed, says in words what it shows, and its style is for itself alone."""
    drawn = ElementTree.fromstring(picture.read_text())
    assert drawn.get("role") == "img" and len(drawn.get("aria-label", "")) > 40
    rules = re.findall(r"^([^\n{]+){", drawn.findtext("{http://www.w3.org/2000/svg}style", ""), re.M)
    assert rules and all(rule.startswith(".run-picture ") for rule in rules)
