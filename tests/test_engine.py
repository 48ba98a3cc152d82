"""docker and podman, against real engines: the same verdicts, the same safety.

The engine is started for these tests and stopped after them. Where that is not possible (no root, no dockerd) they
are skipped; REQUIRE_ENGINE=1 turns a skip into a failure.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from labs.catalog import LABS
from labs.harness.engine import LABEL, Engine, image
from labs.harness.limits import ROOT, Limits
from labs.harness.run import Request, once
from tests import engine
from tests.conftest import hear_signals
from tests.engines import unavailable
from tests.programs import bent

SLOW = bent("        image = cv2.imread(", "        __import__('time').sleep(0.2)\n        image = cv2.imread(")


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.getfixturevalue(request.param)
    return made


ENGINES = pytest.mark.parametrize("chosen", ["docker", "podman"], indirect=True)


BY_ROLE = {
    ("docker", "failure"): list(LABS),
    ("docker", "fix"): ["shm", "pickle", "opencv", "augment", "shards", "oom", "ranks"],
    ("podman", "failure"): ["shm", "pickle", "opencv"],
    ("podman", "fix"): ["shm", "pickle", "opencv"],
}


@pytest.mark.parametrize(
    ("chosen", "role", "lab"),
    [(engine, role, lab) for (engine, role), labs in BY_ROLE.items() for lab in labs],
    indirect=["chosen"],
)
def test_every_container_gives_the_same_findings(chosen: Engine, tmp_path: Path, lab: str, role: str) -> None:
    """What tests/test_experiments.py sees in a namespace: every lab in docker, some fixes, some in podman."""
    verdict = once(Request(LABS[lab], role), chosen, tmp_path)[0]
    assert [finding.id for finding in verdict.findings] == (list(LABS[lab].findings) if role == "failure" else [])
    assert verdict.history.run["backend"] == chosen.name
    assert verdict.history.container["shm_total"] == 64 << 20


def inside(chosen: Engine, script: str, limits: Limits | None = None) -> str:
    """What a shell script prints in a container of the engine."""
    command = chosen.command(["python", "-c", script], limits or Limits(), f"inside-{os.getpid()}", ROOT / "none.py")
    command[command.index("--entrypoint") + 1] = "sh"
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL).stdout.strip()


@ENGINES
def test_from_inside_the_container_is_what_it_should_be(chosen: Engine) -> None:
    """The size of /dev/shm, an ordinary user, a read-only root, no network, the limits."""
    assert inside(chosen, "df -Pk /dev/shm").split()[8] == "65536"
    assert inside(chosen, "df -Pk /dev/shm", Limits(shm=200 << 20)).split()[8] == str(200 << 10)
    assert inside(chosen, "id").startswith("uid=1000")
    assert inside(chosen, "echo x > /lab/x || echo x > /x || echo refused") == "refused"
    assert inside(chosen, f"echo x > {ROOT}/x || echo refused") == "refused"
    assert [line.split(":")[0].strip() for line in inside(chosen, "cat /proc/net/dev").splitlines()[2:]] == ["lo"]
    assert inside(chosen, "ulimit -n", Limits(open_files=256)) == "256"
    assert "CapEff:\t0000000000000000" in inside(chosen, "cat /proc/self/status")


def containers(chosen: Engine) -> list[str]:
    return chosen.ask("ps", "--all", "--quiet", "--filter", f"label={LABEL}").stdout.split()


def wait_until(what: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.05)
    return False


def start_slow(chosen: Engine, workshop: Path, moment: str) -> subprocess.Popen[str]:
    program, runs = workshop / "slow_attempt.py", Path(tempfile.mkdtemp(dir=workshop))
    program.write_text(SLOW)
    command = [sys.executable, "-m", "labs.harness", "check", "pickle", str(program)]
    command += ["--container", chosen.name, "--runs", str(runs)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, preexec_fn=hear_signals)
    event = f'"kind": "{moment}"'
    assert wait_until(lambda: any(event in record.read_text() for record in runs.glob("pickle/*/history.jsonl")))
    return process


@ENGINES
@pytest.mark.parametrize("who", ["harness", "client"])
@pytest.mark.parametrize("moment", ["container", "batch"])
def test_no_container_survives_a_kill(chosen: Engine, workshop: Path, who: str, moment: str) -> None:
    """Kill the harness or the engine's client: the lifeline closes, the container ends and is removed."""
    process = start_slow(chosen, workshop, moment)
    victim = process.pid
    if who == "client":
        victim = int(subprocess.check_output(["pgrep", "--parent", str(process.pid), chosen.name]).split()[0])
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == (-9 if who == "harness" else 99)
    assert wait_until(lambda: not containers(chosen))


