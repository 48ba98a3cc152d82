"""The exercise loop as a learner goes through it: copies, verdicts, hints, progress, and a report at the end."""

import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labs.catalog import LABS
from labs.harness.findings import FINDINGS
from labs.harness.history import History
from labs.harness.limits import ROOT
from labs.harness.report import printed
from labs.harness.verdict import HEALTHY, Verdict
from labs.workshop import exercises, feedback, progress
from labs.workshop.exercises import CHANGED, NOT_STARTED, SOLVED, STILL_BROKEN
from labs.workshop.feedback import WHY_IT_MATTERS
from tests.conftest import hear_signals
from tests.programs import GOOD

Command = Callable[..., subprocess.CompletedProcess[str]]
PICKLE = LABS["pickle"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workshop"


@pytest.fixture
def workshop(folder: Path) -> Command:
    """`nox -s workshop -- ...`, for a learner with a folder of their own."""

    def workshop(*arguments: str | Path, module: str = "labs.workshop") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "LOADER_LAB_WORKSHOP": str(folder), "LOADER_LAB_RUNS": str(folder.parent / "runs")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return workshop


@pytest.fixture
def loader_lab(workshop: Command) -> Command:
    return lambda *arguments: workshop(*arguments, module="labs.harness")


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The learner's folder, for calls within this process."""
    monkeypatch.setattr(progress, "FOLDER", folder)
    return folder


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def reported(result: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """What a report says of the exercise pickle."""
    return next(entry for entry in json.loads(result.stdout)["exercises"] if entry["lab"] == "pickle")


def test_every_broken_program_is_copied_once(workshop: Command, folder: Path) -> None:
    """As it is but for the cause, which is for them to find; the second call leaves alone what they have written."""
    first = workshop()
    assert first.returncode == 0 and first.stderr == "" and f"0 of {len(LABS)} exercises solved" in first.stdout
    for lab in LABS.values():
        copy, original = ((path / lab.program.name).read_text().splitlines() for path in (folder, lab.program.parent))
        other = [number for number, pair in enumerate(zip(copy, original, strict=True)) if len(set(pair)) > 1]
        first, end = (
            next(n for n, line in enumerate(original) if line.startswith(word)) for word in ("Cause:", "Run:")
        )
        assert other == list(range(first, end)) and copy[first].startswith("Cause:   for you to find")
        assert f"nox -s check-{lab.name} (yours)" in copy[end]
    (folder / PICKLE.program.name).write_text("mine")
    second = workshop()
    assert (folder / PICKLE.program.name).read_text() == "mine"
    assert "changed, not judged yet" in second.stdout and "for you to mend" not in second.stdout


def test_the_overview_is_for_a_terminal_of_80_columns(workshop: Command) -> None:
    """Every exercise in the order of the workshop, and the commands for the next one."""
    shown = workshop().stdout
    wide = [line for line in shown.splitlines() if len(line) > 80]
    assert all(line.startswith("    edit ") for line in wide) and "\x1b" not in shown  # a path is never cut in two
    rows = [line.split()[0] for line in shown.splitlines() if "not started" in line]
    assert rows == [lab.name for lab in exercises.in_order()]
    assert f"Next: {rows[0]} " in shown and f"nox -s check-{rows[0]}" in shown


def test_the_order_begins_with_the_easiest_and_ends_with_what_combines() -> None:
    """A lab that combines others comes after each of them."""
    order = [lab.name for lab in exercises.in_order()]
    single = [LABS[name].difficulty for name in order if not LABS[name].combines]
    assert single == sorted(single) and sorted(order) == sorted(LABS)
    for lab in LABS.values():
        assert all(order.index(part) < order.index(lab.name) for part in lab.combines)


def test_from_the_first_command_to_a_solved_exercise(workshop: Command, loader_lab: Command, folder: Path) -> None:
    """No copy, broken, hints, solved, changed: each is said, counted and kept; labs and solutions stay as they are."""
    before = {path: path.read_bytes() for path in [*ROOT.glob("labs/*.py"), *ROOT.glob("solutions/*.py")]}
    none = loader_lab("check", "pickle")
    assert none.returncode == 2 and "nox -s workshop makes you one" in none.stderr and none.stdout == ""

    workshop()
    broken = loader_lab("check", "pickle")
    assert broken.returncode == 1 and "STILL BROKEN" in broken.stdout and "attempt 1." in broken.stdout
    assert "What is still wrong" in broken.stdout and "cannot be pickled" in broken.stdout
    assert "the first of 3 hints: where to look" in broken.stdout and "solutions/" not in broken.stdout

    hints = [loader_lab("check", "pickle", "--hint") for _ in range(4)]
    shown = [" ".join(hint.stdout.split()) for hint in hints]
    assert all(hint.returncode == 0 for hint in hints)
    for number in range(3):
        assert shown[number].count("Hint") == number + 1 and PICKLE.hints[number] in shown[number]
    assert "solutions/pickling.py" not in shown[1] and "no more hints. The solution is in solutions/" in shown[3]
    assert "solutions/pickling.py" in loader_lab("check", "pickle").stdout

    (folder / "pickling.py").write_text(GOOD.replace("mirror", "flip"))
    solved = loader_lab("check", "pickle")
    assert solved.returncode == 0 and "HEALTHY: your fix holds" in solved.stdout
    assert "-    return [flip, to_tensor]" in solved.stdout and "+    return [mirror, to_tensor]" in solved.stdout
    assert "Why ours works" in solved.stdout and PICKLE.advice in " ".join(solved.stdout.split())

    entry = reported(workshop("--report", "--name", "seat 7"))
    assert entry == {**entry, "lab": "pickle", "state": SOLVED, "attempts": 3, "hints": 3, "finding": None}
    assert entry["began_at"] <= entry["solved_at"] == entry["judged_at"] and not entry["changed_since_solved"]
    (folder / "pickling.py").write_text("something else")
    assert "solved; changed since 3 3" in " ".join(workshop().stdout.split())
    assert {path: path.read_bytes() for path in before} == before


def test_a_file_elsewhere_is_judged_and_not_counted(workshop: Command, loader_lab: Command, tmp_path: Path) -> None:
    """Also when it is a good one."""
    workshop()
    (tmp_path / "attempt.py").write_text(GOOD)
    assert loader_lab("check", "pickle", tmp_path / "attempt.py").returncode == 0
    assert reported(workshop("--report"))["attempts"] == 0


def test_a_text_that_cannot_be_run_is_no_attempt(workshop: Command, loader_lab: Command, folder: Path) -> None:
    """A slip of the keyboard is told, and not counted."""
    workshop()
    (folder / "pickling.py").write_text("def make_loader(:")
    result = loader_lab("check", "pickle")
    assert result.returncode == 2 and "not counted as an attempt" in result.stdout
    assert "What is still wrong\n  pickling.py is not valid Python" in result.stdout
    assert "changed, not judged yet" in workshop().stdout


def test_json_of_the_learners_copy_is_alone_on_standard_output(workshop: Command, loader_lab: Command) -> None:
    """It names the file that was judged, and counts."""
    workshop()
    assert json.loads(loader_lab("check", "pickle", "--json").stdout)["program"].endswith("workshop/pickling.py")
    assert reported(workshop("--report"))["attempts"] == 1


def test_one_exercise_can_be_put_back(workshop: Command, folder: Path) -> None:
    """What the learner had is kept beside it, each time, and said in one line."""
    workshop()
    for number, text in enumerate(("first", "second"), 1):
        (folder / "pickling.py").write_text(text)
        result = workshop("--reset", "pickle")
        assert result.returncode == 0 and result.stdout.count("\n") == 1
        assert result.stdout.endswith(f"yours is kept as pickling.py.{number}.bak\n")
        assert (folder / f"pickling.py.{number}.bak").read_text() == text
        assert (folder / "pickling.py").read_text() == exercises.handed_out(PICKLE)
    assert "kept" not in workshop("--reset", "pickle").stdout


def test_states(here: Path) -> None:
    """Not started, changed, still broken, solved, and what was solved stays so."""

    def state() -> tuple[str, bool]:
        each = exercises.exercise(PICKLE, progress.read())
        return each.state, each.changed_since

    def judged(text: str, finding: str | None) -> None:
        with progress.changing() as kept:
            kept.of("pickle").note_verdict(digest(text), finding)

    own = here / "pickling.py"
    assert state() == (NOT_STARTED, False)
    exercises.make_copies()
    assert state() == (NOT_STARTED, False)
    own.write_text("one")
    assert state() == (CHANGED, False)
    judged("one", "unpicklable")
    assert state() == (STILL_BROKEN, False)
    own.write_text("two")
    assert state() == (CHANGED, False)
    judged("two", None)
    assert state() == (SOLVED, False)
    own.write_text("three")
    assert state() == (SOLVED, True)
    judged("three", "raised")
    assert state() == (SOLVED, True)
    own.unlink()
    assert state() == (SOLVED, True)


def test_a_verdict_on_a_text_that_was_saved_over_is_not_kept(here: Path) -> None:
    """Nobody knows which of the two was run; the text that was judged is."""
    own = here / "pickling.py"
    here.mkdir()
    verdict = Verdict(HEALTHY, True, 0, [], History([{"kind": "run", "sha256": digest("judged")}]))
    own.write_text("saved meanwhile")
    assert feedback.note(verdict, PICKLE, own).attempts == 0
    own.unlink()
    assert feedback.note(verdict, PICKLE, own).attempts == 0
    (here / "elsewhere.py").write_text("judged")
    own.symlink_to("elsewhere.py")
    assert feedback.note(verdict, PICKLE, own.resolve()).attempts == 1


def test_what_was_begun_comes_before_what_was_not(here: Path) -> None:
    """The next exercise is the one that the learner is in the middle of."""
    exercises.make_copies()
    assert exercises.next_one(exercises.look()).lab is exercises.in_order()[0]
    last = exercises.in_order()[-1]
    exercises.copy_of(last).write_text("begun")
    assert exercises.next_one(exercises.look()).lab is last


def test_nothing_is_lost_when_several_judge_at_once(here: Path) -> None:
    """A terminal that watches and one in which the learner asks."""

    def one_more(_: int) -> None:
        with progress.changing() as kept:
            kept.of("pickle").attempts += 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one_more, range(40)))
    assert progress.read().of("pickle").attempts == 40
    assert [path.name for path in here.iterdir()] == [progress.NAME]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 99, "mystery": null, "exercises": {}}',
        '{"schema": 1, "mystery": null}',
        '{"schema": 1, "mystery": null, "exercises": {"pickle": {"attempts": "many"}}}',
        '{"schema": 1, "mystery": null, "exercises": {"pickle": {"unheard": 1}}}',
        '{"schema": 1, "mystery": null, "exercises": []}',
        "\udc80",
    ],
)
def test_progress_that_cannot_be_read_is_kept_aside(workshop: Command, folder: Path, text: str) -> None:
    """One sentence, the old file under another name, and a new beginning."""
    folder.mkdir()
    content = text.encode("utf-8", "surrogateescape")
    (folder / progress.NAME).write_bytes(content)
    result = workshop()
    assert result.returncode == 0 and result.stderr.count("\n") == 1 and "a new one begins" in result.stderr
    assert (folder / f"{progress.NAME}.1.bak").read_bytes() == content
    assert workshop().stderr == ""


