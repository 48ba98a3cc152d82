"""The site's pages: one pattern for all labs, and nothing that stands there twice."""

import re
from pathlib import Path

import pytest

from docs.make import fragments, recording
from docs.make.__main__ import main as build
from docs.make.pictures import journey
from labs.catalog import LABS
from labs.harness.limits import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in ("fragments", "recorded"))
LAB_PAGES = sorted((DOCS / "labs").glob("[!_]*.md"))
ORDER = [
    "Predict",
    "Run",
    "What you see",
    "The evidence",
    "Hints",
    "The fix",
    "Why it works",
    "Control experiment",
    "Wrong fixes",
    "In production",
    "Key points",
    "For the instructor",
]
INSTRUCTOR = ("The story.", "The prediction to ask for.", "Where people get stuck.", "The debrief.")
INCLUDED = ("facts", "run", "messages", "recorded-with", "hints", "try", "fix", "control", "wrong-fixes")


@pytest.mark.parametrize("page", LAB_PAGES, ids=lambda path: path.stem)
def test_a_labs_page_has_the_order_of_all_the_others(page: Path) -> None:
    """The same headings, and what an instructor needs under the last."""
    text = page.read_text()
    assert re.findall(r"^## (.*)$", text, re.M) == ORDER
    assert all(f"**{part}**" in text.partition("## For the instructor")[2] for part in INSTRUCTOR)
    assert text.partition("\n# ")[2].startswith(f"{page.stem}: ")


@pytest.mark.parametrize("page", LAB_PAGES, ids=lambda path: path.stem)
def test_the_answer_does_not_stand_beside_the_question(page: Path) -> None:
    """Between the prediction and what somebody learns by running is a fold, with all of it inside."""
    folds = re.findall(r"^/// details \| I have made my prediction.*?^///$", page.read_text(), re.M | re.S)
    assert [re.findall(r"^## (.*)$", fold, re.M) for fold in folds] == [["What you see", "The evidence"]]


def test_no_include_was_taken_for_python() -> None:
    """Code that begins with ```python is formatted, and what includes a file is not Python."""
    assert [page.name for page in PAGES if re.search(r"^\s*--8 ", page.read_text(), re.M)] == []


@pytest.mark.parametrize("page", LAB_PAGES, ids=lambda path: path.stem)
def test_a_labs_page_includes_what_is_known(page: Path) -> None:
    """Facts, hints, transcript, evidence and pictures are those of this lab, and none is left out."""
    text = page.read_text()
    assert [name for name in INCLUDED if f'"docs/fragments/{page.stem}/{name}.md"' not in text] == []
    pictures = [path.name for path in recording.folder(LABS[page.stem]).glob("*.svg")]
    assert [
        name for name in ["failure.txt", "evidence.md", *pictures] if f"recorded/{page.stem}/{name}" not in text
    ] == []
    assert set(re.findall(r'"docs/(?:fragments|recorded)/([\w-]+)/', text)) == {page.stem}


@pytest.mark.parametrize("lab", LABS)
def test_hints_are_not_copied_by_hand(lab: str) -> None:
    """What the catalog says stands in the catalog only."""
    said = [LABS[lab].goal, *LABS[lab].hints]
    assert [page.name for page in PAGES for words in said if words in page.read_text()] == []


@pytest.mark.parametrize("lab", LABS)
def test_the_first_page_knows_every_message(lab: str) -> None:
    """Word for word but for the numbers, and with the lab it leads to."""
    known = recording.shape(fragments.messages())
    assert all(recording.shape(message["text"]) in known for message in recording.load(LABS[lab])["messages"])


def test_a_message_with_several_causes_leads_to_all_of_them() -> None:
    """The end of a worker that ran out of memory is announced like every other end."""
    lead = re.search(r"exited unexpectedly\n```\n(.*?)\n\n", fragments.messages(), re.S)
    assert lead and "labs/oom.md" in lead[1] and "other-messages.md#a-worker-has-died" in lead[1]


def test_the_first_page_has_the_messages_that_no_lab_says() -> None:
    """Each where it is explained, and none of those twice that a lab says."""
    shown = fragments.other_messages()
    assert "Cannot re-initialize CUDA" in shown and "received 0 items of ancdata" in shown
    assert "timed out after" not in shown


def test_other_messages_say_whether_they_were_seen() -> None:
    """A test, a lab, or a source that is named."""
    sections = fragments.OTHER_MESSAGES.read_text().split("\n## ")[1:]
    silent = [section.splitlines()[0] for section in sections if not re.search(r"\[test\]|those three labs", section)]
    assert len(sections) == 8 and silent == []


def test_what_is_left_out_of_a_labs_messages_is_said() -> None:
    """torch warns of the number of workers in labs that have many of them."""
    assert "will create 4 worker processes" in fragments.words(LABS["augment"])
    assert "no warning" not in fragments.words(LABS["augment"])
    assert "will create" not in fragments.words(LABS["ranks"])  # two workers in each of two ranks


def test_every_test_that_a_page_names_is_there() -> None:
    """A statement that leans on a test names one that exists."""
    named = {found for page in PAGES for found in re.findall(r"tests/(\w+\.py)(?:::(\w+))?", page.read_text())}
    missing = [(file, name) for file, name in named if f"def {name}" not in (ROOT / "tests" / file).read_text()]
    assert named and missing == []


@pytest.mark.parametrize("lab", [lab.name for lab in LABS.values() if not getattr(lab, "combines", ())])
def test_the_drawing_shows_where_the_lab_breaks_the_journey(lab: str) -> None:
    """Each lab stands at one station."""
    assert sum(lab in station.labs for station in journey.STATIONS) == 1


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_can_be_found_from_its_symptom(lab: str) -> None:
    """By what it says, or where it says nothing, by what one sees."""
    silent = not recording.load(LABS[lab])["messages"]
    assert not silent or set(LABS[lab].findings) & set(fragments.SYMPTOMS)


@pytest.mark.parametrize(
    "page",
    [
        "[a page that is not there](nowhere.md)",
        "[a heading that is not there](index.md#nowhere)",
        '--8<-- "docs/nowhere.md"',
        "[a lab that is not there](/labs/nowhere.html)",
    ],
)
def test_the_build_refuses_what_leads_nowhere(tmp_path: Path, page: str) -> None:
    """Links, anchors and included files are checked; the same page without them builds."""
    assert builds(tmp_path / "good", "Nothing is wrong here.")
    assert not builds(tmp_path / "bad", page)


def builds(folder: Path, text: str) -> bool:
    """Build a site of one page, with the settings of ours."""
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "index.md").write_text(f"# A page\n\n{text}\n")
    settings = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nwatch: []\nnav:\n  - index.md\n"
    (folder / "mkdocs.yml").write_text(settings)
    return build(["--config-file", str(folder / "mkdocs.yml")]) == 0


def test_every_lab_has_a_page() -> None:
    """And every page is of a lab."""
    assert {path.stem for path in LAB_PAGES} == set(LABS)
