"""Fixes for the lab ragged."""

from tests.fixes.fix import Fix

RETURN_SENTENCES = "return DataLoader(Sentences(), batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"


def padded(length: str) -> tuple[tuple[str, str], ...]:
    """A collate_fn that pads to this length, with a mask."""
    function = f"""\
def pad(samples):
    sentences, numbers = zip(*samples, strict=True)
    longest = {length}
    rows = [torch.nn.functional.pad(one[:longest], (0, max(0, longest - len(one)))) for one in sentences]
    mask = torch.arange(longest) < torch.tensor([len(one) for one in sentences])[:, None]
    return torch.stack(rows), mask, torch.tensor(numbers)


def make_loader"""
    return (
        ("def make_loader", function),
        (RETURN_SENTENCES, f"{RETURN_SENTENCES[:-1]}, collate_fn=pad)"),
    )


ONE_LENGTH = """\
long = [n for n in range(SENTENCES) if len(Sentences()[n][0]) == 30]
    chosen = torch.utils.data.Subset(Sentences(), long)
    return DataLoader(chosen, batch_size=2, num_workers=NUM_WORKERS)"""

WRONG = [
    Fix("ragged", "cut to the shortest", padded("min(map(len, sentences))"), ("wrong-content",)),
    Fix("ragged", "padded to a length that none has", padded("128"), ("mostly-padding",)),
    Fix(
        "ragged",
        "padded, and no word about what is padding",
        (*padded("max(map(len, sentences))"), (", mask, ", ", ")),
        ("wrong-content",),
    ),
    Fix(
        "ragged",
        "other words, though close by",
        (
            *padded("max(map(len, sentences))"),
            ("return self.tokens[number], number", "return self.tokens[number] + 1, number"),
        ),
        ("wrong-content",),
    ),
    Fix("ragged", "batches of one", (("BATCH_SIZE = 32", "BATCH_SIZE = 1"),), ("small-batches",)),
    Fix("ragged", "sentences of another length left out", ((RETURN_SENTENCES, ONE_LENGTH),), ("lost",)),
]

RIGHT = [
    Fix("ragged", "padded to the longest of the batch", padded("max(map(len, sentences))")),
    Fix("ragged", "padded to the longest of all", padded("59")),
]
