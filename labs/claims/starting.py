"""What is said about how workers are started, and what a dataset may hold for it."""

from collections.abc import Iterator

from labs.claims.bench import Bench, inside
from labs.claims.claim import FALSE, ONLY_WHEN, TRUE, Case, Changed, Claim, Source
from labs.claims.sources import BOTH, BUS_ERROR, RUNTIME_ERRORS, documentation, issue, pull
from labs.harness.verdict import Verdict

FORKSERVER_DEFAULT = Changed(
    "Python 3.14",
    "What's New in Python 3.14, multiprocessing:",
    "https://docs.python.org/3/whatsnew/3.14.html#multiprocessing",
    "the default start method on Linux is forkserver and no longer fork",
)
SLOW = 180  # seconds, for those that start several Pythons, on a busy machine
BEST_PRACTICES = "https://docs.pytorch.org/docs/stable/notes/multiprocessing.html"


def ids(verdict: Verdict) -> set[str]:
    return {finding.id for finding in verdict.findings}


def saw(verdict: Verdict) -> str:
    """What the judge found, and how many samples came."""
    came = len(verdict.history.samples())
    return f"{', '.join(sorted(ids(verdict))) or 'healthy'}; {came} samples came"


def lambda_fails(bench: Bench) -> Iterator[Case]:
    fork, forkserver = bench.lab("pickle", "control"), bench.lab("pickle", "failure")
    yield Case("fork, the default on Linux until Python 3.13", "unpicklable" in ids(fork), saw(fork))
    yield Case("forkserver, the default since Python 3.14", "unpicklable" in ids(forkserver), saw(forkserver))


def sql_connection(bench: Bench) -> Iterator[Case]:
    sent, inherited = bench.lab("sql", "failure"), bench.lab("sql", "control")
    yield Case("a sqlite3 connection, forkserver", "unpicklable" in ids(sent), saw(sent))
    yield Case("the same, inherited by fork", "unpicklable" in ids(inherited), saw(inherited), control=True)


def lock_deadlock(bench: Bench) -> Iterator[Case]:
    held, fresh = bench.lab("deadlock", "failure"), bench.lab("deadlock", "control")
    yield Case("a thread holds the lock at the fork", "stalled" in ids(held), saw(held))
    yield Case("the same thread and lock, forkserver", "stalled" in ids(fresh), saw(fresh), control=True)


