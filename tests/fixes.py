"""Fixes that people really try, as edits of a lab's program: wrong ones with what the judge must say, and right ones.

An edit is a pair of texts. The first must occur in the lab, so that an attempt cannot silently become the lab itself.
"""

from dataclasses import dataclass
from pathlib import Path

from labs.catalog import LABS

Edit = tuple[str, str]
RETURN_PHOTOS = "return DataLoader(CachedPhotos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
RETURN_IMAGES = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
RETURN_TURNED = "return DataLoader(TurnedPhotos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
RETURN_PATCHES = "return DataLoader(RandomPatches(make_photo()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
RETURN_SHARDS = "return DataLoader(ShardStream(make_shards()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
READ_ALL_SHARDS = """\
        for shard in self.shards:
            yield from self.records(shard)
"""
FILL_CACHE = """\
        if not self.is_cached[index]:
            self.cache[index] = decode(self.paths[index]) / np.float32(255)
            self.is_cached[index] = True
        return self.cache[index]
"""
MAKE_CACHE = """\
        shape = (len(self.paths), SIZE, SIZE, 3)
        self.cache = np.memmap(tempfile.TemporaryFile(dir="/dev/shm"), np.float32, "w+", shape=shape)
        self.is_cached = torch.zeros(len(self.paths), dtype=torch.bool).share_memory_()
"""
NO_CACHE = "        return decode(self.paths[index]) / np.float32(255)\n"
NOISE = "cv2.randn(np.empty((PATCH, PATCH), np.float32), 0, 8)"
LAMBDA = "lambda image: image[:, ::-1]"


@dataclass(frozen=True)
class Fix:
    lab: str
    name: str
    edits: tuple[Edit, ...]
    rejected_for: tuple[str, ...] = ()  # the findings of which the judge must name at least one

    def __str__(self) -> str:
        return f"{self.lab}: {self.name}"

    def write(self, folder: Path) -> Path:
        text = LABS[self.lab].program.read_text()
        for old, new in self.edits:
            assert old in text, f"{self}: the lab no longer contains {old!r}"
            text = text.replace(old, new)
        path = folder / "attempt.py"
        path.write_text(text)
        return path


def with_init_fn(call: str, body: str) -> tuple[Edit, ...]:
    """Give the loader a worker_init_fn with this body."""
    function = f"\n\ndef prepare(worker_id: int) -> None:\n{body}\n\n\nif __name__"
    return ((call, f"{call[:-1]}, worker_init_fn=prepare)"), ("\n\nif __name__", function))


