"""What is said about streams, and about dividing data among workers and ranks."""

from collections import Counter
from collections.abc import Iterator

from labs.claims.bench import Bench, inside
from labs.claims.claim import FALSE, ONLY_WHEN, TRUE, Case, Claim, Source
from labs.claims.sources import BUS_ERROR, documentation, pull
from labs.harness.limits import ROOT
from labs.harness.verdict import Verdict

LOADER = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.distributed.DistributedSampler"


def copies(verdict: Verdict) -> tuple[set[int], str]:
    """How often the samples of the first epoch came, over all ranks."""
    counts = Counter(sample.id for sample in verdict.history.by_epoch[0])
    times = set(counts.values())
    often = "once" if times == {1} else f"{' or '.join(map(str, sorted(times)))} times"
    return times, f"{counts.total()} samples came, {len(counts)} different, each {often}"


def iterable_duplicates(bench: Bench) -> Iterator[Case]:
    times, saw = copies(bench.lab("shards", "failure"))
    yield Case("lab shards: 4 workers, nobody divides", times == {4}, saw)
    times, saw = copies(bench.lab("shards", "fix"))
    yield Case("its solution: 4 workers, shards dealt to them", times == {4}, saw, control=True)


BY_BOTH = "self.rank * worker.num_workers + worker.id, self.ranks * worker.num_workers"
BY_WORKER = "worker.id, worker.num_workers"


