"""How often a stream's samples come, and in what order."""

import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    get_worker_info,
)

from labs.claims.claim import Case
from labs.claims.inside.errors import raised
from labs.claims.inside.loaders import answers, as_list, asking

Share = Callable[[int, int, int], Iterable[int]]  # of so many samples, for this one of so many workers


def everything(length: int, worker: int, workers: int) -> Iterable[int]:
    return range(length)


def dealt(length: int, worker: int, workers: int) -> Iterable[int]:
    return range(worker, length, workers)


def quotient_alone(length: int, worker: int, workers: int) -> Iterable[int]:
    size = length // workers
    return range(worker * size, (worker + 1) * size)


def quotient_and_rest(length: int, worker: int, workers: int) -> Iterable[int]:
    """As the article has it: the last worker takes the rest."""
    size = length // workers
    return range(worker * size, length if worker == workers - 1 else (worker + 1) * size)


def rounded_up(length: int, worker: int, workers: int) -> Iterable[int]:
    """As PyTorch's documentation has it."""
    size = math.ceil(length / workers)
    return range(worker * size, min((worker + 1) * size, length))


class Numbers(IterableDataset[int]):
    """The numbers from 0 on, or a worker's share of them."""

    def __init__(self, length: int, share: Share = everything) -> None:
        self.length, self.share = length, share

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        yield from self.share(self.length, *((worker.id, worker.num_workers) if worker else (0, 1)))


def streaming(dataset: IterableDataset[Any], workers: int, batch_size: int = 16, **options: Any) -> "DataLoader[Any]":
    start = {"multiprocessing_context": "fork"} if workers else {}
    options = {"collate_fn": as_list, **start, **options}
    return DataLoader(dataset, batch_size=batch_size, num_workers=workers, **options)


def delivered(length: int, workers: int, share: Share = everything, **options: Any) -> list[int]:
    return answers(streaming(Numbers(length, share), workers, **options))


def once_each(length: int, numbers: Iterable[int]) -> bool:
    return sorted(numbers) == list(range(length))


def came(length: int, numbers: list[int]) -> str:
    return f"{len(numbers)} samples came, {len(set(numbers))} of {length} different"


# The lengths and worker counts that were tried without a loader.
LENGTHS, COUNTS = range(201), range(1, 33)


def by_arithmetic(share: Share) -> int:
    """For how many of all these lengths and worker counts each sample comes exactly once."""
    return sum(
        once_each(length, (number for worker in range(workers) for number in share(length, worker, workers)))
        for length in LENGTHS
        for workers in COUNTS
    )


def a_formula(share: Share, real: list[tuple[int, int]]) -> Iterator[Case]:
    tried, right = len(LENGTHS) * len(COUNTS), by_arithmetic(share)
    yield Case("0 to 200 samples, 1 to 32 workers, computed", right == tried, f"right in {right} of {tried}")
    for length, workers in real:
        numbers = delivered(length, workers, share)
        busy = sum(bool(list(share(length, worker, workers))) for worker in range(workers))
        shared = f", from {busy} of {workers} workers" if workers else ""
        yield Case(
            f"{length} samples, num_workers={workers}, loaded",
            once_each(length, numbers),
            f"{came(length, numbers)}{shared}",
        )
    right = by_arithmetic(quotient_alone)
    numbers = delivered(10, 4, quotient_alone)
    yield Case("n // workers for all, computed", right == tried, f"right in {right} of {tried}", control=True)
    yield Case("n // workers for all: 10 samples, 4 workers", once_each(10, numbers), came(10, numbers), control=True)


def iterable_shard_formula() -> Iterator[Case]:
    yield from a_formula(quotient_and_rest, [(10, 0), (10, 4), (3, 4), (15, 8)])


def iterable_ceil_formula() -> Iterator[Case]:
    yield from a_formula(rounded_up, [(10, 0), (10, 4), (3, 4), (9, 8)])


class Buffered(IterableDataset[int]):
    """Shards of numbers, shuffled within a buffer, and the shards themselves if that is asked for."""

    def __init__(self, buffer: int, shuffle_shards: bool = False) -> None:
        self.buffer, self.shuffle_shards = buffer, shuffle_shards

    def __iter__(self) -> Iterator[int]:
        rng, kept = random.Random(11), list[int]()
        shards = [range(first, first + 20) for first in range(0, 2000, 20)]
        if self.shuffle_shards:
            rng.shuffle(shards)
        for number in (number for shard in shards for number in shard):
            kept.append(number)
            if len(kept) == self.buffer:
                yield kept.pop(rng.randrange(self.buffer))
        rng.shuffle(kept)
        yield from kept


