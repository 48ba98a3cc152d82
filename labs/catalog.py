"""The one table of labs. Sessions, tests and pages are derived from it.

A lab is an experiment of three runs: the failure, the control (the same broken program with only the cause taken
away) and the fix (the solution, under the failure's own limits).
"""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from labs.harness.limits import ROOT, Limits

CONTENTS = ROOT / "labs" / "contents.json"


@dataclass(frozen=True)
class Control:
    """How the cause is taken away: other limits, or other values for constants of the program."""

    says: str
    limits: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    workers: int | None = None


@dataclass(frozen=True)
class Lab:
    name: str
    fails: str  # one line for the menu: what goes wrong
    findings: tuple[str, ...]  # what a reproduction shows, and all that it shows
    samples: int
    workers: int
    control: Control
    advice: str  # what the fix does
    at_home: str  # for somebody who has this failure in a job of their own
    module: str = ""  # file name without .py, where the lab's name cannot be it
    limits: Limits = field(default_factory=Limits)
    epochs: int = 1
    random_content: bool = False  # every sample is meant to be new, and a run to be repeatable with torch.manual_seed
    any_start_method: bool = False  # another way to start workers is a fix here, and not a way out
    beside_fix: bool = False  # the failure is measured against the fix, in the same container

    @property
    def file(self) -> str:
        return self.module or self.name.replace("-", "_")

    @property
    def program(self) -> Path:
        return ROOT / "labs" / f"{self.file}.py"

    @property
    def solution(self) -> Path:
        return ROOT / "solutions" / f"{self.file}.py"

    def job(self, workers: int, start_method: str) -> dict[str, Any]:
        """All that a program has to deliver to be called healthy."""
        return {
            "ids": list(range(self.samples)),
            "epochs": self.epochs,
            "workers": workers,
            "start_method": None if self.any_start_method else start_method,
            "content": "random" if self.random_content else "fixed",
            "signatures": contents().get(self.name, {}),
        }


@cache
def contents() -> dict[str, dict[str, list[str]]]:
    """What each sample looks like, for labs whose samples are always the same: lab, id, a signature for each tensor."""
    recorded: dict[str, dict[str, list[str]]] = json.loads(CONTENTS.read_text()) if CONTENTS.exists() else {}
    return recorded


