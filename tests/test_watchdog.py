"""Hangs are recognised by evidence, with the stacks of everybody; slow programs are left alone."""

from collections.abc import Callable

from labs.harness.verdict import Verdict
from tests.conftest import Run
from tests.programs import in_main, in_worker

Check = Callable[[str, str], Verdict]
WAIT_FOR_EVER = "__import__('threading').Event().wait()"


def test_a_worker_that_waits_for_ever_is_a_stall(check: Check) -> None:
    """Long before the time limit; the record has the stack of the main process and of both workers."""
    verdict = check("pickle", in_worker(WAIT_FOR_EVER))
    assert [finding.id for finding in verdict.findings] == ["stalled"] and verdict.exit_code == 1
    stall = verdict.history.first("stall")
    pids = next(verdict.history.all("workers"))["pids"]
    assert stall is not None and stall["seconds"] < 10
    stacks = {process["pid"]: process["stack"] for process in stall["stacks"]}
    assert all("_worker_loop" in stacks[pid] for pid in pids)
    assert any("__getitem__" in stacks[pid] and "attempt.py" in stacks[pid] for pid in pids)
    assert any("run_epochs" in stack for stack in stacks.values())


def test_a_forked_worker_that_hangs_gives_its_stack_too(run: Run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """With fork, workers inherit what answers the request for a stack."""
    path = tmp_path / "attempt.py"
    path.write_text(in_worker(WAIT_FOR_EVER))
    verdict = run("pickle", "check", path, start_method="fork")
    stall = verdict.history.first("stall")
    assert stall is not None
    assert sum("__getitem__" in process["stack"] for process in stall["stacks"]) == 1


def test_a_main_process_that_waits_for_ever_is_a_stall(check: Check) -> None:
    """Also before there are any workers."""
    verdict = check("pickle", in_main(WAIT_FOR_EVER))
    assert [finding.id for finding in verdict.findings] == ["stalled"]


def test_a_batch_that_cannot_be_sent_is_a_stall(run: Run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A collate_fn of one's own, and batches that do not fit: torch drops them, and waits for them for ever."""
    path = tmp_path / "attempt.py"
    path.write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "def collate(samples):\n    return torch.stack(samples), torch.arange(8)\n"
        "def make_loader():\n"
        "    return DataLoader([torch.zeros(1 << 20)] * 64, batch_size=8, num_workers=2, collate_fn=collate)\n"
    )
    verdict = run("shm", "check", path, shm=8 << 20)
    assert [finding.id for finding in verdict.findings] == ["stalled"]
    assert any("No space left on device" in line for line in verdict.history.output("stderr"))


def test_a_slow_program_is_no_stall(check: Check) -> None:
    """Seven seconds of work without a batch are seven seconds of work."""
    busy = "end = __import__('time').monotonic() + 7\n            while __import__('time').monotonic() < end: pass"
    assert check("pickle", in_worker(busy)).exit_code == 0


def test_a_short_sleep_is_no_stall(check: Check) -> None:
    """Two seconds of sleep are not evidence of anything."""
    assert check("pickle", in_worker("__import__('time').sleep(2)")).exit_code == 0


def test_the_time_limit_is_the_backstop(run: Run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A program that works for ever ends at its time limit, with its stacks."""
    path = tmp_path / "attempt.py"
    path.write_text(in_worker("while True: pass"))
    verdict = run("pickle", "check", path, seconds=15, start_method="fork")
    overtime = verdict.history.first("overtime")
    assert [finding.id for finding in verdict.findings] == ["overtime"]
    assert overtime is not None and any("__getitem__" in process["stack"] for process in overtime["stacks"])
