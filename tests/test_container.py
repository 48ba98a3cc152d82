"""Containers: the limits hold when measured from inside, and a program cannot get around them."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labs.harness import container
from labs.harness.container import BACKENDS, choose
from labs.harness.engine import Engine
from labs.harness.limits import ROOT, Limits, Refused, parse_size


def inside(script: str, limits: Limits | None = None, program: Path = ROOT / "none.py") -> str:
    """What a shell script prints inside a namespace container."""
    backend = BACKENDS["namespace"]
    process = container.start(
        backend, ["/bin/sh", "-c", f"({script}) 2>&1"], limits or Limits(), f"loader-lab-{os.getpid()}-test", program
    )
    return process.communicate(timeout=30)[0].decode().strip()


@pytest.mark.parametrize("megabytes", [1, 64, 200])
def test_shared_memory_has_the_size_asked_for(megabytes: int) -> None:
    """Measured with df from inside."""
    assert inside("df -m --output=size /dev/shm | tail -1", Limits(shm=megabytes << 20)).strip() == str(megabytes)


def test_cpus_and_open_files_are_limited() -> None:
    """Measured from inside; and a hard limit cannot be raised."""
    assert inside("nproc; ulimit -n; ulimit -n 600 || echo refused", Limits(cpus=1, open_files=300)).split()[:2] == [
        "1",
        "300",
    ]
    assert "llegal" in inside("ulimit -n 600", Limits(open_files=300)) or "not permitted" in inside(
        "ulimit -n 600", Limits(open_files=300)
    )


def test_nothing_of_the_machine_can_be_written(tmp_path: Path) -> None:
    """The whole file system is read-only, for root as well; /tmp and /dev/shm are the container's own."""
    target = tmp_path / "file"
    target.write_text("mine")
    script = f"echo gone > {target}; echo x > {ROOT}/x; rm -rf {target}; touch /tmp/ok /dev/shm/ok && echo fine"
    printed = inside(script, program=target)
    assert printed.count("Read-only file system") == 3 and printed.endswith("fine")
    assert target.read_text() == "mine"
    assert not Path("/tmp/ok").exists() and not Path("/dev/shm/ok").exists()


def test_no_device_and_no_socket_of_the_machine_is_there() -> None:
    """A read-only mount protects neither a disk from its device nor a service from its socket: they are not there."""
    assert set(inside("ls /dev").split()) <= {
        "fd",
        "full",
        "null",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
        "urandom",
        "zero",
    }
    assert inside("ls -A /run; echo works > /dev/null && head -c 1 /dev/zero | wc -c") == "1"


def test_privileges_are_gone_for_good() -> None:
    """No mounting, no larger /dev/shm, no nested namespace to get the privileges back."""
    printed = inside(
        "mount -o remount,size=2g /dev/shm; mount -t tmpfs none /mnt; unshare -Ur true; df -m /dev/shm | tail -1"
    )
    assert "64 " in printed and printed.count("ermission denied") + printed.count("ermitted") >= 2
    assert "unshare failed" in printed


def test_there_is_no_network_and_no_other_process() -> None:
    """Nothing but a loopback that is down, and nobody but the container's own processes."""
    assert inside("ls /sys/class/net >/dev/null; cat /proc/net/dev | grep -c :") == "1"
    assert int(inside("ls /proc | grep -c '^[0-9]'")) < 8


def test_the_callers_environment_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the caller's cannot change what a lab does."""
    monkeypatch.setenv("OPENCV_FOR_THREADS_NUM", "3")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    printed = inside("env", Limits(env={"LAB_VARIABLE": "1"}))
    assert "OPENCV" not in printed and "PYTHONPATH" not in printed and "LAB_VARIABLE=1" in printed


