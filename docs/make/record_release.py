"""Put the claims to the test with another release of torch, and keep what was seen.

    LOADER_LAB_PYTHON=/path/to/its/python nox -s record -- release

That environment has torch, and of the release's time numpy, opencv-python-headless and rich. What only docker can show
is left out. Nothing is expected here: that an outcome is another one is what the page wants to know.
"""

import datetime
import json
import re
import signal
import sys
import tomllib
from dataclasses import dataclass

from docs.make import recording
from docs.make.record_workshop import versions
from labs.claims import report
from labs.claims.claim import Result
from labs.claims.side_by_side import side_by_side
from labs.claims.table import CLAIMS
from labs.harness.limits import ROOT, Refused

NAME = recording.RELEASES
FOLDER = recording.RECORDED / NAME
KILLED = re.compile(r"exit -(\d+)")  # by which signal the program that measures ended


@dataclass(frozen=True)
class Release:
    name: str  # "2.9.1"
    recorded: str
    versions: dict[str, str]
    results: dict[str, Result]


def pinned() -> str:
    """The release that labs and tests run with."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    return str(next(one for one in groups["lab"] if one.startswith("torch==")).removeprefix("torch=="))


def write() -> None:
    name = versions()["torch"].partition("+")[0]
    if name == pinned():
        raise Refused(f"torch {name} is what everything else is recorded with; LOADER_LAB_PYTHON names another Python")
    ids = [claim.id for claim in CLAIMS.values() if claim.measure and not claim.needs]
    results: dict[str, Result] = {}
    for result in side_by_side(ids):
        results[result.id] = result
        print(report.progress(len(results), len(ids), result), file=sys.stderr, flush=True)
        if result.not_run:
            raise Refused(f"{result.id} could not be measured: {result.not_run}")
    kept = {
        "recorded": datetime.date.today().isoformat(),
        "versions": versions(),
        "results": [{**results[id].as_dict(), "failed": results[id].failed.partition("\n")[0]} for id in ids],
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = recording.without_places(json.dumps(kept, indent=1) + "\n")
    (FOLDER / f"torch-{name}.json").write_text(text, encoding="utf-8")


def load() -> list[Release]:
    """What was recorded of each other release, the oldest first."""
    releases = []
    for path in FOLDER.glob("torch-*.json"):
        read = json.loads(path.read_text())
        results = {one["id"]: Result.from_dict(one) for one in read["results"]}
        releases.append(Release(path.stem.removeprefix("torch-"), read["recorded"], read["versions"], results))
    return sorted(releases, key=lambda release: [int(part) for part in release.name.split(".")])


def asked_the_same(release: Release, now: dict[str, Result]) -> dict[str, Result]:
    """What can be compared: a claim that is new, or is tried in other cases since, was not put to this release."""
    return {
        id: then
        for id, then in release.results.items()
        if id in now and (KILLED.search(then.failed) or whens(then) == whens(now[id]))
    }


def whens(result: Result) -> list[str]:
    return [case.when for case in result.cases]


def otherwise(then: Result, now: Result) -> list[tuple[str, str, str]]:
    """What came out otherwise: when, what was seen then, and what is seen now."""
    if killed := KILLED.search(then.failed):
        by = signal.Signals(int(killed[1])).name
        return [("in one of its cases", f"The main process itself is killed by {by}", "It raises, or goes on")]
    today = {case.when: case for case in now.cases}
    return [(case.when, case.saw, today[case.when].saw) for case in then.cases if case.holds != today[case.when].holds]
