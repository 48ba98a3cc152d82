"""A PostgreSQL server for the tests: Debian's package, with data, a socket and a superuser of its own.

It listens on a unix socket only: a container has no network, but sees files outside /tmp and /run, sockets among them.
A keeper process holds it. When the tests end, however they end, the keeper's standard input closes, and it stops the
server and removes the folder.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labs.harness.limits import ROOT

USER = "learner"
OPTIONS = {
    "listen_addresses": "",
    "max_connections": "30",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: nothing in /dev/shm
    "fsync": "off",
}


def programs() -> Path | None:
    """Where initdb and postgres are. Debian keeps them out of PATH, in a folder for each version."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    found = shutil.which("postgres") or (str(folders[-1]) if folders else None)
    return Path(found).resolve().parent if found else None


def why_not() -> str | None:
    if programs() is None:
        return "there is no postgres here (Debian's package is postgresql)"
    if os.geteuid() == 0 and not any(entry.pw_name == "postgres" for entry in pwd.getpwall()):
        return "postgres does not run as root, and there is no user postgres"
    return None


@contextmanager
def server() -> Iterator[dict[str, str]]:
    """Start a server, and stop it. Yields the environment in which psycopg.connect() finds it."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,  # Ctrl-C is for the tests, and the end of the tests is for the keeper
    )
    assert keeper.stdout
    with keeper:
        folder = keeper.stdout.readline().strip()
        if not folder:
            raise RuntimeError("the PostgreSQL server did not start; the reason is on standard error")
        yield {"PGHOST": folder, "PGUSER": USER, "PGDATABASE": "postgres"}
    assert keeper.returncode == 0


def end_with_the_keeper() -> None:
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def keep() -> None:
    """Start the server, say where it is, and stop it when standard input closes."""
    bin, who = programs(), {}
    assert bin
    # Not in /tmp, which a container covers.
    folder = Path(tempfile.mkdtemp(prefix="loader-lab-postgres-", dir="/var/tmp"))
    try:
        if os.geteuid() == 0:
            who = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(folder, group="postgres")
            folder.chmod(0o770)  # anybody who can reach the socket is let in, so nobody else may reach it
        serve(bin, folder, who)
    finally:
        shutil.rmtree(folder)


def serve(bin: Path, folder: Path, who: dict[str, Any]) -> None:
    data, log = folder / "data", folder / "log"
    initdb = [bin / "initdb", "--pgdata", data, "--username", USER, "--auth", "trust", "--locale", "C.UTF-8"]
    postgres = [bin / "postgres", "-D", data, "-k", folder, *(f"--{name}={value}" for name, value in OPTIONS.items())]
    with log.open("w") as output:
        if subprocess.run([*initdb, "--no-sync"], stdout=output, stderr=output, cwd=folder, **who).returncode != 0:
            sys.exit(log.read_text()[-2000:])
        process = subprocess.Popen(
            postgres, stdout=output, stderr=output, cwd=folder, preexec_fn=end_with_the_keeper, **who
        )
    try:
        deadline = time.monotonic() + 60
        while subprocess.run([bin / "pg_isready", "--quiet", "--host", folder]).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(log.read_text()[-2000:])
            time.sleep(0.05)
        print(folder, flush=True)
        sys.stdin.read()
    finally:
        process.send_signal(signal.SIGINT)  # its "fast shutdown": it does not wait for its clients to leave
        process.wait(timeout=60)


if __name__ == "__main__":
    keep()