@pytest.mark.parametrize("arguments", [[], ["--reset", "pickle"]])
def test_a_folder_that_cannot_be_written_is_said(arguments: list[str]) -> None:
    """One sentence, what to do, exit code 77."""
    command = [sys.executable, "-m", "labs.workshop", *arguments]
    environment = {**os.environ, "LOADER_LAB_WORKSHOP": "/proc/nowhere"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 77 and result.stderr.count("\n") == 1 and result.stdout == ""
    assert "LOADER_LAB_WORKSHOP" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reset", "smh"], "there is no lab called 'smh'; did you mean shm"),
        (["--rest", "shm"], "did you mean --reset"),
        (["--reset"], "expected one argument"),
        (["--report", "--watch"], "not allowed with"),
        (["--name", "somebody"], "--name goes with --report"),
        (["--page", "class.html"], "--page goes with --together"),
        (["--together", "a.json", "--page", "class.pdf"], "--page writes .html or .md, and not class.pdf"),
        (["--answer", "shm"], "--answer goes with --mystery"),
        (["--mystery", "--answer", "smh"], "there is no lab called 'smh'"),
        (["--watch"], "--watch is for a terminal"),
    ],
)
def test_wrong_usage_is_explained(workshop: Command, folder: Path, arguments: list[str], words: str) -> None:
    """One sentence, exit code 2, and nothing has been written."""
    result = workshop(*arguments)
    assert result.returncode == 2 and words in result.stderr and result.stdout == "" and not folder.exists()


