"""Fixes for the lab shm."""

from tests.fixes.fix import Fix

RETURN_PHOTOS = "return DataLoader(CachedPhotos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
FILL_CACHE = """\
        if not self.is_cached[index]:
            self.cache[index] = decode(self.paths[index]) / np.float32(255)
            self.is_cached[index] = True
        return self.cache[index]
"""
NO_CACHE = "        return decode(self.paths[index]) / np.float32(255)\n"
MAKE_CACHE = """\
        shape = (len(self.paths), SIZE, SIZE, 3)
        self.cache = np.memmap(tempfile.TemporaryFile(dir="/dev/shm"), np.float32, "w+", shape=shape)
        self.is_cached = torch.zeros(len(self.paths), dtype=torch.bool).share_memory_()
"""

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
        "shm",
        "bytes for some samples, floats for the others",
        ((FILL_CACHE, f"        if index >= 8:\n            return decode(self.paths[index])\n{NO_CACHE}"),),
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
]
