"""What a measurement works with: containers of its own, the labs, and an engine where a claim is about one."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from labs.catalog import LABS
from labs.claims.claim import CANNOT, NO_VERDICT, Case, Claim, NotSound, Result, decide
from labs.harness import container
from labs.harness.container import Backend
from labs.harness.engine import Engine, last_line
from labs.harness.limits import ROOT, Limits, Refused
from labs.harness.run import HarnessFailed, Request, lines_until, once, started
from labs.harness.verdict import Verdict

RunLab = Callable[[str, str], Verdict]
INSIDE = ROOT / "labs" / "claims" / "inside" / "__main__.py"


class Bench:
    def __init__(self, run_lab: RunLab | None = None) -> None:
        self.lab: RunLab = run_lab or cache(self._run_lab)

    def inside(self, name: str, limits: Limits | None = None, backend: Backend | None = None, **arguments: Any) -> Any:
        """What the function theme.name in inside/ returns, called in a fresh container."""
        limits = limits or Limits()
        backend = backend or fitting(limits)
        command = [sys.executable, "-m", "labs.claims.inside", name, json.dumps(arguments)]
        with started(backend, command, limits, INSIDE) as process:
            said = b"".join(lines_until(process, time.monotonic() + limits.seconds))
            assert process.stderr
            if not said:
                raise HarnessFailed(f"{name} gave no answer: {last_line(process.stderr.read().decode())}")
        answer = json.loads(said)
        if "failed" in answer:
            raise HarnessFailed(f"{name} failed: {answer['failed']}")
        return answer["returned"]

    def docker(self) -> Engine:
        """docker, with the lab image built; refused where there is none."""
        engine = container.choose("docker", Limits())
        engine.prepare()
        assert isinstance(engine, Engine)
        return engine

    def check(self, lab: str, program: str) -> Verdict:
        """A program, given as text, under the limits of a lab and against its job."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{LABS[lab].file}.py"
            os.chmod(folder, 0o755)
            path.write_text(program)
            request = Request(LABS[lab], "check", path)
            return once(request, fitting(request.limits), Path(folder) / "runs")[0]

    def _run_lab(self, lab: str, role: str) -> Verdict:
        request = Request(LABS[lab], role)
        with tempfile.TemporaryDirectory() as folder:
            return once(request, fitting(request.limits), Path(folder))[0]


def fitting(limits: Limits) -> Backend:
    """A namespace container; an engine's where memory is limited."""
    backend = container.choose("namespace" if limits.memory is None else None, limits)
    backend.prepare()
    return backend


def inside(name: str, **limits: Any) -> Callable[[Bench], Iterable[Case]]:
    """A measurement that is one function in one container, and yields its cases there."""

    def measure(bench: Bench) -> Iterable[Case]:
        return [Case(**case) for case in bench.inside(name, Limits(**limits))]

    return measure


def measure(claim: Claim, bench: Bench) -> Result:
    """Put one claim to the test."""
    begun = time.monotonic()
    if claim.measure is None:
        return Result(claim.id, CANNOT)
    cases: tuple[Case, ...] = ()
    try:
        cases = tuple(claim.measure(bench))
        return Result(claim.id, decide(claim, cases), cases, seconds=round(time.monotonic() - begun, 1))
    except Refused as refusal:
        return Result(claim.id, claim.verdict, not_run=str(refusal))
    except (NotSound, HarnessFailed) as failure:
        return Result(claim.id, NO_VERDICT, cases, failed=str(failure))
    except Exception as failure:  # on a torch that it was not made for, say: the other claims can still be measured
        return Result(claim.id, NO_VERDICT, failed=f"{claim.id}: {type(failure).__name__}: {failure}")
