"""Put the claims to the test: nox -s claims [-- ID ...] [--json]

Each claim is measured in containers of its own, several at a time (side_by_side.py).
"""

import argparse
import json
import sys

from labs.claims import report
from labs.claims.bench import Bench, measure
from labs.claims.claim import Result
from labs.claims.side_by_side import side_by_side
from labs.claims.table import CLAIMS
from labs.harness.entry import Parser, entry
from labs.harness.verdict import AS_EXPECTED, CANNOT_RUN, HARNESS_FAILED, NOT_AS_EXPECTED
from labs.harness.words import did_you_mean


def parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser("nox -s claims -- [ID ...] [--json]", "Put what people say about multi-worker loading to the test.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="a claim, like shm-fills-over-epochs; default: all")
    parser.add_argument("--json", action="store_true", help="the results as JSON, alone on standard output")
    parser.add_argument("--list", action="store_true", help="the claims' ids and words; nothing is run")
    parser.add_argument("--lines", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    for unknown in (id for id in arguments.ids if id not in CLAIMS):
        meant = did_you_mean(unknown, CLAIMS)
        parser.error(f"there is no claim called {unknown!r}; {meant}nox -s claims -- --list shows them all")
    return arguments


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    ids = list(dict.fromkeys(arguments.ids)) or list(CLAIMS)
    if arguments.list:
        for id in ids:
            print(f"{id}\n    {CLAIMS[id].says}")
        return AS_EXPECTED
    if arguments.lines:
        bench = Bench()
        for id in ids:
            print(json.dumps(measure(CLAIMS[id], bench).as_dict()), flush=True)
        return AS_EXPECTED
    results: dict[str, Result] = {}
    for result in [measure(CLAIMS[ids[0]], Bench())] if len(ids) == 1 else side_by_side(ids):
        results[result.id] = result
        if len(ids) > 1:
            print(report.progress(len(results), len(ids), result), file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps(as_json(results), indent=2))
    elif len(ids) == 1:
        report.one(results[ids[0]])
    else:
        report.table(results)
    return exit_code(results)


def exit_code(results: dict[str, Result]) -> int:
    if any(result.failed for result in results.values()):
        return HARNESS_FAILED
    if not all(report.agrees(result) for result in results.values()):
        return NOT_AS_EXPECTED
    # One that was asked for and could not be measured is no success; among many it is said, and does not spoil them.
    only = len(results) == 1 and next(iter(results.values())).not_run
    return CANNOT_RUN if only else AS_EXPECTED


def as_json(results: dict[str, Result]) -> dict[str, object]:
    return {
        "schema": 1,
        "as_expected": all(report.agrees(result) for result in results.values()),
        "claims": [
            {
                "id": id,
                "says": CLAIMS[id].says,
                "source": vars(CLAIMS[id].source),
                "expected": CLAIMS[id].verdict,
                "in_words": CLAIMS[id].in_words,
                **results[id].as_dict(),
            }
            for id in CLAIMS
            if id in results
        ],
    }


if __name__ == "__main__":
    sys.exit(entry(main))
