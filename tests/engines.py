"""docker and podman for the tests that need one, started once for all of them and stopped at the end."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.harness.engine import Engine, image
from labs.harness.limits import ROOT
from tests import engine


def unavailable(why: str) -> None:
    if os.environ.get("REQUIRE_ENGINE"):
        pytest.fail(f"REQUIRE_ENGINE is set, and {why}")
    pytest.skip(why)


@pytest.fixture(scope="session")
def workshop() -> Iterator[Path]:
    """A folder that an engine's ordinary user can read, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="loader-lab-engine-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def docker(workshop: Path) -> Iterator[Engine]:
    """An engine of our own, with the lab image built from the real Dockerfile on the stand-in base."""
    if os.geteuid() != 0 or not shutil.which("dockerd") or not shutil.which("docker"):
        unavailable("a docker engine can only be started by root, with docker.io installed")
    folder = workshop / "docker"
    folder.mkdir()
    with engine.docker_engine(folder) as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", address)
        engine.stand_in("docker")
        engine.build("docker", image(), ROOT)
        yield Engine("docker")


@pytest.fixture(scope="session")
def podman(workshop: Path) -> Iterator[Engine]:
    """podman with a store of its own."""
    if os.geteuid() != 0 or not shutil.which("podman"):
        unavailable("podman is not installed, or we are not root")
    folder, lock = workshop / "podman", Path("/dev/shm/libpod_lock")  # podman's own, and it leaves it behind
    had_lock = lock.exists()
    folder.mkdir()
    storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/data"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(storage)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
        engine.stand_in("podman")
        engine.build("podman", image(), ROOT)
        yield Engine("podman")
        subprocess.run(["umount", "-l", f"{folder}/data/overlay"], capture_output=True)
        if not had_lock:
            lock.unlink(missing_ok=True)
