"""What is said about random numbers in workers."""

from labs.claims.bench import inside
from labs.claims.claim import UNTIL, Changed, Claim
from labs.claims.sources import BUS_ERROR

CLAIMS: tuple[Claim, ...] = (
    # --8<-- [start:example]
    Claim(
        id="seed-identical",
        source=BUS_ERROR,
        says="Without a worker_init_fn all workers draw the same random numbers.",
        verdict=UNTIL,
        changed=Changed(
            "torch 1.9",
            "pytorch#56488",
            "https://github.com/pytorch/pytorch/pull/56488",
            "seeds NumPy's global generator in each worker, as random's and torch's were before",
        ),
        believe="The global generators of random, torch and NumPy differ in every worker. What still repeats is a "
        "generator that the dataset holds (np.random.default_rng, random.Random, torch.Generator) and OpenCV's own.",
        setting="4 workers, fork, 8 draws, no worker_init_fn",
        measure=inside("seeds.seed_identical"),
        lab="augment",
    ),
    # --8<-- [end:example]
)
