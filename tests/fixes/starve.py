"""Fixes for the lab starve."""

from tests.fixes.fix import Fix

RETURN_STORE = "return DataLoader(Store(), batch_size=BATCH_SIZE, num_workers=0)"
BY_THREADS = """\
    def __getitems__(self, indices: list[int]) -> list:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(self.__getitem__, indices))

    def __getitem__"""

LOAD_AHEAD = """\
    import queue
    import threading

    ready: queue.Queue = queue.Queue(maxsize=2)

    def load() -> None:
        for batch in loader:
            ready.put(batch)
        ready.put(None)

    threading.Thread(target=load, daemon=True).start()
    for images, indices in iter(ready.get, None):
"""
WRONG = [
    Fix(
        "starve",
        "one worker, which overlaps and is still too slow",
        ((RETURN_STORE, RETURN_STORE.replace("num_workers=0", "num_workers=1")),),
        ("starved",),
    ),
    Fix(
        "starve",
        "a store that answers at once",
        (("ANSWER_SECONDS = 0.015", "ANSWER_SECONDS = 0.001"),),
        ("starved",),
    ),
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
]

RIGHT = [
    Fix(
        "starve",
        "a thread that loads ahead, eight images at a time",
        (("    for images, indices in loader:\n", LOAD_AHEAD), ("    def __getitem__", BY_THREADS)),
    ),
    Fix("starve", "two workers", ((RETURN_STORE, RETURN_STORE.replace("num_workers=0", "num_workers=2")),)),
    Fix(
        "starve",
        "eight workers, far more than CPUs",
        ((RETURN_STORE, RETURN_STORE.replace("num_workers=0", "num_workers=8")),),
    ),
    Fix("starve", "threads inside of each batch", (("    def __getitem__", BY_THREADS),)),
]
