"""Fixes for the lab shards."""

from tests.fixes.fix import Fix, with_init_fn, with_subclass

READ_ALL_SHARDS = """\
        for shard in self.shards:
            yield from self.records(shard)
"""
RETURN_SHARDS = "return DataLoader(ShardStream(make_shards()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"

WRONG = [
    Fix(
        "shards",
        "a division that loses the tail",
        (
            (
                READ_ALL_SHARDS,
                "        worker = torch.utils.data.get_worker_info()\n"
                "        each = len(self.shards) // worker.num_workers\n"
                "        for shard in self.shards[worker.id * each : (worker.id + 1) * each]:\n"
                "            yield from self.records(shard)\n",
            ),
        ),
        ("lost",),
    ),
    Fix(
        "shards",
        "asking for the worker in __init__, where there is none",
        (
            (
                'self.shards = sorted(folder.glob("*.npz"))',
                "worker = torch.utils.data.get_worker_info()\n"
                "        shards = sorted(folder.glob('*.npz'))\n"
                "        self.shards = shards if worker is None else shards[worker.id :: worker.num_workers]",
            ),
        ),
        ("duplicated",),
    ),
    Fix("shards", "one worker", (("NUM_WORKERS = 4", "NUM_WORKERS = 1"),), ("other-workers",)),
    Fix(
        "shards",
        "four workers of which one does it all",
        (
            (
                READ_ALL_SHARDS,
                f"        if torch.utils.data.get_worker_info().id > 0:\n            return\n{READ_ALL_SHARDS}",
            ),
        ),
        ("other-workers",),
    ),
    Fix(
        "shards",
        "the epoch cut to its proper length",
        (
            (
                READ_ALL_SHARDS,
                "        import itertools\n\n"
                "        everything = (record for shard in self.shards for record in self.records(shard))\n"
                "        yield from itertools.islice(everything, 26)\n",
            ),
        ),
        ("duplicated", "lost"),
    ),
    Fix(
        "shards",
        "dealt well, and the last batch of each worker dropped",
        (
            ("in self.shards:", "in self.shards[torch.utils.data.get_worker_info().id :: 4]:"),
            (RETURN_SHARDS, f"{RETURN_SHARDS[:-1]}, drop_last=True)"),
        ),
        ("lost",),
    ),
    Fix(
        "shards",
        "every worker reads everything, and the main process drops what it has seen",
        with_subclass(
            RETURN_SHARDS,
            "        seen = set()\n"
            "        for images, ids in super().__iter__():\n"
            "            new = [n for n, id in enumerate(ids.tolist()) if id not in seen]\n"
            "            seen.update(ids.tolist())\n"
            "            if new:\n"
            "                yield images[new], ids[new]\n",
        ),
        ("thrown-away", "other-workers"),
    ),
]

RIGHT = [
    Fix(
        "shards",
        "records dealt instead of shards",
        (
            (
                READ_ALL_SHARDS,
                "        import itertools\n\n"
                "        worker = torch.utils.data.get_worker_info()\n"
                "        everything = (record for shard in self.shards for record in self.records(shard))\n"
                "        yield from itertools.islice(everything, worker.id, None, worker.num_workers)\n",
            ),
        ),
    ),
    Fix(
        "shards",
        "each worker's shards set in a worker_init_fn",
        with_init_fn(
            RETURN_SHARDS,
            "    dataset = torch.utils.data.get_worker_info().dataset\n"
            "    dataset.shards = np.array_split(np.array(dataset.shards), NUM_WORKERS)[worker_id]",
        ),
    ),
    Fix(
        "shards",
        "dealt by record, and held back by one batch",
        (
            (
                READ_ALL_SHARDS,
                "        import itertools\n\n"
                "        worker = torch.utils.data.get_worker_info()\n"
                "        everything = (record for shard in self.shards for record in self.records(shard))\n"
                "        yield from itertools.islice(everything, worker.id, None, worker.num_workers)\n",
            ),
            *with_subclass(
                RETURN_SHARDS,
                "        held = None\n"
                "        for batch in super().__iter__():\n"
                "            if held is not None:\n"
                "                yield held\n"
                "            held = batch\n"
                "        yield held\n",
            ),
        ),
    ),
    Fix(
        "shards",
        "dealt by shard, each batch handed on in two halves",
        (
            (
                READ_ALL_SHARDS,
                READ_ALL_SHARDS.replace("self.shards:", "self.shards[torch.utils.data.get_worker_info().id :: 4]:"),
            ),
            *with_subclass(
                RETURN_SHARDS,
                "        for images, ids in super().__iter__():\n"
                "            yield images[:4], ids[:4]\n"
                "            yield images[4:], ids[4:]\n",
            ),
        ),
    ),
]
