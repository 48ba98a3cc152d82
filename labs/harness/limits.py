"""What a run gets: shared memory, CPUs, files, time, and an environment in which nothing is left to chance."""

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
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


def environment(limits: Limits) -> dict[str, str]:
    """The whole environment of a run: nothing of the caller's leaks in, so that a run is the same for everybody."""
    return {**BASE_ENV, **limits.env}


def parse_size(text: str) -> int:
    """Bytes from a size as docker writes it: 64m, 2g, 512k or a plain number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)(?:i?b)?", text.strip().lower())
    size = int(float(match[1]) * 1024 ** " kmg".index(match[2] or " ")) if match else 0
    if size < 1:
        raise ValueError(f"{text!r} is not a size; write it like 64m or 2g")
    return size


def megabytes(count: int) -> str:
    """Bytes in words, in the units of docker: a KB, MB or GB is 1024 of the smaller one."""
    if count >= 1 << 30:
        return f"{count / (1 << 30):.1f} GB"
    return f"{count / (1 << 20):.1f} MB" if count >= 1 << 19 or not count else f"{count / (1 << 10):.0f} KB"
