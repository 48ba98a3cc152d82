"""Start a command under limits, in a container that takes everything in it down when it or its owner dies.

One `Limits` and four backends that honour it. `namespace` needs Linux and nothing else; `docker` and `podman` need an
engine (engine.py); `here` is for those who are in a container already. Each answers one question by trying, `why_not`,
and builds one command line.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from labs.harness.engine import Engine, last_line
from labs.harness.limits import ROOT, TMP_BYTES, Limits, Refused, environment, megabytes


class Backend(Protocol):
    name: str

    def why_not(self, limits: Limits) -> str | None:
        """Why this backend cannot run here, or cannot enforce one of the limits; None where it can."""
        ...

    def prepare(self) -> None:
        """What has to be done once before the first run: an image, leftovers of a crash."""
        ...

    def command(self, argv: list[str], limits: Limits, name: str, program: Path) -> list[str]:
        """The command line that runs argv under the limits."""
        ...

    def remove(self, name: str) -> None:
        """Take down what is left of the container after its client is gone."""
        ...


class Namespace:
    """Linux user, mount, pid, ipc and net namespaces through util-linux's unshare. No root, no daemon, no image."""

    name = "namespace"
    FLAGS = "--user --map-root-user --mount --pid --ipc --net --fork --kill-child --mount-proc".split()

    def why_not(self, limits: Limits) -> str | None:
        if not sys.platform.startswith("linux"):
            return "namespaces need Linux"
        if shutil.which("unshare") is None:
            return "the command unshare is missing (it is in util-linux)"
        if limits.memory is not None:
            return "namespaces alone cannot limit memory, docker and podman can"
        available = available_memory()
        if limits.shm > available:
            asked, free = megabytes(limits.shm), megabytes(available)
            return f"/dev/shm of {asked} was asked for, and {free} of memory are available"
        probe_command = self.command(["/bin/true"], Limits(), "probe", ROOT / "none.py")
        try:
            probe = subprocess.run(probe_command, capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            return "unshare did not answer within 20 seconds"
        if probe.returncode != 0:
            return f"this machine does not let you make user namespaces ({last_line(probe.stderr)})"
        return None

    def prepare(self) -> None:
        """Nothing to do."""

    def command(self, argv: list[str], limits: Limits, name: str, program: Path) -> list[str]:
        options = ["--shm", str(limits.shm), "--tmp", str(TMP_BYTES)]
        for path in (ROOT, program.parent, program, Path(sys.prefix), Path(sys.base_prefix)):
            options += ["--keep", str(path)]
        return [shutil.which("unshare") or "unshare", *self.FLAGS, *enter(limits, argv, *options)]

    def remove(self, name: str) -> None:
        """Nothing: the kernel ends a pid namespace with its first process, and the mounts go with it."""


class Here:
    """The container that one is in already: a devcontainer, a pod. Nothing is made, so nothing is made smaller."""

    name = "here"

    def why_not(self, limits: Limits) -> str | None:
        if not Path("/dev/shm").is_dir():
            return "there is no /dev/shm here"
        size = shutil.disk_usage("/dev/shm").total
        if size > limits.shm:
            return (
                f"/dev/shm here has {megabytes(size)}, and the limit is {megabytes(limits.shm)}: "
                "the lab would fill memory that may not be a container's"
            )
        if limits.memory is not None:
            return "the memory of a container cannot be limited from inside"
        return None

    def prepare(self) -> None:
        """Nothing to do."""

    def command(self, argv: list[str], limits: Limits, name: str, program: Path) -> list[str]:
        return enter(limits, argv)

    def remove(self, name: str) -> None:
        """Nothing: the watcher takes its descendants with it."""


def enter(limits: Limits, argv: list[str], *options: str) -> list[str]:
    """The command line that sets the limits a process can set for itself and its children, and becomes argv."""
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("enter.py")), "--cwd", str(ROOT), *options]
    if limits.cpus is not None:
        command += ["--cpus", str(limits.cpus)]
    if limits.open_files is not None:
        command += ["--open-files", str(limits.open_files)]
    return [*command, "--", *argv]


BACKENDS: dict[str, Backend] = {
    "namespace": Namespace(),
    "docker": Engine("docker"),
    "podman": Engine("podman"),
    "here": Here(),
}

WHAT_HELPS = (
    "On Linux allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces=10000); "
    "elsewhere start docker or podman."
)


def choose(wanted: str | None, limits: Limits) -> Backend:
    """The backend asked for, or the first that works here and holds the limits."""
    if wanted is not None:
        reason = BACKENDS[wanted].why_not(limits)
        if reason is not None:
            raise Refused(f"cannot run in a {wanted} container: {reason}")
        return BACKENDS[wanted]
    reasons = []
    for backend in BACKENDS.values():
        reason = backend.why_not(limits)
        if reason is None:
            return backend
        reasons.append(f"{backend.name}: {reason}")
    raise Refused(f"no container can be started here. {'; '.join(reasons)}. {WHAT_HELPS}")


def available_memory() -> int:
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def start(backend: Backend, argv: list[str], limits: Limits, name: str, program: Path) -> subprocess.Popen[bytes]:
    """Start argv in a container. Its standard input is a lifeline: the watcher ends, and all with it, when it closes.

    It closes by itself when this process dies, however it dies, so there is no moment in which a run is nobody's.
    """
    return subprocess.Popen(
        backend.command(argv, limits, name, program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=None if isinstance(backend, Engine) else {**environment(limits), "LOADER_LAB": name},
        start_new_session=True,  # Ctrl-C is for us: we take the container down
    )
