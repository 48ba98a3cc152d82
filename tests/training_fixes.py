"""Fixes for the labs about memory, waiting, lengths, the last batch and ranks: wrong ones and right ones."""

from tests.fixes import Fix

READ_LOG = "self.events = log.read_text().splitlines()"
RETURN_PURCHASES = "return DataLoader(Purchases(make_log()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
RETURN_STORE = "return DataLoader(Store(), batch_size=BATCH_SIZE, num_workers=0)"
RETURN_SENTENCES = "return DataLoader(Sentences(), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, shuffle=True)"
RETURN_CROPS = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, **stay)"
RETURN_LAST = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, shuffle=TRAINING)"
EVENT_LIST = (
    "return torch.tensor([float(event[len(start) :]) for event in self.events if event.startswith(start)]), user"
)
FROM_BYTES = """\
ends = self.ends[user::USERS].tolist()
        amounts = [float(bytes(self.text[end - 6 : end].tolist())) for end in ends]
        return torch.tensor(amounts), user"""
AS_BYTES = """\
text = np.frombuffer(log.read_bytes(), np.uint8)
        self.text = torch.from_numpy(text.copy())
        self.ends = torch.from_numpy(np.flatnonzero(text == 10))"""
BY_THREADS = """\
    def __getitems__(self, indices: list[int]) -> list:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(self.__getitem__, indices))

    def __getitem__"""
WITH_THE_REST = """\
order = torch.randperm(IMAGES) if TRAINING else torch.arange(IMAGES)
    batches = [batch.tolist() for batch in [*order[:40].split(BATCH_SIZE), order[40:]]]
    return DataLoader(dataset, batch_sampler=batches, num_workers=NUM_WORKERS)"""
ONE_LENGTH = """\
long = [n for n in range(SENTENCES) if len(Sentences()[n][0]) == 30]
    chosen = torch.utils.data.Subset(Sentences(), long)
    return DataLoader(chosen, batch_size=2, num_workers=NUM_WORKERS)"""
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
PATHS = 'self.paths = sorted(folder.glob("*.png"))'
CACHED = "cv2.imread(str(self.paths[index])).astype(np.float32) / 255"
KEPT = """\
        if index not in self.cache:
            self.cache[index] = cv2.imread(str(self.paths[index])).astype(np.float32) / 255
"""
ALL_SHARDS = "for number, shard in enumerate(self.shards):\n"
EACH_RECORD = "for place, record in enumerate(np.load(shard)):\n"
WHO = (
    "worker = torch.utils.data.get_worker_info()\n"
    "        rank, ranks = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
    "        mine, everybody = rank * worker.num_workers + worker.id, ranks * worker.num_workers\n"
    "        "
)


def dealt(by: str) -> tuple[tuple[str, str], ...]:
    """Read only the shards of which this is true."""
    return ((ALL_SHARDS, f"{WHO}{ALL_SHARDS}            if not ({by}):\n                continue\n"),)


def padded(length: str) -> tuple[tuple[str, str], ...]:
    """A collate_fn that pads to this length, with a mask."""
    function = f"""\
def pad(samples):
    sentences, numbers = zip(*samples, strict=True)
    longest = {length}
    rows = [torch.nn.functional.pad(one[:longest], (0, max(0, longest - len(one)))) for one in sentences]
    mask = torch.arange(longest) < torch.tensor([len(one) for one in sentences])[:, None]
    return torch.stack(rows), mask, torch.tensor(numbers)


def make_loader"""
    return (
        ("def make_loader", function),
        (RETURN_SENTENCES, f"{RETURN_SENTENCES[:-1]}, collate_fn=pad)"),
    )


