"""Who draws which random numbers."""

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, RandomSampler, get_worker_info

from labs.claims.claim import Case
from labs.claims.inside.errors import raised, words
from labs.claims.inside.loaders import answers, as_list, asking

WORKERS = 4
DRAWS = 2 * WORKERS  # an epoch

Draw = Callable[[int], Any]

# The generators that a module keeps for everybody.
GLOBAL: dict[str, Draw] = {
    "random.random()": lambda _: random.random(),
    "torch.rand()": lambda _: torch.rand(()).item(),
    "np.random.rand()": lambda _: np.random.rand(),
}


def held(name: str) -> Draw:
    """A draw from a generator that was made in the main process and is no module's own; or from OpenCV's."""
    if name == "cv2.randu()":
        import cv2

        opencv: Any = cv2  # its types know no plain numbers
        return lambda _: float(opencv.randu(np.empty((1, 1), np.float32), 0, 1)[0, 0])
    if name == "random.Random(0)":
        return as_draw(random.Random(0).random)
    if name == "torch.Generator()":
        generator = torch.Generator().manual_seed(0)
        return lambda _: torch.rand((), generator=generator).item()
    return as_draw(np.random.default_rng(0 if name == "np.random.default_rng(0)" else None).random)


def as_draw(draw: Callable[[], Any]) -> Draw:
    return lambda _: draw()


def seed_main(seed: int) -> None:
    """Bring the main process to one of its possible states."""
    for start in (random.seed, np.random.seed, torch.manual_seed):
        start(seed)


def epochs(draw: Draw, count: int = 2, **options: Any) -> list[list[Any]]:
    """What the samples of each epoch are, with one loader."""
    loader = asking(draw, **{"length": DRAWS, "workers": WORKERS, **options})
    return [answers(loader) for _ in range(count)]


def distinct(draw: Draw, **options: Any) -> int:
    """How many of eight draws, two by each worker, differ."""
    return len(set(epochs(draw, 1, **options)[0]))


def of_them(found: int, draws: int = DRAWS) -> str:
    return f"{found} different values in {draws} draws"


def same(one: list[Any], other: list[Any]) -> int:
    """In how many places two lists agree."""
    return sum(a == b for a, b in zip(one, other, strict=True))


# --8<-- [start:example]
def seed_identical() -> Iterator[Case]:
    for name, draw in GLOBAL.items():
        yield Case(f"{name}, the global generator", (found := distinct(draw)) < DRAWS, of_them(found))
    found = distinct(held("np.random.default_rng(0)"))
    yield Case("a generator that the dataset holds", found < DRAWS, of_them(found), control=True)


# --8<-- [end:example]


def seed_other_libraries() -> Iterator[Case]:
    for name in ("random.random()", "np.random.rand()"):
        yield Case(f"{name}, the global generator", (found := distinct(GLOBAL[name])) < DRAWS, of_them(found))
    for name in ("np.random.default_rng(0)", "random.Random(0)", "torch.Generator()"):
        yield Case(f"{name} on the dataset", (found := distinct(held(name))) < DRAWS, of_them(found))
    yield Case("cv2.randu(), OpenCV's own", (found := distinct(held("cv2.randu()"))) < DRAWS, of_them(found))


def article(worker_id: int) -> None:
    np.random.seed(torch.initial_seed() + worker_id)
    torch.manual_seed(torch.initial_seed() + worker_id)


def article_cut(worker_id: int) -> None:
    np.random.seed((torch.initial_seed() + worker_id) % 2**32)
    torch.manual_seed(torch.initial_seed() + worker_id)


def seed_init_fn_fixes() -> Iterator[Case]:
    torch.manual_seed(0)
    error = raised(lambda: distinct(GLOBAL["np.random.rand()"], worker_init_fn=article))
    yield Case("np.random.seed(torch.initial_seed() + worker_id)", error is None, words(error))
    for name in ("np.random.rand()", "torch.rand()"):
        found = distinct(GLOBAL[name], worker_init_fn=article_cut)
        yield Case(f"cut to 32 bits, {name}", found == DRAWS, of_them(found))
    for name, of in (("np.random.default_rng(0)", "on the dataset"), ("cv2.randu()", "OpenCV's own")):
        found = distinct(held(name), worker_init_fn=article_cut)
        yield Case(f"cut to 32 bits, {name}, {of}", found == DRAWS, of_them(found))


def who(_: int) -> tuple[int, int, float, float]:
    worker = get_worker_info()
    return worker.id if worker else -1, torch.initial_seed(), random.random(), np.random.rand()


