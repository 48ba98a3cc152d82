"""Findings about what was delivered: how often each sample came, and with which content."""

from collections import Counter, defaultdict
from itertools import combinations

from labs.harness.findings.finding import Evidence, Finding, some
from labs.harness.history import History, Sample

SAME_CONTENT = 4  # steps of 255 by which a pixel may differ: decoders and conversions round differently
MANY_EPOCHS = 4  # in which the same sample is dropped by chance once in a hundred thousand runs
BY_CHANCE = 2  # equal draws among a few hundred are no evidence: two patches may happen to start at the same pixel


def duplicated(history: History) -> Finding | None:
    worst: Counter[int] = Counter()
    for samples in history.by_epoch.values():
        worst = max(worst, Counter(sample.id for sample in samples), key=lambda copies: max(copies.values(), default=0))
    repeated = {id: copies for id, copies in worst.items() if copies > 1}
    if not repeated:
        return None
    copies, _ = Counter(repeated.values()).most_common(1)[0]
    every = "Every sample" if len(repeated) == len(worst) else f"{len(repeated)} of {len(worst)} samples"
    return Finding(
        "duplicated",
        f"{every} came {copies} times in one epoch.",
        (
            Evidence("deliveries in one epoch", str(sum(worst.values())), str(len(worst))),
            Evidence("deliveries of each sample", some(f"{n} times" for n in sorted(set(worst.values()))), "1"),
        ),
    )


def thrown_away(history: History) -> Finding | None:
    """Workers made more samples than arrived: somebody between them and the loop throws some away."""
    for epoch in history.finished_epochs():
        arrived = len(history.by_epoch.get(epoch, []))
        handed_over = sum(end["handed_over"] for end in history.all("epoch_end") if end["epoch"] == epoch)
        if handed_over > arrived + history.job.get("may_drop", 0):
            return Finding(
                "thrown-away",
                "The workers loaded more samples than the loop was given; the rest was thrown away.",
                (Evidence("samples from the workers in an epoch", str(handed_over), str(arrived)),),
            )
    return None


def lost(history: History) -> Finding | None:
    expected = set(history.job["ids"])
    for epoch in history.finished_epochs():
        missing = sorted(expected - {sample.id for sample in history.by_epoch.get(epoch, [])})
        if len(missing) > history.job.get("may_drop", 0):
            return Finding(
                "lost",
                f"{len(missing)} of {len(expected)} samples never came in epoch {epoch}, and nothing was raised.",
                (
                    Evidence("samples in the epoch", str(len(expected) - len(missing)), str(len(expected))),
                    Evidence("ids missing", some(missing), "none"),
                ),
            )
    always = sorted(_left_out_for_good(history))
    if always:
        return Finding(
            "lost",
            f"{len(always)} of {len(expected)} samples came in no epoch: it is always the same that is left out.",
            (Evidence("ids missing in every epoch", some(always), "none"),),
        )
    return None


def _left_out_for_good(history: History) -> set[int]:
    """Where a sample may be dropped: those that were, in every one of many epochs. By chance it would be another."""
    epochs = history.finished_epochs()
    if not history.job.get("may_drop") or len(epochs) < MANY_EPOCHS:
        return set()
    return set(history.job["ids"]) - {sample.id for epoch in epochs for sample in history.by_epoch.get(epoch, [])}


def wrong_content(history: History) -> Finding | None:
    """A sample that does not belong to the job, or whose content is not what the job says (where it is not random)."""
    known = set(history.job["ids"])
    signatures = {int(id): tuple(fields) for id, fields in history.job.get("signatures", {}).items()}
    wrong = {
        sample.id
        for sample in history.samples()
        if sample.id not in known or (sample.id in signatures and not _alike(sample.signatures, signatures[sample.id]))
    }
    kinds = {tuple(text.split("/")[1] for text in sample.signatures) for sample in history.samples()}
    if len(kinds) > 1 and not wrong:
        seen = some(sorted(" and ".join(kind) for kind in kinds))
        return Finding(
            "wrong-content",
            "Some samples are floats and others are integers.",
            (Evidence("kinds of numbers", seen, "one for all samples"),),
        )
    if not wrong:
        return None
    return Finding(
        "wrong-content",
        f"{len(wrong)} samples have a content that is not theirs.",
        (Evidence("ids with other content", some(sorted(wrong)), "none"),),
    )


