"""Fixes for the labs about batches that do not fit, hangs, files and unreadable images: wrong ones and right ones."""

from tests.fixes import Fix, with_subclass

RETURN_PHOTOS = "return DataLoader(Photos(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
FREEZE_PHOTOS = f"{RETURN_PHOTOS[:-1]}, collate_fn=collate)"
STRATEGY = 'torch.multiprocessing.set_sharing_strategy("file_system")'
RETURN_NAMED = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, collate_fn=make_collate())"
MAKE_CLASS = '    Batch = namedtuple("Batch", ["images", "indices"])\n\n'
RETURN_COUNTED = "return DataLoader(CountedImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
RETURN_IMAGES = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, shuffle=True)"
READ = "        image = cv2.imread(str(self.paths[index]))\n"
READABLE = "good = [n for n, path in enumerate(dataset.paths) if cv2.imread(str(path)) is not None]\n    "
READABLE += "sampler = torch.utils.data.SubsetRandomSampler(good)\n"
RETURN_READABLE = RETURN_IMAGES.replace("shuffle=True", "sampler=sampler")
KEEP = "to_look_at.append(images[0])"

READ_RECORD = "while len(data := self.file.read(RECORD.itemsize)) == RECORD.itemsize:"
OPEN = 'self.file = path.open("rb")'
LAZY = """\
    @property
    def database(self):
        if not hasattr(self, "_connection"):
            self._connection = sqlite3.connect(self.folder / "images.db")
        return self._connection

    def describe"""
CONNECT = '        self.database = sqlite3.connect(folder / "images.db")\n'
RETURN_LABELLED = "return DataLoader(LabelledImages(make_images()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"