def base_of(generator: torch.Generator) -> int:
    """The number that a loader draws first when an epoch begins."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def seed_base_plus_id() -> Iterator[Case]:
    base = base_of(torch.Generator().manual_seed(5))
    numbers = list(range(WORKERS))
    torch.manual_seed(5)
    first, second = (sorted(set(epoch)) for epoch in epochs(who, batch_size=1, length=WORKERS))
    from_base = [seed - base for _, seed, *_ in first]
    yield Case("the first epoch after torch.manual_seed", from_base == numbers, f"base_seed + {from_base}")
    new = second[0][1]
    from_new = [seed - new for _, seed, *_ in second]
    yield Case("the second epoch", from_new == numbers and new != base, f"another base_seed + {from_new}")
    given = epochs(who, 1, batch_size=1, length=WORKERS, generator=torch.Generator().manual_seed(5))[0]
    from_given = [seed - base for _, seed, *_ in sorted(given)]
    yield Case("generator= given to the loader", from_given == numbers, f"its own base_seed + {from_given}")
    drawn = [(number, random.Random(seed).random()) for number, seed, *_ in first]
    agree = same(drawn, [(number, value) for number, _, value, _ in first])
    yield Case("the generator of random", agree == WORKERS, f"{agree} of {WORKERS} first draws are those of this seed")
    drawn = [(number, np.random.RandomState(seed % 2**32).rand()) for number, seed, *_ in first]
    agree = same(drawn, [(number, value) for number, *_, value in first])
    yield Case(
        "NumPy's generator", agree == WORKERS, f"{agree} of {WORKERS} first draws are those of this seed", control=True
    )
    torch.manual_seed(5)
    alone = epochs(who, 1, length=1, workers=0)[0][0][1]
    yield Case("num_workers=0: nobody is seeded", alone == base, f"torch.initial_seed() is main's own {alone}", True)


def seed_of_worker(_: int) -> int:
    worker = get_worker_info()
    assert worker
    return worker.seed


def own_generator(_: int) -> None:
    worker: Any = get_worker_info()
    worker.dataset.generator = np.random.default_rng(worker.seed)


def draw_own(_: int) -> float:
    worker: Any = get_worker_info()
    return float(worker.dataset.generator.random())


class DrawnInIter(IterableDataset[float]):
    """A stream that makes its generator where the epoch begins, from the worker's seed."""

    def __iter__(self) -> Iterator[float]:
        yield np.random.default_rng(seed_of_worker(0)).random()


def seed_worker_info() -> Iterator[Case]:
    torch.manual_seed(7)
    first, second = (set(epoch) for epoch in epochs(seed_of_worker))
    yield Case("the workers of one epoch", len(first) == WORKERS, f"{len(first)} seeds of {WORKERS} workers")
    yield Case("the next epoch", not first & second, f"{len(second - first)} of {WORKERS} seeds are new")
    torch.manual_seed(7)
    again = set(epochs(seed_of_worker, 1)[0])
    yield Case(
        "again, with the same torch.manual_seed",
        again == first,
        f"{len(again & first)} of {WORKERS} seeds are the same",
    )
    keep: dict[str, Any] = {"persistent_workers": True}
    first, second = (set(epoch) for epoch in epochs(seed_of_worker, **keep))
    yield Case(
        "the next epoch of persistent workers", not first & second, f"{len(second - first)} of {WORKERS} seeds are new"
    )
    loader = torch.utils.data.DataLoader(
        DrawnInIter(), num_workers=WORKERS, multiprocessing_context="fork", collate_fn=as_list, **keep
    )
    first, second = (set(answers(loader)) for _ in range(2))
    new = len(second - first)
    yield Case(
        "persistent workers, a generator made from it in __iter__", new == WORKERS, f"{new} of {WORKERS} draws are new"
    )
    first, second = (set(epoch) for epoch in epochs(draw_own, worker_init_fn=own_generator, **keep))
    new = len(second - first)
    yield Case("persistent workers, a generator made from it once", new == DRAWS, f"{new} of {DRAWS} draws are new")


def seed_worker(_: int) -> None:
    """As PyTorch's notes on reproducibility have it."""
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def global_draws(index: int) -> tuple[Any, ...]:
    return index, *(draw(index) for draw in GLOBAL.values())