def handles(bench: Bench) -> Iterator[Case]:
    shared = bench.lab("handles", "failure")
    wrong = bool(ids(shared) & {"lost", "wrong-content"})
    yield Case("read() of a file opened in __init__, 4 forked workers", wrong, saw(shared))
    yield from inside("starting.handles_without_position")(bench)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="pickle-dataset-sent",
        source=BOTH,
        says="The dataset is pickled and sent to every worker.",
        verdict=ONLY_WHEN,
        when="workers are started with forkserver or spawn",
        changed=FORKSERVER_DEFAULT,
        believe="Under fork nothing is pickled: a worker is a copy of the process that has the dataset in memory. "
        "Write datasets that can be pickled all the same, for macOS, Windows and Python 3.14 pickle them.",
        setting="2 workers (spawn: 1), a dataset that counts how often it is pickled",
        measure=inside("starting.dataset_sent", seconds=SLOW),
        lab="pickle",
    ),
    Claim(
        id="pickle-lambda-fails",
        source=RUNTIME_ERRORS,
        says="A lambda on the dataset fails when workers start, with the default settings on Linux.",
        verdict=ONLY_WHEN,
        when="Python is 3.14 or later, where the default is forkserver",
        changed=FORKSERVER_DEFAULT,
        believe="Until Python 3.13 Linux forks its workers, and a lambda is no trouble; on macOS and Windows, and "
        "everywhere since 3.14, it fails before the first batch. Use a function of the module.",
        setting="the lab pickle, 48 images, 2 workers; Python 3.11 with either start method, no Python 3.14 at hand",
        measure=lambda_fails,
        lab="pickle",
    ),
    Claim(
        id="pickle-error-type",
        source=RUNTIME_ERRORS,
        says="What is raised for a dataset that cannot be pickled is a PicklingError.",
        verdict=ONLY_WHEN,
        when="it is a lambda at the top of a module; from Python 3.14 on, any lambda",
        believe="A lambda made inside a function is an AttributeError until Python 3.13; files, connections and locks "
        'are a TypeError in every release. Search a log for "pickle", not for the name of an exception.',
        setting="2 workers, forkserver, Python 3.11",
        measure=inside("starting.error_type"),
        lab="pickle",
    ),
    Claim(
        id="pickle-silent-hang",
        source=BUS_ERROR,
        says="Lambdas, open files and database connections on the dataset make workers hang silently for 30 to 60 "
        "seconds, and then crash.",
        verdict=FALSE,
        believe="It fails at once and loudly, in the main process, before there is a worker; under fork it does not "
        "fail at all. What does hang, and for ever, is a result that cannot be pickled (the lab freeze-result).",
        setting="2 workers, forkserver and fork; the control with timeout=2",
        measure=inside("starting.silent_hang"),
        lab="freeze-result",
    ),
    Claim(
        id="pickle-dumps-predicts",
        source=BUS_ERROR,
        says="pickle.dumps(dataset) before training tells whether the workers will start.",
        verdict=ONLY_WHEN,
        when="workers are started with forkserver or spawn, and the dataset holds plain Python objects and arrays",
        believe="It is a good test for lambdas, files and connections. It says no where fork would have said yes, and "
        "to the locks and values of multiprocessing, which can be sent; and it says yes to tensors that /dev/shm has "
        "no room for.",
        setting="1 worker, 64 MB of /dev/shm",
        measure=inside("starting.dumps_predicts"),
        lab="pickle",
    ),
    Claim(
        id="pickle-sql-connection",
        source=BUS_ERROR,
        says="A SQL connection on the dataset cannot be sent to workers.",
        verdict=TRUE,
        believe="True wherever a dataset is sent. Under fork it is not sent but shared, which seems to work with "
        "SQLite and breaks PostgreSQL: open a connection in each worker, or read what you need once and close it.",
        setting="the lab sql, 48 images, 2 workers",
        measure=sql_connection,
        lab="sql",
    ),
    Claim(
        id="pickle-init-fn-lambda",
        source=documentation("DataLoader", "torch.utils.data.DataLoader"),
        says="Under spawn worker_init_fn must not be a lambda.",
        verdict=TRUE,
        believe="True, and under forkserver too, which is the default on Linux since Python 3.14. The same goes for "
        "collate_fn, which is sent along.",
        setting="2 workers",
        measure=inside("starting.init_fn_lambda"),
        lab="pickle",
    ),
    Claim(
        id="start-fork-default",
        source=documentation("Platform-specific behaviors", "platform-specific-behaviors"),
        says="On Unix workers are started with fork by default (the documentation said so for years).",
        verdict=ONLY_WHEN,
        when="Python is 3.13 or older, and the system is not macOS",
        changed=FORKSERVER_DEFAULT,
        believe="torch takes Python's default: fork on Linux until 3.13, forkserver since 3.14, spawn on macOS since "
        "3.8. Where it matters, say which: multiprocessing_context=.",
        setting="2 workers, no multiprocessing_context; Python 3.11, so that the default of 3.14 was set by hand",
        measure=inside("starting.fork_default"),
        lab="pickle",
    ),
    Claim(
        id="start-main-guard",
        source=documentation("Platform-specific behaviors", "platform-specific-behaviors"),
        says='Under spawn a script needs if __name__ == "__main__" around the loop.',
        verdict=TRUE,
        believe="True, and under forkserver too: the worker imports the script again, and without the guard it would "
        "start workers of its own. Under fork the script is not read again.",
        setting="a script of 4 lines, 1 worker",
        measure=inside("starting.main_guard", seconds=SLOW),
    ),
    Claim(
        id="fork-lock-deadlock",
        source=Source(
            'PyTorch documentation, Multiprocessing best practices, "Avoiding and fighting deadlocks"', BEST_PRACTICES
        ),
        says="A lock that a thread of the main process holds when workers are forked can deadlock them.",
        verdict=TRUE,
        believe="True: the worker has the lock as it was, held, and not the thread that would release it. Start "
        "threads after the workers, or start workers with forkserver.",
        setting="the lab deadlock, 48 images, 2 workers",
        measure=lock_deadlock,
        lab="deadlock",
    ),
    Claim(
        id="handles-open-in-worker",
        source=issue(11929, "Data Loader does not work with Hdf5 file, when num_worker >1"),
        says="Files must be opened in the worker, not in the dataset's __init__.",
        verdict=ONLY_WHEN,
        when="reading moves the file's position (read, seek, and libraries above them), or workers are not forked",
        believe="Forked workers share one position, and read each other's records; other workers cannot be sent an "
        "open file at all. os.pread and np.memmap have no position, and may be opened anywhere before a fork.",
        setting="the lab handles; 400 records, each read at its place, 4 forked workers; forkserver. No h5py here",
        measure=handles,
        lab="handles",
    ),
    Claim(
        id="dataset-copied-per-worker",
        source=issue(63301, "Does dataloader creates a copy of the dataset and consequently use up more memory?"),
        says="Every worker has its own copy of the data that the dataset holds: num_workers times the memory.",
        verdict=ONLY_WHEN,
        when="workers are not forked and it is not a tensor, or forked workers read Python objects",
        believe="Forked workers share arrays and tensors as long as nobody writes to them, and copy lists and strings "
        "by reading them. Under forkserver and spawn all is copied but tensors, which are moved to /dev/shm.",
        setting="16 MB of each, 2 workers that read all of it; what of it no other process has, from /proc/PID/smaps",
        measure=inside("starting.dataset_copied"),
        lab="memory",
    ),
    Claim(
        id="dataset-tensors-shared",
        source=Source("PyTorch documentation, Multiprocessing best practices", BEST_PRACTICES),
        says="Tensors that a dataset holds are moved to shared memory and not copied when they are sent to workers.",
        verdict=TRUE,
        believe="True: one copy for all, in /dev/shm, which has to have room for it; and a worker that writes to it "
        "writes to everybody's. A NumPy array is pickled and copied: torch.from_numpy makes a tensor of it.",
        setting="a tensor of 16 MB, 2 workers (spawn: 1) that read it and write to another, /dev/shm of 64 MB",
        measure=inside("starting.tensors_shared", seconds=SLOW),
    ),
    Claim(
        id="workers-one-is-a-process",
        source=Source(
            'PyTorch recipe, Performance Tuning Guide, "Enable asynchronous data loading and augmentation"',
            "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        ),
        says="num_workers=1 is not the same as 0: it is a process beside the main one.",
        verdict=TRUE,
        believe="True: 1 loads while the loop computes, and has all that comes with a worker, /dev/shm, pickles and "
        "copies. 0 loads in the loop, in the main process.",
        setting="16 samples, each the number of the process that loaded it",
        measure=inside("starting.one_worker"),
    ),
    Claim(
        id="zero-workers-real-error",
        source=pull(9007, "Improve DataLoader worker fail error message"),
        says='When a worker "exited unexpectedly", num_workers=0 shows the real error.',
        verdict=ONLY_WHEN,
        when="what ends the worker is a Python exception that would end the main process in the same way",
        believe="Look at stderr first: what the worker had to say is there. With num_workers=0 an error of starting a "
        "worker does not come at all, and code that ends its process ends yours without a word.",
        setting="1 worker, and none, in a program of their own",
        measure=inside("starting.real_error", seconds=SLOW),
    ),
)
