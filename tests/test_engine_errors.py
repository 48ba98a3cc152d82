"""Engines that misbehave, played by small scripts: one sentence each, the right exit code, nothing left running."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labs.harness.engine import anybody_can_read
from labs.harness.limits import ROOT
from tests.conftest import hear_signals


def play(folder: Path, script: str) -> dict[str, str]:
    """A machine whose docker is this script."""
    fake = folder / "docker"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def lab_in_docker(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "labs.harness", "lab", "shm", "--container", "docker"]
    return [*command, "--runs", str(folder / "runs")]


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'Cannot connect to it' >&2; exit 1", "docker does not answer (Cannot connect to it)"),
        ("echo 'Permission denied while trying' >&2; exit 1", "you may not talk to docker"),
        ("case $1 in run) echo 'create failed' >&2; exit 125;; esac", "could not be started: create failed"),
        (
            "case $1 in image) exit 1;; build) echo 'no space left on device'; exit 1;; esac",
            "could not build the image: no space left on device",
        ),
    ],
)
def test_an_engine_that_fails_is_one_sentence(tmp_path: Path, script: str, sentence: str) -> None:
    """Exit code 77, no traceback."""
    result = subprocess.run(
        lab_in_docker(tmp_path), cwd=ROOT, env=play(tmp_path, script), capture_output=True, text=True
    )
    assert result.returncode == 77 and sentence in result.stderr.splitlines()[-1], result.stderr
    assert "Traceback" not in result.stderr


def test_an_interrupted_build_is_ended(tmp_path: Path) -> None:
    """Ctrl-C while the image is built: the builder goes too."""
    pidfile = tmp_path / "pid"
    environment = play(tmp_path, f"case $1 in image) exit 1;; build) echo $$ > {pidfile}; exec sleep 1000;; esac")
    process = subprocess.Popen(
        lab_in_docker(tmp_path), cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals
    )
    deadline = time.monotonic() + 30
    while not (pidfile.exists() and pidfile.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and errors.endswith("loader-lab: interrupted; nothing is left running\n")
    assert not Path(f"/proc/{pidfile.read_text().strip()}").exists()


def test_a_builder_that_ends_after_its_output_is_waited_for(tmp_path: Path) -> None:
    """It closes its output, works on a little, and has built the image: that is no failure."""
    script = "case $1 in image) exit 1;; build) exec >&- 2>&-; sleep 0.5; exit 0;; run) exit 125;; esac"
    result = subprocess.run(
        lab_in_docker(tmp_path), cwd=ROOT, env=play(tmp_path, script), capture_output=True, text=True
    )
    assert "could not build" not in result.stderr and "could not be started" in result.stderr


def test_a_program_that_the_containers_user_cannot_read_is_told_apart() -> None:
    """As root we are somebody else in there, and a folder of root's alone would look like a missing module."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "attempt.py"
        program.write_text("")
        assert not anybody_can_read(program)
        os.chmod(name, 0o755)
        assert anybody_can_read(program)
        program.chmod(0o600)
        assert not anybody_can_read(program)
