"""What is said about speed."""

import os
from collections.abc import Iterator

from labs.claims.bench import Bench, inside
from labs.claims.claim import CANNOT, ONLY_WHEN, TRUE, Case, Claim, Source
from labs.claims.sources import BUS_ERROR, TOO_MANY_WORKERS, documentation, forum
from labs.harness.limits import Limits, Refused

BOUND, QUOTA = "one CPU of several (taskset, --cpuset-cpus)", "the time of one CPU (docker --cpus=1)"


def counts(bench: Bench) -> dict[str, dict[str, int]]:
    """What is said about the number of CPUs where there is one, in two ways."""
    if (os.cpu_count() or 1) < 2:
        raise Refused("a machine with one CPU cannot have less than all of them")
    one, name = Limits(cpus=1), "speed.counted_cpus"
    return {BOUND: bench.inside(name, one), QUOTA: bench.inside(name, one, bench.docker())}


def cpu_count(bench: Bench) -> Iterator[Case]:
    for limit, said in counts(bench).items():
        for call, count in (("os.cpu_count()", said["host"]), ("os.sched_getaffinity(0)", said["bound"])):
            saw = f"it counts {count}, and {said['allowed']} may be used"
            yield Case(f"{limit}, {call}", count > said["allowed"], saw)


def warning(bench: Bench) -> Iterator[Case]:
    for limit, said in counts(bench).items():
        fits = said["suggested"] == said["allowed"]
        words = f"suggests {said['suggested']}" if said["suggested"] < said["host"] else "does not appear"
        yield Case(limit, fits, f"for {said['host']} workers the warning {words}; {said['allowed']} CPU may be used")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="workers-speedup",
        source=BUS_ERROR,
        says="4 workers instead of 0 make a loading-bound loop 3 to 5 times faster.",
        verdict=ONLY_WHEN,
        when="loading waits, for a disk or a network",
        believe="Waiting is divided by the number of workers, whatever the CPUs. Computing can be divided among the "
        "CPUs of the container at best: with fewer than 4 of them 4 workers are not 4 times as fast, and on one they "
        "are slower than none.",
        setting="one CPU; waiting is played by a clock, computing is counted in CPU seconds",
        measure=inside("speed.speedup", cpus=1),
        lab="starve",
        alone=True,
    ),
    Claim(
        id="workers-restart-cost",
        source=BUS_ERROR,
        says="Without persistent_workers each epoch pays 5 to 10 s to restart the workers.",
        verdict=ONLY_WHEN,
        when="what a worker does at its start takes that long",
        believe="An epoch pays what the start of a worker costs: next to nothing with fork; an interpreter that "
        "imports torch, and all that your program imports, with spawn and forkserver; and your worker_init_fn. Time "
        "the first batch of the second epoch.",
        setting="CPU seconds, so that what else runs does not count",
        measure=inside("speed.restart_cost"),
    ),
    Claim(
        id="workers-cpu-count",
        source=BUS_ERROR,
        says="The number of workers must come from the container's CPUs: Python's own count is the host's.",
        verdict=ONLY_WHEN,
        when="the count is os.cpu_count(), or the limit is a share of time (docker --cpus, a limit in Kubernetes)",
        believe="os.cpu_count() is the host's. len(os.sched_getaffinity(0)) counts the CPUs that the process is bound "
        "to, and knows nothing of a quota, which stands in /sys/fs/cgroup/cpu.max, or in cpu/cpu.cfs_quota_us.",
        setting="a namespace container bound to one CPU, and a docker container with --cpus=1",
        measure=cpu_count,
        needs="docker",
    ),
    Claim(
        id="warning-counts-cpus",
        source=TOO_MANY_WORKERS,
        says='The warning "Our suggested max number of worker in current system is N" knows the CPUs of a container.',
        verdict=ONLY_WHEN,
        when="the container is bound to some CPUs (--cpuset-cpus), not given a share of their time (--cpus)",
        believe="It counts what os.sched_getaffinity counts. Under a quota, which is what --cpus and Kubernetes set, "
        "it allows as many workers as the host has CPUs. And workers that wait need no CPU: it is not a limit.",
        setting="a namespace container bound to one CPU, and a docker container with --cpus=1",
        measure=warning,
        needs="docker",
    ),
    Claim(
        id="four-workers-per-gpu",
        source=forum(
            "Guidelines for assigning num_workers to DataLoader",
            "https://discuss.pytorch.org/t/guidelines-for-assigning-num-workers-to-dataloader/813",
        ),
        says="num_workers = 4 x the number of GPUs works well; more and fewer are slower.",
        verdict=ONLY_WHEN,
        when="a batch takes about three times as long to load as a step to compute",
        believe="Enough is the time to load a batch divided by the time of a step, rounded up. Measure both; the "
        "number of GPUs says nothing about either.",
        setting="one device and its data, played by a clock: steps of 20 ms",
        measure=inside("speed.per_gpu"),
        lab="starve",
        alone=True,
    ),
    Claim(
        id="more-workers-than-cores",
        source=TOO_MANY_WORKERS,
        says="More workers than CPU cores slow loading down.",
        verdict=ONLY_WHEN,
        when="what the workers themselves cost, their start above all, is more than what they do",
        believe="Workers that wait for a disk or a network need no core, and more of them are faster. Those that "
        "compute gain nothing beyond the cores, and lose next to nothing. Each one more costs its start, memory, and "
        "prefetch_factor batches in /dev/shm.",
        setting="1 and 8 workers on one CPU, fork; waiting is played by a clock, computing counted in CPU seconds",
        measure=inside("speed.more_than_cores", cpus=1),
        lab="starve",
        alone=True,
    ),
    Claim(
        id="larger-prefetch-faster",
        source=Source(
            'Blog: "Unveiling the Magic of PyTorch prefetch_factor: A Comprehensive Guide"',
            "https://www.codegenes.net/blog/pytorch-prefetch_factor",
        ),
        says="A larger prefetch_factor makes loading faster.",
        verdict=ONLY_WHEN,
        when="some batches take far longer than others, and the workers keep up on average",
        believe="Batches in advance bridge a slow one. They do not make a slow worker faster: where the loop waits "
        "for every batch, take more workers. Each step more costs a batch a worker in /dev/shm.",
        setting="1 worker, steps of 20 ms played by a clock, prefetch_factor 2 and 16",
        measure=inside("speed.deeper_prefetch"),
        alone=True,
    ),
    Claim(
        id="prefetch-default",
        source=documentation("DataLoader", "torch.utils.data.DataLoader"),
        says="prefetch_factor is 2 where there are workers; to set it with num_workers=0 is a ValueError.",
        verdict=TRUE,
        believe="So it is. A program that makes num_workers configurable has to leave prefetch_factor=None with 0.",
        setting="the constructor alone",
        measure=inside("speed.prefetch_default"),
    ),
    Claim(
        id="tensordataset-as-fast",
        source=BUS_ERROR,
        says="For tensors in memory TensorDataset is just as fast as a custom class.",
        verdict=ONLY_WHEN,
        when="the class fetches sample by sample as well",
        believe="Both index one sample at a time and stack them again. A class with __getitems__ (and a collate_fn "
        "that leaves the batch as it is) indexes once for a batch, and so does a TensorDataset with batch_size=None "
        "and a BatchSampler as its sampler.",
        setting="4,096 samples of 32 numbers, batches of 64, num_workers=0; CPU seconds, the best of 5 epochs",
        measure=inside("speed.tensor_dataset"),
        alone=True,
    ),
    Claim(
        id="sql-query-per-sample",
        source=BUS_ERROR,
        says="Querying SQL for every sample under several workers becomes the bottleneck.",
        verdict=ONLY_WHEN,
        when="a query is slow: no index, or a server that is far away",
        believe="A look-up by key in a local file is nothing beside decoding an image. Measure the query's share of a "
        "sample's time; and what is small, read once and keep as arrays.",
        setting="2 workers, a table of 200,000 rows, a JPEG of 256 x 256 to decode for each sample; CPU seconds",
        measure=inside("speed.sql_queries"),
        lab="sql",
    ),
    Claim(
        id="pin-memory-overlap",
        source=BUS_ERROR,
        says="non_blocking=True overlaps copies to the GPU only together with pin_memory=True.",
        verdict=CANNOT,
        believe="It needs a GPU, and the labs run without. PyTorch's guide to non_blocking and pin_memory() says so "
        "too: for a copy to overlap with a kernel the source must be in pinned memory, and the copy on a stream of "
        "its own. From ordinary memory non_blocking=True still spares the program a wait for each copy.",
    ),
    Claim(
        id="gpu-utilisation",
        source=BUS_ERROR,
        says="4 workers and pinned memory lift GPU utilisation from 40-50 % to above 90 %.",
        verdict=CANNOT,
        believe="It needs a GPU, and depends on how long a batch takes to load and to compute. With a device played "
        "by a clock, workers take the waiting away as far as they load a batch within a step (lab starve).",
        lab="starve",
    ),
)