def test_a_program_in_the_temp_directory_is_seen_inside(tmp_path: Path) -> None:
    """/tmp is fresh, but what the run needs of the old one is there, read-only."""
    program = tmp_path / "attempt.py"
    program.write_text("# here\n")
    (tmp_path.parent / "not_needed").write_text("")
    assert inside(f"cat {program}; ls {tmp_path.parent}", program=program).split("\n") == ["# here", tmp_path.name]


def test_the_namespace_container_refuses_what_it_cannot_enforce() -> None:
    """Memory cannot be limited by namespaces, and shared memory needs memory behind it."""
    with pytest.raises(Refused, match="cannot limit memory"):
        choose("namespace", Limits(memory=1 << 30))
    with pytest.raises(Refused, match="of memory are available"):
        choose("namespace", Limits(shm=1 << 50))


def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **commands: str) -> None:
    """A machine that has only these commands."""
    for name, script in commands.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_where_nothing_works_every_reason_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One message names each container, why it cannot be had, and what would help."""
    deny = "echo 'unshare: write failed /proc/self/uid_map: Operation not permitted' >&2; exit 1"
    without(monkeypatch, tmp_path, unshare=deny, docker="echo 'Cannot connect to the daemon' >&2; exit 1")
    with pytest.raises(Refused) as refusal:
        choose(None, Limits())
    message = str(refusal.value)
    assert "does not let you make user namespaces (unshare: write failed" in message
    assert "docker does not answer (Cannot connect to the daemon)" in message
    assert "podman is missing" in message and "sysctl" in message


def test_an_engine_takes_over_where_namespaces_are_denied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """docker, if it answers and has the image."""
    without(monkeypatch, tmp_path, unshare="exit 1", docker="exit 0")
    assert choose(None, Limits()).name == "docker"


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_an_engine_is_given_every_limit(name: str) -> None:
    """Each field of Limits that is about the container becomes an option of `run`."""
    limits = Limits(shm=64 << 20, memory=1 << 30, cpus=2, open_files=256, env={"A": "b"})
    command = " ".join(Engine(name).command(["python", "-m", "x"], limits, "me", Path("/w/attempt.py")))
    for option in (
        "--shm-size 67108864", "--memory 1073741824", "--cpus 2", "--ulimit nofile=256:256", "--env A=b",
        "--network none", "--init", "--name me", "--label loader-lab", "--read-only", "--cap-drop ALL",
        "type=bind,source=/w,target=/w,readonly", "--rm", "--interactive",
    ):  # fmt: skip
        assert option in command
    handled = {"shm", "memory", "cpus", "open_files", "env"} | {"start_method", "seconds"}
    assert {field.name for field in dataclasses.fields(Limits)} == handled


@pytest.mark.parametrize(
    ("text", "size"),
    [("64m", 64 << 20), ("2g", 2 << 30), ("512K", 512 << 10), ("1.5GB", 3 << 29), ("4096", 4096), ("64MiB", 64 << 20)],
)
def test_sizes_are_read_as_docker_reads_them(text: str, size: int) -> None:
    """A number and a unit."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1m", "0", "m", "nan", "inf", "1e999", "64 x"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    """With a sentence that shows how to write one."""
    with pytest.raises(ValueError, match="write it like 64m or 2g"):
        parse_size(text)


def test_a_container_starts_without_root() -> None:
    """As an ordinary user the same container starts, with the same size (here: the user nobody, if we are root)."""
    command = BACKENDS["namespace"].command(["/bin/df", "-m", "/dev/shm"], Limits(), "test", Path("/none.py"))
    command[command.index(sys.executable)] = "/usr/bin/python3"
    enter = Path(container.__file__).with_name("enter.py").read_text()
    index = command.index(str(Path(container.__file__).with_name("enter.py")))
    command[index : index + 1] = ["-c", enter]
    command[command.index(str(ROOT))] = "/"
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    result = subprocess.run(command, capture_output=True, text=True, cwd="/", **user)  # type: ignore[call-overload]
    assert " 64 " in result.stdout, result.stderr
