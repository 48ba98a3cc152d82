"""Reports of many learners put together: a table, a page, and one sentence for what is no report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labs.catalog import LABS
from labs.workshop import progress, reports
from labs.workshop.exercises import NOT_STARTED, SOLVED, STILL_BROKEN
from labs.workshop.reports import Entry, Foreign, Report

NOBODY = Report("nobody", "2026-01-01T00:00:00+00:00", [Entry(lab, NOT_STARTED, 0, 0) for lab in LABS])


def one(name: str | None, **entries: Entry) -> Report:
    """A learner who has begun these exercises, and no others."""
    return replace(NOBODY, name=name, exercises=[entries.get(entry.lab, entry) for entry in NOBODY.exercises])


AHEAD = one("seat 1", pickle=Entry("pickle", SOLVED, 2, 1), shm=Entry("shm", STILL_BROKEN, 3, 0))
STUCK = one("seat 2", pickle=Entry("pickle", STILL_BROKEN, 4, 3))


def written(folder: Path, *many: Report) -> list[Path]:
    paths = [folder / f"{number}.json" for number in range(len(many))]
    for path, report in zip(paths, many, strict=True):
        path.write_text(reports.as_json(report))
    return paths


def test_a_report_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every exercise of the catalog, with its minutes and difficulty, and whose it is."""
    monkeypatch.setattr(progress, "FOLDER", tmp_path / "workshop")
    (path,) = written(tmp_path, reports.own("seat 7"))
    report = reports.load(path)
    assert report.name == "seat 7" and {entry.lab: entry.minutes for entry in report.exercises} == {
        lab.name: lab.minutes for lab in LABS.values()
    }


def test_a_report_without_a_name_is_called_after_its_file(tmp_path: Path) -> None:
    """That is what an instructor has in front of them."""
    (path,) = written(tmp_path, one(None))
    assert reports.load(path.rename(tmp_path / "seat-9.json")).name == "seat-9"


def test_thirty_are_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By exercise how many solved it, with how many attempts and hints; by learner how far they are; 80 columns."""
    assert reports.together(written(tmp_path, AHEAD, STUCK, *[NOBODY] * 28), None) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    assert ["pickle", "1", "of", "30", "2", "6", "4"] in rows and ["shm", "0", "of", "30", "1", "3", "0"] in rows
    assert f"seat 1 1 of {len(LABS)} shm 5 1".split() in rows and f"seat 2 0 of {len(LABS)} pickle 4 3".split() in rows
    assert max(map(len, shown.splitlines())) <= 80


def test_everybody_is_said_to_be_somewhere() -> None:
    """Also who has not begun, who asked for a hint and changed nothing, who is between two, and who is done."""
    asked = one("asked", shm=Entry("shm", NOT_STARTED, 0, 1))
    between = replace(NOBODY, exercises=[replace(NOBODY.exercises[0], state=SOLVED), *NOBODY.exercises[1:]])
    done = replace(NOBODY, exercises=[replace(entry, state=SOLVED) for entry in NOBODY.exercises])
    said = [reports.working_on(report) for report in (AHEAD, NOBODY, asked, between, done)]
    assert said == ["shm", "(not begun yet)", "shm", f"(next: {NOBODY.exercises[1].lab})", "(all solved)"]


@pytest.mark.parametrize("suffix", reports.PAGES)
def test_the_page_says_the_same(tmp_path: Path, suffix: str) -> None:
    """What a learner chose as a name is text there, whatever it looks like."""
    page = tmp_path / f"class{suffix}"
    assert reports.together(written(tmp_path, AHEAD, replace(STUCK, name="<script>|x")), page) == 0
    text = page.read_text()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert "1 of 2" in text and "✓ (2)?" in text and "x (4)???" in text
    assert "http" not in text


def test_a_page_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """As a refusal, which is exit code 77."""
    with pytest.raises(reports.Refused, match="cannot write /proc/nowhere/"):
        reports.together(written(tmp_path, AHEAD), Path("/proc/nowhere/class.html"))


def changed(**parts: object) -> str:
    return json.dumps({**json.loads(reports.as_json(AHEAD)), **parts})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ('{"kind": "loader', "it is not JSON"),
        ("[]", "it was not written by nox -s workshop -- --report"),
        ('{"kind": "another"}', "it was not written by nox -s workshop -- --report"),
        (changed(schema=2), "it has schema 2, and this version reads schema 1"),
        (changed(exercises=None), "a part of it is missing"),
        (changed(exercises=[{"lab": "shm"}]), "a part of it is missing"),
        (changed(exercises=[vars(Entry("shm", "asleep", 0, 0))]), "a part of it is missing"),
        (changed(exercises=[vars(Entry("shm", SOLVED, -1, 0))]), "a part of it is missing"),
        (changed(exercises=[vars(Entry("\x1b[2J", SOLVED, 0, 0))]), "a part of it is missing"),
        (changed(exercises=[vars(AHEAD.exercises[0])] * 2), "a part of it is missing"),
        (changed(name=7), "a part of it is missing"),
        ("[" * (2 << 20), "it is far larger than a report"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_what_is_no_report_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    """One sentence that names the file and says why; the others are put together all the same; exit code 2."""
    (tmp_path / "foreign.json").write_text(text)
    assert reports.together([*written(tmp_path, AHEAD), tmp_path / "foreign.json"], None) == 2
    result = capsys.readouterr()
    assert "seat 1" in result.out and result.err.count("\n") == 1
    assert f"{tmp_path / 'foreign.json'} is left out: {reason}" in result.err


def test_a_file_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    """The same for a folder."""
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(Foreign):
            reports.load(path)


def test_a_name_cannot_command_the_terminal(tmp_path: Path) -> None:
    """Characters that are not for reading become blanks."""
    (path,) = written(tmp_path, replace(AHEAD, name="\x1b[31mred\n"))
    assert reports.load(path).name == " [31mred "
