"""Fixes for the lab deadlock."""

from tests.fixes.fix import Fix

RETURN_COUNTED = "return DataLoader(CountedImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"

WRONG = [
    Fix("deadlock", "another kind of lock", (("threading.Lock()", "threading.RLock()"),), ("stalled",)),
    Fix("deadlock", "a timeout alone", ((RETURN_COUNTED, f"{RETURN_COUNTED[:-1]}, timeout=2)"),), ("raised",)),
    Fix("deadlock", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix(
        "deadlock",
        "skipping what cannot be counted",
        (
            (
                "        with loaded_lock:\n            loaded.append(index)\n",
                "        if not loaded_lock.acquire(timeout=0.2):\n            raise StopIteration\n"
                "        loaded_lock.release()\n",
            ),
        ),
        ("lost",),
    ),
]

RIGHT = [
    Fix("deadlock", "forkserver", ((RETURN_COUNTED, f'{RETURN_COUNTED[:-1]}, multiprocessing_context="forkserver")'),)),
    Fix(
        "deadlock",
        "no lock, where every worker has a list of its own",
        (("        with loaded_lock:\n            loaded.append(index)\n", "        loaded.append(index)\n"),),
    ),
]
