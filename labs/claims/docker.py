"""Claims about docker itself: what its own containers have and do, with docker's defaults and not with ours."""

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from labs.claims.bench import Bench
from labs.claims.claim import Case
from labs.harness.engine import LABEL, Engine, image, last_line
from labs.harness.limits import ROOT
from labs.harness.run import HarnessFailed

MB = 1 << 20
MS_REMOUNT = 32
SIZE = "import shutil; print(shutil.disk_usage('/dev/shm').total)"


def docker_run(engine: Engine, *options: str, script: str = SIZE) -> str:
    """What a Python script prints in a container that is started with these options and docker's defaults."""
    answer = engine.ask(
        "run", "--rm", "--init", "--network", "none", *options, "--entrypoint", "python", image(), "-c", script
    )
    if answer.returncode != 0:
        raise HarnessFailed(f"docker run failed: {last_line(answer.stderr)}")
    return answer.stdout.strip()


def size_seen(engine: Engine, *options: str) -> int:
    return int(docker_run(engine, *options))


def default_size(bench: Bench) -> Iterator[Case]:
    engine = bench.docker()
    for when, options in (("docker run", ()), ("docker run --shm-size=200m", ("--shm-size=200m",))):
        size = size_seen(engine, *options)
        yield Case(when, size == 64 * MB, f"/dev/shm of {size / MB:g} MB", control=bool(options))


def host_size(bench: Bench) -> Iterator[Case]:
    """Only its size is looked at: nothing is written to the host's /dev/shm."""
    engine = bench.docker()
    there = size_seen(engine, "--volume", "/dev/shm:/dev/shm:ro")
    for when, options, control in (
        ("docker run --ipc=host", ("--ipc=host",), False),
        ("docker run --ipc=host --shm-size=32m", ("--ipc=host", "--shm-size=32m"), False),
        ("docker run --shm-size=32m", ("--shm-size=32m",), True),
    ):
        size = size_seen(engine, *options)
        saw = f"/dev/shm of {size / MB:.0f} MB; the host's has {there / MB:.0f} MB"
        yield Case(when, size == there, saw, control)


REMOUNT = f"""
import ctypes, os, shutil
libc = ctypes.CDLL(None, use_errno=True)
failed = libc.mount(b"shm", b"/dev/shm", b"tmpfs", {MS_REMOUNT}, b"size=128m")
print(os.strerror(ctypes.get_errno()) if failed else "remounted", shutil.disk_usage("/dev/shm").total >> 20)
"""


def remount(bench: Bench) -> Iterator[Case]:
    engine = bench.docker()
    for when, options in (
        ("root in a container of docker's defaults", ()),
        ("root with --cap-add SYS_ADMIN", ("--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined")),
    ):
        said, _, size = docker_run(engine, "--user", "0", *options, script=REMOUNT).rpartition(" ")
        yield Case(when, size == "128", f"{said}; /dev/shm of {size} MB")


@contextmanager
def detached(engine: Engine, *options: str, command: tuple[str, ...]) -> Iterator[str]:
    """A container that runs beside us, and is gone afterwards."""
    name = f"loader-lab-{os.getpid()}-{secrets.token_hex(4)}"
    label = f"{LABEL}={socket.gethostname()}:{os.getpid()}"
    try:
        answer = engine.ask(
            "run", "--detach", "--name", name, "--label", label, "--network", "none", *options, *command
        )
        if answer.returncode != 0:
            raise HarnessFailed(f"docker run failed: {last_line(answer.stderr)}")
        yield name
    finally:
        engine.remove(name)


def state(engine: Engine, name: str, until: tuple[str, ...], seconds: float = 30) -> str:
    """The state of a container, as soon as it is one of these."""
    form = "{{.State.Status}}{{if .State.Health}} {{.State.Health.Status}}{{end}}"
    deadline = time.monotonic() + seconds
    while (now := engine.ask("inspect", "--format", form, name).stdout.strip()) not in until:
        if time.monotonic() > deadline:
            raise HarnessFailed(f"the container is {now!r}, and not one of {until}")
        time.sleep(0.1)
    return now


def healthcheck(bench: Bench) -> Iterator[Case]:
    """Both ask for 2 GB in a container that has 64 MB. Holds: the training was not started."""
    engine = bench.docker()
    training = ("-c", "print('training', flush=True); import time; time.sleep(60)")
    enough = "import shutil; assert shutil.disk_usage('/dev/shm').free >= 2 << 30"
    health = ("--health-cmd", f'python -c "{enough}"', "--health-interval", "200ms", "--health-retries", "1")
    with detached(engine, *health, "--entrypoint", "python", command=(image(), *training)) as name:
        status = state(engine, name, ("running unhealthy", "exited unhealthy", "exited starting"))
        said = engine.ask("logs", name).stdout.strip()
        yield Case("a HEALTHCHECK that fails", said != "training", f"the container is {status}, and prints {said!r}")
    script = ("--volume", f"{ROOT}/docker:/check:ro", "--env", "SHM_NEEDED_MB=2048")
    entrypoint = ("--entrypoint", "/check/require-shm.sh")
    with detached(engine, *script, *entrypoint, command=(image(), "python", *training)) as name:
        status = state(engine, name, ("running", "exited"))
        if status == "running":  # the script may not be done yet
            status = state(engine, name, ("exited",))
        logs = engine.ask("logs", name)
        saw = f"the container has {status}: {logs.stderr.strip().split('.')[0]}"
        yield Case("an entrypoint that looks first", "training" not in logs.stdout, saw, control=True)


RESERVE = """
import os
with open("/dev/shm/file", "wb") as file:
    try:
        os.posix_fallocate(file.fileno(), 0, 100 << 20)
        print("100 MB reserved")
    except OSError as error:
        print(error.strerror)
"""


def tmpfs_on_shm(bench: Bench) -> Iterator[Case]:
    engine = bench.docker()
    for when, options in (
        ("docker, a tmpfs of 256 MB mounted on /dev/shm", ("--tmpfs", "/dev/shm:size=256m,exec,mode=1777")),
        ("docker, its own /dev/shm", ()),
    ):
        said = docker_run(engine, *options, script=RESERVE)
        yield Case(when, said.startswith("100"), said, control=not options)
