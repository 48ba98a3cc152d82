"""Fixes for the lab shm-batches."""

from tests.fixes.fix import Fix

RETURN_PHOTOS = "return DataLoader(Photos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
STRATEGY = 'torch.multiprocessing.set_sharing_strategy("file_system")'

WRONG = [
    Fix("shm-batches", "batches of which one fits", (("BATCH_SIZE = 24", "BATCH_SIZE = 8"),), ("shm-full",)),
    Fix("shm-batches", "batches of which a few fit", (("BATCH_SIZE = 24", "BATCH_SIZE = 5"),), ("shm-full",)),
    Fix(
        "shm-batches", "another sharing strategy", ((RETURN_PHOTOS, f"{STRATEGY}\n    {RETURN_PHOTOS}"),), ("shm-full",)
    ),
    Fix(
        "shm-batches",
        "less prefetching",
        ((RETURN_PHOTOS, f"{RETURN_PHOTOS[:-1]}, prefetch_factor=1)"),),
        ("shm-full",),
    ),
    Fix("shm-batches", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix("shm-batches", "smaller photographs", (("SIZE = 512", "SIZE = 128"),), ("wrong-content",)),
]

RIGHT = [
    Fix("shm-batches", "batches of two", (("BATCH_SIZE = 24", "BATCH_SIZE = 2"),)),
    Fix(
        "shm-batches",
        "bytes on the way, in batches of eight",
        ((").float() / 255, index", "), index"), ("BATCH_SIZE = 24", "BATCH_SIZE = 8")),
    ),
]
