"""The first process of a claim's container: calls one function in a child and prints what it returned, as JSON.

Standard input is a lifeline, as everywhere here: when it closes, whoever asked is gone, and this ends with all below.
"""

import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labs.claims.claim import Case

MOST_SAID = 2000


def call(name: str, arguments: dict[str, Any], into: Path) -> None:
    """In the child: a function that yields cases, or returns what its measurement needs."""
    module, _, function = name.partition(".")
    returned = getattr(importlib.import_module(f"labs.claims.inside.{module}"), function)(**arguments)
    if hasattr(returned, "__next__"):
        returned = [asdict(case) if isinstance(case, Case) else case for case in returned]
    into.write_text(json.dumps(returned))


def watch(name: str, arguments: str) -> dict[str, Any]:
    """In the first process: wait for the child, or for the lifeline."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "labs.claims.inside", name, arguments, str(result)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        ended = os.pidfd_open(child.pid)
        with selectors.DefaultSelector() as selector:
            for what in (sys.stdin.fileno(), ended):
                selector.register(what, selectors.EVENT_READ)
            if ended not in {key.fd for key, _ in selector.select()}:
                os.killpg(child.pid, signal.SIGKILL)
                os._exit(1)
        if child.wait() != 0 or not result.exists():
            said = log.read_text(errors="replace")[-MOST_SAID:]
            return {"failed": f"exit {child.returncode}: {said.strip()}"}
        return {"returned": json.loads(result.read_text())}


if __name__ == "__main__":
    if len(sys.argv) > 3:
        call(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]))
    else:
        print(json.dumps(watch(sys.argv[1], sys.argv[2])), flush=True)
