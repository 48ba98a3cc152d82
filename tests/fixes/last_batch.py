"""Fixes for the lab last-batch."""

from tests.fixes.fix import Fix

RETURN_LAST = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, shuffle=TRAINING)"
PATHS = 'self.paths = sorted(folder.glob("*.png"))'
WITH_THE_REST = """\
order = torch.randperm(IMAGES) if TRAINING else torch.arange(IMAGES)
    batches = [batch.tolist() for batch in [*order[:40].split(BATCH_SIZE), order[40:]]]
    return DataLoader(dataset, batch_sampler=batches, num_workers=NUM_WORKERS)"""

WRONG = [
    Fix(
        "last-batch",
        "in training always the same image left out",
        ((PATHS, f"{PATHS}[: 48 if TRAINING else None]"),),
        ("lost",),
    ),
    Fix(
        "last-batch",
        "the rest dropped in validation too",
        ((RETURN_LAST, f"{RETURN_LAST[:-1]}, drop_last=True)"),),
        ("lost",),
    ),
    Fix("last-batch", "no training at all", (("TRAINING = True", "TRAINING = False"),), ("raised",)),
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
]

RIGHT = [
    Fix("last-batch", "batches of 7: no image is left over", (("BATCH_SIZE = 8", "BATCH_SIZE = 7"),)),
    Fix("last-batch", "the rest together with the batch before it", ((RETURN_LAST, WITH_THE_REST),)),
]
