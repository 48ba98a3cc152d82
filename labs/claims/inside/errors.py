"""How a measurement takes and tells what was raised."""

from collections.abc import Iterable
from typing import Any


def until_it_raises(batches: Iterable[Any]) -> tuple[list[Any], BaseException | None]:
    """The batches that came, and what ended the loop, if it was not their end."""
    came: list[Any] = []
    try:
        for batch in batches:
            came.append(batch)
    except Exception as error:
        # Its traceback would hold the loader's iterator, and workers forked later would inherit it and try to end it.
        return came, error.with_traceback(None)
    return came, None


def words(error: BaseException | None) -> str:
    """The type and the last line of what was raised; what a worker raised has its traceback in the message."""
    if error is None:
        return "no error"
    last = (str(error).strip().splitlines() or [""])[-1]
    kind, colon, rest = last.partition(": ")
    if colon and " " not in kind:  # the last line of a traceback names the type once more
        last = rest
    return f"{type(error).__name__}: {last}" if last else type(error).__name__
