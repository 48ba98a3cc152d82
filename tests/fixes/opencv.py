"""Fixes for the lab opencv."""

from tests.fixes.fix import Fix, with_init_fn

RETURN_TURNED = "return DataLoader(TurnedPhotos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"

WRONG = [
    Fix(
        "opencv",
        "a variable that OpenCV does not read",
        (("import atexit", 'import os\n\nos.environ["OPENCV_OPENMP_NUM_THREADS"] = "1"\nimport atexit'),),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "OpenMP's variable",
        (("import atexit", 'import os\n\nos.environ["OMP_NUM_THREADS"] = "1"\nimport atexit'),),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "torch's threads, which are one already",
        ((RETURN_TURNED, f"torch.set_num_threads(1)\n    {RETURN_TURNED}"),),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "half of too many",
        with_init_fn(RETURN_TURNED, "    cv2.setNumThreads(32)"),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "one worker",
        (*with_init_fn(RETURN_TURNED, "    cv2.setNumThreads(0)"), ("NUM_WORKERS = 2", "NUM_WORKERS = 1")),
        ("other-workers",),
    ),
    Fix("opencv", "less to do", (("cv2.warpAffine(photo, turn, (SIZE, SIZE))", "photo"),), ("wrong-content",)),
    Fix(
        "opencv",
        "all the work in the main process, with all the threads",
        (
            ("    def __getitem__(self, index", "    def turned(self, index"),
            (
                "    def __len__",
                "    def __getitem__(self, index):\n        return self.views[index]\n\n    def __len__",
            ),
            (
                'sorted(folder.glob("*.png"))',
                'sorted(folder.glob("*.png"))\n        self.views = [self.turned(n) for n in range(len(self.paths))]',
            ),
        ),
        ("oversubscribed",),
    ),
    Fix(
        "opencv",
        "one thread a worker, and sixteen workers",
        (*with_init_fn(RETURN_TURNED, "    cv2.setNumThreads(0)"), ("NUM_WORKERS = 2", "NUM_WORKERS = 16")),
        ("other-workers",),
    ),
]

RIGHT = [
    Fix(
        "opencv",
        "the variable that OpenCV does read",
        (("import atexit", 'import os\n\nos.environ["OPENCV_FOR_THREADS_NUM"] = "1"\nimport atexit'),),
    ),
    Fix(
        "opencv",
        "one thread, set where it is used",
        (("photo = cv2.imread", "cv2.setNumThreads(1)\n        photo = cv2.imread"),),
    ),
    Fix(
        "opencv",
        "no pool, set before the workers are forked",
        ((RETURN_TURNED, f"cv2.setNumThreads(0)\n    {RETURN_TURNED}"),),
    ),
]
