"""Fixes for the lab handles."""

from tests.fixes.fix import Fix

READ_RECORD = "while len(data := self.file.read(RECORD.itemsize)) == RECORD.itemsize:"
OPEN = 'self.file = path.open("rb")'

WRONG = [
    Fix(
        "handles",
        "no buffer: every record is whole in the first epoch, and the second is empty",
        ((OPEN, 'self.file = path.open("rb", buffering=0)'),),
        ("lost",),
    ),
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
]
