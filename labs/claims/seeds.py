"""What is said about random numbers in workers."""

from labs.claims.bench import inside
from labs.claims.claim import ONLY_WHEN, TRUE, UNTIL, Changed, Claim, Source
from labs.claims.sources import BUS_ERROR, documentation, issue, pull

RANDOMNESS = documentation("Randomness in multi-process data loading", "data-loading-randomness")
FAQ = Source(
    'PyTorch documentation, FAQ, "My data loader workers return identical random numbers"',
    "https://docs.pytorch.org/docs/stable/notes/faq.html",
)
REPRODUCIBILITY = Source(
    'PyTorch documentation, Reproducibility, "DataLoader"',
    "https://docs.pytorch.org/docs/stable/notes/randomness.html",
)


def seeded_by_torch(what: str) -> Changed:
    return Changed("torch 1.9", "pytorch#56488", "https://github.com/pytorch/pytorch/pull/56488", what)


CLAIMS: tuple[Claim, ...] = (
    # --8<-- [start:example]
    Claim(
        id="seed-identical",
        source=BUS_ERROR,
        says="Without a worker_init_fn all workers draw the same random numbers.",
        verdict=UNTIL,
        changed=seeded_by_torch("seeds NumPy's global generator in each worker, as random's and torch's were before"),
        believe="The global generators of random, torch and NumPy differ in every worker; until 1.9 NumPy's alone did "
        "not. What still repeats is a generator that the dataset holds (np.random.default_rng, random.Random, "
        "torch.Generator) and OpenCV's own.",
        setting="4 workers, fork, 8 draws, no worker_init_fn",
        measure=inside("seeds.seed_identical"),
        lab="augment",
    ),
    # --8<-- [end:example]
    Claim(
        id="seed-other-libraries",
        source=FAQ,
        says="Generators of libraries other than torch are duplicated in the workers.",
        verdict=ONLY_WHEN,
        when="the generator is not the global one of random or NumPy",
        believe="torch seeds three generators in each worker: the global ones of torch, random and, since 1.9, NumPy. "
        "All others start as the same copy everywhere, also a torch.Generator. Make them in the worker, from "
        "get_worker_info().seed.",
        setting="4 workers, fork, 8 draws, no worker_init_fn",
        measure=inside("seeds.seed_other_libraries"),
        lab="augment",
    ),
    Claim(
        id="seed-init-fn-fixes",
        source=BUS_ERROR,
        says="A worker_init_fn that reseeds numpy and torch from torch.initial_seed() plus the worker id cures it.",
        verdict=ONLY_WHEN,
        when="the seed is cut to 32 bits and the generator is a global one",
        believe="Without % 2**32 it raises: torch's seeds have 64 bits, np.random.seed takes 32. With it, it seeds "
        "what torch has seeded already, and does not reach what really repeats: generators that the dataset holds, and "
        "OpenCV's. Make those anew in worker_init_fn, from get_worker_info().seed.",
        setting="4 workers, fork, 8 draws",
        measure=inside("seeds.seed_init_fn_fixes"),
        lab="augment",
    ),
    Claim(
        id="seed-get-state",
        source=issue(5059, "np.random generates the same random numbers for each data batch"),
        says="np.random.seed(np.random.get_state()[1][0] + worker_id) in a worker_init_fn cures repeated random "
        "numbers.",
        verdict=ONLY_WHEN,
        when="one epoch of one run is all there is",
        changed=seeded_by_torch(
            "seeds NumPy in each worker with an array, and the state of such a generator always begins with "
            "2147483648: the line puts a constant in place of a good seed"
        ),
        believe="Delete this line, it does harm. The workers differ, but every epoch draws the same again, and so does "
        "every run, whatever seeds it sets. Without it all of them differ.",
        setting="4 workers, fork, np.random.rand(), two epochs, two runs with different seeds",
        measure=inside("seeds.seed_get_state"),
        lab="augment",
    ),
    Claim(
        id="seed-fixed-by-id",
        source=Source(
            'OpenPCDet#886: "numpy.random leads to the same randomness between workers in one dataloader"',
            "https://github.com/open-mmlab/OpenPCDet/issues/886",
        ),
        says="Seeding by the worker's number, np.random.seed(worker_id), gives every worker random numbers of its own.",
        verdict=ONLY_WHEN,
        when="there is one epoch, or the workers are persistent",
        believe="The workers differ, but new workers get the same seeds again: every epoch is the first. Seed from "
        "get_worker_info().seed, which is new for new workers.",
        setting="4 workers, fork, np.random.rand(), two epochs",
        measure=inside("seeds.seed_fixed_by_id"),
        lab="augment",
    ),
    Claim(
        id="seed-base-plus-id",
        source=RANDOMNESS,
        says="Each worker's torch seed is base_seed + worker_id.",
        verdict=TRUE,
        believe="base_seed is drawn from the main process, or from generator=, whenever new workers are started. "
        "random gets the same seed; NumPy gets one that is mixed from base_seed and the worker's number.",
        setting="4 workers, fork, torch.manual_seed(5)",
        measure=inside("seeds.seed_base_plus_id"),
    ),
    Claim(
        id="seed-worker-info",
        source=documentation("get_worker_info", "torch.utils.data.get_worker_info"),
        says="get_worker_info().seed is good for seeding other libraries: it differs by worker and by epoch, and "
        "follows from torch.manual_seed.",
        verdict=ONLY_WHEN,
        when="workers are new in each epoch, or seeds are used once",
        believe="It belongs to the worker, not to the epoch: persistent workers keep it. Seed once, in worker_init_fn, "
        "and let the generator go on. A stream that makes its generator in __iter__ needs the epoch's number as well.",
        setting="4 workers, fork, two epochs, with and without persistent_workers",
        measure=inside("seeds.seed_worker_info"),
        lab="augment",
    ),
    Claim(
        id="seed-manual-seed",
        source=RANDOMNESS,
        says="torch.manual_seed makes the augmentation in the workers reproducible.",
        verdict=ONLY_WHEN,
        when="it draws from global generators, and in workers",
        believe="The seeds of random, torch and NumPy in a worker all follow from torch.manual_seed. Without workers "
        "nobody seeds random and NumPy for you, and a generator that the dataset makes without a seed never repeats.",
        setting="4 workers or none, fork, two runs that differ in all but torch.manual_seed(0)",
        measure=inside("seeds.seed_manual_seed"),
    ),
    Claim(
        id="seed-snippet",
        source=REPRODUCIBILITY,
        says="A seeded generator= and the worker_init_fn seed_worker make loading reproducible.",
        verdict=ONLY_WHEN,
        when="there are workers, and they draw from global generators",
        believe="generator= does it: it fixes the order and all seeds. seed_worker has added nothing since torch 1.9. "
        "Neither reaches a generator that the dataset holds, nor random and NumPy where there are no workers.",
        setting="4 workers or none, fork, shuffled, two epochs, two runs in different states of the main process",
        measure=inside("seeds.seed_snippet"),
    ),
    Claim(
        id="seed-any-worker-count",
        source=pull(15170, "Determinism breaks when the number of workers of a DataLoader"),
        says="With the same seeds the same samples come, whatever num_workers is.",
        verdict=ONLY_WHEN,
        when="no worker draws, or each sample seeds its own draws",
        believe="The order stays, the draws do not: they depend on which worker has which batch. Write num_workers "
        "down with the seed, or draw from np.random.default_rng([seed, epoch, index]).",
        setting="0, 1, 2 and 4 workers, fork, all global seeds set to 0",
        measure=inside("seeds.seed_any_worker_count"),
    ),
    Claim(
        id="seed-shuffle-in-main",
        source=documentation("Multi-process data loading", "multi-process-data-loading"),
        says="Shuffling happens in the main process, and torch.manual_seed or generator= make it reproducible.",
        verdict=TRUE,
        believe="Workers are sent indices, and have no part in the order. The order does not depend on num_workers. "
        "random.seed and np.random.seed have no influence on it.",
        setting="4 workers or none, fork, shuffle=True, 64 samples",
        measure=inside("seeds.seed_shuffle_in_main"),
    ),
    Claim(
        id="seed-pass-leaves-state",
        source=pull(12935, "Generate base seed for DataLoaderIter only if num workers larger than 0"),
        says="A pass over a loader that shuffles nothing leaves torch's random state as it was.",
        verdict=ONLY_WHEN,
        when="the loader has a generator of its own",
        believe="Every pass draws a base_seed, with workers and without. One validation more or less changes the "
        "training that follows; give the validation loader generator=torch.Generator().",
        setting="no workers, or 4; torch.get_rng_state() before and after",
        measure=inside("seeds.seed_pass_leaves_state"),
    ),
    Claim(
        id="seed-persistent-differs",
        source=Source(
            'metatrain#1271: "Keep dataloader workers alive between epochs"',
            "https://github.com/metatensor/metatrain/pull/1271",
        ),
        says="persistent_workers=True changes the random numbers from the second epoch on.",
        verdict=TRUE,
        believe="Persistent workers are seeded once and go on drawing; new ones are seeded in each epoch, which also "
        "takes a number from the main process. So two runs with the same seeds are the same only if both have "
        "it or neither.",
        setting="4 workers, fork, the same seeds with and without persistent_workers, two epochs",
        measure=inside("seeds.seed_persistent_differs"),
    ),
)
