"""Fixes for the lab freeze-result."""

from tests.fixes.fix import Fix

RETURN_NAMED = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, collate_fn=make_collate())"
MAKE_CLASS = '    Batch = namedtuple("Batch", ["images", "indices"])\n\n'

WRONG = [
    Fix("freeze-result", "a timeout alone", ((RETURN_NAMED, f"{RETURN_NAMED[:-1]}, timeout=2)"),), ("raised",)),
    Fix("freeze-result", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix(
        "freeze-result",
        "workers that stay: the batch is as lost",
        ((RETURN_NAMED, f"{RETURN_NAMED[:-1]}, persistent_workers=True)"),),
        ("stalled",),
    ),
]

RIGHT = [
    Fix(
        "freeze-result",
        "a plain tuple",
        (("return Batch(*default_collate(samples))", "return tuple(default_collate(samples))"),),
    ),
    Fix("freeze-result", "torch's own collate", ((", collate_fn=make_collate())", ")"),)),
    Fix(
        "freeze-result",
        "a class that the module knows",
        (
            (MAKE_CLASS, ""),
            ("def make_collate", 'Batch = namedtuple("Batch", ["images", "indices"])\n\n\ndef make_collate'),
        ),
    ),
]
