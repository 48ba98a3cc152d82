"""A run's findings against what was expected of it."""

from dataclasses import dataclass
from typing import Any

from labs.harness.findings import Finding
from labs.harness.history import SCHEMA, History

REPRODUCED, HEALTHY, INCONCLUSIVE = "reproduced", "healthy", "inconclusive"
AS_EXPECTED, NOT_AS_EXPECTED, WRONG_USAGE, CANNOT_RUN, HARNESS_FAILED = 0, 1, 2, 77, 99


@dataclass(frozen=True)
class Verdict:
    verdict: str
    as_expected: bool
    exit_code: int
    findings: list[Finding]
    history: History

    def as_dict(self) -> dict[str, Any]:
        run, start = self.history.run, self.history.first("start") or {}
        return {
            "schema": SCHEMA,
            "lab": run["lab"],
            "role": run["role"],
            "program": run["program"],
            "verdict": self.verdict,
            "as_expected": self.as_expected,
            "exit_code": self.exit_code,
            "expected": run["expect"],
            "findings": [finding.as_dict() for finding in self.findings],
            "container": {
                "backend": run["backend"],
                "shm_bytes": self.history.container["shm_total"],
                "cpus": self.history.container["cpus"],
                "open_files": self.history.container["open_files"],
            },
            "versions": {"python": start.get("python"), "torch": start.get("torch")},
            "seconds": round(self.history.events[-1]["t"] - self.history.container["t"], 3),
        }


def judge(history: History, findings: list[Finding]) -> Verdict:
    """Reproduced: what the lab is about was found. Healthy: nothing was found. Anything else proves neither."""
    run = history.run
    found, wanted = {finding.id for finding in findings}, set(run["lab_findings"])
    # A lab must show all of it and nothing else, or it is not the experiment it claims to be. For a learner's program
    # one of the lab's findings is enough: the failure is still there.
    reproduced = found == wanted if run["expect"] == REPRODUCED else bool(found & wanted)
    verdict = REPRODUCED if reproduced else INCONCLUSIVE if found else HEALTHY
    as_expected = verdict == run["expect"] if run["expect"] else verdict != INCONCLUSIVE
    code = AS_EXPECTED if as_expected else WRONG_USAGE if "not-a-program" in found else NOT_AS_EXPECTED
    return Verdict(verdict, as_expected, code, findings, history)
