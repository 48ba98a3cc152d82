"""Hand-written histories: what a run would have recorded, without running anything."""

from collections.abc import Iterable
from typing import Any

from labs.harness.history import History

Delivery = tuple[int, int | None, int, str]  # epoch, worker, id, content


def run_event(**job: Any) -> dict[str, Any]:
    wanted = {"ids": [0, 1, 2, 3], "epochs": 1, "workers": 2, "start_method": "fork", "content": "fixed", **job}
    return {"kind": "run", "schema": 1, "lab": "none", "role": "check", "job": wanted, "parts": ["subject", "again"]}


def container(**facts: Any) -> dict[str, Any]:
    return {"kind": "container", "t": 0.0, "shm_used": 0, "shm_total": 100, "cpus": 2, "open_files": 99, **facts}


def event(kind: str, t: float = 1.0, part: str = "subject", **facts: Any) -> dict[str, Any]:
    return {"kind": kind, "t": t, "part": part, **facts}


def batch(
    ids: list[int], worker: int | None = 0, epoch: int = 0, contents: list[str] | None = None, **facts: Any
) -> dict[str, Any]:
    contents = contents or [f"content of {id}" for id in ids]
    digests = [[content] for content in contents]
    signatures = [[f"1/integer/{id:02x}"] for id in ids]
    facts = {"threads": 2, "workers": [worker] * len(ids), "ids": ids, "digests": digests, **facts}
    return event("batch", epoch=epoch, signatures=signatures, **facts)


def workers(pids: Iterable[int] = (10, 11), start_method: str = "fork") -> dict[str, Any]:
    return event("workers", pids=list(pids), start_method=start_method)


def epoch_end(epoch: int = 0, **facts: Any) -> dict[str, Any]:
    return event("epoch_end", epoch=epoch, **{"worker_involuntary_switches": 1, "handed_over": 0, **facts})


def done(status: int = 0, replaced: Iterable[str] = ()) -> list[dict[str, Any]]:
    return [event("done", replaced=list(replaced)), event("exit", status=status)]


def error(message: str = "boom", kind: str = "ValueError", **facts: Any) -> dict[str, Any]:
    chain = [{"type": kind, "message": message}]
    return event("error", **{"chain": chain, "shm_used": 0, "shm_total": 100, "exits": [], "unpicklable": [], **facts})


def healthy() -> list[dict[str, Any]]:
    """Four samples, two workers, one epoch, all well."""
    return [run_event(), container(), workers(), batch([0, 1], 0), batch([2, 3], 1), epoch_end(), *done()]


def history(*events: dict[str, Any]) -> History:
    return History(events)
