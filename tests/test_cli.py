"""The command line as a person or a program uses it: words, exit codes, and errors that help."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labs.catalog import LABS
from labs.harness.limits import ROOT
from tests.programs import GOOD, in_worker


def loader_lab(
    *arguments: str | Path, runs: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    where = ["--runs", str(runs)] if runs else []
    return subprocess.run(
        [sys.executable, "-m", "labs.harness", *map(str, arguments), *where],
        cwd=ROOT,
        env={**os.environ, "LOADER_LAB_WORKSHOP": "/nowhere", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_reproduction_says_so_in_words_that_cannot_be_misread(tmp_path: Path) -> None:
    """Verdict, proof, torch's words, the container with its measured size, the next command; 80 columns; no colour."""
    result = loader_lab("lab", "shm", runs=tmp_path)
    assert result.returncode == 0 and result.stderr == ""
    for words in (
        "REPRODUCED, as it should",
        "Job: 32 samples, 2 epochs, 4 workers started with fork",
        "workers killed by signal 7 (SIGBUS)",
        "observed",
        "expected",
        "is killed by signal: Bus error.",
        "namespace container, /dev/shm of 64.0 MB (measured inside)",
        "nox -s fix-shm",
        "█",
        "A file in /dev/shm is sparse",
        "--shm-size=2g",
    ):
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout
    assert not [line for line in result.stdout.splitlines() if line != line.rstrip()]


def test_a_run_leaves_its_record(tmp_path: Path) -> None:
    """History with a schema version, verdict and picture, in a folder of their own with a link to the latest."""
    loader_lab("lab", "pickle", runs=tmp_path)
    latest = tmp_path / "pickle" / "latest"
    assert latest.is_symlink()
    assert {path.name for path in latest.iterdir()} == {"history.jsonl", "verdict.json", "timeline.svg"}
    first = json.loads((latest / "history.jsonl").read_text().splitlines()[0])
    assert first["kind"] == "run" and first["schema"] == 1
    assert (latest / "timeline.svg").read_text().startswith("<svg")


def test_json_is_alone_on_standard_output(tmp_path: Path) -> None:
    """A program reads the verdict, the findings and the container."""
    verdict = json.loads(loader_lab("lab", "shards", "--json", runs=tmp_path).stdout)
    assert verdict["verdict"] == "reproduced" and verdict["as_expected"] and verdict["exit_code"] == 0
    assert [finding["id"] for finding in verdict["findings"]] == ["duplicated"]
    assert verdict["container"] == {**verdict["container"], "backend": "namespace", "shm_bytes": 64 << 20}


def test_repeat_counts(tmp_path: Path) -> None:
    """A line for each run and a summary; as JSON one document."""
    result = loader_lab("lab", "pickle", "--repeat", "2", runs=tmp_path)
    assert result.stdout.count("REPRODUCED, as it should") == 2 and "2 of 2 runs as expected" in result.stdout
    document = json.loads(loader_lab("lab", "pickle", "--repeat", "2", "--json", runs=tmp_path).stdout)
    assert document["runs"] == document["runs_as_expected"] == len(document["verdicts"]) == 2


def test_a_limit_can_be_changed_to_see_what_happens(tmp_path: Path) -> None:
    """With 2 GB the broken program is healthy: that is no failure of the lab, and no fix."""
    result = loader_lab("lab", "shm", "--shm", "2g", runs=tmp_path)
    assert result.returncode == 0
    assert "HEALTHY, with the limits you chose" in result.stdout and "/dev/shm of 2.0 GB" in result.stdout


def test_the_solution_says_what_it_needs_where_it_cannot_run(tmp_path: Path) -> None:
    """In 8 MB not even the batches fit: one sentence with the numbers and the flag, before any worker starts."""
    result = loader_lab("fix", "shm", "--shm", "8m", runs=tmp_path)
    assert result.returncode == 1 and "INCONCLUSIVE" in result.stdout
    assert "/dev/shm has 8 MB free and the batches alone need" in " ".join(result.stdout.split())
    assert "--shm-size=" in result.stdout


def test_an_attempt_is_judged_wherever_it_lies(tmp_path: Path) -> None:
    """Also directly in /tmp, which is another one inside the container."""
    attempt = Path("/tmp") / f"attempt_{os.getpid()}.py"
    attempt.write_text(GOOD)
    try:
        result = loader_lab("check", "pickle", attempt, runs=tmp_path)
    finally:
        attempt.unlink()
    assert result.returncode == 0 and "HEALTHY: your fix holds" in result.stdout


