"""Fixes for the lab closing."""

from tests.fixes.fix import Edit, Fix, with_init_fn

RETURN = "return DataLoader(NoisyPhotos(make_shards()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
DATASET = "    dataset = torch.utils.data.get_worker_info().dataset\n"
DIVIDE = "    dataset.shards = dataset.shards[worker_id::NUM_WORKERS]\n"


def prepared(*lines: str) -> tuple[Edit, ...]:
    """All of it in a worker_init_fn."""
    return with_init_fn(RETURN, "".join([DATASET, *lines]).rstrip())


SEED = "    dataset.rng = np.random.default_rng(torch.initial_seed())\n"
CALM = "    cv2.setNumThreads(0)\n"

WRONG = [
    Fix("closing", "the stream divided, and nothing else", prepared(DIVIDE), ("same-draws",)),
    Fix("closing", "seeded, and nothing else", prepared(SEED), ("duplicated",)),
    Fix("closing", "no threads, and nothing else", prepared(CALM), ("duplicated",)),
    Fix("closing", "divided and seeded, and a crowd of threads", prepared(DIVIDE, SEED), ("oversubscribed",)),
    Fix("closing", "divided and calm, and the same draws", prepared(DIVIDE, CALM), ("same-draws",)),
    Fix("closing", "seeded and calm, and every sample three times", prepared(SEED, CALM), ("duplicated",)),
    Fix(
        "closing",
        "divided and calm, and seeded by the worker's number alone",
        prepared(DIVIDE, CALM, "    dataset.rng = np.random.default_rng(worker_id)\n"),
        ("epochs-repeat",),
    ),
    Fix("closing", "one worker", (("NUM_WORKERS = 3", "NUM_WORKERS = 1"),), ("other-workers",)),
]

RIGHT = [
    Fix("closing", "all of it in a worker_init_fn", prepared(DIVIDE, SEED, CALM)),
    Fix(
        "closing",
        "records dealt instead of shards, a generator for each epoch, and one thread for OpenCV from the start",
        (
            (
                "        for shard in self.shards:\n            yield from self.triples(shard, self.rng)\n",
                "        import itertools\n\n"
                "        worker = torch.utils.data.get_worker_info()\n"
                "        rng = np.random.default_rng(torch.initial_seed())\n"
                "        every = (triple for shard in self.shards for triple in self.triples(shard, rng))\n"
                "        yield from itertools.islice(every, worker.id, None, worker.num_workers)\n",
            ),
            (RETURN, f"cv2.setNumThreads(1)\n    {RETURN}"),
        ),
    ),
]
