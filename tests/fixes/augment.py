"""Fixes for the lab augment."""

from tests.fixes.fix import Edit, Fix, with_init_fn

RETURN_PATCHES = "return DataLoader(RandomPatches(make_photo()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
NOISE = "cv2.randn(np.empty((PATCH, PATCH), np.float32), 0, 8)"
SEED_ALL = "{indent}rng = np.random.default_rng({seed})\n{indent}cv2.setRNGSeed(int({seed}) % 2**31)\n"


def seeded_per_sample(seed: str) -> tuple[Edit, ...]:
    """Both generators made anew for each sample."""
    draw = "top, left = self.rng"
    return ((draw, SEED_ALL.format(indent=" " * 8, seed=seed).lstrip() + "        top, left = rng"),)


WRONG = [
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
]

RIGHT = [
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
]