def rank_correlation(numbers: list[int]) -> float:
    """Spearman's, with the order in which the numbers should come: 1 in order, about 0 shuffled."""
    count = len(numbers)
    return 1 - 6 * sum((place - number) ** 2 for place, number in enumerate(numbers)) / (count * (count**2 - 1))


def iterable_buffer_shuffle() -> Iterator[Case]:
    def case(when: str, dataset: Buffered) -> Case:
        numbers = answers(streaming(dataset, 1, batch_size=100))
        assert once_each(2000, numbers)
        order = rank_correlation(numbers)
        ahead = max(number - place for place, number in enumerate(numbers))
        return Case(when, order > 0.9, f"rank correlation {order:.2f}; no sample came more than {ahead} places early")

    yield case("a buffer of 1 % of the stream", Buffered(20))
    yield case("a buffer of 10 %", Buffered(200))
    yield case("a buffer as long as the stream", Buffered(2000))
    yield case("a buffer of 1 %, and the 100 shards in random order", Buffered(20, shuffle_shards=True))


def iterable_len() -> Iterator[Case]:
    def case(when: str, loader: "DataLoader[Any]", control: bool = False) -> Case:
        said, batches = len(loader), sum(1 for _ in loader)
        return Case(when, said != batches, f"len(loader) is {said}, {batches} batches came", control)

    shared = Numbers(100, dealt)
    yield case("divided among 4 workers", streaming(shared, 4))
    yield case("divided among 4 workers, drop_last=True", streaming(shared, 4, drop_last=True))
    yield case("not divided, 4 workers", streaming(Numbers(100), 4))
    yield case("no workers", streaming(shared, 0), control=True)
    yield case("a map-style dataset, 4 workers", asking(int, 100, 4, batch_size=16), control=True)


def iterable_drop_last() -> Iterator[Case]:
    for workers in (4, 8):
        numbers = delivered(100, workers, dealt, drop_last=True)
        lost = sum(len(list(dealt(100, worker, workers))) % 16 for worker in range(workers))
        yield Case(
            f"a stream divided among {workers} workers",
            100 - len(numbers) == lost and lost > 100 % 16,
            f"{100 - len(numbers)} of 100 samples lost, {len(numbers)} delivered",
        )
    alone = len(delivered(100, 0, dealt, drop_last=True))
    yield Case("a stream, no workers", alone < 96, f"{100 - alone} of 100 samples lost", control=True)
    mapped = len(answers(asking(int, 100, 8, batch_size=16, drop_last=True)))
    yield Case("a map-style dataset, 8 workers", mapped < 96, f"{100 - mapped} of 100 samples lost", control=True)


def iterable_shuffle_refused() -> Iterator[Case]:
    stream, indexed = Numbers(8), range(8)
    sampler = SequentialSampler(indexed)
    ask: dict[str, dict[str, Any]] = {
        "shuffle=True": {"shuffle": True},
        "sampler=": {"sampler": sampler},
        "batch_sampler=": {"batch_sampler": BatchSampler(sampler, 2, False)},
        "sampler=DistributedSampler()": {"sampler": DistributedSampler(Mapped(8), num_replicas=2, rank=0)},
    }
    for name, options in ask.items():
        yield refused(f"{name}, an IterableDataset", stream, options)
    yield refused("shuffle=False, an IterableDataset", stream, {"shuffle": False}, control=True)
    yield refused("shuffle=True, a map-style dataset", Mapped(8), {"shuffle": True}, control=True)


def refused(when: str, dataset: "Dataset[int]", options: dict[str, Any], control: bool = False) -> Case:
    error = raised(lambda: DataLoader(dataset, **options))
    said = f"{type(error).__name__}: {str(error).partition(', but')[0]}" if error else "accepted"
    return Case(when, isinstance(error, ValueError), said, control)


