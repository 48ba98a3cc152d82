"""What is said about shared memory: how much there is, who uses it, and what happens when it is full."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from labs.catalog import LABS
from labs.claims import docker
from labs.claims.bench import Bench, inside
from labs.claims.claim import CANNOT, FALSE, ONLY_WHEN, TRUE, UNTIL, Case, Changed, Claim, Source
from labs.claims.sources import BUS_ERROR, RUNTIME_ERRORS, issue, tutorial
from labs.harness.container import Namespace
from labs.harness.limits import Limits, Refused
from labs.harness.run import HarnessFailed
from labs.harness.verdict import Verdict

MB = 1 << 20
SIGBUS = 7

SHARING = Source(
    'PyTorch documentation, torch.multiprocessing, "Sharing strategies"',
    "https://docs.pytorch.org/docs/stable/multiprocessing.html#sharing-strategies",
)
NO_ROOM = tutorial("Handling Insufficient Shared Memory (/dev/shm)")
LEAKING = issue(
    973, "file_descriptor sharing strategy may be leaking FDs, resulting in DataLoader causing RuntimeError"
)
FILE_SYSTEM = 'torch.multiprocessing.set_sharing_strategy("file_system")'
SINCE_2_10 = Changed(
    "torch 2.10",
    "pytorch#161910",
    "https://github.com/pytorch/pytorch/pull/161910",
    "reserves the pages of a batch before it is written, and reports it where that fails",
)


def raised(verdict: Verdict) -> str:
    """What the main process raised."""
    error = verdict.history.first("error")
    return str(error["chain"][0]["type"]) if error else "nothing"


def found(verdict: Verdict) -> str:
    return ", ".join(finding.statement.rstrip(".") for finding in verdict.findings) or "healthy: every sample came"


def killed_by_bus_error(verdict: Verdict) -> int:
    """How many processes of a run SIGBUS has killed: workers, or the main process itself."""
    error, ended = verdict.history.first("error"), verdict.history.first("exit")
    workers = [exit for exit in error["exits"] if exit["exitcode"] == -SIGBUS] if error else []
    return len(workers) + (ended is not None and ended["status"] == -SIGBUS)


def with_changes(lab: str, *changes: tuple[str, str]) -> str:
    """A lab's program, with some of its lines changed."""
    text = LABS[lab].program.read_text()
    for old, new in changes:
        if old not in text:
            raise HarnessFailed(f"the program of the lab {lab} has no line {old!r}")
        text = text.replace(old, new)
    return text


def by_file_system(lab: str) -> str:
    """A lab's program, with the other sharing strategy."""
    return with_changes(lab, ("\nimport torch\n", f"\nimport torch\n\n{FILE_SYSTEM}\n"))


BATCHES, FREEZE, CACHE = (
    ("shm-batches", "batches of 72 MB, torch's own collate"),
    ("freeze-shm", "batches of 72 MB, a collate_fn of one's own"),
    ("shm", "a cache in /dev/shm that the program maps itself"),
)


def bus_error(bench: Bench) -> Iterator[Case]:
    for lab, when in (BATCHES, FREEZE, CACHE):
        verdict = bench.lab(lab, "failure")
        killed = killed_by_bus_error(verdict)
        saw = f"workers killed by SIGBUS: {killed}; raised: {raised(verdict)}. {found(verdict)}"
        yield Case(f"{when} (lab {lab})", killed > 0, saw, control=lab == "shm")


def no_traceback(bench: Bench) -> Iterator[Case]:
    """As the claim has it: nothing is raised in the main process, and no traceback is on stderr."""
    for lab, when in (BATCHES, FREEZE, CACHE):
        yield silence(f"{when} (lab {lab})", bench.lab(lab, "failure"))
    alone = bench.check("shm", with_changes("shm", ("NUM_WORKERS = 4", "NUM_WORKERS = 0")))
    yield silence("the same cache, written by the main process itself (num_workers=0)", alone, control=True)


def silence(when: str, verdict: Verdict, control: bool = False) -> Case:
    error = raised(verdict)
    traceback = error != "nothing" or any(line.startswith("Traceback") for line in verdict.history.output("stderr"))
    saw = f"{error} raised, {'a' if traceback else 'no'} traceback. {found(verdict)}"
    return Case(when, not traceback, saw, control)