def test_a_hint_is_asked_for_alone(loader_lab: Command) -> None:
    """It goes with check, and with no file."""
    for arguments in (["lab", "pickle", "--hint"], ["check", "pickle", "labs/pickling.py", "--hint"]):
        result = loader_lab(*arguments)
        assert result.returncode == 2 and "hints go with check" in result.stderr


def test_the_diff_shows_the_marked_part_alone(tmp_path: Path) -> None:
    """What was changed elsewhere is not in it; without the marks all of it is compared; ours is no difference."""
    own = tmp_path / "pickling.py"
    own.write_text(PICKLE.program.read_text().replace("BATCH_SIZE = 8", "BATCH_SIZE = 4"))
    changes = list(feedback.difference(own, PICKLE.solution))
    assert "+    return [mirror, to_tensor]" in changes and not any("BATCH_SIZE" in line for line in changes)
    own.write_text(own.read_text().replace(feedback.START, ""))
    assert "-BATCH_SIZE = 4" in list(feedback.difference(own, PICKLE.solution))
    assert list(feedback.difference(PICKLE.solution, PICKLE.solution)) == []


@pytest.mark.parametrize("lab", LABS)
def test_every_diff_fits_a_terminal(lab: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Long lines go on below, and say on each line whose they are."""
    printed(lambda page: feedback.beside_ours(page, LABS[lab], LABS[lab].program))
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80 and any(line.startswith("    +") for line in shown)
    assert all(line[4:5] in ("", "+", "-", " ") for line in shown[2:])


def test_a_fix_that_differs_in_comments_alone_is_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said to be the same, and no diff is shown."""
    own = tmp_path / "pickling.py"
    own.write_text(PICKLE.solution.read_text().replace("def mirror(", "# From left to right.\n\n\ndef mirror("))
    assert own.read_text() != PICKLE.solution.read_text()
    printed(lambda page: feedback.beside_ours(page, PICKLE, own))
    assert capsys.readouterr().out == "\n  Your fix is the same as ours, solutions/pickling.py\n"


def test_without_the_marks_our_docstring_is_no_difference(tmp_path: Path) -> None:
    """A learner's copy has no cause in it, and may have lost the marks."""
    own = tmp_path / "pickling.py"
    own.write_text(exercises.handed_out(PICKLE).replace(feedback.START, ""))
    changes = feedback.difference(own, PICKLE.solution)
    assert "+    return [mirror, to_tensor]" in changes and not any("Cause" in line for line in changes)


@pytest.mark.parametrize("code", ["", "    value = 1  ", "    value = some_function(with_arguments, and_more)  "])
def test_a_comment_that_goes_on_below_is_still_a_comment(code: str) -> None:
    """Each line of it begins as one, and the diff can be read as code."""
    first, *others = feedback.folded(f"+{code}# {'one word after the other, ' * 5}")
    assert first.startswith(f"+{code}# one") and others and all(len(line) <= 74 for line in (first, *others))
    assert all(line.startswith("+") and line[1:].lstrip().startswith("# ") for line in others)


def test_a_line_of_code_that_goes_on_below_cannot_be_taken_for_two() -> None:
    """What was folded is behind an arrow, and all of it is there."""
    code = f"        return {' + '.join(f'value_{number}' for number in range(12))}"
    first, *others = feedback.folded(f"+{code}")
    assert others and all(line.startswith("+") and line[1:].lstrip().startswith("↳ ") for line in others)
    assert " ".join([first[1:], *(line.partition("↳ ")[2] for line in others)]) == code
    assert feedback.folded("+    return 1") == ["+    return 1"]


def test_an_exercise_is_not_given_away_by_its_lab(workshop: Command, loader_lab: Command) -> None:
    """With a copy to mend the lab shows evidence alone, and says where the rest is; after all hints it tells all."""
    told, secrets = loader_lab("lab", "pickle").stdout, ("Why\n", "In a job of your own", "--control", "fix-pickle")
    assert all(words in told for words in secrets)
    workshop()
    hidden = loader_lab("lab", "pickle").stdout
    assert "REPRODUCED, as it should" in hidden and not any(words in hidden for words in secrets)
    for words in ("pickling.py", "check-pickle judges it", "nox -s check-pickle -- --hint", "labs/pickle.html"):
        assert words in hidden
    for _ in PICKLE.hints:
        loader_lab("check", "pickle", "--hint")
    assert all(words in loader_lab("lab", "pickle").stdout for words in secrets)


def test_explanations_belong_to_findings() -> None:
    """None is for a finding that does not exist."""
    assert set(feedback.WHY_IT_MATTERS) <= set(FINDINGS)


class Terminal:
    """A learner's terminal, with `nox -s workshop -- --watch` in it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.main, other = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "50"}
        environment |= {"LOADER_LAB_WORKSHOP": str(folder), "LOADER_LAB_RUNS": str(folder.parent / "runs")}
        command = [sys.executable, "-m", "labs.workshop", *arguments]
        streams = {"stdin": other, "stdout": other, "stderr": other}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, preexec_fn=hear_signals, **streams)
        os.close(other)

    def until(self, words: str, seconds: float = 60) -> str:
        """All that is written up to these words."""
        written, deadline = "", time.monotonic() + seconds
        while words not in written:
            assert select.select([self.main], [], [], deadline - time.monotonic())[0], written
            written += os.read(self.main, 1 << 16).decode(errors="replace")
        return written

    def interrupt(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        written = self.until("No longer watching")
        return self.process.wait(timeout=30), written

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.main)


@pytest.fixture
def watching(folder: Path) -> Iterator[Callable[..., Terminal]]:
    """Start to watch; whatever comes of the test, it ends with it."""
    opened: list[Terminal] = []

    def watching(*arguments: str) -> Terminal:
        opened.append(Terminal(folder, "--watch", *arguments))
        return opened[-1]

    yield watching
    for terminal in opened:
        terminal.close()


def saved_by_rename(path: Path, text: str) -> None:
    """As many editors save: a new file in the place of the old one."""
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").replace(path)


def test_every_save_is_judged_on_a_terminal(watching: Callable[..., Terminal], folder: Path) -> None:
    """Written in place or put in the place of the old file; Ctrl-C is the end, and no failure."""
    terminal = watching("pickle")
    terminal.until("save to have it judged")
    saved_by_rename(folder / "pickling.py", GOOD)
    assert "attempt 1." in terminal.until("save to have it judged")
    (folder / "pickling.py").write_text(PICKLE.program.read_text())
    assert "STILL BROKEN" in terminal.until("save to have it judged")
    (folder / "pickling.py").unlink()
    saved_by_rename(folder / "pickling.py", GOOD + "\n")
    assert "HEALTHY: your fix holds" in terminal.until("save to have it judged")
    code, written = terminal.interrupt()
    assert code == 0 and "Traceback" not in written
    assert json.loads((folder / progress.NAME).read_text())["exercises"]["pickle"]["attempts"] == 3


def test_ctrl_c_while_something_is_judged_leaves_nothing(watching: Callable[..., Terminal], folder: Path) -> None:
    """What was changed before watching began is judged at once; here it is interrupted."""
    folder.mkdir()
    (folder / "pickling.py").write_text(GOOD + "\n")
    terminal = watching()
    terminal.until("importing torch")
    code, written = terminal.interrupt()
    assert code == 0 and "Traceback" not in written


def test_every_finding_says_why_it_matters() -> None:
    """A learner is told why what was found is wrong; a file that cannot be used says so itself."""
    assert WHY_IT_MATTERS.keys() == FINDINGS.keys() - {"not-a-program"}
