"""The pages of the workshop: what is collected from elsewhere is there, whole and leads somewhere."""

import re
from pathlib import Path

import pytest

from docs.make import workshop
from labs.catalog import LABS
from labs.harness.limits import ROOT
from labs.workshop import mystery
from tests.test_pages import INSTRUCTOR

PAGES = ROOT / "docs" / "workshop"
WITH_A_PAGE = [lab for lab in LABS.values() if (workshop.PAGES / f"{lab.name}.md").exists()]


def test_what_a_labs_page_tells_an_instructor_is_collected() -> None:
    """All four parts of every lab that has a page, and the words under them to the last."""
    notes = workshop.notes()
    assert WITH_A_PAGE and notes.count("??? note") == len(WITH_A_PAGE)
    for lab in WITH_A_PAGE:
        note = notes.partition(f'??? note "{lab.name} ')[2].partition("??? note")[0]
        told = (workshop.PAGES / f"{lab.name}.md").read_text().partition(workshop.INSTRUCTOR)[2]
        assert all(note.count(f"**{part}**") == 1 for part in INSTRUCTOR)
        assert without_links(told.partition("--8<--")[0]) in without_links(note)


def without_links(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("???")]
    return " ".join(re.sub(r"\]\([^)]*\)", "]", "\n".join(lines)).split())


def test_a_lab_without_a_page_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are written one after the other."""
    monkeypatch.setattr(workshop, "PAGES", tmp_path)
    assert workshop.notes() == ""


def test_links_near_a_labs_page_lead_there_from_the_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page beside it and a heading on it are elsewhere now; what is further away is where it was."""
    monkeypatch.setattr(workshop, "PAGES", tmp_path)
    text = "[a](pickle.md) [b](#the-fix) [c](../decide.md#x) [d][lab shm]"
    (tmp_path / "shm.md").write_text(f'{workshop.INSTRUCTOR}\n\n??? note "Story"\n\n    {text}\n\n--8<-- "links.md"\n')
    assert workshop.note_of(LABS["shm"]) == (
        "[a](../labs/pickle.md) [b](../labs/shm.md#the-fix) [c](../decide.md#x) [d][lab shm]"
    )


def test_every_goal_stands_once_on_the_first_page() -> None:
    """Whatever kind of failure it is."""
    assert sorted(re.findall(r"\(\[([\w-]+)\]\(", workshop.goals())) == sorted(LABS)


def test_a_mysterys_number_hides_what_the_instructor_is_told() -> None:
    """Each failure has one."""
    rows = re.findall(r"\| `(\d+)` \| \[([\w-]+)\]", workshop.mysteries())
    assert {name for _, name in rows} == {lab.name for lab in mystery.suspects()}
    assert all(mystery.chosen(int(number)).name == name for number, name in rows)


@pytest.mark.parametrize("lab", [lab.name for lab in LABS.values() if not lab.combines])
def test_the_cheat_sheet_has_every_lab(lab: str) -> None:
    """In one row, beside what one sees."""
    sheet = (PAGES / "cheat-sheet.md").read_text()
    assert sum(f"[{lab}][lab {lab}]" in line for line in sheet.splitlines() if line.startswith("|")) == 1


def test_every_command_of_the_pages_exists() -> None:
    """Sessions, and options of the exercise loop."""
    text = "\n".join(path.read_text() for path in PAGES.glob("*.md"))
    sessions = set(re.findall(r"nox -s ([a-z-]+[a-z])\b", text)) - {"lab", "fix", "check"}
    of_labs = {f"{kind}-{lab}" for kind in ("lab", "fix", "check") for lab in LABS}
    noxfile = (ROOT / "noxfile.py").read_text()
    assert [name for name in sessions - of_labs if f"def {name}(" not in noxfile] == []
    parser = (ROOT / "labs" / "workshop" / "__main__.py").read_text()
    options = set(re.findall(r"(--[a-z]+)", " ".join(re.findall(r"nox -s workshop -- (.*)", text))))
    assert options and [option for option in options if f'"{option}"' not in parser] == []
