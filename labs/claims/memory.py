"""What is said about memory."""

from collections.abc import Iterator

from labs.claims.bench import Bench, inside
from labs.claims.claim import ONLY_WHEN, TRUE, Case, Claim, Source
from labs.claims.sources import BUS_ERROR, documentation

# glibc keeps what was freed for later, and the process would seem to hold it. Not what is mapped for itself.
FREED_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": str(32 << 10)}
WARNING = documentation("Multi-process data loading", "multi-process-data-loading")


def killed(bench: Bench) -> Iterator[Case]:
    for lab, when in (("oom", "a container at its memory limit (lab oom)"), ("shm", "a full /dev/shm (lab shm)")):
        found = {finding.id: finding for finding in bench.lab(lab, "failure").findings}
        finding = found.get("oom") or next(iter(found.values()))
        measured = "; ".join(f"{evidence.what}: {evidence.observed}" for evidence in finding.evidence)
        yield Case(when, "oom" in found, f"{finding.message} {measured}".strip())
    for name, message in bench.inside("memory.killed_by_hand").items():
        # There is memory for everybody: a loader that says "killed by signal" here means something else by it.
        yield Case(f"{name}, sent by hand", "killed by signal" not in message, message)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="worker-killed-oom",
        source=BUS_ERROR,
        says='"killed by signal" means that a worker ran out of memory, which the main process does not show.',
        verdict=ONLY_WHEN,
        when='the signal is "Killed", and the kernel has counted a kill for memory',
        believe='The message names the signal. "Bus error" is /dev/shm, "Segmentation fault" a crash in native '
        'code, "Terminated" somebody\'s kill. "Killed" may be memory: look for OOMKilled in docker inspect, or '
        "oom_kill in the container's memory.events, and add up all processes.",
        setting="labs oom and shm, and workers that are sent a signal",
        measure=killed,
        lab="oom",
        needs="docker",
    ),
    Claim(
        id="init-preload-memory",
        source=BUS_ERROR,
        says="Loading the data in __init__ costs memory in proportion to the data; lazily, to the batch.",
        verdict=TRUE,
        believe="So it is. A file that is mapped in __init__ (np.memmap) costs nothing there either.",
        setting="files of 16 and 64 MB, num_workers=0; anonymous memory of the process while it loops",
        measure=inside("memory.preload", env=FREED_AT_ONCE),
    ),
    Claim(
        id="copy-on-read",
        source=WARNING,
        says="Workers come to use as much memory as the parent for the Python objects that they read.",
        verdict=TRUE,
        believe="To look at an object is to write its reference count, and a page that is written is no longer "
        "shared. It takes as long as the workers take to look at everything: it looks like a leak.",
        setting="2 workers, fork, 250,000 objects; private memory of a worker",
        measure=inside("memory.copy_on_read"),
        lab="memory",
    ),
    Claim(
        id="arrays-stay-shared",
        source=WARNING,
        says="NumPy arrays in place of lists keep the workers from copying what they read.",
        verdict=ONLY_WHEN,
        when="the array holds values: not with dtype object",
        believe="One array is one object with one reference count, whatever its length. An array of dtype object "
        "holds pointers to the same strings as before, and so does a DataFrame with columns of that type.",
        setting="2 workers, fork, 250,000 lines; private memory of a worker",
        measure=inside("memory.arrays_cure"),
        lab="memory",
    ),
    Claim(
        id="gc-freeze-cures-copying",
        source=Source(
            'locust#2564: "Optimize memory usage when using --processes"',
            "https://github.com/locustio/locust/pull/2564",
        ),
        says="gc.freeze() before the fork keeps workers from copying memory through reference counts.",
        verdict=ONLY_WHEN,
        when="nobody reads the objects, and it is the garbage collector that would write to them",
        believe="gc.freeze() keeps the collector from writing to its own headers. Reference counts are not the "
        "collector's: what a worker reads it copies. Pack it into arrays.",
        setting="2 workers, fork, 250,000 objects; private memory of a worker",
        measure=inside("memory.collector_frozen"),
        lab="memory",
    ),
    Claim(
        id="manager-list-shared",
        source=Source(
            'torchdatasets#17: "add manager support for caching in shared memory among processes"',
            "https://github.com/szymonmaszke/torchdatasets/pull/17",
        ),
        says="A list of a multiprocessing.Manager is held once for all workers.",
        verdict=TRUE,
        believe="So it is, in a process of its own. The price is time: each read is a message to that process and a "
        "copy back. An array costs neither.",
        setting="2 workers, fork, 4,000 strings of 4 KB; private memory of a worker",
        measure=inside("memory.managed"),
        lab="memory",
    ),
)
