"""What a claim is, and how what was seen becomes a verdict."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labs.claims.bench import Bench

TRUE, FALSE, ONLY_WHEN, UNTIL, CANNOT = "true", "false", "only when", "true until", "cannot be tested here"
NO_VERDICT = "none"


@dataclass(frozen=True)
class Case:
    """One situation in which a claim was put to the test.

    A control is a situation in which the measurement has to come out the other way. It does not count for the verdict;
    it shows that the measurement can tell.
    """

    when: str
    holds: bool  # did it happen as the claim says?
    saw: str  # what was measured, with its numbers
    control: bool = False


@dataclass(frozen=True)
class Source:
    title: str
    url: str = ""


@dataclass(frozen=True)
class Changed:
    """The release since which something is no longer so, and where that is written down."""

    release: str  # "torch 2.10"
    where: str  # a pull request, release notes
    url: str = ""
    what: str = ""


@dataclass(frozen=True)
class Claim:
    id: str
    source: Source
    says: str  # in our words
    verdict: str
    believe: str  # what to believe instead, or how far it goes
    measure: "Callable[[Bench], Iterable[Case]] | None" = None  # None: cannot be tested here
    when: str = ""  # goes on after "only when ..."
    setting: str = ""  # under what conditions it was measured
    changed: Changed | None = None
    lab: str = ""  # to try it
    needs: str = ""  # "docker", where a namespace container is not what the claim speaks of
    alone: bool = False  # compares times: nothing else may run beside it

    @property
    def in_words(self) -> str:
        """The verdict, as a person would say it."""
        if self.verdict == ONLY_WHEN:
            return f"only when {self.when}"
        return f"true until {self.changed.release}" if self.verdict == UNTIL and self.changed else self.verdict


@dataclass(frozen=True)
class Result:
    """What came of measuring one claim."""

    id: str
    verdict: str
    cases: tuple[Case, ...] = ()
    not_run: str = ""  # why, where it could not be measured on this machine
    failed: str = ""  # why, where the measurement itself broke: no verdict
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, read: dict[str, Any]) -> "Result":
        return cls(**{**read, "cases": tuple(Case(**case) for case in read["cases"])})


class NotSound(Exception):
    """A measurement that could not have come out otherwise proves nothing."""


def decide(claim: Claim, cases: tuple[Case, ...]) -> str:
    """The verdict that these cases bear out: of all, of none, or of some of those that are not controls."""
    if claim.verdict == CANNOT:
        return CANNOT
    outcomes = {case.holds for case in cases if not case.control}
    if not outcomes:
        raise NotSound(f"{claim.id}: nothing was measured")
    if len({case.holds for case in cases}) < 2:
        raise NotSound(f"{claim.id}: every case came out the same way, so it is not shown that any could come out else")
    if outcomes == {True, False}:
        return ONLY_WHEN
    if outcomes == {True}:
        return TRUE
    return UNTIL if claim.changed else FALSE
