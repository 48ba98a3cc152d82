"""The one table of claims, by theme."""

from labs.claims import (
    batches,
    failures,
    memory,
    seeds,
    shared_memory,
    speed,
    starting,
    streams,
    threads,
    workers,
)
from labs.claims.claim import Claim

# In the order in which the page tells them.
THEMES: dict[str, tuple[Claim, ...]] = {
    "Shared memory": shared_memory.CLAIMS,
    "Starting workers": starting.CLAIMS,
    "Random numbers": seeds.CLAIMS,
    "Streams": streams.CLAIMS,
    "Batches": batches.CLAIMS,
    "What happens when something fails": failures.CLAIMS,
    "Workers from epoch to epoch": workers.CLAIMS,
    "Speed": speed.CLAIMS,
    "Threads": threads.CLAIMS,
    "Memory": memory.CLAIMS,
}

CLAIMS: dict[str, Claim] = {claim.id: claim for claims in THEMES.values() for claim in claims}
