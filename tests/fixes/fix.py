"""What a fix is: edits of a lab's program.

An edit is a pair of texts. The first must occur in the lab, so that an attempt cannot silently become the lab itself.
"""

from dataclasses import dataclass
from pathlib import Path

from labs.catalog import LABS

Edit = tuple[str, str]
LOOP_SUBCLASS = "class OwnLoader(DataLoader):\n    def __iter__(self):\n{body}\n\ndef make_loader"


@dataclass(frozen=True)
class Fix:
    lab: str
    name: str
    edits: tuple[Edit, ...]
    rejected_for: tuple[str, ...] = ()  # the findings of which the judge must name at least one

    def __str__(self) -> str:
        return f"{self.lab}: {self.name}"

    def write(self, folder: Path) -> Path:
        text = LABS[self.lab].program.read_text()
        for old, new in self.edits:
            assert old in text, f"{self}: the lab no longer contains {old!r}"
            text = text.replace(old, new)
        path = folder / "attempt.py"
        path.write_text(text)
        return path


def with_init_fn(call: str, body: str) -> tuple[Edit, ...]:
    """Give the loader a worker_init_fn with this body."""
    function = f"\n\ndef prepare(worker_id: int) -> None:\n{body}\n\n\nif __name__"
    return ((call, f"{call[:-1]}, worker_init_fn=prepare)"), ("\n\nif __name__", function))


def with_subclass(call: str, body: str) -> tuple[Edit, ...]:
    """A loader of one's own, whose __iter__ has this body."""
    return ((call, call.replace("DataLoader", "OwnLoader")), ("def make_loader", LOOP_SUBCLASS.format(body=body)))
