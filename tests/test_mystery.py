"""A failure with its name hidden: the same for all groups, nothing that gives it away, and an answer that explains."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labs.catalog import LABS
from labs.harness.limits import ROOT
from labs.harness.report import cause
from labs.workshop import mystery


def seed_of(lab: str) -> str:
    return str(next(seed for seed in itertools.count() if mystery.chosen(seed).name == lab))


def ask(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labs.workshop", "--mystery", *arguments, "--runs", str(folder / "runs")]
    environment = {**os.environ, "LOADER_LAB_WORKSHOP": str(folder / "workshop"), **environment}
    streams = {"stdin": subprocess.DEVNULL, "capture_output": True}
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, timeout=120, **streams)


@pytest.mark.parametrize("lab", ["pickle", "corrupt", "shm-batches"])
def test_the_evidence_does_not_name_the_lab(tmp_path: Path, lab: str) -> None:
    """Not the file, not the lab, not the cause, not the fix; also not in the record that is left."""
    result = ask(tmp_path, "--seed", seed_of(lab))
    assert result.returncode == 0 and result.stderr == "" and "observed" in result.stdout
    evidence = result.stdout.partition("Which of these labs is it?")[0]
    text = " ".join(evidence.split())
    for secret in (LABS[lab].program.name, f"lab {lab}", LABS[lab].fails, LABS[lab].advice, cause(LABS[lab])):
        assert secret not in text
    assert not any(finding in text for finding in LABS[lab].findings if "-" in finding)
    assert max(map(len, result.stdout.splitlines())) <= 80
    (record,) = (tmp_path / "runs").iterdir()
    kept = "".join(path.read_text() for path in record.glob("latest/*"))
    assert record.name == "mystery" and LABS[lab].program.name not in kept and f'"lab": "{lab}"' not in kept


def test_nothing_is_left_of_the_program_without_a_name(tmp_path: Path) -> None:
    """It lay in a folder of its own, which goes with the run."""
    (tmp_path / "tmp").mkdir()
    assert ask(tmp_path, "--seed", seed_of("pickle"), TMPDIR=str(tmp_path / "tmp")).returncode == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_answer_is_judged_and_explained(tmp_path: Path) -> None:
    """Right with the cause, exit code 0; wrong with a place to look, exit code 1, and the name still hidden."""
    seed = seed_of("shards")
    right = ask(tmp_path, "--seed", seed, "--answer", "shards")
    assert right.returncode == 0 and "Right: it is shards." in right.stdout
    assert cause(LABS["shards"]) in " ".join(right.stdout.split())
    wrong = ask(tmp_path, "--seed", seed, "--answer", "pickle")
    assert wrong.returncode == 1 and "No, it is not pickle." in wrong.stdout and "shards" not in wrong.stdout
    assert LABS["shards"].hints[0] in " ".join(wrong.stdout.split())


def test_a_wrong_answer_of_the_same_kind_is_not_said_to_be_the_same(tmp_path: Path) -> None:
    """Both raise, and not the same."""
    wrong = ask(tmp_path, "--seed", seed_of("corrupt"), "--answer", "ragged")
    assert wrong.returncode == 1 and "of the same kind, so look at the details" in wrong.stdout


def test_on_a_terminal_it_asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is none of them is answered with the nearest; Enter alone with the command for later."""
    answers = iter(["shmm", "shards", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    assert mystery.ask(LABS["shm"]) == 0
    shown = capsys.readouterr().out
    assert "There is no 'shmm' among them; did you mean shm" in shown and "No, it is not shards." in shown
    assert shown.rstrip().endswith("-s workshop -- --mystery --answer NAME")


def test_the_last_mystery_is_remembered(tmp_path: Path) -> None:
    """A group can think first, and answer without its number; before the first there is nothing to answer."""
    none = ask(tmp_path, "--answer", "pickle")
    assert none.returncode == 2 and none.stderr.count("\n") == 1 and "--mystery" in none.stderr
    ask(tmp_path, "--seed", seed_of("pickle"))
    assert ask(tmp_path, "--answer", "pickle").returncode == 0


def test_every_single_failure_can_be_a_mystery() -> None:
    """And none that combines several."""
    assert {mystery.chosen(seed).name for seed in range(1000)} == {
        lab.name for lab in LABS.values() if not lab.combines
    }
