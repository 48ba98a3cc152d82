"""Programs for tests: a healthy loader for the lab `pickle`, to be bent in one place, and a lab with a server."""

import dataclasses

from labs.catalog import LABS
from labs.harness.lab import Control
from labs.harness.limits import Limits

GOOD = LABS["pickle"].solution.read_text()

# The other half of the lab `sql`, with the same images and labels. It is not in the catalog because it needs a server,
# and that is here for the tests only (postgres.py). What it shows differs from run to run, see test_postgres.py.
SQL_POSTGRES = dataclasses.replace(
    LABS["sql"],
    module="sql_postgres",
    fails="one connection to a server is shared by forked workers: its protocol breaks",
    findings=("raised", "stalled", "overtime", "wrong-content"),
    workers=4,
    epochs=2,
    limits=Limits(seconds=30),  # a client that asks again and again is not asleep: it is ended by the clock
    control=Control("no worker processes", constants={"NUM_WORKERS": 0}, workers=0),
)


def bent(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new)


def in_main(code: str) -> str:
    """Run this in the main process, when the loader is made."""
    return bent("    dataset = Images(", f"    {code}\n    dataset = Images(")


def in_worker(code: str) -> str:
    """Run this in a worker, at its eighth sample."""
    return bent(
        "        image = cv2.imread(", f"        if index == 7:\n            {code}\n        image = cv2.imread("
    )
