"""Start a command under limits, in a container that takes everything in it down when it or its owner dies.

One `Limits` and three backends that honour it. `namespace` needs Linux and nothing else; `docker` and `podman` need
an engine and the lab image. Each backend answers one question by trying (`why_not`) and builds one command line.
"""

import dataclasses
import math
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "loader-lab"
TMP_BYTES = 1 << 30
BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    # NumPy's BLAS starts as many threads as the host has cores, in every worker. No lab here is about that.
    "OPENBLAS_NUM_THREADS": "1",
}


class Refused(Exception):
    """This machine or this backend cannot do what was asked; the text says why and what would help."""


@dataclass(frozen=True)
class Limits:
    """What a run gets. None is no limit of ours."""

    shm: int = 64 << 20
    memory: int | None = None
    cpus: int | None = None
    open_files: int | None = None
    start_method: str = "fork"
    env: dict[str, str] = field(default_factory=dict)
    seconds: float = 60

    def changed(self, **changes: Any) -> "Limits":
        return dataclasses.replace(self, **changes)


class Backend(Protocol):
    name: str

    def why_not(self, limits: Limits) -> str | None:
        """Why this backend cannot run here, or cannot enforce one of the limits; None where it can."""
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
        unshare = shutil.which("unshare")
        if unshare is None:
            return "the command unshare is missing (it is in util-linux)"
        if limits.memory is not None:
            return "namespaces alone cannot limit memory, docker and podman can"
        available = available_memory()
        if limits.shm > available:
            return f"/dev/shm of {limits.shm >> 20} MB was asked for, and {available >> 20} MB of memory are available"
        script = "mount -t tmpfs none /dev/shm"
        try:
            probe = subprocess.run(
                [unshare, *self.FLAGS, "sh", "-c", script], capture_output=True, text=True, timeout=20
            )
        except subprocess.TimeoutExpired:
            return "unshare did not answer within 20 seconds"
        if probe.returncode != 0:
            said = (probe.stderr.strip().splitlines() or ["it gave no reason"])[-1]
            return f"this kernel does not let you make user namespaces ({said})"
        return None

    def command(self, argv: list[str], limits: Limits, name: str, program: Path) -> list[str]:
        enter = [sys.executable, "-I", "-S", str(Path(__file__).with_name("enter.py"))]
        enter += ["--shm", str(limits.shm), "--tmp", str(TMP_BYTES), "--cwd", str(ROOT)]
        if limits.cpus is not None:
            enter += ["--cpus", str(limits.cpus)]
        if limits.open_files is not None:
            enter += ["--open-files", str(limits.open_files)]
        for path in (ROOT, program.parent, program, Path(sys.prefix), Path(sys.base_prefix)):
            enter += ["--keep", str(path)]
        return [shutil.which("unshare") or "unshare", *self.FLAGS, *enter, "--", *argv]

    def remove(self, name: str) -> None:
        """Nothing: the kernel ends a pid namespace with its first process, and the mounts go with it."""


class Engine:
    """docker or podman, through its command line client."""

    def __init__(self, name: str) -> None:
        self.name = name

    def why_not(self, limits: Limits) -> str | None:
        if shutil.which(self.name) is None:
            return f"the command {self.name} is missing"
        try:
            info = subprocess.run([self.name, "info"], capture_output=True, text=True, timeout=30)
        except subprocess.TimeoutExpired:
            return f"{self.name} did not answer within 30 seconds"
        if info.returncode != 0:
            said = (info.stderr.strip().splitlines() or ["it gave no reason"])[-1]
            return f"{self.name} does not answer ({said})"
        image = subprocess.run([self.name, "image", "inspect", IMAGE], capture_output=True, text=True)
        if image.returncode != 0:
            return f"{self.name} has no image called {IMAGE}"
        return None

    def command(self, argv: list[str], limits: Limits, name: str, program: Path) -> list[str]:
        run = [self.name, "run", "--rm", "--interactive", "--init", "--name", name, "--label", "loader-lab"]
        run += ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        run += ["--shm-size", str(limits.shm), "--tmpfs", f"/tmp:size={TMP_BYTES},mode=1777,exec"]
        if limits.memory is not None:
            run += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
        if limits.cpus is not None:
            run += ["--cpus", str(limits.cpus)]
        if limits.open_files is not None:
            run += ["--ulimit", f"nofile={limits.open_files}:{limits.open_files}"]
        for key, value in environment(limits).items():
            run += ["--env", f"{key}={value}"]
        for path in sorted({ROOT, program.parent}):
            run += ["--volume", f"{path}:{path}:ro"]
        return [*run, "--workdir", str(ROOT), IMAGE, "python", *argv[1:]]

    def remove(self, name: str) -> None:
        subprocess.run([self.name, "rm", "--force", name], capture_output=True, timeout=30)


BACKENDS: dict[str, Backend] = {"namespace": Namespace(), "docker": Engine("docker"), "podman": Engine("podman")}


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
    raise Refused(
        "no container can be started here. "
        + "; ".join(reasons)
        + ". On Linux allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces=10000); "
        "elsewhere start docker or podman."
    )


def available_memory() -> int:
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def environment(limits: Limits) -> dict[str, str]:
    """The whole environment of a run: nothing of the caller's leaks in, so that a run is the same for everybody."""
    return {**BASE_ENV, **limits.env}


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
        env={**environment(limits), "LOADER_LAB": name} if backend.name == "namespace" else None,
        start_new_session=True,  # Ctrl-C is for us: we take the container down
    )


def parse_size(text: str) -> int:
    """Bytes from a size as docker writes it: 64m, 2g, 512k or a plain number."""
    units = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    lowered = text.strip().lower()
    for suffix in ("ib", "b"):
        if len(lowered) > 1 and lowered.endswith(suffix) and not lowered[-len(suffix) - 1].isdigit():
            lowered = lowered[: -len(suffix)]
            break
    number, unit = (lowered[:-1], units[lowered[-1]]) if lowered[-1:] in units else (lowered, 1)
    try:
        size = float(number) * unit
    except ValueError:
        raise ValueError(f"{text!r} is not a size; write it like 64m or 2g") from None
    if not math.isfinite(size) or size < 1:
        raise ValueError(f"{text!r} is not a size; write it like 64m or 2g")
    return int(size)
