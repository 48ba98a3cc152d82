"""Fixes for the lab oom."""

from tests.fixes.fix import Fix

KEPT = """\
        if index not in self.cache:
            self.cache[index] = cv2.imread(str(self.paths[index])).astype(np.float32) / 255
"""
RETURN_CROPS = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, **stay)"
CACHED = "cv2.imread(str(self.paths[index])).astype(np.float32) / 255"

WRONG = [
    Fix("oom", "collecting garbage", ((KEPT, f"{KEPT}        __import__('gc').collect()\n"),), ("oom",)),
    Fix("oom", "less prefetching", ((RETURN_CROPS, f"{RETURN_CROPS[:-1]}, prefetch_factor=1)"),), ("oom",)),
    Fix("oom", "tensors in place of arrays", ((f"= {CACHED}", f"= torch.from_numpy({CACHED}).numpy()"),), ("oom",)),
    Fix("oom", "one worker", (("NUM_WORKERS = 2", "NUM_WORKERS = 1"),), ("other-workers",)),
]

RIGHT = [
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
]