WRONG = [
    Fix(
        "handles",
        "a lock around the read: what is torn is what has been read ahead",
        (
            (
                'self.file = path.open("rb")',
                'self.file = path.open("rb")\n        self.lock = torch.multiprocessing.Lock()',
            ),
            (
                READ_RECORD,
                "while True:\n"
                "            with self.lock:\n"
                "                data = self.file.read(RECORD.itemsize)\n"
                "            if len(data) < RECORD.itemsize:\n"
                "                return",
            ),
        ),
        ("wrong-content",),
    ),
    Fix(
        "handles",
        "opened in each worker, and the work not divided",
        (
            (OPEN, "self.path = path"),
            (READ_RECORD, f'self.file = self.path.open("rb")\n        {READ_RECORD}'),
        ),
        ("duplicated",),
    ),
    Fix("handles", "one worker", (("NUM_WORKERS = 4", "NUM_WORKERS = 1"),), ("other-workers",)),
    Fix(
        "handles",
        "nonsense left out",
        ((READ_RECORD, READ_RECORD.replace("== RECORD.itemsize:", "== RECORD.itemsize and data[2:4] == bytes(2):")),),
        ("lost",),
    ),
    Fix(
        "sql",
        "back to fork",
        ((RETURN_LABELLED, f'{RETURN_LABELLED[:-1]}, multiprocessing_context="fork")'),),
        ("other-workers",),
    ),
    Fix("sql", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix(
        "sql",
        "a connection that threads may share",
        ((CONNECT, CONNECT.replace('"images.db")', '"images.db", check_same_thread=False)')),),
        ("unpicklable",),
    ),
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
    Fix("freeze-result", "a timeout alone", ((RETURN_NAMED, f"{RETURN_NAMED[:-1]}, timeout=2)"),), ("raised",)),
    Fix("freeze-result", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix(
        "freeze-result",
        "workers that stay: the batch is as lost",
        ((RETURN_NAMED, f"{RETURN_NAMED[:-1]}, persistent_workers=True)"),),
        ("stalled",),
    ),
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
    Fix("fds", "collecting garbage", ((KEEP, f"{KEEP}\n        __import__('gc').collect()"),), ("no-files",)),
    Fix("fds", "detached, which is still a view", ((KEEP, "to_look_at.append(images[0].detach())"),), ("no-files",)),
    Fix("fds", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix("fds", "a shorter epoch", (("IMAGES = 300", "IMAGES = 150"),), ("lost",)),
    Fix(
        "corrupt",
        "a black picture in its place",
        ((READ, f"{READ}        image = np.zeros((SIZE, SIZE, 3), np.uint8) if image is None else image\n"),),
        ("wrong-content",),
    ),
    Fix(
        "corrupt",
        "its neighbour in its place",
        ((READ, f"{READ}        image = cv2.imread(str(self.paths[index - 1])) if image is None else image\n"),),
        ("wrong-content",),
    ),
    Fix(
        "corrupt",
        "the exception swallowed, and the rest of the epoch with it",
        with_subclass(
            RETURN_IMAGES,
            "        try:\n            yield from super().__iter__()\n"
            "        except AttributeError:\n            pass\n",
        ),
        ("lost",),
    ),
    Fix(
        "corrupt",
        "another image once more in its place, under its own number",
        ((READ, f"{READ}        if image is None:\n            return self[0]\n"),),
        ("duplicated",),
    ),
    Fix("corrupt", "left out, however many", ((RETURN_IMAGES, f"{READABLE}    {RETURN_READABLE}"),), ("goes-on",)),
    Fix(
        "corrupt",
        "left out, and too many only mentioned",
        (
            (
                RETURN_IMAGES,
                f"{READABLE}    print(len(dataset) - len(good), 'images cannot be read')\n    {RETURN_READABLE}",
            ),
        ),
        ("goes-on",),
    ),
]

RIGHT = [
    Fix(
        "handles",
        "positional reads, which have no position to share",
        (
            (
                f"        {READ_RECORD}\n            record = np.frombuffer(data, RECORD)[0]\n",
                "        worker = torch.utils.data.get_worker_info()\n"
                "        for number in range(worker.id, RECORDS, worker.num_workers):\n"
                "            data = __import__('os').pread(self.file.fileno(), 100, 100 * number)\n"
                "            record = np.frombuffer(data, RECORD)[0]\n",
            ),
        ),
    ),
    Fix(
        "handles",
        "mapped into memory",
        (
            (OPEN, "self.records = np.memmap(path, RECORD)"),
            (
                f"        {READ_RECORD}\n            record = np.frombuffer(data, RECORD)[0]\n",
                "        worker = torch.utils.data.get_worker_info()\n"
                "        for record in self.records[worker.id :: worker.num_workers]:\n",
            ),
        ),
    ),
    Fix(
        "sql",
        "a connection for each worker, made when it is first needed",
        (
            (CONNECT, ""),
            (
                "    def describe",
                LAZY,
            ),
            ('return int(self.database.execute("select count(*) from images").fetchone()[0])', "return IMAGES"),
        ),
    ),
    Fix(
        "sql",
        "a new connection for each question",
        (
            (CONNECT, ""),
            ("self.database.execute", 'sqlite3.connect(self.folder / "images.db").execute'),
        ),
    ),
    Fix("shm-batches", "batches of two", (("BATCH_SIZE = 24", "BATCH_SIZE = 2"),)),
    Fix(
        "shm-batches",
        "bytes on the way, in batches of eight",
        ((").float() / 255, index", "), index"), ("BATCH_SIZE = 24", "BATCH_SIZE = 8")),
    ),
    Fix("freeze-shm", "batches of two", (("BATCH_SIZE = 24", "BATCH_SIZE = 2"),)),
    Fix(
        "freeze-shm",
        "bytes on the way, in batches of eight",
        (("torch.stack(images).float() / 255", "torch.stack(images)"), ("BATCH_SIZE = 24", "BATCH_SIZE = 8")),
    ),
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
    Fix("deadlock", "forkserver", ((RETURN_COUNTED, f'{RETURN_COUNTED[:-1]}, multiprocessing_context="forkserver")'),)),
    Fix(
        "deadlock",
        "no lock, where every worker has a list of its own",
        (("        with loaded_lock:\n            loaded.append(index)\n", "        loaded.append(index)\n"),),
    ),
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
    Fix(
        "corrupt",
        "left out by the collate_fn",
        (
            (READ, f"{READ}        if image is None:\n            return None\n"),
            (RETURN_IMAGES, f"{RETURN_IMAGES[:-1]}, collate_fn=without_none)"),
            (
                "def make_loader",
                "def without_none(samples):\n"
                "    good = [one for one in samples if one is not None]\n"
                "    if len(good) < len(samples) - 2:\n"
                "        raise RuntimeError(f'{len(samples) - len(good)} of {len(samples)} images cannot be read')\n"
                "    return torch.utils.data.default_collate(good)\n\n\n"
                "def make_loader",
            ),
        ),
    ),
    Fix(
        "corrupt",
        "left out by the sampler",
        (
            (
                RETURN_IMAGES,
                f"{READABLE}"
                "    assert len(good) > 0.9 * len(dataset), 'too many images cannot be read'\n"
                f"    {RETURN_READABLE}",
            ),
        ),
    ),
]