def larger_fixes(bench: Bench) -> Iterator[Case]:
    for lab, when in (BATCHES, FREEZE, CACHE):
        verdict = bench.lab(lab, "control")
        yield Case(f"{when}, 2 GB (lab {lab})", not verdict.findings, found(verdict))
    verdict = bench.lab(BATCHES[0], "failure")
    yield Case(f"{BATCHES[1]}, 64 MB", not verdict.findings, found(verdict), control=True)


def zero_workers(bench: Bench) -> Iterator[Case]:
    """What the judge has against no workers is not what the claim is about: all samples came, or not."""
    for (lab, when), workers in ((BATCHES, 2), (CACHE, 4)):
        verdict = bench.check(lab, with_changes(lab, (f"NUM_WORKERS = {workers}", "NUM_WORKERS = 0")))
        samples, wanted = len(verdict.history.samples()), LABS[lab].samples * LABS[lab].epochs
        peak = max(event["shm_used"] for event in verdict.history.events if "shm_used" in event)
        dead = ", the main process killed by SIGBUS" if killed_by_bus_error(verdict) else ""
        saw = f"{samples} of {wanted} samples, at most {peak / MB:.0f} MB in /dev/shm{dead}"
        yield Case(f"{when}, num_workers=0", samples == wanted, saw)
    verdict = bench.lab(BATCHES[0], "failure")
    yield Case(f"{BATCHES[1]}, num_workers=2", not verdict.findings, found(verdict), control=True)


def os_error(bench: Bench) -> Iterator[Case]:
    for lab, when in (BATCHES, FREEZE, CACHE):
        verdict = bench.lab(lab, "failure")
        error = raised(verdict)
        yield Case(f"{when} (lab {lab})", error == "OSError", f"{error} raised. {found(verdict)}")
    said = bench.inside("shared_memory.start_when_full", Limits(shm=8 * MB))
    yield Case("workers are started when /dev/shm is full to the last page", said.startswith("OSError"), said)


def file_system_cures_memory(bench: Bench) -> Iterator[Case]:
    for lab, when in (BATCHES, CACHE):
        verdict = bench.check(lab, by_file_system(lab))
        yield Case(f"{when}, file_system", not verdict.findings, found(verdict))
    verdict = bench.lab(BATCHES[0], "control")
    yield Case(f"{BATCHES[1]}, file_descriptor and 2 GB", not verdict.findings, found(verdict), control=True)


def file_system_cures_files(bench: Bench) -> Iterator[Case]:
    """How the workers are started is no part of the claim, so that the judge's word on it does not count."""
    what = "300 batches, an image kept of each, 256 open files"
    for start in ("fork", "forkserver"):
        call = (
            "    return DataLoader(",
            f"    {FILE_SYSTEM}\n    return DataLoader(multiprocessing_context={start!r}, dataset=",
        )
        verdict = bench.check("fds", with_changes("fds", call))
        came = len(verdict.history.samples())
        said = [finding.statement for finding in verdict.findings if finding.id != "other-workers"]
        yield Case(f"{what}, file_system, {start}", came == 300, " ".join([f"{came} of 300 images came.", *said]))
    verdict = bench.lab("fds", "failure")
    saw = f"{len(verdict.history.samples())} of 300 images came. {found(verdict)}."
    yield Case(f"{what}, file_descriptor (lab fds)", not verdict.findings, saw, control=True)


class SmallSegments(Namespace):
    """A container of ours whose kernel.shmmax is 1 MB."""

    def command(self, argv: list[str], limits: Limits, name: str, program: Path) -> list[str]:
        command, own = super().command(argv, limits, name, program), 1 + len(self.FLAGS)
        lowered = ["/bin/sh", "-c", f'echo {MB} > /proc/sys/kernel/shmmax && exec "$@"', "sh"]
        return [*command[:own], *lowered, *command[own:]]


