"""What the command line prints of a run where there is no terminal: 80 columns, no colour."""

import io
from pathlib import Path

from rich.console import Console

from labs.harness import report
from labs.harness.lab import Lab
from labs.harness.live import View
from labs.harness.verdict import Verdict


def transcript(verdict: Verdict, lab: Lab, folder: Path) -> str:
    page = report.Page()
    page.console = Console(
        highlight=False, width=report.WIDTH, file=io.StringIO(), force_terminal=False, color_system=None
    )
    with page.console.capture() as captured:
        report.write(page, verdict, lab, folder)
    lines = [View(verdict.history.run).title, *captured.get().splitlines()]
    return "".join(f"{line.rstrip()}\n" for line in lines)
