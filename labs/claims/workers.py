"""What is said about workers from epoch to epoch: what they load in advance, what they keep and what reaches them."""

from labs.claims.bench import inside
from labs.claims.claim import ONLY_WHEN, TRUE, Claim
from labs.claims.sources import BUS_ERROR, documentation, forum, issue, pull

DATALOADER = documentation("DataLoader", "torch.utils.data.DataLoader")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="workers-prefetch",
        source=BUS_ERROR,
        says="Each worker keeps prefetch_factor batches ready.",
        verdict=TRUE,
        believe="It is how many batches a worker may be ahead, and it loads them as fast as it can. It is an upper "
        "bound: a worker that is slower than the loop has none ready. All of them lie in /dev/shm.",
        setting="2 workers, batches counted in the workers while the loop takes none",
        measure=inside("workers.prefetch"),
    ),
    Claim(
        id="prefetch-two-per-worker",
        source=DATALOADER,
        says="With prefetch_factor=2, the default, 2 * num_workers batches are prefetched across all workers.",
        verdict=TRUE,
        believe="So it is, before the first batch is taken and ever after. Count them when you size /dev/shm: "
        "num_workers x prefetch_factor batches, and one or two more on their way.",
        setting="fork, batches counted in the workers while the loop takes none",
        measure=inside("workers.prefetch_in_all"),
    ),
    Claim(
        id="persistent-workers-stay",
        source=DATALOADER,
        says="persistent_workers=True keeps the workers, and their copies of the dataset, from epoch to epoch.",
        verdict=TRUE,
        believe="The same processes go on with the same copies, and with whatever those have collected: caches, open "
        "files, generators that have moved on.",
        setting="2 workers, fork, two epochs of 16 samples",
        measure=inside("workers.persistent"),
    ),
    Claim(
        id="workers-new-each-epoch",
        source=documentation("Multi-process data loading", "multi-process-data-loading"),
        says="The workers are created anew each time that the loader is iterated over.",
        verdict=TRUE,
        believe="Each epoch starts new processes with a fresh copy of the dataset, also after a loop that was left "
        "early. persistent_workers=True is the way out.",
        setting="2 workers, fork, two epochs of 16 samples",
        measure=inside("workers.recreated"),
    ),
    Claim(
        id="cache-in-dict",
        source=pull(35795, "Reset DataLoader workers instead of creating new ones"),
        says="A dict on the dataset that keeps what was loaded makes later epochs faster.",
        verdict=ONLY_WHEN,
        when="there are no workers, or they stay (persistent_workers=True)",
        believe="Each worker fills a cache of its own, and it is gone with the worker. Workers that stay and are "
        "dealt the samples anew each epoch come to hold everything, each of them: count the memory.",
        setting="64 samples, fork, three epochs; loads are counted",
        measure=inside("workers.cache_in_dict"),
        lab="oom",
    ),
    Claim(
        id="cache-in-shared-tensor",
        source=forum(
            "How to share data among DataLoader processes to save memory",
            "https://discuss.pytorch.org/t/how-to-share-data-among-dataloader-processes-to-save-memory/108772",
        ),
        says="A tensor in shared memory (share_memory_()), made before the workers start, is a cache for all of them.",
        verdict=TRUE,
        believe="What one worker writes, the others, the main process and the workers of later epochs see. It lies in "
        "/dev/shm, which must have room for all of it, and nobody keeps two workers from loading the same sample.",
        setting="16 samples; entries are counted in the main process after an epoch",
        measure=inside("workers.cache_in_shared_tensor"),
        lab="shm",
    ),
    Claim(
        id="attributes-reach-workers",
        source=issue(97326, "Change worker process's attribute while set persistent_worker = True"),
        says="What is set on the dataset between epochs reaches the workers.",
        verdict=ONLY_WHEN,
        when="the workers are started anew: without persistent_workers",
        believe="A worker has a copy of the dataset from the moment it was started. For workers that stay, keep what "
        "changes in shared memory: torch.zeros(()).share_memory_(), or a multiprocessing.Value.",
        setting="an attribute set to 0, 1 and 2 before three epochs; fork",
        measure=inside("workers.attributes"),
    ),
)
