"""Put every claim to the test and keep what was seen: nox -s record -- claims

All of them, docker's too: a recording is of one day.
"""

import datetime
import json
import sys

from docs.make import recording
from docs.make.record_workshop import versions
from labs.claims import report
from labs.claims.claim import Result
from labs.claims.side_by_side import side_by_side
from labs.claims.table import CLAIMS
from labs.harness.limits import Refused

NAME = recording.CLAIMS
FOLDER = recording.RECORDED / NAME
RESULTS = "results.json"


def write() -> None:
    results: dict[str, Result] = {}
    for result in side_by_side(list(CLAIMS)):
        results[result.id] = result
        print(report.progress(len(results), len(CLAIMS), result), file=sys.stderr, flush=True)
    for result in results.values():
        if result.not_run:
            raise Refused(f"{result.id} could not be measured: {result.not_run}")
        if not report.agrees(result):
            raise recording.NotAsExpected(f"{result.id} came out as {result.verdict!r}")
    facts = {"recorded": datetime.date.today().isoformat(), "versions": versions()}
    kept = [
        {key: value for key, value in results[id].as_dict().items() if key not in ("not_run", "failed")}
        for id in CLAIMS
    ]
    recording.keep(
        FOLDER,
        {RESULTS: json.dumps(kept, indent=1) + "\n", "recording.json": json.dumps(facts, indent=2) + "\n"},
    )


def load() -> dict[str, Result]:
    """What was recorded of each claim."""
    return {read["id"]: Result.from_dict(read) for read in json.loads((FOLDER / RESULTS).read_text())}
