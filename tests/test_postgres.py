"""One PostgreSQL connection and forked workers: the other half of the lab `sql`, against a real server.

What a shared connection does differs from run to run: it raises, or it hangs, and before either it may deliver samples
with the content of others. One of the first two is certain: each worker asks more often than the five times after which
psycopg prepares a statement, under a name that another worker's copy of the connection has given to the server already.
So the broken program is run as a check, for which one of a lab's findings is enough, and not as a failure, which shows
all of them.

The server is started for these tests and stopped after them. Where there is none they are skipped; REQUIRE_POSTGRES=1
turns a skip into a failure.
"""

import dataclasses
import os
import select
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from labs.harness import container
from labs.harness.lab import Lab
from labs.harness.limits import ROOT, Limits
from labs.harness.run import Request, once
from labs.harness.verdict import HEALTHY, REPRODUCED, Verdict
from tests import postgres
from tests.programs import SQL_POSTGRES, bent

Judge = Callable[..., Verdict]
Edits = tuple[tuple[str, str], ...]

CONNECT = "self.database = psycopg.connect()"
COUNT = 'return int(self.database.execute("select count(*) from lab_images").fetchone()[0])'
ASK = 'return self.database.execute("select file, label from lab_images where id = %s", (index,)).fetchone()'
RETURN = "return DataLoader(LabelledImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
DATASET = "torch.utils.data.get_worker_info().dataset"
NOT_PREPARED = (CONNECT, "self.database = psycopg.connect(prepare_threshold=None)")
LOCKED: Edits = (
    (f"        {CONNECT}\n", f"        {CONNECT}\n        self.lock = torch.multiprocessing.Lock()\n"),
    (ASK, f"with self.lock:\n            {ASK}"),
)
POOLED: Edits = (
    ("import psycopg\n", "import psycopg\nimport psycopg_pool\n"),
    (CONNECT, "self.pool = psycopg_pool.ConnectionPool(min_size=NUM_WORKERS)\n        self.pool.wait()"),
    (COUNT, "return IMAGES"),
    (ASK, f"with self.pool.connection() as database:\n            {ASK.replace('self.', '')}"),
)


def in_each_worker(*lines: str) -> Edits:
    """Give the loader a worker_init_fn with these lines."""
    function = "\n    ".join(["def prepare(worker_id: int) -> None:", *lines])
    return (RETURN, f"{RETURN[:-1]}, worker_init_fn=prepare)"), ("def make_loader", f"{function}\n\n\ndef make_loader")


STILL_SHARED = {"raised", "stalled", "overtime", "wrong-content"}
WRONG: dict[str, tuple[Edits, set[str]]] = {
    "a lock around the query: the session is still shared": (LOCKED, {"raised"}),
    "autocommit": (((CONNECT, "self.database = psycopg.connect(autocommit=True)"),), STILL_SHARED),
    "no prepared statements": ((NOT_PREPARED,), STILL_SHARED),
    "a connection in each worker that the dataset does not use": (
        in_each_worker("global database", "database = psycopg.connect()"),
        STILL_SHARED,
    ),
    "the inherited connection closed in each worker, and with it the main process' own": (
        in_each_worker(f"{DATASET}.database.close()", f"{DATASET}.database = psycopg.connect()"),
        {"raised"},
    ),
    "a pool that is forked": (POOLED, STILL_SHARED),
    "a timeout alone": (((RETURN, f"{RETURN[:-1]}, timeout=2)"),), {"raised"}),
    "another start method": (((RETURN, f'{RETURN[:-1]}, multiprocessing_context="forkserver")'),), {"unpicklable"}),
    "one worker: the next one prepares the statement again": ((("NUM_WORKERS = 4", "NUM_WORKERS = 1"),), {"raised"}),
    "no worker processes": ((("NUM_WORKERS = 4", "NUM_WORKERS = 0"),), {"other-workers"}),
}
RIGHT: dict[str, Edits] = {
    "a connection for each worker, in a worker_init_fn": in_each_worker(f"{DATASET}.database = psycopg.connect()"),
    "a connection for each process, when it first asks": (
        ("import atexit\n", "import atexit\nimport functools\nimport os\n"),
        (f"        {CONNECT}\n", ""),
        ("self.database.execute", "connection(os.getpid()).execute"),
        (
            "class LabelledImages",
            "connection = functools.cache(lambda pid: psycopg.connect())\n\n\nclass LabelledImages",
        ),
    ),
    "a connection for each question": (
        (f"        {CONNECT}\n", ""),
        (COUNT, f"with psycopg.connect() as database:\n            {COUNT.replace('self.', '')}"),
        (ASK, f"with psycopg.connect() as database:\n            {ASK.replace('self.', '')}"),
    ),
    # Right by what it delivers: one question at a time, and nothing in the session that only one process knows of.
    "a lock around the query, and no prepared statements": (*LOCKED, NOT_PREPARED),
}