LABS: dict[str, Lab] = {
    lab.name: lab
    for lab in (
        Lab(
            name="shm",
            fails="a cache shared by the workers outgrows 64 MB of /dev/shm: SIGBUS",
            findings=("bus-error",),
            samples=32,
            workers=4,
            epochs=2,
            control=Control("2 GB of shared memory", limits={"shm": 2 << 30}),
            advice="keep the cache as uint8, size it by what is free in /dev/shm, and reserve it at the start",
            at_home="see df -h /dev/shm; start the container with --shm-size=2g (compose: shm_size), or need less",
        ),
        Lab(
            name="pickle",
            module="pickling",  # labs/pickle.py would hide Python's own pickle
            fails="a lambda among the transforms cannot be sent to a worker: no batch at all",
            findings=("unpicklable",),
            samples=48,
            workers=2,
            limits=Limits(start_method="forkserver"),
            control=Control("workers started with fork", limits={"start_method": "fork"}),
            advice="use a function of the module, or a callable class, in place of the lambda",
            at_home="the expression above names it; pickle.dumps(dataset) finds it without a loader",
        ),
        Lab(
            name="opencv",
            fails="each worker runs 64 OpenCV threads on 2 CPUs, and they crowd each other out",
            findings=("oversubscribed",),
            samples=96,
            workers=2,
            limits=Limits(cpus=2, env={"OPENCV_FOR_THREADS_NUM": "64"}),
            control=Control("a pool of the container's size", limits={"env": {"OPENCV_FOR_THREADS_NUM": "2"}}),
            advice="call cv2.setNumThreads(0) in each worker: the workers are the parallelism",
            at_home="OPENCV_FOR_THREADS_NUM=1 in the environment, or cv2.setNumThreads(0) in a worker_init_fn",
            beside_fix=True,
        ),
        Lab(
            name="augment",
            fails="all workers draw the same random numbers, and again in every epoch",
            findings=("same-draws", "epochs-repeat"),
            samples=96,
            workers=4,
            epochs=2,
            random_content=True,
            control=Control(
                "no worker processes: one generator, never copied", constants={"NUM_WORKERS": 0}, workers=0
            ),
            advice="make the generators in each worker, from the worker's own seed",
            at_home="look for a generator that the dataset holds, and for cv2.randn and cv2.randu; torch seeds neither",
        ),
        Lab(
            name="shards",
            fails="every worker reads every shard: each sample comes 4 times",
            findings=("duplicated",),
            samples=105,
            workers=4,
            epochs=2,
            control=Control("one worker", constants={"NUM_WORKERS": 1}, workers=1),
            advice="deal the shards to the workers: shards[worker.id :: worker.num_workers]",
            at_home="count the samples of one epoch: more than there are means that nobody divides them",
        ),
        Lab(
            name="shm-batches",
            fails="ordinary batches do not fit in 64 MB of /dev/shm: No space left on device",
            findings=("shm-full",),
            samples=96,
            workers=2,
            control=Control("2 GB of shared memory", limits={"shm": 2 << 30}),
            advice="send bytes and make floats after the journey, in batches that fit: a budget for what is in flight",
            at_home="--shm-size, or fewer bytes: batch bytes x (num_workers x prefetch_factor + 2) must fit",
        ),
        Lab(
            name="freeze-shm",
            fails="the same batches through a collate_fn of one's own: waits for ever, in silence",
            findings=("stalled",),
            samples=96,
            workers=2,
            control=Control("2 GB of shared memory", limits={"shm": 2 << 30}),
            advice="torch's own collate inside yours, a budget for what is in flight, and a timeout",
            at_home="look at stderr, and give the loader a timeout: then it says that it waits for nothing",
        ),
        Lab(
            name="freeze-result",
            fails="a worker returns what cannot be pickled: waits for ever, in silence",
            findings=("stalled",),
            samples=48,
            workers=2,
            control=Control("no worker processes", constants={"NUM_WORKERS": 0}, workers=0),
            advice="return plain data, or classes that the module has a name for",
            at_home="look at stderr, and give the loader a timeout: then it says that it waits for nothing",
        ),
        Lab(
            name="deadlock",
            fails="a thread holds a lock at the moment of fork: every worker waits for it for ever",
            findings=("stalled",),
            samples=48,
            workers=2,
            any_start_method=True,
            control=Control("workers started with forkserver", limits={"start_method": "forkserver"}),
            advice="no threads before the workers, or workers that are not forked",
            at_home="py-spy dump --pid WORKER shows the lock; start threads after the workers, or use forkserver",
        ),
        Lab(
            name="fds",
            fails="a loop that keeps a part of every batch: Too many open files",
            findings=("no-files",),
            samples=300,
            workers=2,
            limits=Limits(open_files=256),
            control=Control("1024 open files", limits={"open_files": 1024}),
            advice="keep a copy (clone), not a view of the batch",
            at_home="ls /proc/PID/fd | wc -l while it runs; clone what you keep",
        ),
        Lab(
            name="corrupt",
            fails="one image that cannot be read ends the epoch for all others",
            findings=("raised",),
            samples=47,
            workers=2,
            control=Control("no unreadable image", constants={"UNREADABLE": 0}),
            advice="leave it out, count it and name it, and stop only when there are too many",
            at_home="find such files before the training: read each of them once",
        ),
        Lab(
            name="handles",
            fails="a file opened in __init__ is shared by forked workers: torn and missing records",
            findings=("lost", "wrong-content"),
            samples=500,
            workers=4,
            control=Control("one worker", constants={"NUM_WORKERS": 1}, workers=1),
            advice="open the file in each worker, and divide the records",
            at_home="open files, and anything else with a position or a session, in the worker",
        ),
        Lab(
            name="sql",
            fails="a database connection on the dataset cannot be sent to a worker",
            findings=("unpicklable",),
            samples=48,
            workers=2,
            limits=Limits(start_method="forkserver"),
            control=Control("workers started with fork", limits={"start_method": "fork"}),
            advice="read what you need once, close the connection, and send plain arrays",
            at_home="open connections in the worker, or not at all",
        ),
    )
}
