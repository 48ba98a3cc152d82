"""Findings about what was delivered: how often each sample came, and with which content."""

from collections import Counter, defaultdict
from itertools import combinations

from labs.harness.findings.finding import Evidence, Finding, some
from labs.harness.history import History, Sample

SAME_CONTENT = 4  # steps of 255 by which a pixel may differ: decoders and conversions round differently


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


def lost(history: History) -> Finding | None:
    expected = set(history.job["ids"])
    for epoch in history.finished_epochs():
        missing = sorted(expected - {sample.id for sample in history.by_epoch.get(epoch, [])})
        if missing:
            return Finding(
                "lost",
                f"{len(missing)} of {len(expected)} samples never came in epoch {epoch}, and nothing was raised.",
                (
                    Evidence("samples in the epoch", str(len(expected) - len(missing)), str(len(expected))),
                    Evidence("missing", some(missing), "none"),
                ),
            )
    return None


def wrong_content(history: History) -> Finding | None:
    """A sample that does not belong to the job, or whose content is not what the job says (where it is not random)."""
    known = set(history.job["ids"])
    signatures = {int(id): tuple(fields) for id, fields in history.job.get("signatures", {}).items()}
    wrong = {
        sample.id
        for sample in history.samples()
        if sample.id not in known or (sample.id in signatures and not _alike(sample.signatures, signatures[sample.id]))
    }
    if not wrong:
        return None
    return Finding(
        "wrong-content",
        f"{len(wrong)} samples have a content that is not theirs.",
        (Evidence("samples with other content", some(sorted(wrong)), "none"),),
    )


def same_draws(history: History) -> Finding | None:
    """Two workers delivered one sequence of contents, under different ids: they drew the same random numbers."""
    for samples in history.by_epoch.values():
        for field in range(_fields(samples)):
            by_worker: dict[int | None, list[tuple[int, str]]] = defaultdict(list)
            for sample in samples:
                by_worker[sample.worker].append((sample.id, sample.digests[field]))
            pairs = list(combinations(sorted(by_worker.items(), key=str), 2))
            same = [(a, b) for (a, left), (b, right) in pairs if _same_sequence(left, right)]
            if same:
                contents = [digest for sequence in by_worker.values() for _, digest in sequence]
                return Finding(
                    "same-draws",
                    "Different workers drew the same random numbers.",
                    (
                        Evidence("pairs of workers with equal sequences", f"{len(same)} of {len(pairs)}", "0"),
                        Evidence("distinct contents in an epoch", f"{len(set(contents))} of {len(contents)}", "all"),
                    ),
                )
    return None


def epochs_repeat(history: History) -> Finding | None:
    if history.job.get("content") != "random" or len(history.by_epoch) < 2:
        return None
    first, second = (
        {sample.id: sample.digests for sample in history.by_epoch[epoch]} for epoch in sorted(history.by_epoch)[:2]
    )
    common = first.keys() & second.keys()
    repeats = max(
        (sum(first[id][field] == second[id][field] for id in common) for field in range(_fields(history.by_epoch[0]))),
        default=0,
    )
    if repeats <= 0.05 * len(common):
        return None
    return Finding(
        "epochs-repeat",
        "The second epoch repeats the random numbers of the first.",
        (Evidence("samples that are the same in both epochs", f"{repeats} of {len(common)}", "0"),),
    )


def not_repeatable(history: History) -> Finding | None:
    """The same program with the same torch.manual_seed, in a new process, delivered something else."""
    once = {(sample.epoch, sample.id): sample.digests for sample in history.samples()}
    again = {(sample.epoch, sample.id): sample.digests for sample in history.samples("again")}
    common = once.keys() & again.keys()
    different = sum(once[key] != again[key] for key in common)
    if not different:
        return None
    return Finding(
        "not-repeatable",
        "The same torch.manual_seed gave other samples when the program was run again.",
        (Evidence("samples that differ between the two runs", f"{different} of {len(common)}", "0"),),
    )


def _fields(samples: list[Sample]) -> int:
    return min((len(sample.digests) for sample in samples), default=0)


def _same_sequence(left: list[tuple[int, str]], right: list[tuple[int, str]]) -> bool:
    """Most places hold the same content under different ids, and it is not one content over and over."""
    length = min(len(left), len(right))
    equal = [a[1] for a, b in zip(left, right, strict=False) if a[1] == b[1] and a[0] != b[0]]
    return length > 1 and len(equal) >= length / 2 and len(set(equal)) > len(equal) / 2


def _alike(observed: tuple[str, ...], expected: tuple[str, ...]) -> bool:
    if len(observed) != len(expected):
        return False
    for one, other in zip(observed, expected, strict=True):
        (shape, _, values), (other_shape, _, other_values) = one.partition(":"), other.partition(":")
        pairs = zip(bytes.fromhex(values), bytes.fromhex(other_values), strict=False)
        if shape != other_shape or any(abs(a - b) > SAME_CONTENT for a, b in pairs):
            return False
    return True