def ranks_by_worker_alone(bench: Bench) -> Iterator[Case]:
    solution = (ROOT / "solutions" / "ranks.py").read_text()
    assert BY_BOTH in solution
    times, saw = copies(bench.check("ranks", solution.replace(BY_BOTH, BY_WORKER)))
    yield Case("2 ranks of 2 workers, divided by worker", times == {1}, saw)
    times, saw = copies(bench.lab("ranks", "fix"))
    yield Case("divided by rank and worker", times == {1}, saw, control=True)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="iterable-duplicates",
        source=BUS_ERROR,
        says="An unsharded IterableDataset delivers each sample num_workers times.",
        verdict=TRUE,
        believe="Every worker has a copy of the stream and reads all of it. Divide it in __iter__: "
        "shards[worker.id :: worker.num_workers]. A map-style dataset does not need this.",
        setting="lab shards: 105 records in 10 shards, 4 workers",
        measure=iterable_duplicates,
        lab="shards",
    ),
    Claim(
        id="iterable-warning",
        source=pull(23587, "Enable len(dataloader) for iterable dataset"),
        says="torch warns when an IterableDataset that nobody divides delivers its samples several times.",
        verdict=ONLY_WHEN,
        when="len(loader) was called and batch_size is less than num_workers",
        believe="Count for yourself. The warning compares the number of batches with the number of samples, and only "
        "if somebody has asked for len(loader): with batches of any usual size it stays silent.",
        setting="a stream of 32 samples that has a length, 4 workers",
        measure=inside("streams.iterable_warning"),
        lab="shards",
    ),
    Claim(
        id="iterable-shard-formula",
        source=BUS_ERROR,
        says="Slices of n // workers, the last worker taking the rest, deliver each sample exactly once.",
        verdict=TRUE,
        believe="It is right for any n, also for fewer samples than workers, but the last worker may have nearly all "
        "of the work: 8 of 15 samples with 8 workers. range(worker.id, n, worker.num_workers) differs by one at most.",
        setting="computed for 6432 pairs of n and workers, and loaded for some",
        measure=inside("streams.iterable_shard_formula"),
        lab="shards",
    ),
    Claim(
        id="iterable-ceil-formula",
        source=documentation("class IterableDataset", "torch.utils.data.IterableDataset"),
        says="Slices of ceil(n / workers), cut off at n, deliver each sample exactly once.",
        verdict=TRUE,
        believe="It is right for any n. Some workers may have nothing to do: with 9 samples and 8 workers three are "
        "idle. It needs n, which a stream often does not know; dealing shards does not.",
        setting="computed for 6432 pairs of n and workers, and loaded for some",
        measure=inside("streams.iterable_ceil_formula"),
        lab="shards",
    ),
    Claim(
        id="iterable-buffer-shuffle",
        source=BUS_ERROR,
        says="A stream can only be shuffled within a buffer, and stays roughly in its order.",
        verdict=ONLY_WHEN,
        when="the buffer is small and shards come in order",
        believe="A buffer cannot bring a sample forward by more than its own length. Shuffle the shards, too, anew in "
        "each epoch: then a small buffer is enough, for it has to mix neighbours only.",
        setting="2000 samples in 100 shards, one worker, rank correlation with the stream's own order",
        measure=inside("streams.iterable_buffer_shuffle"),
    ),
    Claim(
        id="iterable-len",
        source=documentation("class DataLoader, on len(dataloader)", LOADER),
        says="With workers, len(loader) of an IterableDataset is an estimate: more or fewer batches may come.",
        verdict=TRUE,
        believe="It is the dataset's length divided by batch_size, and knows nothing of workers. Each worker ends with "
        "a batch of its own that is not full. Do not build a schedule on it; count the batches of one epoch.",
        setting="100 samples, batches of 16, with no workers and 4",
        measure=inside("streams.iterable_len"),
    ),
    Claim(
        id="iterable-drop-last",
        source=documentation("Automatic batching (default)", "automatic-batching-default"),
        says="For a stream drop_last=True drops the last batch of every worker.",
        verdict=TRUE,
        believe="What is lost grows with num_workers, up to everything: 100 samples and 8 workers with batches of 16 "
        "give not one batch. Keep the short batches, or give every worker many batches' worth of samples.",
        setting="100 samples dealt to the workers, batches of 16",
        measure=inside("streams.iterable_drop_last"),
    ),
    Claim(
        id="iterable-shuffle-refused",
        source=documentation("Data Loading Order and Sampler", "data-loading-order-and-sampler"),
        says="shuffle=True or a sampler with an IterableDataset raises a ValueError.",
        verdict=TRUE,
        believe="Order and division of a stream are its own business, in __iter__. DistributedSampler is for "
        "map-style datasets only.",
        setting="the constructor of DataLoader",
        measure=inside("streams.iterable_shuffle_refused"),
    ),
    Claim(
        id="worker-info-main",
        source=documentation("get_worker_info", "torch.utils.data.get_worker_info"),
        says="get_worker_info() is None in the main process, and tells a worker its number, its seed and its dataset.",
        verdict=TRUE,
        believe="The main process is also where __init__ and samplers run, and everything if num_workers=0. So ask in "
        "__iter__, __getitem__ or worker_init_fn, and have an answer for None.",
        setting="2 workers or none, fork",
        measure=inside("streams.worker_info_main"),
    ),
    Claim(
        id="ranks-by-worker-alone",
        source=Source(
            'huggingface/datasets#5360: "IterableDataset returns duplicated data using PyTorch DDP"',
            "https://github.com/huggingface/datasets/issues/5360",
        ),
        says="Dividing a stream with get_worker_info() is enough, also where several ranks train together.",
        verdict=FALSE,
        believe="get_worker_info() knows the workers of one rank. Divide by rank * num_workers + worker.id of ranks * "
        "num_workers, and see that all ranks come to as many batches.",
        setting="lab ranks: 2 ranks started by torchrun, 2 workers each, 90 records",
        measure=ranks_by_worker_alone,
        lab="ranks",
    ),
    Claim(
        id="distributed-set-epoch",
        source=documentation("class DistributedSampler, warning", SAMPLER),
        says="Without set_epoch a DistributedSampler gives the same order in every epoch.",
        verdict=TRUE,
        believe="The order follows from the sampler's seed and the epoch it was told, from nothing else: "
        "torch.manual_seed does not change it. Call sampler.set_epoch(epoch) before each epoch; it works with "
        "persistent workers, too.",
        setting="64 samples, rank 0 of 2, 2 workers, two epochs",
        measure=inside("streams.distributed_set_epoch"),
        lab="ranks",
    ),
    Claim(
        id="distributed-repeats",
        source=documentation("class DistributedSampler, drop_last", SAMPLER),
        says="A DistributedSampler repeats samples so that all ranks get equally many.",
        verdict=TRUE,
        believe="Unless the number is divisible, some samples come twice, or are left out with drop_last=True. For "
        "training that is harmless; a metric that is added up over ranks is wrong.",
        setting="3 to 9 samples, 2 to 4 ranks, all ranks' loaders with 2 workers each",
        measure=inside("streams.distributed_repeats"),
        lab="ranks",
    ),
)