def shmmax(bench: Bench) -> Iterable[Case]:
    small = SmallSegments()
    if reason := small.why_not(Limits()):
        raise Refused(f"kernel.shmmax cannot be lowered in a container: {reason}")
    return [Case(**case) for case in bench.inside("shared_memory.shm_shmmax", Limits(), small)]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="shm-default-64mb",
        source=BUS_ERROR,
        says="A Docker container gets 64 MB of /dev/shm unless told otherwise.",
        verdict=TRUE,
        believe="So it is. Look with df -h /dev/shm inside the container; --shm-size sets it, and podman's own default "
        "is a little less (64000 KiB).",
        setting="docker run with no option that is about memory",
        measure=docker.default_size,
        needs="docker",
    ),
    Claim(
        id="shm-bus-error",
        source=BUS_ERROR,
        says="With 4 workers and batches of any real size, a full /dev/shm kills the container with a bus error.",
        verdict=UNTIL,
        changed=SINCE_2_10,
        believe="Ordinary batches that do not fit raise a RuntimeError (No space left on device), or, with a "
        "collate_fn of your own, hang. A bus error still comes from memory that the program maps itself, and kills "
        "the worker.",
        setting="/dev/shm of 64 MB, batches of 72 MB",
        measure=bus_error,
        lab="shm-batches",
    ),
    Claim(
        id="shm-no-traceback",
        source=BUS_ERROR,
        says="The failure leaves no Python traceback and no Python-level exception.",
        verdict=FALSE,
        believe="The main process raises a RuntimeError, also where a worker was killed by SIGBUS. With a collate_fn "
        "of your own nothing is raised, and the traceback is on stderr alone: read it there, and set a timeout.",
        setting="/dev/shm of 64 MB; what the main process raised, and what was on stderr",
        measure=no_traceback,
        lab="shm-batches",
    ),
    Claim(
        id="shm-fills-over-epochs",
        source=BUS_ERROR,
        says="The 64 MB fill up over the first few epochs, so the crash is intermittent.",
        verdict=FALSE,
        believe="A batch leaves /dev/shm when the loop lets go of it: every epoch has the same peak, about num_workers "
        "x prefetch_factor + 1 batches. It grows if your loop keeps batches, or parts of them.",
        setting="/dev/shm of 64 MB, 2 workers, 8 batches of 1 MB an epoch, 5 epochs, a loop slower than its workers",
        measure=inside("shared_memory.shm_fills_over_epochs", shm=64 * MB),
    ),
    Claim(
        id="shm-2g-fixes",
        source=BUS_ERROR,
        says="--shm-size=2g makes the same program pass.",
        verdict=TRUE,
        believe="It does where 2 GB are enough: bytes of a batch x (num_workers x prefetch_factor + 2), and what the "
        "program itself keeps there. It is memory all the same, and counts against the container's limit.",
        setting="the programs of three labs, with 64 MB and with 2 GB of /dev/shm",
        measure=larger_fixes,
        lab="shm-batches",
    ),
    Claim(
        id="shm-zero-workers",
        source=BUS_ERROR,
        says="With num_workers=0 the default 64 MB are enough.",
        verdict=ONLY_WHEN,
        when="batches are all that would be in shared memory",
        believe="Without workers no batch goes through /dev/shm. A cache that the program itself keeps there needs as "
        "much as before, and the bus error then kills the main process. And nothing is loaded while the model "
        "computes.",
        setting="/dev/shm of 64 MB, the programs of two labs with num_workers=0",
        measure=zero_workers,
        lab="shm-batches",
    ),
    Claim(
        id="shm-healthcheck",
        source=BUS_ERROR,
        says="A HEALTHCHECK that asserts free shared memory makes the container refuse to start training.",
        verdict=FALSE,
        believe="A HEALTHCHECK sets a status beside a command that has already started. To refuse, look in the "
        "entrypoint, before the command: docker/require-shm.sh does, and says which flag helps.",
        setting="docker, /dev/shm of 64 MB, 2 GB asked for",
        measure=docker.healthcheck,
        needs="docker",
    ),
    Claim(
        id="shm-kubernetes",
        source=BUS_ERROR,
        says="An emptyDir with medium: Memory on /dev/shm is Kubernetes' equivalent of the flag.",
        verdict=CANNOT,
        believe="There is no cluster here. By the Kubernetes documentation such a volume is a tmpfs whose pages count "
        "against the container's memory limit; a tmpfs that docker mounts on /dev/shm does what the flag does. Set a "
        "sizeLimit, and a memory limit that holds both.",
        setting="docker; 100 MB reserved in /dev/shm, as torch does for a batch",
        measure=docker.tmpfs_on_shm,
        needs="docker",
    ),
    Claim(
        id="shm-oserror",
        source=RUNTIME_ERRORS,
        says="Running out of shared memory raises OSError.",
        verdict=ONLY_WHEN,
        when="/dev/shm is already full to the last page when the workers are started",
        believe="A batch that does not fit is a RuntimeError, a killed worker too, and with a collate_fn of your own "
        "nothing is raised. An except OSError catches none of these: look for 'shared memory' in the text of a "
        "RuntimeError.",
        setting="/dev/shm of 64 MB (8 MB, filled by another file, for the last)",
        measure=os_error,
        lab="shm-batches",
    ),
    Claim(
        id="shm-shmmax",
        source=RUNTIME_ERRORS,
        says="The kernel's shmmax bounds what the workers can use.",
        verdict=FALSE,
        believe="shmmax is about System V segments (shmget). Batches are files in the tmpfs on /dev/shm, and the size "
        "of that mount is their limit: raise it with --shm-size, not with sysctl.",
        setting="kernel.shmmax of 1 MB, /dev/shm of 64 MB, 2 workers",
        measure=shmmax,
    ),
    Claim(
        id="shm-lazy-loading",
        source=RUNTIME_ERRORS,
        says="Loading lazily in __getitem__ instead of in __init__ cures shared-memory exhaustion.",
        verdict=ONLY_WHEN,
        when="the dataset holds tensors and its workers are not forked, so that the data itself is moved to /dev/shm",
        believe="Forked workers find the data of __init__ in ordinary memory; what fills /dev/shm are batches, and "
        "those are as large either way. With spawn and forkserver the tensors on a dataset are moved to shared memory "
        "when the workers start.",
        setting="/dev/shm of 64 MB, 24 samples of 3 MB, 1 worker",
        measure=inside("shared_memory.shm_lazy_loading", shm=64 * MB),
    ),
    Claim(
        id="transfer-shared-memory",
        source=BUS_ERROR,
        says="Batches travel from worker to main process through shared memory, not through a pipe.",
        verdict=ONLY_WHEN,
        when="they are tensors",
        believe="What crosses the pipe for a tensor is its handle. What else a collate_fn returns, NumPy arrays and "
        "bytes among it, is pickled and goes through the pipe whole. It needs no shared memory.",
        setting="/dev/shm of 64 MB, one batch of 8 MB, 1 worker",
        measure=inside("shared_memory.transfer_shared_memory", shm=64 * MB),
    ),
    Claim(
        id="view-sends-storage",
        source=Source(
            'embeddings-benchmark/mteb#4747: "clone extracted video frames to prevent DataLoader shared memory bloat"',
            "https://github.com/embeddings-benchmark/mteb/pull/4747",
        ),
        says="A worker that returns a small part of a large tensor sends the whole of it through shared memory.",
        verdict=ONLY_WHEN,
        when="a collate_fn of one's own hands the view on as it is",
        believe="torch's own collate copies samples into a new batch, and sends that alone. Where you collate "
        "yourself, clone what you cut out of something larger.",
        setting="/dev/shm of 64 MB, one batch with 1 KB of a tensor of 8 MB",
        measure=inside("shared_memory.view_sends_storage", shm=64 * MB),
    ),
    Claim(
        id="smaller-batches-cure",
        source=NO_ROOM,
        says="Smaller batches, fewer workers or prefetch_factor=1 cure an exhausted /dev/shm.",
        verdict=ONLY_WHEN,
        when="all batches that are under way then fit together",
        believe="Needed are bytes of a batch x (num_workers x prefetch_factor + 2). Compute it before you turn a knob: "
        "a batch that fits alone may not fit with the others, and one that is larger than /dev/shm is helped by no "
        "number of workers.",
        setting="/dev/shm of 64 MB, a loop slower than its workers",
        measure=inside("shared_memory.smaller_batches_cure", shm=64 * MB),
    ),
    Claim(
        id="ipc-host",
        source=Source('pytorch/pytorch README, "Docker Image"', "https://github.com/pytorch/pytorch#docker-image"),
        says="--ipc=host gives a container all the shared memory of the host.",
        verdict=TRUE,
        believe="It is the host's own /dev/shm: a --shm-size beside it is ignored, other jobs use it too, and what a "
        "killed job leaves there stays. --shm-size alone gives as much and keeps it apart.",
        setting="docker; the size that a container sees (nothing is written)",
        measure=docker.host_size,
        needs="docker",
    ),
    Claim(
        id="shm-remount",
        source=issue(1355, "possible deadlock in dataloader"),
        says="In a running container, mount -o remount,size=8G /dev/shm makes shared memory larger.",
        verdict=ONLY_WHEN,
        when="the container has CAP_SYS_ADMIN, which docker gives only on request",
        believe="An ordinary container may not mount, its root neither. The size is chosen when the container is made: "
        "--shm-size, or a tmpfs mounted on /dev/shm.",
        setting="docker, /dev/shm of 64 MB, 128 MB asked for, as root",
        measure=docker.remount,
        needs="docker",
    ),
    Claim(
        id="file-per-tensor",
        source=SHARING,
        says="With the file_descriptor strategy a file stays open for every tensor that is shared.",
        verdict=TRUE,
        believe="For every tensor from a worker that is still alive, and a view is enough to keep it alive. A loop "
        "that lets go of its batches has few files open however long it runs.",
        setting="2 workers, 40 batches of two tensors",
        measure=inside("shared_memory.file_per_tensor"),
        lab="fds",
    ),
    Claim(
        id="keep-copies",
        source=LEAKING,
        says="Keeping a deep copy of a batch in place of the batch cures 'Too many open files'.",
        verdict=TRUE,
        believe="A copy lies in ordinary memory, and the file is closed with the last tensor that looks into it. "
        "clone() of the part you need is cheaper; detach() and numpy() are no copies.",
        setting="2 workers, 40 batches of two tensors",
        measure=inside("shared_memory.keep_copies"),
        lab="fds",
    ),
    Claim(
        id="ulimit-cures",
        source=issue(
            14768,
            "DataLoader error with multiple workers - RuntimeError: unable to open shared memory object XXX in "
            "read-write mode",
        ),
        says="Raising ulimit -n cures 'Too many open files'.",
        verdict=ONLY_WHEN,
        when="the number of tensors that are kept has an end below the new limit",
        believe="It is right for a job that needs many files at the same time. A loop that keeps a part of every batch "
        "dies later, at the new limit: keep copies.",
        setting="2 workers, a tensor kept of each batch, a hard limit of 512 files",
        measure=inside("shared_memory.ulimit_cures", open_files=512),
        lab="fds",
    ),
    Claim(
        id="file-system-cures-files",
        source=LEAKING,
        says="set_sharing_strategy('file_system') cures 'Too many open files'.",
        verdict=ONLY_WHEN,
        when="the workers are forked, or call it themselves",
        believe="With it no file stays open. It counts in the process that sends: a worker of spawn or forkserver (the "
        "default from Python 3.14) does not inherit it. And what is kept still fills /dev/shm; to keep copies mends "
        "both.",
        setting="256 open files, 2 workers, set in the function that makes the loader",
        measure=file_system_cures_files,
        lab="fds",
    ),
    Claim(
        id="file-system-cures-shm",
        source=NO_ROOM,
        says="set_sharing_strategy('file_system') cures bus errors and an exhausted /dev/shm.",
        verdict=FALSE,
        believe="Both strategies keep their files in /dev/shm; this one gives them names. Make /dev/shm larger, or "
        "need less.",
        setting="/dev/shm of 64 MB, the programs of two labs",
        measure=file_system_cures_memory,
        lab="shm-batches",
    ),
    Claim(
        id="file-system-leaks",
        source=SHARING,
        says="With the file_system strategy a program that is killed leaves its shared memory behind.",
        verdict=ONLY_WHEN,
        when="torch_shm_manager, which cleans up after it, is killed with it",
        believe="After kill -9 of the program this daemon removes the files. When a scheduler kills all of a job, it "
        "goes too: look for /dev/shm/torch_* where /dev/shm outlives the job (a bare machine, --ipc=host, a pod that "
        "is restarted).",
        setting="2 workers, 8 batches of 1 MB kept, then SIGKILL",
        measure=inside("shared_memory.file_system_leaks"),
    ),
    Claim(
        id="strategy-reaches-workers",
        source=tutorial("Shared Memory and set_sharing_strategy"),
        says="set_sharing_strategy, called in the main process before the loader is made, holds for its workers.",
        verdict=ONLY_WHEN,
        when="the workers are forked",
        believe="The strategy is a global of each process. Workers of spawn and forkserver (the default from Python "
        "3.14) begin with file_descriptor: call it in a worker_init_fn.",
        setting="set to file_system in the main process, 1 worker",
        measure=inside("shared_memory.strategy_reaches_workers"),
    ),
)
