"""Pictures of real runs, the failure above the fix. Which of them a lab gets follows from what its failure shows."""

from collections.abc import Callable
from dataclasses import dataclass

from docs.make.pictures import deliveries, draws, shared_memory, threads, worker_memory
from labs.harness.history import History


@dataclass(frozen=True)
class Picture:
    name: str
    tells: Callable[[History], bool]  # whether there is anything to see in this failure
    draw: Callable[[History, History], str]  # the failure and the fix, as SVG


PICTURES = (
    Picture("shared-memory", shared_memory.tells, shared_memory.draw),
    Picture("deliveries", deliveries.tells, deliveries.draw),
    Picture("draws", draws.tells, draws.draw),
    Picture("threads", threads.tells, threads.draw),
    Picture("worker-memory", worker_memory.tells, worker_memory.draw),
)
