"""What can be said about an exception: its chain, its words, and what could not be pickled."""

import pickle
from collections.abc import Iterator
from typing import Any

LONGEST_TEXT = 20_000


def unpicklable(name: str, value: Any, depth: int = 6) -> Iterator[str]:
    """The smallest parts of value that cannot be pickled, as the expressions that reach them."""
    try:
        pickle.dumps(value)
        return
    except Exception:
        pass
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts = [(f"{name}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple, set)):
        parts = [(f"{name}[{position}]", item) for position, item in enumerate(value)]
    elif hasattr(value, "__dict__") and not callable(value):
        parts = [(f"{name}.{key}", item) for key, item in vars(value).items()]
    found = [inner for part, item in parts for inner in unpicklable(part, item, depth - 1)] if depth else []
    yield from found or [f"{name} ({getattr(value, '__qualname__', type(value).__qualname__)})"]


def words(error: BaseException) -> str:
    """What an exception says, if it can say it, in characters that every terminal can be given."""
    try:
        text = str(error)
    except Exception:
        text = "(its __str__ fails)"
    return text[:LONGEST_TEXT].encode("utf-8", "backslashreplace").decode()


def chain(error: BaseException) -> list[dict[str, str]]:
    """The exception and what caused it, outermost first."""
    links: list[dict[str, str]] = []
    current: BaseException | None = error
    while current is not None and len(links) < 10:
        links.append({"type": type(current).__name__, "message": words(current)})
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return links
