"""What is said about failures."""

from collections.abc import Iterator

from labs.catalog import LABS
from labs.claims.bench import Bench, inside
from labs.claims.claim import CANNOT, FALSE, ONLY_WHEN, Case, Claim, Source
from labs.claims.sources import BUS_ERROR, FREEZES, RUNTIME_ERRORS, documentation, issue

READ = "        image = cv2.imread(str(self.paths[index]))\n"
LOG = "        if image is None:\n            print(self.paths[index].name, 'cannot be read')\n            "


def corrupt_placeholder(bench: Bench) -> Iterator[Case]:
    """Judged by the lab: is every sample itself, and does it stop when 30 of 77 images cannot be read?"""
    program = LABS["corrupt"].program.read_text()
    tries = {
        "a black picture in its place, logged": "image = np.zeros((SIZE, SIZE, 3), np.uint8)\n",
        "its neighbour in its place, logged": "return self[index - 1]\n",
    }
    runs = {name: bench.check("corrupt", program.replace(READ, READ + LOG + does)) for name, does in tries.items()}
    runs["left out and named, and an exception when there are too many"] = bench.lab("corrupt", "fix")
    for name, verdict in runs.items():
        said = " ".join(finding.statement for finding in verdict.findings) or "Every sample came once, as itself."
        yield Case(name, not verdict.findings, said, control=name not in tries)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="freeze-file-reads",
        source=FREEZES,
        says="Workers that read files at the same time conflict and freeze.",
        verdict=FALSE,
        believe="Any number of processes may read the same file at once. What conflicts is one handle that was opened "
        "before the workers were forked: they share its position, and get wrong data, without freezing. Open files in "
        "the worker.",
        setting="4 workers that stand at a barrier before each of 32 reads, so that all are at it at once",
        measure=inside("failures.freeze_file_reads"),
        lab="handles",
    ),
    Claim(
        id="freeze-lock-fixes",
        source=FREEZES,
        says="A multiprocessing.Lock around the read is the remedy, and costs nothing worth naming.",
        verdict=ONLY_WHEN,
        when="the workers share one open file, and reading is a small part of the work",
        believe="Where each worker opens the file, there is nothing to remedy. Where reading is what takes time, the "
        "lock makes 4 workers take turns, and they are as fast as one. Open the file in each worker, and no lock is "
        "needed.",
        setting="4 workers, 16 reads of 40 ms; a lock counts as free if it takes less than twice as long",
        measure=inside("failures.freeze_lock_fixes"),
        lab="handles",
        alone=True,
    ),
    Claim(
        id="freeze-exception",
        source=FREEZES,
        says="An exception in __getitem__ freezes the loader.",
        verdict=ONLY_WHEN,
        when="its class cannot be pickled",
        believe="What a worker raises is raised again in the main process, with the worker's traceback. An exception "
        "class that is made inside a function cannot be sent there: the loader waits for ever (pytorch#142884). Define "
        "exceptions at module level, and set timeout=.",
        setting="2 workers, fork; the third batch raises",
        measure=inside("failures.freeze_exception"),
        lab="freeze-result",
    ),
    Claim(
        id="freeze-none",
        source=FREEZES,
        says="Returning None from __getitem__ corrupts batches silently.",
        verdict=ONLY_WHEN,
        when="the samples are strings and it is not the first of a batch",
        believe="With tensors, arrays and numbers the default collate raises, in words that depend on where it stands. "
        "Among strings, a missing caption say, None goes through. A collate_fn of your own that drops None makes "
        "smaller batches: count what it drops.",
        setting="one None in a batch of 3, default collate, 2 workers",
        measure=inside("failures.freeze_none"),
    ),
    Claim(
        id="zero-workers-diagnosis",
        source=RUNTIME_ERRORS,
        says="If num_workers=0 makes the problem go away, parallel loading is its cause.",
        verdict=FALSE,
        believe="It only says that the cause is something that workers need: to be sent the dataset, room in /dev/shm, "
        "no lock held at fork. With that put right, the same workers load in parallel. Use it to get a plain "
        "traceback, then look for the cause.",
        setting="each problem with 2 workers, with none, and with 2 workers and the cause taken away; 64 MB of "
        "/dev/shm",
        measure=inside("failures.zero_workers_diagnosis"),
    ),
    Claim(
        id="corrupt-file-epoch",
        source=BUS_ERROR,
        says="One corrupt file ends the whole epoch.",
        verdict=ONLY_WHEN,
        when="reading it raises",
        believe="Then a for loop ends there, with or without workers; an iterator that is asked again goes on and has "
        "lost one batch. Half a JPEG is worse: OpenCV decodes it and prints a line on stderr, and the loop never "
        "knows. Check files before training.",
        setting="16 JPEGs in batches of 2, one of them damaged",
        measure=inside("failures.corrupt_file_epoch"),
        lab="corrupt",
    ),
    Claim(
        id="corrupt-placeholder",
        source=BUS_ERROR,
        says="A placeholder or a neighbour in place of a bad sample, logged, is a safe remedy.",
        verdict=FALSE,
        believe="The model is trained on a black picture with a real label, or on one sample twice; and with 30 of 77 "
        "files unreadable it goes on just the same. Leave bad samples out, name them, and raise when there are too "
        "many.",
        setting="the lab corrupt: 47 images and 1 that cannot be read, then 30 that cannot",
        measure=corrupt_placeholder,
        lab="corrupt",
    ),
    Claim(
        id="exception-type",
        source=issue(34130, "ExceptionWrapper cannot handle exceptions with more than one argument"),
        says="An exception that a worker raises arrives in the main process with its own type.",
        verdict=ONLY_WHEN,
        when="its class can be made from one string",
        believe="The class is called with the worker's traceback as its only argument. Where it wants more, as "
        "UnicodeDecodeError does, a RuntimeError comes instead; attributes such as errno are lost. Do not rely on "
        "except clauses by type around a loader.",
        setting="2 workers, fork",
        measure=inside("failures.exception_type"),
    ),
    Claim(
        id="exception-stop-iteration",
        source=issue(
            82732, "Creating iterator from Dataset raises StopIteration instead of IndexError in __getitem__ method"
        ),
        says="Whatever __getitem__ raises, the loader raises too.",
        verdict=ONLY_WHEN,
        when="it is not StopIteration",
        believe="StopIteration, from a next() without a default, is the word for the end of a loop: the epoch is "
        "shorter, and there is no error. Write next(reader, None), or count the samples of an epoch.",
        setting="16 samples in batches of 2; sample 6 raises",
        measure=inside("failures.exception_stop_iteration"),
    ),
    Claim(
        id="timeout-ends-hang",
        source=documentation("DataLoader, timeout", "torch.utils.data.DataLoader"),
        says="timeout= turns a hang into an error.",
        verdict=ONLY_WHEN,
        when="there are workers",
        believe="It bounds the wait for each batch, whatever the reason, a slow first batch among them: choose it well "
        "above the slowest. With num_workers=0 it is refused with an AssertionError (pytorch#106634).",
        setting="timeout=1, fork",
        measure=inside("failures.timeout_ends_hang"),
        lab="freeze-result",
    ),
    Claim(
        id="break-leaves-workers",
        source=issue(26072, "DataLoader workers fail to die"),
        says="Breaking out of the loop leaves the workers behind.",
        verdict=ONLY_WHEN,
        when="something still holds the iterator: a variable, persistent_workers=True, or an exception of a worker",
        believe="A for loop that is left, by break or by an exception of its own, drops its iterator, which ends its "
        "workers before the next line. Otherwise delete the iterator, or the loader. An exception that came from a "
        "worker refers to itself, and to the iterator: the workers stay until Python's garbage collector comes by, and "
        "by then they cannot be told to leave. torch waits five seconds for each before it ends it.",
        setting="2 workers, fork",
        measure=inside("failures.break_leaves_workers"),
    ),
    Claim(
        id="exited-unexpectedly-memory",
        source=Source(
            "zylo117/Yet-Another-EfficientDet-Pytorch#586: "
            '"RuntimeError: DataLoader worker (pid(s) 1224) exited unexpectedly"',
            "https://github.com/zylo117/Yet-Another-EfficientDet-Pytorch/issues/586",
        ),
        says='A worker that "exited unexpectedly" has run out of memory.',
        verdict=ONLY_WHEN,
        when='the error beneath it says "killed by signal: Killed"',
        believe="The sentence is the same for every death. The exception that caused it, higher up in the traceback, "
        "says which: Killed is mostly the kernel, for memory (see oom_kill in the container's memory.events); a "
        "segmentation fault or an exit code is a bug in what the worker runs.",
        setting="one worker that dies at its first sample",
        measure=inside("failures.exited_unexpectedly_memory"),
        lab="oom",
    ),
    Claim(
        id="cuda-tensors-from-workers",
        source=documentation("Multi-process data loading", "multi-process-data-loading"),
        says="Workers should not return CUDA tensors.",
        verdict=CANNOT,
        believe="It needs a GPU. The documentation names subtleties of sharing CUDA tensors between processes, and "
        "says to return CPU tensors and to pin them (pin_memory=True).",
    ),
)
