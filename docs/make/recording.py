"""What was kept of the runs of a lab: docs/recorded/LAB/."""

import hashlib
import json
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from labs.harness.lab import Lab
from labs.harness.limits import ROOT

RECORDED = ROOT / "docs" / "recorded"
ROLES = ("failure", "control", "fix")
WORKSHOP = "workshop"  # not a lab: the exercise loop
CLAIMS = "claims"  # nor is this: what people say
RELEASES = "releases"  # the same, on older releases of torch


class NotAsExpected(Exception):
    """A run went otherwise than the site says: not to be recorded."""


def folder(lab: Lab) -> Path:
    return RECORDED / lab.name


def load(lab: Lab) -> dict[str, Any]:
    return load_from(folder(lab))


def load_from(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "recording.json").read_text())
    return read


def shape(text: str) -> str:
    """A transcript without what differs from run to run: numbers, lists of numbers, times and the curve."""
    words = re.sub(r"runs/\S+", "runs", text)
    words = re.sub(r"/dev/shm +[▁▂▃▄▅▆▇█]+.*\n.*is full.*\n", "", words)
    words = re.sub(r"\d+(\.\d+)*(\+\w+)?( [KMG]B)?", "0", words)
    words = re.sub(r"0(,\s+0)*(\s+and\s+0\s+more)?", "0", words)
    return re.sub(r"\s+", " ", words)


def keep(folder: Path, files: dict[str, str]) -> None:
    """Replace what was recorded before, all at once: a recording is of one day."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(without_places(text), encoding="utf-8")


def without_places(text: str) -> str:
    """Where things lie on this machine is nobody's business, and means nothing to a reader."""
    for place in (f"{sysconfig.get_path('purelib')}/", f"{sys.base_prefix}/", f"{ROOT}/"):
        text = text.replace(place, "")
    return re.sub(r"/tmp/[\w./-]*/(?=[\w-]+\.\w+)", "", text)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
