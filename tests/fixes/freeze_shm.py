"""Fixes for the lab freeze-shm."""

from tests.fixes.fix import Fix

RETURN_PHOTOS = "return DataLoader(Photos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
FREEZE_PHOTOS = f"{RETURN_PHOTOS[:-1]}, collate_fn=collate)"
STRATEGY = 'torch.multiprocessing.set_sharing_strategy("file_system")'

WRONG = [
    Fix("freeze-shm", "batches of which a few fit", (("BATCH_SIZE = 24", "BATCH_SIZE = 5"),), ("stalled",)),
    Fix(
        "freeze-shm",
        "a timeout alone: it says so, and still there is no batch",
        ((FREEZE_PHOTOS, f"{FREEZE_PHOTOS[:-1]}, timeout=2)"),),
        ("raised",),
    ),
    Fix(
        "freeze-shm",
        "torch's own collate alone: it says so, and still there is no batch",
        (
            (
                "    images, indices = zip(*samples, strict=True)\n"
                "    return torch.stack(images).float() / 255, torch.tensor(indices)\n",
                "    floats = [(image.float() / 255, index) for image, index in samples]\n"
                "    return torch.utils.data.default_collate(floats)\n",
            ),
        ),
        ("shm-full",),
    ),
    Fix("freeze-shm", "another sharing strategy", ((FREEZE_PHOTOS, f"{STRATEGY}\n    {FREEZE_PHOTOS}"),), ("stalled",)),
    Fix("freeze-shm", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
]

RIGHT = [
    Fix("freeze-shm", "batches of two", (("BATCH_SIZE = 24", "BATCH_SIZE = 2"),)),
    Fix(
        "freeze-shm",
        "bytes on the way, in batches of eight",
        (("torch.stack(images).float() / 255", "torch.stack(images)"), ("BATCH_SIZE = 24", "BATCH_SIZE = 8")),
    ),
]