def test_a_broken_attempt_is_told_why(tmp_path: Path) -> None:
    """The lab's own program is still broken; one that raises is shown its own words."""
    still = loader_lab("check", "pickle", LABS["pickle"].program, runs=tmp_path)
    assert still.returncode == 1 and "STILL BROKEN" in still.stdout
    (tmp_path / "attempt.py").write_text(in_worker("raise ValueError('my own mistake')"))
    raised = loader_lab("check", "pickle", tmp_path / "attempt.py", runs=tmp_path)
    assert raised.returncode == 1 and "NOT ACCEPTED" in raised.stdout and "my own mistake" in raised.stdout


def test_a_hang_shows_where_everybody_stands(tmp_path: Path) -> None:
    """The line of the learner's own file at which the worker waits."""
    (tmp_path / "attempt.py").write_text(in_worker("__import__('threading').Event().wait()"))
    result = loader_lab("check", "pickle", tmp_path / "attempt.py", runs=tmp_path)
    assert result.returncode == 1 and "The program hangs" in result.stdout
    assert "where worker 0 stands" in result.stdout and "__getitem__ (attempt.py:" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lab", "smh"], "there is no lab called 'smh'; did you mean shm? nox -l lists them all"),
        (["lab", "shm", "--contol"], "unrecognized arguments: --contol; did you mean --control"),
        (["lab", "shm", "--zzz"], "unrecognized arguments: --zzz; --help lists what there is"),
        (["mend", "shm"], "invalid choice: 'mend'"),
        (["check", "shm"], "or name a file of your own: nox -s check-shm -- my_attempt.py"),
        (["check", "shm", "nowhere.py"], "there is no file nowhere.py that can be read"),
        (["check", "shm", "README.md"], "cannot be imported: give it a name like my_attempt.py"),
        (["check", "shm", "labs/shm.py", "--shm", "2g"], "check judges under the lab's own limits"),
        (["fix", "shm", "labs/shm.py"], "fix takes no file; to judge your own: check shm labs/shm.py"),
        (["fix", "shm", "--control"], "--control goes with lab"),
        (["lab", "shm", "--shm", "lots"], "'lots' is not a size; write it like 64m or 2g"),
        (["lab", "shm", "--cpus", "0"], "'0' is not a whole number from 1 up"),
        (["lab", "shm", "--repeat", "0"], "--repeat takes a number from 1 up"),
        (["lab", "shm", "--container", "chroot"], "invalid choice: 'chroot'"),
        (["lab", "shm", "--start-method", "thread"], "invalid choice: 'thread'"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], words: str) -> None:
    """One sentence that says what was wrong and what is possible; exit code 2."""
    result = loader_lab(*arguments)
    assert result.returncode == 2 and words in result.stderr and "Traceback" not in result.stderr


def test_names_stay_in_one_piece_at_80_columns() -> None:
    """In the help, and in an error on a terminal."""
    helped = loader_lab("--help", COLUMNS="80").stdout
    assert all(re.search(rf"(?<![\w-]){name}(?![\w-])", helped) for name in LABS)
    written = on_a_terminal("check", "freeze-result", LOADER_LAB_WORKSHOP="/nowhere")
    assert "nox -s check-freeze-result -- my_attempt.py" in " ".join(written.split())
    assert max(map(len, written.splitlines())) <= 80 and "freeze-\r" not in written


def test_a_machine_without_containers_is_told_what_to_do(tmp_path: Path) -> None:
    """Exit code 77 and every reason."""
    result = loader_lab("lab", "shm", runs=tmp_path / "runs", PATH=str(tmp_path))
    assert result.returncode == 77 and "unshare is missing" in result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""


def test_an_engine_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    """Asked for by name, refused by name."""
    result = loader_lab("lab", "shm", "--container", "podman", PATH=str(tmp_path))
    assert result.returncode == 77
    assert result.stderr == "loader-lab: cannot run in a podman container: the command podman is missing\n"


def test_a_limit_that_cannot_be_enforced_is_refused() -> None:
    """Never ignored."""
    result = loader_lab("lab", "shm", "--container", "namespace", "--memory", "1g")
    assert result.returncode == 77 and "cannot limit memory" in result.stderr


def test_a_folder_that_cannot_be_written_is_said_at_once() -> None:
    """Before anything is started."""
    result = loader_lab("lab", "shm", runs=Path("/proc/nowhere"))
    assert result.returncode == 77 and "Name another folder with --runs DIR" in result.stderr