def seed_snippet() -> Iterator[Case]:
    def two_runs(draw: Callable[[], Draw], generator: bool = True, **options: Any) -> tuple[bool, str]:
        """Is the second run, which comes to the loader in another state, the same as the first?"""
        runs = []
        for state in (1, 2):
            seed_main(state)
            own: dict[str, Any] = {"generator": torch.Generator().manual_seed(0)} if generator else {}
            one, two = epochs(draw(), shuffle=True, **own, **options)
            runs.append(one + two)
        agree = same(*runs)
        return agree == len(runs[0]), f"{agree} of {len(runs[0])} samples of two epochs are the same"

    snippet: dict[str, Any] = {"worker_init_fn": seed_worker}
    yield Case("global generators, shuffled", *two_runs(lambda: global_draws, **snippet))
    yield Case("the same without seed_worker", *two_runs(lambda: global_draws))
    yield Case("np.random.default_rng() on the dataset", *two_runs(lambda: held("np.random.default_rng()"), **snippet))
    yield Case("num_workers=0, random and NumPy left alone", *two_runs(lambda: global_draws, workers=0, **snippet))
    yield Case("seed_worker without generator=", *two_runs(lambda: global_draws, generator=False, **snippet), True)


def by_index(index: int) -> float:
    return float(np.random.default_rng([7, index]).random())


def seed_any_worker_count() -> Iterator[Case]:
    def runs(draw: Draw, counts: tuple[int, ...], shuffle: bool = False) -> tuple[bool, str]:
        seen = []
        for workers in counts:
            seed_main(0)
            seen.append(epochs(draw, 1, workers=workers, shuffle=shuffle)[0])
        agree = sum(len(set(values)) == 1 for values in zip(*seen, strict=True))
        return agree == DRAWS, f"{agree} of {DRAWS} samples are the same"

    yield Case("the order of shuffle=True, with 0, 1, 2, 4", *runs(lambda index: index, (0, 1, 2, 4), True))
    for name, draw in GLOBAL.items():
        yield Case(f"{name}, with 1, 2, 4", *runs(draw, (1, 2, 4)))
    yield Case("torch.rand(), with 0, 1", *runs(GLOBAL["torch.rand()"], (0, 1)))
    yield Case("np.random.default_rng([seed, index]), with 0, 1, 2, 4", *runs(by_index, (0, 1, 2, 4)))


def from_state(worker_id: int) -> None:
    """The line of which there are so many copies."""
    state: Any = np.random.get_state()
    np.random.seed(state[1][0] + worker_id)


def state_began(_: int) -> int:
    state: Any = np.random.get_state()
    return int(state[1][0])


def two_epochs(seed: int, **options: Any) -> tuple[list[float], list[float]]:
    seed_main(seed)
    first, second = epochs(GLOBAL["np.random.rand()"], **options)
    return first, second


def seed_get_state() -> Iterator[Case]:
    first, second = two_epochs(1, worker_init_fn=from_state)
    other, _ = two_epochs(2, worker_init_fn=from_state)
    states = sorted(set(epochs(state_began, 1)[0]))
    found = len(set(first))
    yield Case("the workers of one epoch", found == DRAWS, of_them(found))
    new = len(set(second) - set(first))
    yield Case("the second epoch", new == DRAWS, f"{new} of {DRAWS} draws are new")
    new = len(set(other) - set(first))
    yield Case(
        "a run with other seeds of torch and NumPy",
        new == DRAWS,
        f"{new} of {DRAWS} draws are new; get_state()[1][0] is {', '.join(map(str, states))} in all workers",
    )
    first, second = two_epochs(1)
    other, _ = two_epochs(2)
    new = len({*first, *second, *other})
    yield Case("no worker_init_fn: two epochs, and another run", new == 3 * DRAWS, of_them(new, 3 * DRAWS), True)

    def before_1_9(worker_id: int) -> None:
        np.random.set_state(main)
        from_state(worker_id)

    seen = []
    for seed in (1, 100):  # not 1 and 2: 1 + worker 1 is 2 + worker 0
        seed_main(seed)
        main = np.random.get_state()
        seen.append(epochs(GLOBAL["np.random.rand()"], 1, worker_init_fn=before_1_9)[0])
    new = len(set(seen[1]) - set(seen[0]))
    yield Case(
        "NumPy's state as main left it, as before torch 1.9: a run with another np.random.seed",
        new == DRAWS,
        f"{new} of {DRAWS} draws are new",
        control=True,
    )


def fixed(worker_id: int) -> None:
    np.random.seed(worker_id)


