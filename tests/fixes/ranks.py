"""Fixes for the lab ranks."""

from tests.fixes.fix import Fix

ALL_SHARDS = "for number, shard in enumerate(self.shards):\n"
WHO = (
    "worker = torch.utils.data.get_worker_info()\n"
    "        rank, ranks = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
    "        mine, everybody = rank * worker.num_workers + worker.id, ranks * worker.num_workers\n"
    "        "
)


def dealt(by: str) -> tuple[tuple[str, str], ...]:
    """Read only the shards of which this is true."""
    return ((ALL_SHARDS, f"{WHO}{ALL_SHARDS}            if not ({by}):\n                continue\n"),)


EACH_RECORD = "for place, record in enumerate(np.load(shard)):\n"
ASK_EVERYBODY = """\
    iterator = iter(loader)
    while True:
        records, numbers = next(iterator, (None, None))
        left = torch.tensor(int(records is not None))
        dist.all_reduce(left)
        if not left:
            break
        weights.grad = torch.zeros(FEATURES)
        if records is None:
            dist.all_reduce(weights.grad)
            continue
"""

WRONG = [
    Fix(
        "ranks", "dealt to the workers of each rank", dealt("number % worker.num_workers == worker.id"), ("duplicated",)
    ),
    Fix("ranks", "dealt to the ranks", dealt("number % ranks == rank"), ("duplicated",)),
    Fix(
        "ranks",
        "shards dealt to all workers: one rank has more of them",
        dealt("number % everybody == mine"),
        ("ranks-apart",),
    ),
    Fix(
        "ranks",
        "as many shards for everybody, and the ninth for nobody",
        dealt("number % everybody == mine and number < 8"),
        ("lost",),
    ),
]

RIGHT = [
    Fix(
        "ranks",
        "records in slices of one length",
        (
            (ALL_SHARDS, f"{WHO}size = -(-SHARDS * RECORDS // everybody)\n        {ALL_SHARDS}"),
            (
                EACH_RECORD,
                f"{EACH_RECORD}                if (number * RECORDS + place) // size != mine:\n{' ' * 20}continue\n",
            ),
        ),
    ),
    Fix(
        "ranks",
        "dealt shards, and a step only while every rank has one",
        (
            *dealt("number % everybody == mine"),
            ("    for records, numbers in loader:\n", ASK_EVERYBODY),
        ),
    ),
]