@pytest.fixture(scope="session")
def server() -> Iterator[dict[str, str]]:
    """The environment in which psycopg.connect() finds the server."""
    why = postgres.why_not()
    if why and os.environ.get("REQUIRE_POSTGRES"):
        pytest.fail(f"REQUIRE_POSTGRES is set, and {why}")
    if why:
        pytest.skip(why)
    with postgres.server() as environment:
        yield environment


@pytest.fixture
def lab(server: dict[str, str]) -> Lab:
    return dataclasses.replace(SQL_POSTGRES, limits=Limits(env=server))


@pytest.fixture
def judge(lab: Lab, tmp_path: Path) -> Judge:
    """Run the lab in a role, or the program with some edits as a check, and judge it."""

    def judge(role: str, edits: Edits = ()) -> Verdict:
        text = lab.program.read_text()
        for old, new in edits:
            text = bent(old, new, text)
        attempt = tmp_path / "attempt.py"
        attempt.write_text(text)
        request = Request(lab, role, attempt if role == "check" else None)
        return once(request, container.choose("namespace", request.limits), tmp_path / "runs")[0]

    return judge


def found(verdict: Verdict) -> set[str]:
    return {finding.id for finding in verdict.findings}


def test_a_shared_connection_breaks(judge: Judge) -> None:
    """It raises or hangs, asleep or asking again and again, and nothing else is wrong."""
    verdict = judge("check")
    assert len(found(verdict) & {"raised", "stalled", "overtime"}) == 1 and found(verdict) <= STILL_SHARED
    assert verdict.verdict == REPRODUCED and verdict.exit_code == 1


@pytest.mark.parametrize("role", ["control", "fix"])
def test_control_and_fix_are_healthy(judge: Judge, role: str) -> None:
    """The broken program in one process, and the solution with four workers, for two epochs."""
    verdict = judge(role)
    assert found(verdict) == set()
    assert verdict.verdict == HEALTHY and verdict.exit_code == 0


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_fix_is_rejected_for_the_right_reason(judge: Judge, name: str) -> None:
    """Exit code 1, and a finding that says what is still wrong."""
    edits, reasons = WRONG[name]
    verdict = judge("check", edits)
    assert found(verdict) & reasons
    assert verdict.exit_code == 1


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_fix_is_accepted_whatever_it_looks_like(judge: Judge, name: str) -> None:
    """No finding, exit code 0."""
    verdict = judge("check", RIGHT[name])
    assert [finding.statement for finding in verdict.findings] == []
    assert verdict.verdict == HEALTHY and verdict.exit_code == 0


def test_one_worker_is_well_for_one_epoch(judge: Judge) -> None:
    """It has the connection to itself; its successor inherits a connection that does not know what was prepared."""
    verdict = judge("check", (("NUM_WORKERS = 4", "NUM_WORKERS = 1"),))
    assert [event["epoch"] for event in verdict.history.all("epoch_end")] == [0]
    assert [finding.message for finding in verdict.findings if finding.id == "raised"] == [
        'psycopg.errors.DuplicatePreparedStatement: prepared statement "_pg3_0" already exists'
    ]


def test_a_forked_copy_that_goes_leaves_the_connection_open(server: dict[str, str]) -> None:
    """psycopg says goodbye to the server only in the process that connected, not in a fork of it."""
    database = psycopg.connect(host=server["PGHOST"], user=server["PGUSER"], dbname=server["PGDATABASE"])
    copy = weakref.ref(database)
    child = os.fork()
    if child == 0:
        del database
        os._exit(copy() is not None)
    assert os.waitpid(child, 0)[1] == 0
    assert database.execute("select 1").fetchone() == (1,)
    database.close()


def test_nothing_is_left_when_the_tests_are_killed(server: dict[str, str]) -> None:
    """No process, no socket, no folder, though nobody had the time to clean up."""
    code = "from tests import postgres\nwith postgres.server() as found: print(found['PGHOST'], flush=True); input()"
    tests = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert tests.stdin and tests.stdout
    with tests:
        folder = Path(tests.stdout.readline().strip())
        theirs = psutil.Process(tests.pid).children(recursive=True)
        ends = [os.pidfd_open(process.pid) for process in theirs]
        assert any(process.name() == "postgres" for process in theirs) and folder.is_dir()
        tests.send_signal(signal.SIGKILL)
    for end in ends:
        assert select.select([end], [], [], 60)[0] == [end]
        os.close(end)
    assert not folder.exists()