@ENGINES
def test_an_interruption_takes_the_container_down(chosen: Engine, workshop: Path) -> None:
    """Ctrl-C during a run: one sentence, exit code 130, no container."""
    process = start_slow(chosen, workshop, "batch")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "loader-lab: interrupted; nothing is left running\n"
    assert process.returncode == 130 and not containers(chosen)


@ENGINES
def test_leftovers_of_a_crash_are_swept(chosen: Engine) -> None:
    """A container whose owner is no more goes; one whose owner lives stays."""
    host = os.uname().nodename
    owners = {"orphan": "4194300", "kept": str(os.getpid())}
    for name, pid in owners.items():
        chosen.ask("create", "--name", name, "--network", "none", "--label", f"{LABEL}={host}:{pid}", image())
    chosen.sweep()
    names = chosen.ask("ps", "--all", "--format", "{{.Names}}").stdout.split()
    chosen.remove("kept")
    assert names == ["kept"]


def test_memory_is_limited_and_shared_memory_counts(docker: Engine) -> None:
    """Pages of /dev/shm count against --memory: 128 MB of them in 64 MB of memory are a kill, whatever its size."""
    script = "f = open('/dev/shm/x', 'wb')\nfor _ in range(128): f.write(bytes(1 << 20))"
    limits = Limits(shm=256 << 20, memory=64 << 20)
    command = docker.command(["python", "-c", script], limits, "memory-test", ROOT / "none.py")
    assert subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).returncode == 137


