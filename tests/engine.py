"""A docker engine for the tests, and a stand-in for the base image, where neither can be had from outside.

The engine is one of our own: its own socket, data and pid file, no iptables, no bridge. The stand-in is this machine's
Python with the environment's packages, a shell and df: enough to build the real Dockerfile on it without a registry.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BASE = "loader-lab-test-base"
TOOLS = ("sh", "df", "sleep", "cat", "id", "rm")


def end_with_the_tests() -> None:
    """Also when they are killed, no engine of theirs stays behind."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def docker_engine(folder: Path) -> Iterator[str]:
    """Start dockerd, and stop it by its pid. Yields the address of its socket."""
    socket, pidfile = f"unix://{folder}/docker.sock", folder / "docker.pid"
    command = ["dockerd", "--host", socket, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    command += ["--pidfile", str(pidfile), "--bridge=none", "--iptables=false", "--ip6tables=false"]
    command += ["--ip-forward=false", "--ip-masq=false"]
    with (folder / "dockerd.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_the_tests)
    try:
        deadline = time.monotonic() + 60
        while subprocess.run(["docker", "--host", socket, "info"], capture_output=True).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "dockerd.log").read_text()[-2000:])
            time.sleep(0.1)
        yield socket
    finally:
        process.terminate()
        process.wait(timeout=60)
        for mount in [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]:
            if mount.startswith(str(folder)):
                subprocess.run(["umount", "-l", mount], capture_output=True)


def libraries(binaries: list[Path], without: Path) -> dict[str, Path]:
    """The shared libraries that these need from the system, by asking the loader."""
    needed = {}
    for binary in binaries:
        for word in subprocess.run(["ldd", str(binary)], capture_output=True, text=True).stdout.split():
            if word.startswith("/") and ".so" in word and not word.startswith(str(without)):
                needed[Path(word).name] = Path(word).resolve()
    return needed


def readable(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Everybody may read it; caches and what no lab needs stay behind."""
    if Path(entry.name).name in {"test", "idlelib", "__pycache__", "ensurepip", "mypy", "mypyc", "hypothesis"}:
        return None
    entry.uid = entry.gid = 0
    entry.mode |= 0o555 if entry.isdir() or entry.mode & 0o100 else 0o444
    return entry


def stand_in(engine: str) -> None:
    """Make the stand-in base image, in an engine that is docker or podman."""
    version = f"python3.{sys.version_info.minor}"
    library, packages = Path(sys.base_prefix) / "lib" / version, Path(sys.prefix) / "lib" / version / "site-packages"
    interpreter = Path(sys.executable).resolve()
    tools = [Path(found).resolve() for tool in TOOLS if (found := shutil.which(tool))]
    binaries = [interpreter, *tools, *(library / "lib-dynload").glob("*.so"), *packages.glob("*/*.so")]
    command = [engine, "import", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin", "-", BASE]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin
    with process.stdin, tarfile.open(fileobj=process.stdin, mode="w|") as tar:
        tmp = tarfile.TarInfo("tmp")
        tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(tmp)
        tar.add(interpreter, "usr/local/bin/python", filter=readable)
        for path in sorted(library.iterdir()):
            if path.name != "site-packages":
                tar.add(path, f"usr/local/lib/{version}/{path.name}", filter=readable)
        tar.add(packages, f"usr/local/lib/{version}/site-packages", filter=readable)
        for name, tool in zip(TOOLS, tools, strict=True):
            tar.add(tool, f"bin/{name}", filter=readable)
        for name, path in libraries(binaries, packages).items():
            tar.add(
                path, f"lib64/{name}" if name.startswith("ld-") else f"lib/x86_64-linux-gnu/{name}", filter=readable
            )
    if process.wait() != 0:
        raise RuntimeError(f"{engine} could not import the stand-in base image")


def build(engine: str, image: str, root: Path) -> None:
    """Build the real Dockerfile on the stand-in."""
    command = [engine, "build", "--build-arg", f"BASE={BASE}", "--network", "none"]
    command += ["--file", str(root / "docker" / "Dockerfile"), "--tag", image, "--tag", "loader-lab", str(root)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    if result.returncode != 0:
        raise RuntimeError(result.stdout[-2000:] + result.stderr[-2000:])