def test_a_fault_of_the_harness_is_never_a_verdict(tmp_path: Path) -> None:
    """A container that dies at once: exit code 99, what it said, no traceback."""
    fake = tmp_path / "unshare"
    event = '{"kind": "container", "t": 0, "shm_used": 0, "shm_total": 67108864, "cpus": 2}'
    fake.write_text(f"#!/bin/sh\ncase $* in *watcher*) echo '{event}'; echo no luck >&2; exit 3;; esac\n")
    fake.chmod(0o755)
    result = loader_lab("lab", "shm", runs=tmp_path / "runs", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert result.returncode == 99 and "the harness failed, this is no verdict" in result.stderr
    assert "no luck" in result.stderr and "Traceback" not in result.stderr


def test_a_container_that_cannot_be_set_up_is_refused(tmp_path: Path) -> None:
    """More open files than this machine allows, or an attempt that nobody may read: one sentence, 77 and 2."""
    result = loader_lab("lab", "shm", "--open-files", "99999999", runs=tmp_path)
    assert result.returncode == 77 and result.stderr.count("\n") == 1 and "could not be started" in result.stderr
    few = loader_lab("lab", "shm", "--open-files", "12", runs=tmp_path)
    assert few.returncode == 2 and "give it 64 or more" in few.stderr


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """All that is written to a terminal of 80 columns."""
    main, other = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40", **environment}
    command = [sys.executable, "-m", "labs.harness", *arguments]
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment, cwd=ROOT)
    os.close(other)
    written = b""
    while True:
        try:
            data = os.read(main, 1 << 16)
        except OSError:
            break
        if not data:
            break
        written += data
    os.close(main)
    process.wait()
    return written.decode()


def test_on_a_terminal_there_is_a_live_view(tmp_path: Path) -> None:
    """The fill of /dev/shm and a line for each worker, and then the report in colour."""
    written = on_a_terminal("lab", "shm", "--runs", str(tmp_path))
    assert "░" in written and "worker 3" in written and "importing torch" in written
    assert "REPRODUCED, as it should" in written and "\x1b[1;32m" in written


def test_no_color_is_respected(tmp_path: Path) -> None:
    """Not one colour code."""
    written = on_a_terminal("lab", "pickle", "--runs", str(tmp_path), NO_COLOR="1")
    assert "REPRODUCED, as it should" in written
    assert not re.search(r"\x1b\[[0-9;]*3[0-7][;m]", written)


@pytest.mark.parametrize("module", ["harness.__main__", "workshop.__main__", "workshop.ready"])
def test_the_host_side_imports_no_torch(module: str) -> None:
    """It starts at once, and can watch a program whose interpreter has died."""
    code = f"import sys, labs.{module}; print([m for m in ('torch', 'numpy', 'cv2') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "[]"


def nox(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


def test_nox_shows_the_menu() -> None:
    """What one begins with, and then every lab with one line that says what fails, in its own spelling."""
    menu = nox("-l").stdout
    assert re.findall("^- ([a-z-]+)", menu, re.M)[:3] == ["ready", "workshop", "lab-shm"]
    assert "-> num_workers=0: the loop" in menu
    for lab in LABS.values():
        assert all(f"- {kind}-{lab.name}" in menu for kind in ("lab", "fix", "check")) and lab.fails[1:] in menu


def test_nox_asks_what_was_meant() -> None:
    """A session that does not exist: the nearest ones, and where all of them are; and no word about uv."""
    result = nox("-s", "lab-smh")
    assert result.returncode != 0 and "lab-smh; did you mean lab-shm" in result.stderr and "nox -l" in result.stderr
    assert "uv binary" not in nox("-s", "workshop", "--", "--help").stderr


def test_nox_passes_verdicts_on(tmp_path: Path) -> None:
    """JSON alone on standard output, success for what is expected, failure for what is not; a file relative to here."""
    good = nox("-s", "lab-pickle", "--", "--json", "--runs", tmp_path)
    assert good.returncode == 0 and json.loads(good.stdout)["verdict"] == "reproduced"
    (tmp_path / "my_attempt.py").write_text(LABS["pickle"].program.read_text())
    bad = nox("-s", "check-pickle", "--", "my_attempt.py", "--runs", tmp_path, cwd=tmp_path)
    assert bad.returncode == 1 and "STILL BROKEN" in bad.stdout
