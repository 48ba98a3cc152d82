"""What was kept of the runs of a lab: docs/recorded/LAB/."""

import json
import re
from pathlib import Path
from typing import Any

from labs.harness.lab import Lab
from labs.harness.limits import ROOT

RECORDED = ROOT / "docs" / "recorded"
ROLES = ("failure", "control", "fix")


def folder(lab: Lab) -> Path:
    return RECORDED / lab.name


def load(lab: Lab) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder(lab) / "recording.json").read_text())
    return read


def shape(text: str) -> str:
    """A transcript without what differs from run to run: numbers, lists of numbers, times and the curve."""
    words = re.sub(r"runs/\S+", "runs", text)
    words = re.sub(r"/dev/shm +[▁▂▃▄▅▆▇█]+.*\n.*is full.*\n", "", words)
    words = re.sub(r"\d+(\.\d+)*(\+\w+)?( [KMG]B)?", "0", words)
    words = re.sub(r"0(,\s+0)*(\s+and\s+0\s+more)?", "0", words)
    return re.sub(r"\s+", " ", words)
