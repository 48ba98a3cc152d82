"""What a finding is, and how it says things."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Evidence:
    what: str
    observed: str
    expected: str


@dataclass(frozen=True)
class Finding:
    id: str
    statement: str
    evidence: tuple[Evidence, ...] = ()
    message: str = ""  # torch's or Python's own words

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def some(items: Iterable[Any], most: int = 5) -> str:
    """The first few of many, for a sentence."""
    listed = list(items)
    return ", ".join(map(str, listed[:most])) + (f" and {len(listed) - most} more" if len(listed) > most else "")
