"""Fixes for the lab fds."""

from tests.fixes.fix import Fix

KEEP = "to_look_at.append(images[0])"
STRATEGY = 'torch.multiprocessing.set_sharing_strategy("file_system")'
RETURN_COUNTED = "return DataLoader(CountedImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"

WRONG = [
    Fix("fds", "collecting garbage", ((KEEP, f"{KEEP}\n        __import__('gc').collect()"),), ("no-files",)),
    Fix("fds", "detached, which is still a view", ((KEEP, "to_look_at.append(images[0].detach())"),), ("no-files",)),
    Fix("fds", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix(
        "fds",
        "batches of four, of which it takes longer to run out",
        (("BATCH_SIZE = 1", "BATCH_SIZE = 4"),),
        ("no-files",),
    ),
    Fix("fds", "a shorter epoch", (("IMAGES = 300", "IMAGES = 150"),), ("lost",)),
]

RIGHT = [
    Fix("fds", "the number of the image, to be loaded again later", ((KEEP, "to_look_at.append(int(indices[0]))"),)),
    Fix("fds", "as NumPy, copied", ((KEEP, "to_look_at.append(images[0].numpy().copy())"),)),
    Fix(
        "fds",
        "the other sharing strategy, which holds no file open",
        (
            (
                RETURN_COUNTED.replace("CountedImages", "Images"),
                f"{STRATEGY}\n    {RETURN_COUNTED.replace('CountedImages', 'Images')}",
            ),
        ),
    ),
]
