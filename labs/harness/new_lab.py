"""Lay out the files of a new lab: nox -s new-lab -- NAME

What it writes runs, and fails in a way that is not a lab yet: every place that wants an author's word says so.
"""

import re
import sys

from labs.catalog import LABS
from labs.harness.limits import ROOT

WRONG_USAGE = 2

PROGRAM = '''\
"""TODO: what the program does, as the person who wrote it would say it.

Symptom: TODO: what somebody sees who has this failure, word for word where there are words.
Cause:   TODO: the mechanism, in a sentence or two.
Run:     nox -s lab-{name} (TODO), nox -s fix-{name} (TODO), nox -s check-{name} (yours)
"""

import torch
from torch.utils.data import DataLoader, Dataset

SAMPLES = 48
BATCH_SIZE = 8
NUM_WORKERS = 2


# --- the part that differs between the lab and its solution ---
class Samples(Dataset):
    """Samples that can be told apart: the number of a sample is its id."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
{body}        return torch.full((16,), index), index


# --- from here on the same ---


def make_loader() -> DataLoader:
    return DataLoader(Samples(), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)


if __name__ == "__main__":
    for samples, indices in make_loader():
        print(tuple(samples.shape), indices.tolist())
'''
BROKEN = """\
        if index == SAMPLES // 2:
            raise RuntimeError("TODO: the failure of this lab")
"""
ENTRY = """\
        Lab(
            name="{name}",
            fails="TODO: what goes wrong, in a line of the menu",
            findings=("raised",),  # TODO: what a reproduction shows, and all that it shows
            samples=48,
            workers=2,
            control=Control("TODO: what is taken away", constants={{"NUM_WORKERS": 0}}, workers=0),
            advice="TODO: what the fix does",
            at_home="TODO: for somebody who has this failure in a job of their own",
            goal="TODO: what a learner can do afterwards",
            hints=("TODO: where to look", "TODO: the mechanism", "TODO: the fix"),
            minutes=15,
            difficulty=1,
        ),
"""
CASES = '''\
"""Fixes for the lab {name}: wrong ones, each with the finding that rejects it, and right ones that are not ours."""

from tests.fixes.fix import Fix

WRONG = [
    Fix("{name}", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("raised",)),
    # TODO: at least two that people really try
]

RIGHT: list[Fix] = [
    # TODO: at least two
]
'''
CATALOG_END = "    )\n}\n"


def lay_out(name: str) -> list[str]:
    """Write the program, its solution, its cases and its entry in the catalog; return what was written."""
    file = name.replace("-", "_")
    files = {
        f"labs/{file}.py": PROGRAM.format(name=name, body=BROKEN),
        f"solutions/{file}.py": PROGRAM.format(name=name, body=""),
        f"tests/fixes/{file}.py": CASES.format(name=name),
    }
    for path in files:
        if (ROOT / path).exists():
            raise FileExistsError(f"{path} is there already")
    catalog = ROOT / "labs" / "catalog.py"
    table = catalog.read_text()
    if not table.endswith(CATALOG_END):
        raise ValueError("labs/catalog.py does not end with its table: put it at the end, and try again")
    for path, text in files.items():
        (ROOT / path).write_text(text)
    catalog.write_text(table.removesuffix(CATALOG_END) + ENTRY.format(name=name) + CATALOG_END)
    return [*files, "labs/catalog.py"]


def why_not(name: str) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        return f"{name!r} is no name for a lab: lower case letters and digits, with hyphens between words"
    if name in LABS:
        return f"there is a lab called {name!r} already"
    if name.replace("-", "_") in sys.stdlib_module_names:
        return f"labs/{name.replace('-', '_')}.py would hide a module of Python's own: choose another name"
    return None


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        print("loader-lab: name the new lab: nox -s new-lab -- NAME", file=sys.stderr)
        return WRONG_USAGE
    try:
        reason = why_not(argv[0])
        if reason:
            raise ValueError(reason)
        written = lay_out(argv[0])
    except (ValueError, OSError) as error:
        print(f"loader-lab: {error}", file=sys.stderr)
        return WRONG_USAGE
    print("Written:", *written, sep="\n  ")
    print(f"\nIt runs already: nox -s lab-{argv[0]}\nWhat is left to do is in docs/reference/add-a-lab.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
