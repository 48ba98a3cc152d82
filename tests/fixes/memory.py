"""Fixes for the lab memory."""

from tests.fixes.fix import Fix

READ_LOG = "self.events = log.read_text().splitlines()"
RETURN_PURCHASES = "return DataLoader(Purchases(make_log()), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
EVENT_LIST = (
    "return torch.tensor([float(event[len(start) :]) for event in self.events if event.startswith(start)]), user"
)
FROM_BYTES = """\
ends = self.ends[user::USERS].tolist()
        amounts = [float(bytes(self.text[end - 6 : end].tolist())) for end in ends]
        return torch.tensor(amounts), user"""
AS_BYTES = """\
text = np.frombuffer(log.read_bytes(), np.uint8)
        self.text = torch.from_numpy(text.copy())
        self.ends = torch.from_numpy(np.flatnonzero(text == 10))"""

WRONG = [
    Fix(
        "memory",
        "gc.freeze before the fork",
        ((READ_LOG, f"{READ_LOG}\n        __import__('gc').freeze()"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "a tuple in place of the list",
        ((READ_LOG, "self.events = tuple(log.read_text().splitlines())"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "an array of objects, which are as many as before",
        ((READ_LOG, "self.events = np.array(log.read_text().splitlines(), object)"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "workers that stay",
        ((RETURN_PURCHASES, f"{RETURN_PURCHASES[:-1]}, persistent_workers=True)"),),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "read in each worker: as many lists as workers",
        (
            (READ_LOG, "self.log, self.events = log, None"),
            (
                "        start = f",
                "        self.events = self.events or self.log.read_text().splitlines()\n        start = f",
            ),
        ),
        ("memory-grew",),
    ),
    Fix(
        "memory",
        "forkserver, which sends everybody a copy",
        ((RETURN_PURCHASES, f'{RETURN_PURCHASES[:-1]}, multiprocessing_context="forkserver")'),),
        ("other-workers", "memory-grew"),
    ),
    Fix("memory", "one worker", (("NUM_WORKERS = 4", "NUM_WORKERS = 1"),), ("other-workers",)),
    Fix("memory", "fewer events", (("EVENTS = 1_200_000", "EVENTS = 120_000"),), ("wrong-content",)),
]

RIGHT = [
    Fix(
        "memory",
        "a tensor of bytes and one of positions",
        (
            (
                READ_LOG,
                AS_BYTES,
            ),
            (
                EVENT_LIST,
                FROM_BYTES,
            ),
        ),
    ),
    Fix(
        "memory",
        "read line by line in the worker, and nothing kept",
        ((READ_LOG, "self.log = log"), ("in self.events if", "in self.log.open() if")),
    ),
]