WRONG = [
    Fix(
        "shm",
        "another sharing strategy",
        ((RETURN_PHOTOS, f'torch.multiprocessing.set_sharing_strategy("file_system")\n    {RETURN_PHOTOS}'),),
        ("bus-error",),
    ),
    Fix(
        "shm",
        "the exception swallowed",
        (
            (RETURN_PHOTOS, RETURN_PHOTOS.replace("DataLoader", "PatientLoader")),
            (
                "def make_loader",
                "class PatientLoader(DataLoader):\n"
                "    def __iter__(self):\n"
                "        try:\n"
                "            yield from super().__iter__()\n"
                "        except RuntimeError:\n"
                "            pass\n\n\n"
                "def make_loader",
            ),
        ),
        ("lost", "bus-error"),
    ),
    Fix(
        "shm",
        "fewer workers, so that less is in use at once",
        (("NUM_WORKERS = 4", "NUM_WORKERS = 1"),),
        ("bus-error",),
    ),
    Fix(
        "shm",
        "no cache, and fewer workers",
        ((FILL_CACHE, NO_CACHE), ("NUM_WORKERS = 4", "NUM_WORKERS = 2")),
        ("other-workers",),
    ),
    Fix("shm", "no worker processes", (("NUM_WORKERS = 4", "NUM_WORKERS = 0"),), ("unfinished",)),
    Fix("shm", "a shorter dataset", (("IMAGES = 32", "IMAGES = 4"),), ("lost",)),
    Fix("shm", "smaller photographs", (("SIZE = 1024", "SIZE = 256"),), ("wrong-content",)),
    Fix(
        "shm",
        "a black picture where the cache is full",
        (
            (
                FILL_CACHE,
                "        if index >= 4:\n            return np.zeros((SIZE, SIZE, 3), np.float32)\n" + FILL_CACHE,
            ),
        ),
        ("wrong-content",),
    ),
    Fix(
        "shm",
        "a cache of half the resolution, enlarged again",
        (
            (
                FILL_CACHE,
                "        photo = cv2.resize(decode(self.paths[index]), None, fx=0.5, fy=0.5)\n"
                "        return cv2.resize(photo, (SIZE, SIZE)) / np.float32(255)\n",
            ),
        ),
        ("wrong-content",),
    ),
    Fix(
        "pickle",
        "back to fork for this loader",
        ((RETURN_IMAGES, f'{RETURN_IMAGES[:-1]}, multiprocessing_context="fork")'),),
        ("other-workers",),
    ),
    Fix(
        "pickle",
        "back to fork for the whole program",
        ((RETURN_IMAGES, f'torch.multiprocessing.set_start_method("fork", force=True)\n    {RETURN_IMAGES}'),),
        ("other-workers",),
    ),
    Fix("pickle", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix("pickle", "the transform left out", ((f"{LAMBDA}, to_tensor", "to_tensor"),), ("wrong-content",)),
    Fix(
        "pickle",
        "a function, but a local one",
        (
            (
                f"return [{LAMBDA}, to_tensor]",
                "def mirror(image):\n        return image[:, ::-1]\n\n    return [mirror, to_tensor]",
            ),
        ),
        ("unpicklable",),
    ),
    Fix(
        "opencv",
        "a variable that OpenCV does not read",
        (("import atexit", 'import os\n\nos.environ["OPENCV_OPENMP_NUM_THREADS"] = "1"\nimport atexit'),),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "OpenMP's variable",
        (("import atexit", 'import os\n\nos.environ["OMP_NUM_THREADS"] = "1"\nimport atexit'),),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "torch's threads, which are one already",
        ((RETURN_TURNED, f"torch.set_num_threads(1)\n    {RETURN_TURNED}"),),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "half of too many",
        with_init_fn(RETURN_TURNED, "    cv2.setNumThreads(32)"),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "one worker",
        (*with_init_fn(RETURN_TURNED, "    cv2.setNumThreads(0)"), ("NUM_WORKERS = 2", "NUM_WORKERS = 1")),
        ("other-workers",),
    ),
    Fix("opencv", "less to do", (("cv2.warpAffine(photo, turn, (SIZE, SIZE))", "photo"),), ("wrong-content",)),
    Fix(
        "augment",
        "numpy's global generator seeded with the worker's number",
        with_init_fn(RETURN_PATCHES, "    np.random.seed(worker_id)"),
        ("same-draws",),
    ),
    Fix(
        "augment",
        "the held generators seeded with the worker's number alone",
        with_init_fn(
            RETURN_PATCHES,
            "    torch.utils.data.get_worker_info().dataset.rng = np.random.default_rng(worker_id)\n"
            "    cv2.setRNGSeed(worker_id)",
        ),
        ("epochs-repeat",),
    ),
    Fix(
        "augment",
        "one of the two generators forgotten",
        with_init_fn(
            RETURN_PATCHES,
            "    info = torch.utils.data.get_worker_info()\n    info.dataset.rng = np.random.default_rng(info.seed)",
        ),
        ("same-draws",),
    ),
    Fix(
        "augment",
        "the other of the two forgotten",
        with_init_fn(RETURN_PATCHES, "    cv2.setRNGSeed(torch.utils.data.get_worker_info().seed % 2**31)"),
        ("same-draws",),
    ),
    Fix(
        "augment",
        "seeds from the operating system: different, but never again the same",
        with_init_fn(
            RETURN_PATCHES,
            "    rng = np.random.default_rng()\n"
            "    torch.utils.data.get_worker_info().dataset.rng = rng\n"
            "    cv2.setRNGSeed(int(rng.integers(2**31)))",
        ),
        ("not-repeatable",),
    ),
    Fix("augment", "one worker", (("NUM_WORKERS = 4", "NUM_WORKERS = 1"),), ("other-workers", "epochs-repeat")),
    Fix(
        "augment",
        "no randomness at all",
        (
            ("top, left = self.rng.integers(0, SIZE - PATCH, size=2)", "top, left = index * 7, index * 5"),
            (NOISE, "np.zeros((PATCH, PATCH), np.float32)"),
        ),
        ("epochs-repeat",),
    ),
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
]

SEED_ALL = "{indent}rng = np.random.default_rng({seed})\n{indent}cv2.setRNGSeed(int({seed}) % 2**31)\n"
LOOP_SUBCLASS = "class OwnLoader(DataLoader):\n    def __iter__(self):\n{body}\n\ndef make_loader"


def with_subclass(call: str, body: str) -> tuple[Edit, ...]:
    """A loader of one's own, whose __iter__ has this body."""
    return ((call, call.replace("DataLoader", "OwnLoader")), ("def make_loader", LOOP_SUBCLASS.format(body=body)))


def seeded_per_sample(seed: str) -> tuple[Edit, ...]:
    """Both generators made anew for each sample."""
    draw = "top, left = self.rng"
    return ((draw, SEED_ALL.format(indent=" " * 8, seed=seed).lstrip() + "        top, left = rng"),)


WRONG += [
    Fix(
        "shm",
        "bytes for some samples, floats for the others",
        ((FILL_CACHE, f"        if index >= 8:\n            return decode(self.paths[index])\n{NO_CACHE}"),),
        ("wrong-content",),
    ),
    Fix(
        "augment", "the worker's seed, anew for each sample", seeded_per_sample("torch.initial_seed()"), ("same-draws",)
    ),
    Fix(
        "augment",
        "the worker's seed plus the index: sums collide",
        seeded_per_sample("torch.initial_seed() + index"),
        ("same-draws",),
    ),
    Fix(
        "augment",
        "the worker's number alone, and shuffled",
        (
            *with_init_fn(
                RETURN_PATCHES,
                "    torch.utils.data.get_worker_info().dataset.rng = np.random.default_rng(worker_id)\n"
                "    cv2.setRNGSeed(worker_id)",
            ),
            (", num_workers=NUM_WORKERS", ", num_workers=NUM_WORKERS, shuffle=True"),
        ),
        ("epochs-repeat",),
    ),
    Fix(
        "augment",
        "each worker skips ahead by its number: the same sequence, shifted",
        (
            *with_init_fn(
                RETURN_PATCHES,
                "    dataset = torch.utils.data.get_worker_info().dataset\n"
                "    for _ in range(worker_id):\n        dataset[0]",
            ),
            (", num_workers=NUM_WORKERS", ", num_workers=NUM_WORKERS, persistent_workers=True"),
        ),
        ("same-draws",),
    ),
    Fix(
        "augment",
        "seeds from the operating system, and a second run that dies",
        (
            *with_init_fn(
                RETURN_PATCHES,
                "    rng = np.random.default_rng()\n"
                "    torch.utils.data.get_worker_info().dataset.rng = rng\n"
                "    cv2.setRNGSeed(int(rng.integers(2**31)))",
            ),
            ('folder = Path(tempfile.mkdtemp(prefix="aerial-"))', 'folder = Path("/tmp/aerial")\n    folder.mkdir()'),
        ),
        ("not-repeatable",),
    ),
    Fix(
        "augment",
        "noise of another kind of number",
        (
            ("self.rng.integers(0, SIZE - PATCH, size=2)", "np.random.randint(0, SIZE - PATCH, size=2)"),
            (NOISE, "np.random.normal(0, 8, (PATCH, PATCH)).astype(np.uint8)"),
        ),
        ("wrong-content",),
    ),
    Fix(
        "shm",
        "a quarter of the resolution, every pixel four times",
        (
            (
                FILL_CACHE,
                "        small = decode(self.paths[index])[::4, ::4] / np.float32(255)\n"
                "        return small.repeat(4, 0).repeat(4, 1)\n",
            ),
        ),
        ("wrong-content",),
    ),
    Fix(
        "pickle",
        "shifted in place of mirrored",
        ((LAMBDA, "functools.partial(np.roll, shift=1, axis=1)"), ("import shutil", "import functools\nimport shutil")),
        ("wrong-content",),
    ),
    Fix(
        "opencv",
        "all the work in the main process, with all the threads",
        (
            ("    def __getitem__(self, index", "    def turned(self, index"),
            (
                "    def __len__",
                "    def __getitem__(self, index):\n        return self.views[index]\n\n    def __len__",
            ),
            (
                'sorted(folder.glob("*.png"))',
                'sorted(folder.glob("*.png"))\n        self.views = [self.turned(n) for n in range(len(self.paths))]',
            ),
        ),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "one thread a worker, and sixteen workers",
        (*with_init_fn(RETURN_TURNED, "    cv2.setNumThreads(0)"), ("NUM_WORKERS = 2", "NUM_WORKERS = 16")),
        ("other-workers",),
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
    Fix("shm", "no cache: decode at each use", ((FILL_CACHE, NO_CACHE),)),
    Fix("shm", "the cache on disk", (('dir="/dev/shm"', "dir=tempfile.gettempdir()"),)),
    Fix(
        "shm",
        "a cache of its own for each worker",
        (
            (MAKE_CACHE, "        self.cache = {}\n"),
            (
                FILL_CACHE,
                "        if index not in self.cache:\n"
                "            self.cache[index] = decode(self.paths[index])\n"
                "        return self.cache[index] / np.float32(255)\n",
            ),
        ),
    ),
    Fix(
        "shm",
        "bytes to the main process, floats after it",
        ((FILL_CACHE, "        return decode(self.paths[index])\n"),),
    ),
    Fix(
        "pickle",
        "a callable class",
        (
            (LAMBDA, "Mirror()"),
            (
                "def make_transforms",
                "class Mirror:\n    def __call__(self, image):\n        return image[:, ::-1]\n\n\ndef make_transforms",
            ),
        ),
    ),
    Fix(
        "pickle",
        "functools.partial",
        ((LAMBDA, "functools.partial(np.flip, axis=1)"), ("import shutil", "import functools\nimport shutil")),
    ),
    Fix(
        "pickle",
        "the transforms made in the worker",
        (
            ("        self.transforms = transforms\n", ""),
            ("for transform in self.transforms:", "for transform in make_transforms():"),
        ),
    ),
    Fix(
        "opencv",
        "the variable that OpenCV does read",
        (("import atexit", 'import os\n\nos.environ["OPENCV_FOR_THREADS_NUM"] = "1"\nimport atexit'),),
    ),
    Fix(
        "opencv",
        "one thread, set where it is used",
        (("photo = cv2.imread", "cv2.setNumThreads(1)\n        photo = cv2.imread"),),
    ),
    Fix(
        "opencv",
        "no pool, set before the workers are forked",
        ((RETURN_TURNED, f"cv2.setNumThreads(0)\n    {RETURN_TURNED}"),),
    ),
    Fix(
        "augment",
        "numpy's global generator, which torch seeds",
        (
            ("self.rng.integers(0, SIZE - PATCH, size=2)", "np.random.randint(0, SIZE - PATCH, size=2)"),
            (NOISE, "np.random.normal(0, 8, (PATCH, PATCH)).astype(np.float32)"),
        ),
    ),
    Fix(
        "augment",
        "a generator for each sample, from the worker's seed and the index",
        (
            (
                "top, left = self.rng",
                "rng = np.random.default_rng([torch.initial_seed(), index])\n        top, left = rng",
            ),
            (NOISE, "rng.normal(0, 8, (PATCH, PATCH)).astype(np.float32)"),
        ),
    ),
    Fix(
        "augment",
        "torch's own generator",
        (
            ("self.rng.integers(0, SIZE - PATCH, size=2)", "torch.randint(SIZE - PATCH, (2,)).tolist()"),
            ("torch.from_numpy(noise)", "torch.randn(PATCH, PATCH) * 8"),
        ),
    ),
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
    Fix("pickle", "another precision", ((LAMBDA, "np.fliplr"), (".float() / 255", ".to(torch.bfloat16) / 255"))),
]