def small_batches(history: History) -> Finding | None:
    """Where the job is to be done in batches: they hold, on average, less than half of what they should."""
    wanted = history.job.get("batch_size", 1)
    sizes = [len(batch["ids"]) for batch in history.all("batch")]
    if not sizes or not history.finished_epochs() or sum(sizes) / len(sizes) >= wanted / 2:
        return None
    return Finding(
        "small-batches",
        "The batches are far smaller than the job's.",
        (Evidence("samples in a batch, on average", f"{sum(sizes) / len(sizes):.1f}", f"about {wanted}"),),
    )


def padding_share(history: History) -> float | None:
    """How much of what was delivered is padding; None where nothing is padded."""
    counts = [batch["padding"] for batch in history.all("batch") if batch.get("padding")]
    total = sum(all for _, all in counts)
    return sum(empty for empty, _ in counts) / total if total else None


def mostly_padding(history: History) -> Finding | None:
    share = padding_share(history)
    if share is None or share <= 0.5:
        return None
    return Finding(
        "mostly-padding",
        "Most of what was delivered is padding.",
        (Evidence("padding, of all that was delivered", f"{share:.0%}", "less than half"),),
    )


def same_draws(history: History) -> Finding | None:
    """Where every content is meant to be new: the same one again within an epoch, in whatever order or place."""
    if history.job.get("content") != "random":
        return None
    for samples in history.by_epoch.values():
        for field in range(_fields(samples)):
            contents = [sample.digests[field] for sample in samples]
            if len(contents) - len(set(contents)) > BY_CHANCE:
                by_worker: dict[int | None, set[str]] = defaultdict(set)
                for sample in samples:
                    by_worker[sample.worker].add(sample.digests[field])
                pairs = list(combinations(by_worker.values(), 2))
                common = sum(len(left & right) > BY_CHANCE for left, right in pairs)
                return Finding(
                    "same-draws",
                    "The same random numbers were drawn more than once in an epoch.",
                    (
                        Evidence("pairs of workers that drew the same", f"{common} of {len(pairs)}", "0"),
                        Evidence("distinct contents in an epoch", f"{len(set(contents))} of {len(contents)}", "all"),
                    ),
                )
    return None


def epochs_repeat(history: History) -> Finding | None:
    if history.job.get("content") != "random" or len(history.by_epoch) < 2:
        return None
    first, second = (history.by_epoch[epoch] for epoch in sorted(history.by_epoch)[:2])
    for field in range(min(_fields(first), _fields(second))):
        seen = {sample.digests[field] for sample in first}
        again = sum(sample.digests[field] in seen for sample in second)
        if again > BY_CHANCE:
            return Finding(
                "epochs-repeat",
                "The second epoch repeats random numbers of the first.",
                (Evidence("contents that the first epoch had already", f"{again} of {len(second)}", "0"),),
            )
    return None


def not_repeatable(history: History) -> Finding | None:
    """The same program with the same torch.manual_seed, in a new process, did not deliver the same once more."""
    if "again" not in history.run.get("parts", ()) or not history.first("exit", "again"):
        return None
    once, again = (
        {(sample.epoch, sample.id): sample.digests for sample in history.samples(part)} for part in ("subject", "again")
    )
    different = sum(once.get(key) != again.get(key) for key in once.keys() | again.keys())
    if not different or history.first("error"):
        return None
    return Finding(
        "not-repeatable",
        "The same torch.manual_seed gave other samples when the program was run again.",
        (Evidence("samples that differ between the two runs", f"{different} of {len(once)}", "0"),),
    )


def _fields(samples: list[Sample]) -> int:
    return min((len(sample.digests) for sample in samples), default=0)


def _alike(observed: tuple[str, ...], expected: tuple[str, ...]) -> bool:
    """Of a random content only the shape and the kind of number are expected. There is room to round in pictures and
    floats; labels and tokens, integers that are no picture, are what they are."""
    if len(observed) != len(expected):
        return False
    for one, other in zip(observed, expected, strict=True):
        (shape, kind, values), (other_shape, other_kind, other_values) = one.split("/"), other.split("/")
        pairs = zip(bytes.fromhex(values), bytes.fromhex(other_values), strict=False)
        room = 0 if kind == other_kind == "integer" and shape.count("x") < 2 else SAME_CONTENT
        if shape != other_shape or any(abs(a - b) > room for a, b in pairs):
            return False
        if not other_values and kind != other_kind:
            return False
    return True