WRONG = [
    Fix(
        "memory",
        "gc.freeze before the fork",
        ((READ_LOG, f"{READ_LOG}\n        __import__('gc').freeze()"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "a tuple in place of the list",
        ((READ_LOG, "self.events = tuple(log.read_text().splitlines())"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "an array of objects, which are as many as before",
        ((READ_LOG, "self.events = np.array(log.read_text().splitlines(), object)"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "workers that stay",
        ((RETURN_PURCHASES, f"{RETURN_PURCHASES[:-1]}, persistent_workers=True)"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "read in each worker: as many lists as workers",
        (
            (READ_LOG, "self.log, self.events = log, None"),
            (
                "        start = f",
                "        self.events = self.events or self.log.read_text().splitlines()\n        start = f",
            ),
        ),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "forkserver, which sends everybody a copy",
        ((RETURN_PURCHASES, f'{RETURN_PURCHASES[:-1]}, multiprocessing_context="forkserver")'),),
        ("other-workers", "memory-grew"),
    ),
    Fix("memory", "one worker", (("NUM_WORKERS = 4", "NUM_WORKERS = 1"),), ("other-workers",)),
    Fix("memory", "fewer events", (("EVENTS = 1_200_000", "EVENTS = 120_000"),), ("wrong-content",)),
    Fix("oom", "collecting garbage", ((KEPT, f"{KEPT}        __import__('gc').collect()\n"),), ("oom",)),
    Fix("oom", "less prefetching", ((RETURN_CROPS, f"{RETURN_CROPS[:-1]}, prefetch_factor=1)"),), ("oom",)),
    Fix("oom", "tensors in place of arrays", ((f"= {CACHED}", f"= torch.from_numpy({CACHED}).numpy()"),), ("oom",)),
    Fix("oom", "one worker", (("NUM_WORKERS = 2", "NUM_WORKERS = 1"),), ("other-workers",)),
    Fix(
        "starve",
        "larger batches, which take as much longer to load",
        (("BATCH_SIZE = 8", "BATCH_SIZE = 16"),),
        ("starved",),
    ),
    Fix("starve", "pinned memory", ((RETURN_STORE, f"{RETURN_STORE[:-1]}, pin_memory=True)"),), ("starved",)),
    Fix(
        "starve",
        "a slower device, which waits a smaller share of its time",
        (("STEP_SECONDS = 0.050", "STEP_SECONDS = 0.250"),),
        ("starved",),
    ),
    Fix("starve", "half of the images", (("IMAGES = 160", "IMAGES = 80"),), ("lost",)),
    Fix("ragged", "cut to the shortest", padded("min(map(len, sentences))"), ("wrong-content",)),
    Fix("ragged", "padded to a length that none has", padded("128"), ("mostly-padding",)),
    Fix(
        "ragged",
        "padded, and no word about what is padding",
        (*padded("max(map(len, sentences))"), (", mask, ", ", ")),
        ("wrong-content",),
    ),
    Fix("ragged", "batches of one", (("BATCH_SIZE = 32", "BATCH_SIZE = 1"),), ("small-batches",)),
    Fix("ragged", "sentences of another length left out", ((RETURN_SENTENCES, ONE_LENGTH),), ("lost",)),
    Fix(
        "last-batch",
        "the rest dropped in validation too",
        ((RETURN_LAST, f"{RETURN_LAST[:-1]}, drop_last=True)"),),
        ("lost",),
    ),
    Fix("last-batch", "an image left out for good, also in validation", ((PATHS, f"{PATHS}[:48]"),), ("lost",)),
    Fix(
        "last-batch",
        "an image twice, so that it comes out even",
        (
            ("return len(self.paths)\n", "return len(self.paths) + 1\n"),
            ("        return torch.from_numpy", "        index %= IMAGES\n        return torch.from_numpy"),
        ),
        ("duplicated",),
    ),
    Fix("last-batch", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("raised",)),
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
        "memory",
        "a tensor of bytes and one of positions",
        (
            (
                READ_LOG,
                AS_BYTES,
            ),
            (
                EVENT_LIST,
                FROM_BYTES,
            ),
        ),
    ),
    Fix(
        "memory",
        "read line by line in the worker, and nothing kept",
        ((READ_LOG, "self.log = log"), ("in self.events if", "in self.log.open() if")),
    ),
    Fix(
        "oom",
        "a few of them kept",
        (
            ("self.cache: dict[int, np.ndarray] = {}", "self.cache = {}"),
            (KEPT, f"        if len(self.cache) > 4:\n            self.cache.clear()\n{KEPT}"),
        ),
    ),
    Fix(
        "oom",
        "the crop kept, and not the photograph",
        (
            (f"= {CACHED}", f"= ({CACHED})[480:544, 480:544].copy()"),
            ("crop = self.read(index)[start : start + CROP, start : start + CROP]", "crop = self.read(index)"),
        ),
    ),
    Fix("starve", "two workers", ((RETURN_STORE, RETURN_STORE.replace("num_workers=0", "num_workers=2")),)),
    Fix(
        "starve",
        "eight workers, far more than CPUs",
        ((RETURN_STORE, RETURN_STORE.replace("num_workers=0", "num_workers=8")),),
    ),
    Fix("starve", "threads inside of each batch", (("    def __getitem__", BY_THREADS),)),
    Fix("ragged", "padded to the longest of the batch", padded("max(map(len, sentences))")),
    Fix("ragged", "padded to the longest of all", padded("59")),
    Fix("last-batch", "batches that leave no rest", (("BATCH_SIZE = 8", "BATCH_SIZE = 7"),)),
    Fix("last-batch", "the rest together with the batch before it", ((RETURN_LAST, WITH_THE_REST),)),
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
