"""`nox -s ready`: one line at the end that says whether the workshop can begin, and what to do if not."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labs.catalog import LABS
from labs.harness import container
from labs.harness.limits import ROOT, Limits
from labs.workshop import ready


def ask(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labs.workshop.ready", "--runs", str(folder)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def only(monkeypatch: pytest.MonkeyPatch, **works: bool) -> None:
    """A machine on which these containers work and no others; memory is for those that are no namespace."""

    def refusal(name: str, shm: int, memory: int | None) -> str | None:
        return None if works.get(name) and (memory is None or name != "namespace") else "not here"

    monkeypatch.setattr(ready, "refusal", refusal)


def test_a_machine_is_looked_at_and_tried(tmp_path: Path) -> None:
    """Python, packages, memory, disk, CPUs, every container, and a lab with its fix for real."""
    result = ask(tmp_path)
    for words in (
        "Python",
        "packages as pinned",
        "memory",
        "disk",
        "CPUs",
        *container.BACKENDS,
        "reproduced in",
        "healthy in",
    ):
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80 and result.stderr == ""
    able = [lab for lab in LABS.values() if lab.limits.memory is None]
    if len(able) == len(LABS):
        assert result.stdout.endswith(f"ready: all {len(LABS)} labs can run here\n") and result.returncode == 0
    assert (result.returncode == 0) == ("\n  ready: all" in result.stdout)


def test_a_machine_without_containers_is_told_what_to_do(tmp_path: Path) -> None:
    """Which container lacks what, what would help, exit code 77."""
    result = ask(tmp_path, PATH=str(tmp_path))
    assert result.returncode == 77 and "unshare is missing" in result.stdout and "Traceback" not in result.stderr
    assert "not ready: no lab can run here, since no container can be started." in " ".join(result.stdout.split())
    assert "sysctl" in result.stdout.partition("not ready")[2]


def test_a_lab_that_needs_an_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With namespaces alone everything runs but what limits memory."""
    greedy = replace(LABS["pickle"], limits=Limits(memory=1 << 30))
    only(monkeypatch, namespace=True)
    assert ready.why_not(LABS["pickle"]) is None
    assert ready.why_not(greedy) == "a limit on memory takes docker or podman"
    only(monkeypatch, namespace=True, podman=True)
    assert ready.why_not(greedy) is None


def test_the_last_line_counts_and_names() -> None:
    """How many can run, which cannot, and why."""
    assert ready.conclusion({}, True, {}) == f"ready: all {len(LABS)} labs can run here"
    partly = ready.conclusion({"shm": "too small", "fds": "too small"}, True, {})
    assert partly == f"not ready: {len(LABS) - 2} of {len(LABS)} labs can run here; shm, fds cannot (too small)"
    assert ready.conclusion({}, False, {}).endswith("what is wrong stands above")
    waiting = ready.conclusion({}, True, {"oom": "podman"})
    assert waiting.startswith(f"not ready: {len(LABS) - 1} of {len(LABS)} labs can run here; oom can once podman has")


def test_an_image_that_is_not_built_yet_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which labs wait for it, and the command that builds it, on a line of its own; that is not ready."""
    only(monkeypatch, namespace=True, podman=True)
    monkeypatch.setattr(ready, "has_image", lambda name: name != "podman")
    monkeypatch.setattr(ready, "try_one", lambda lab, runs: iter([]))
    monkeypatch.chdir(ROOT)
    assert ready.main(["--runs", str(tmp_path)]) == 77
    shown = capsys.readouterr().out
    assert "oom can once podman has its image" in " ".join(shown.split())
    assert [line.strip() for line in shown.splitlines()].count("nox -s image -- podman") == 2
    assert "here          no (the container that you are in already): not here" in shown


def test_another_version_of_a_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that drifts teaches a falsehood."""
    monkeypatch.setattr(ready.metadata, "version", lambda name: "1.0")
    assert "torch is 1.0, not 2.13.0" in ready.environment()[2]