def compose(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["docker-compose", "--file", str(ROOT / "docker" / "compose.yaml"), "run", "--rm", "-T", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def test_compose_shows_failure_remedy_and_fix(docker: Engine) -> None:
    """`compose run lab shm` dies in 64 MB; with shm_size it does not; the solution fits in 64 MB."""
    if not shutil.which("docker-compose"):
        unavailable("docker-compose is not installed")
    lab, larger, fix = compose("lab", "shm"), compose("lab-2g", "shm"), compose("fix", "shm")
    assert lab.returncode == 0 and "REPRODUCED, as it should" in lab.stdout, lab.stderr
    assert "here container, /dev/shm of 64.0 MB" in lab.stdout
    assert larger.returncode == 0 and "HEALTHY, with the limits you chose" in larger.stdout, larger.stdout
    assert fix.returncode == 0 and "HEALTHY, as it should" in fix.stdout


def run_image(*arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The image as somebody would start it by hand: docker's defaults, and no harness outside."""
    command = ["docker", "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp:exec", *options]
    return subprocess.run([*command, "loader-lab", *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("name", "words"), [("failure", "REPRODUCED, as it should"), ("fixed", "HEALTHY, with the limits")]
)
def test_the_manifests_do_what_they_say(docker: Engine, name: str, words: str) -> None:
    """Their arguments, in docker: an emptyDir of medium Memory is a tmpfs on /dev/shm."""
    pod = yaml.safe_load((ROOT / "docker" / "kubernetes" / f"{name}.yaml").read_text())["spec"]["template"]["spec"]
    memory = [volume for volume in pod["volumes"] if volume["emptyDir"].get("medium") == "Memory"]
    options = ("--tmpfs", "/dev/shm:size=2g,exec,mode=1777") if memory else ()
    result = run_image(*pod["containers"][0]["args"], options=(*options, "--cap-drop", "ALL"))
    assert result.returncode == 0 and words in result.stdout, result.stdout + result.stderr


def test_the_class_runs_the_lab_of_its_index(docker: Engine) -> None:
    """The script of the indexed Job, at its last index."""
    job = yaml.safe_load((ROOT / "docker" / "kubernetes" / "class.yaml").read_text())["spec"]
    script = job["template"]["spec"]["containers"][0]["command"][2]
    options = ("--entrypoint", "sh", "--env", f"JOB_COMPLETION_INDEX={job['completions'] - 1}")
    result = run_image("-c", script, options=options)
    assert result.returncode == 0 and f"lab {list(LABS)[-1]}: the broken program" in result.stdout, result.stderr


def test_here_refuses_where_it_would_fill_more_than_the_limit(docker: Engine) -> None:
    """In a container with 200 MB the 64 MB lab does not run, and says why."""
    result = run_image("lab", "shm", options=("--shm-size", "200m"))
    assert result.returncode == 77 and "here: /dev/shm here has 200.0 MB, and the limit is 64.0 MB" in result.stderr


def test_here_leaves_its_neighbours_alone(docker: Engine) -> None:
    """Other processes of the container, a learner's editor for one, are still there; nothing of ours is in /tmp."""
    script = (
        "sleep 300 & python -m labs.harness lab pickle > /tmp/out; kill -0 $! && echo alive; echo /tmp/*; cat /tmp/out"
    )
    result = run_image("-c", script, options=("--entrypoint", "sh"))
    assert result.stdout.startswith("alive\n/tmp/out /tmp/runs\n") and "REPRODUCED" in result.stdout


def test_the_devcontainer_runs_a_lab_with_nox(docker: Engine, workshop: Path) -> None:
    """The repository mounted, the image's own environment, 64 MB: nox makes no environment and runs the lab."""
    copy = workshop / "workspace"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(copy)], check=True)
    for name in ("noxfile.py", "labs", "pyproject.toml"):
        path = ROOT / name
        (shutil.copytree if path.is_dir() else shutil.copy)(
            path, copy / name, **({"dirs_exist_ok": True} if path.is_dir() else {})
        )
    subprocess.run(["chown", "-R", "1000:1000", str(copy)], check=True)
    options = ("--volume", f"{copy}:{copy}", "--workdir", str(copy), "--entrypoint", "python")
    result = run_image("-m", "nox", "-s", "lab-shm", options=options)
    assert result.returncode == 0 and "REPRODUCED, as it should" in result.stdout, result.stderr


ENTRYPOINT = ("--volume", f"{ROOT}/docker:/check:ro", "--entrypoint", "/check/require-shm.sh")


def test_the_entrypoint_refuses_too_little_shared_memory(docker: Engine) -> None:
    """It says how much there is, how much is needed and which flag gives it; and starts the command otherwise."""
    needed = ("--env", "SHM_NEEDED_MB=512")
    small = run_image("python", "-c", "print('training')", options=(*ENTRYPOINT, *needed))
    assert small.returncode == 1 and "training" not in small.stdout
    assert "/dev/shm has 64 MB and this program needs 512 MB" in small.stderr and "--shm-size=512m" in small.stderr
    large = run_image("python", "-c", "print('training')", options=(*ENTRYPOINT, *needed, "--shm-size", "512m"))
    assert large.returncode == 0 and large.stdout == "training\n"
    unset = run_image("true", options=ENTRYPOINT)
    assert unset.returncode == 2 and "set SHM_NEEDED_MB" in unset.stderr


def test_a_healthcheck_does_not_keep_the_command_from_starting(docker: Engine) -> None:
    """It says unhealthy, and the training has begun all the same."""
    health = ["--health-cmd", "exit 1", "--health-interval", "1s", "--health-retries", "1"]
    script = "print('training', flush=True); import time; time.sleep(60)"
    docker.ask(
        "run",
        "--detach",
        "--name",
        "health",
        "--network",
        "none",
        *health,
        "--entrypoint",
        "python",
        "loader-lab",
        "-c",
        script,
    )
    try:
        form = "{{.State.Health.Status}} {{.State.Running}}"
        assert wait_until(lambda: docker.ask("inspect", "--format", form, "health").stdout == "unhealthy true\n")
        assert docker.ask("logs", "health").stdout == "training\n"
    finally:
        docker.remove("health")


def loader_lab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labs.harness", "lab", "shm", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def test_a_size_that_the_engine_rejects_is_passed_on(docker: Engine, tmp_path: Path) -> None:
    """The engine's own sentence, exit code 77."""
    result = loader_lab("--container", "docker", "--shm", "9999999999g", "--runs", str(tmp_path))
    assert result.returncode == 77 and "docker container could not be started" in result.stderr, result.stderr


def test_no_permission_on_the_socket_is_said(docker: Engine, workshop: Path) -> None:
    """To somebody who is not in the group: what to do about it."""
    code = (
        "import sys; sys.path.insert(0, '.'); from labs.harness.engine import Engine; "
        "from labs.harness.limits import Limits; print(Engine('docker').why_not(Limits()))"
    )
    shutil.copytree(ROOT / "labs", workshop / "labs", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["/usr/bin/python3", "-c", code]
    answer = subprocess.run(command, cwd=workshop, capture_output=True, text=True, user=65534, group=65534)
    assert "you may not talk to docker: join the group of its socket, or use sudo" in answer.stdout, answer.stderr


def test_the_image_is_built_where_it_is_missing(docker: Engine, tmp_path: Path) -> None:
    """With a base in reach (the stand-in, under the real one's name): progress, then the lab runs in it."""
    base = next(
        line for line in (ROOT / "docker" / "Dockerfile").read_text().splitlines() if line.startswith("ARG BASE=")
    )
    docker.ask("tag", engine.BASE, base.removeprefix("ARG BASE="))
    docker.ask("rmi", "--no-prune", image(), "loader-lab")
    result = loader_lab("--container", "docker", "--runs", str(tmp_path), DOCKER_BUILDKIT="0")
    docker.ask("rmi", "--no-prune", base.removeprefix("ARG BASE="))
    assert result.returncode == 0 and "REPRODUCED, as it should" in result.stdout, result.stderr
    assert "building the image" in result.stderr and "Step 1/" in result.stderr


def test_a_kill_for_memory_is_told_from_a_bus_error(docker: Engine, tmp_path: Path) -> None:
    """2 GB of shared memory, but 420 MB of memory in all: the cache fills that, and the kernel kills whom it likes."""
    result = loader_lab("--container", "docker", "--shm", "2g", "--memory", "420m", "--runs", str(tmp_path), "--json")
    assert result.returncode in (1, 99)
    if result.returncode == 1:  # it was not the watcher
        finding = json.loads(result.stdout)["findings"][0]
        assert finding["id"] == "oom" and finding["evidence"][0]["observed"] != "0"


def test_an_image_that_cannot_be_built_is_one_sentence(docker: Engine, tmp_path: Path) -> None:
    """No registry in reach: the engine's progress, then its reason, exit code 77."""
    for tag in (image(), "loader-lab"):
        docker.ask("tag", tag, f"kept-{tag.replace(':', '-')}")
        docker.ask("rmi", "--no-prune", tag)
    try:
        result = loader_lab("--container", "docker", "--runs", str(tmp_path), DOCKER_BUILDKIT="0")
    finally:
        for tag in (image(), "loader-lab"):
            docker.ask("tag", f"kept-{tag.replace(':', '-')}", tag)
    assert result.returncode == 77 and "building the image" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("loader-lab: docker could not build the image: ")
