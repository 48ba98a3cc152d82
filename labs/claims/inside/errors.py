"""How a measurement takes and tells what was raised."""

from collections.abc import Callable, Iterable
from typing import Any


def raised(act: Callable[[], Any]) -> BaseException | None:
    """What it raises, if it does."""
    try:
        act()
    except Exception as error:
        return without_traceback(error)
    return None


def without_traceback(error: BaseException) -> BaseException:
    """It would hold the loader's iterator and its batches; workers forked later would inherit it and try to end it."""
    return error.with_traceback(None)


def until_it_raises(batches: Iterable[Any]) -> tuple[list[Any], BaseException | None]:
    """The batches that came, and what ended the loop, if it was not their end."""
    came: list[Any] = []
    try:
        for batch in batches:
            came.append(batch)
    except Exception as error:
        return came, without_traceback(error)
    return came, None


def words(error: BaseException | None, otherwise: str = "no error") -> str:
    """The type and the last line of what was raised; what a worker raised has its traceback in the message."""
    if error is None:
        return otherwise
    last = (str(error).strip().splitlines() or [""])[-1]
    kind, colon, rest = last.partition(": ")
    if colon and " " not in kind:  # the last line of a traceback names the type once more
        last = rest
    return f"{type(error).__name__}: {last}" if last else type(error).__name__
