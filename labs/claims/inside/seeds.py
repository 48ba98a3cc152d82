"""Who draws which random numbers."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from labs.claims.claim import Case
from labs.claims.inside.loaders import answers, asking

WORKERS = 4


def distinct(draw: Callable[[int], Any]) -> int:
    """How many of eight draws, two by each worker, differ."""
    return len(set(answers(asking(draw, length=8, workers=WORKERS))))


# --8<-- [start:example]
def seed_identical() -> Iterator[Case]:
    held = np.random.default_rng(0)
    draws: dict[str, Callable[[int], Any]] = {
        "random.random()": lambda _: random.random(),
        "torch.rand()": lambda _: torch.rand(()).item(),
        "np.random.rand()": lambda _: np.random.rand(),
    }
    for name, draw in draws.items():
        yield Case(f"{name}, the global generator", (found := distinct(draw)) < 8, f"{found} of 8 draws differ")
    found = distinct(lambda _: held.random())
    yield Case("a generator that the dataset holds", found < 8, f"{found} of 8 draws differ", control=True)


# --8<-- [end:example]
