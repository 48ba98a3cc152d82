"""Several conductors, one a rank, started by torchrun as a person would start the program.

torchrun passes on no open files. So the process that becomes torchrun holds them open, a pipe with the plan and a pipe
for reports for each rank, and the ranks, its children, open them through /proc. A plan can be read only once.
"""

import json
import os
from typing import Any


def mine() -> int | None:
    """The rank of this process; None where torchrun did not start it."""
    return int(os.environ["RANK"]) if "RANK" in os.environ else None


def launch(plan: dict[str, Any], reports: list[int]) -> int:
    """Start the ranks, wait for them, and return the exit status of torchrun."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    plans = []
    for _ in reports:
        read, write = os.pipe()
        os.write(write, json.dumps(plan).encode())
        os.close(write)
        plans.append(read)
    options = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(len(reports))]
    try:
        torchrun([*options, "-m", "labs.harness.conductor", *map(str, plans + reports)])
    except ChildFailedError:
        return 1
    return 0


def receive(descriptors: list[int]) -> tuple[int, dict[str, Any], int]:
    """In a rank: who it is, its plan, and where its reports go."""
    rank, parent = int(os.environ["RANK"]), os.getppid()
    plans, reports = descriptors[: len(descriptors) // 2], descriptors[len(descriptors) // 2 :]
    with open(f"/proc/{parent}/fd/{plans[rank]}", "rb") as held_open:
        plan = json.loads(held_open.read())
    return rank, plan, os.open(f"/proc/{parent}/fd/{reports[rank]}", os.O_WRONLY)