def seed_fixed_by_id() -> Iterator[Case]:
    first, second = two_epochs(1, worker_init_fn=fixed)
    yield Case("the workers of one epoch", (found := len(set(first))) == DRAWS, of_them(found))
    new = len(set(second) - set(first))
    yield Case("the second epoch", new == DRAWS, f"{new} of {DRAWS} draws are new")
    first, second = two_epochs(1, worker_init_fn=fixed, persistent_workers=True)
    new = len(set(second) - set(first))
    yield Case("the second epoch of persistent workers", new == DRAWS, f"{new} of {DRAWS} draws are new")


def seed_manual_seed() -> Iterator[Case]:
    def two_runs(draw: Callable[[], Draw], **options: Any) -> tuple[bool, str]:
        runs = []
        for state in (1, 2):
            seed_main(state)
            torch.manual_seed(0)
            runs.append(epochs(draw(), 1, **options)[0])
        agree = same(*runs)
        return agree == DRAWS, f"{agree} of {DRAWS} draws are the same"

    for name in GLOBAL:
        yield Case(f"{name} in {WORKERS} workers", *two_runs(partial(GLOBAL.__getitem__, name)))
    yield Case("np.random.default_rng() on the dataset", *two_runs(lambda: held("np.random.default_rng()")))
    for name in ("torch.rand()", "np.random.rand()"):
        yield Case(f"{name} with num_workers=0", *two_runs(partial(GLOBAL.__getitem__, name), workers=0))


class Watched(RandomSampler):
    """The sampler of shuffle=True, which says where it is asked."""

    asked_in: set[int]

    def __iter__(self) -> Iterator[int]:
        self.asked_in = set()
        for index in super().__iter__():
            self.asked_in.add(os.getpid())
            yield index


def seed_shuffle_in_main() -> Iterator[Case]:
    def order(main: int, generator: int | None = None, workers: int = WORKERS) -> list[int]:
        torch.manual_seed(main)
        own = {} if generator is None else {"generator": torch.Generator().manual_seed(generator)}
        return list(epochs(lambda index: index, 1, length=64, workers=workers, shuffle=True, **own)[0])

    sampler = Watched(range(8))
    answers(asking(lambda index: index, 8, WORKERS, sampler=sampler))
    others = len(sampler.asked_in - {os.getpid()})
    yield Case(
        "who is asked for the order", sampler.asked_in == {os.getpid()}, f"the main process, and {others} others"
    )
    once, again = order(3), order(3)
    yield Case("the same torch.manual_seed", once == again, f"{same(once, again)} of 64 places are the same")
    alone = order(3, workers=0)
    yield Case("and with no workers", once == alone, f"{same(once, alone)} of 64 places are the same")
    once, again = order(1, 9), order(2, 9)
    yield Case("the same generator=, another state of torch", once == again, f"{same(once, again)} of 64 are the same")
    torch.manual_seed(3)
    seen = []
    for _ in range(2):
        random.seed(3)
        np.random.seed(3)
        seen.append(epochs(lambda index: index, 1, length=64, shuffle=True)[0])
    agree = same(*seen)
    yield Case("random.seed and np.random.seed alone", seen[0] == seen[1], f"{agree} of 64 places are the same", True)


def seed_pass_leaves_state() -> Iterator[Case]:
    def kept(workers: int, **options: Any) -> tuple[bool, str]:
        torch.manual_seed(0)
        before = torch.get_rng_state()
        epochs(lambda index: index, 1, workers=workers, **options)
        is_kept = torch.equal(before, torch.get_rng_state())
        return is_kept, "the state is as it was" if is_kept else "the state has moved on"

    yield Case("num_workers=0, no shuffling", *kept(0))
    yield Case("4 workers, no shuffling", *kept(4))
    yield Case("a loader with a generator of its own", *kept(4, generator=torch.Generator()))


def seed_persistent_differs() -> Iterator[Case]:
    def runs(draw: Draw, **options: Any) -> list[tuple[bool, str]]:
        seen = []
        for persistent in (False, True):
            seed_main(0)
            seen.append(epochs(draw, persistent_workers=persistent, **options))
        agree = [same(*epoch) for epoch in zip(*seen, strict=True)]
        length = len(seen[0][0])
        return [(count < length, f"{count} of {length} are the same with and without") for count in agree]

    draws, order = runs(global_draws), runs(lambda index: index, length=64, shuffle=True)
    yield Case("draws of the second epoch", *draws[1])
    yield Case("order of the second epoch", *order[1])
    yield Case("draws of the first epoch", *draws[0], control=True)
    yield Case("order of the first epoch", *order[0], control=True)
