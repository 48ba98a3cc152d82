"""Judge a learner's copy again whenever it is saved."""

import contextlib
import os
import time
from pathlib import Path

from rich.text import Text

from labs.harness.__main__ import main as loader_lab
from labs.harness.lab import Lab
from labs.harness.report import console
from labs.workshop import exercises, progress
from labs.workshop.exercises import CHANGED, copy_of

# Looking is enough for a few small files, and works where a container or a network drive passes on no events.
LOOK_SECONDS = 0.2

Sign = tuple[int, int, int]


def watch(labs: list[Lab], runs: Path) -> None:
    """Until Ctrl-C, which is how it ends."""
    try:
        kept = progress.read()
        judged = {lab.name: sign(copy_of(lab)) for lab in labs}
        for lab in labs:
            if exercises.exercise(lab, kept).state == CHANGED:
                judge(lab, runs)
        say_what(labs)
        before = dict(judged)
        while True:
            for lab in labs:
                now = sign(copy_of(lab))
                # The same at two looks, and something in it: the editor is done with it.
                if now and now == before[lab.name] != judged[lab.name]:
                    judged[lab.name] = now
                    judge(lab, runs)
                    say_what(labs)
                before[lab.name] = now
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        print("\nNo longer watching; nothing is left running.")


def sign(path: Path) -> Sign | None:
    """What changes with every save, also with one that puts a new file in the place of the old; None for no text."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_ino, facts.st_mtime_ns, facts.st_size) if facts.st_size else None


def judge(lab: Lab, runs: Path) -> None:
    console().rule(Text(f"{time.strftime('%H:%M:%S')}  {lab.name}"), style="dim")
    with contextlib.suppress(SystemExit):  # the file went away just now: its next save is judged
        loader_lab(["check", lab.name, "--runs", str(runs)])


def say_what(labs: list[Lab]) -> None:
    what = os.path.relpath(copy_of(labs[0]) if len(labs) == 1 else progress.FOLDER)
    console().print(Text(f"\nWatching {what}: save to have it judged, Ctrl-C to end.", "dim"))