class Mapped(Dataset[int]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


class AskedInInit(Mapped):
    def __init__(self) -> None:
        super().__init__(4)
        self.info = get_worker_info()

    def __getitem__(self, index: int) -> int:
        return int(self.info is None)


class AskingSampler(SequentialSampler):
    found: list[bool]

    def __iter__(self) -> Iterator[int]:
        self.found = []
        for index in super().__iter__():
            self.found.append(get_worker_info() is None)
            yield index


def no_worker(_: int) -> bool:
    return get_worker_info() is None


def ask_in_collate(samples: list[Any]) -> list[bool]:
    return [get_worker_info() is None for _ in samples]


def describe_worker(_: int) -> tuple[int, int, bool, bool]:
    worker = get_worker_info()
    assert worker
    return worker.id, worker.num_workers, isinstance(worker.seed, int), isinstance(worker.dataset, Dataset)


def worker_info_main() -> Iterator[Case]:
    def said(found: list[Any]) -> str:
        return f"None in {sum(found)} of {len(found)} calls"

    sampler = AskingSampler(range(4))
    answers(asking(no_worker, 4, 2, sampler=sampler))
    in_loop = [get_worker_info() is None for _ in asking(no_worker, 4, 2)]
    cases = {
        "in the loop over a loader with 2 workers": in_loop,
        "in a sampler": sampler.found,
        "in the dataset's __init__": [bool(value) for value in answers(DataLoader(AskedInInit(), num_workers=2))],
        "in __getitem__ with num_workers=0": answers(asking(no_worker, 4, 0)),
    }
    for when, found in cases.items():
        yield Case(when, all(found), said(found))
    controls = {
        "in __getitem__ in a worker": answers(asking(no_worker, 4, 2)),
        "in collate_fn with 2 workers": answers(asking(no_worker, 4, 2, collate_fn=ask_in_collate)),
    }
    for when, found in controls.items():
        yield Case(when, any(found), said(found), control=True)
    described = sorted(set(answers(asking(describe_worker, 4, 2))))
    yield Case(
        "what a worker is told",
        described == [(0, 2, True, True), (1, 2, True, True)],
        "; ".join(
            f"number {id} of {count}{', a seed' if seed else ''}{', its dataset' if dataset else ''}"
            for id, count, seed, dataset in described
        ),
    )


def distributed_set_epoch() -> Iterator[Case]:
    def orders(call: bool, seed: int | None = None, **options: Any) -> list[list[int]]:
        sampler: DistributedSampler[int] = DistributedSampler(Mapped(64), num_replicas=2, rank=0)
        loader = asking(int, 64, 2, sampler=sampler, **options)
        seen = []
        for epoch in range(2):
            if seed is not None:
                torch.manual_seed(seed + epoch)
            if call:
                sampler.set_epoch(epoch)
            seen.append(answers(loader))
        return seen

    def case(when: str, seen: list[list[int]], control: bool = False) -> Case:
        agree = sum(a == b for a, b in zip(*seen, strict=True))
        return Case(when, seen[0] == seen[1], f"{agree} of 32 places are the same in both epochs", control)

    yield case("without set_epoch", orders(False))
    yield case("without set_epoch, torch seeded differently for each epoch", orders(False, seed=1))
    yield case("with set_epoch", orders(True), control=True)
    yield case("with set_epoch, persistent workers", orders(True, persistent_workers=True), control=True)


def distributed_repeats() -> Iterator[Case]:
    def case(samples: int, ranks: int, control: bool = False, **options: Any) -> Case:
        loaders = [
            asking(int, samples, 2, sampler=DistributedSampler(Mapped(samples), ranks, rank, **options))
            for rank in range(ranks)
        ]
        shares = [answers(loader) for loader in loaders]
        counts = Counter(number for share in shares for number in share)
        repeated, even = counts.total() - len(counts), len({len(share) for share in shares}) == 1
        named = "".join(f", {name}={value}" for name, value in options.items())
        return Case(
            f"{samples} samples, {ranks} ranks{named}",
            even and repeated > 0,
            f"{len(shares[0])} for each rank, {repeated} of them repeated, {samples - len(counts)} left out",
            control,
        )

    yield case(9, 2)
    yield case(3, 4)
    yield case(8, 2, control=True)
    yield case(9, 2, control=True, drop_last=True)


def iterable_warning() -> Iterator[Case]:
    def case(when: str, workers: int, batch_size: int, ask_len: bool) -> Case:
        loader = streaming(Numbers(32), workers, batch_size)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if ask_len:
                len(loader)
            numbers = answers(loader)
        about = sum("Length of IterableDataset" in str(warning.message) for warning in said)
        copies = len(numbers) // 32
        return Case(when, about > 0, f"each sample came {copies} times, {about} warnings")

    yield case("4 workers, batches of 8", 4, 8, ask_len=False)
    yield case("4 workers, batches of 8, len(loader) was called", 4, 8, ask_len=True)
    yield case("4 workers, batches of 4, len(loader) was called", 4, 4, ask_len=True)
    yield case("4 workers, batches of 2", 4, 2, ask_len=False)
    yield case("4 workers, batches of 2, len(loader) was called", 4, 2, ask_len=True)
