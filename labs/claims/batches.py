"""What is said about batches."""

from labs.claims.bench import inside
from labs.claims.claim import FALSE, ONLY_WHEN, TRUE, Claim, Source
from labs.claims.sources import BUS_ERROR, documentation, issue, tutorial

DATALOADER = "torch.utils.data.DataLoader"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="collate-main-thread",
        source=BUS_ERROR,
        says="collate_fn runs on the main thread, whatever num_workers is.",
        verdict=FALSE,
        believe="With workers it runs in the worker that has loaded the samples. So a slow collate_fn is shared out "
        "too, and it cannot change anything in the main process; only with num_workers=0 does it run there.",
        setting="8 batches of 2, fork",
        measure=inside("batches.collate_main_thread"),
    ),
    Claim(
        id="collate-ragged",
        source=BUS_ERROR,
        says="Samples of different shapes break the default collate.",
        verdict=TRUE,
        believe="It always raises, and never cuts or fills. In workers the message may speak of a storage that is not "
        "resizable instead. Give the loader a collate_fn that pads and masks.",
        setting="batches of 4 with two different shapes in each",
        measure=inside("batches.collate_ragged"),
        lab="ragged",
    ),
    Claim(
        id="collate-padding",
        source=BUS_ERROR,
        says="Padding random lengths of 10 to 59 in batches of 32 wastes about 36 %.",
        verdict=FALSE,
        believe="It wastes 40 %: the longest of 32 has 58 words on average, and the mean is 34.5. 36 % is what batches "
        "of 8 waste. The larger the batch, the more of it is padding.",
        setting="6,400 lengths drawn evenly from 10 to 59, padded to the longest of each batch by a collate_fn, 2 "
        "workers",
        measure=inside("batches.collate_padding"),
        lab="ragged",
    ),
    Claim(
        id="collate-bucketing",
        source=BUS_ERROR,
        says="Batching similar lengths together cuts the waste of padding.",
        verdict=TRUE,
        believe="It cuts it from 40 % to less than 7. Sort within pools of some batches and shuffle the batches, so "
        "that the order is still a new one in every epoch.",
        setting="6,400 lengths of 10 to 59 in batches of 32, padded by a collate_fn, 2 workers",
        measure=inside("batches.collate_bucketing"),
        lab="ragged",
    ),
    Claim(
        id="batchnorm-last-batch",
        source=BUS_ERROR,
        says="A last batch of one sample breaks BatchNorm, and drop_last=True cures it.",
        verdict=ONLY_WHEN,
        when="the layer sees one value per channel, in training",
        believe="BatchNorm over an image takes its mean over the pixels too, and a batch of one image passes, with "
        "poor statistics. drop_last=True belongs in training, with shuffle; in validation nothing breaks, and it would "
        "leave samples out.",
        setting="49 images in batches of 8, 2 workers",
        measure=inside("batches.batchnorm_last_batch"),
        lab="last-batch",
    ),
    Claim(
        id="collate-default-types",
        source=documentation("Working with collate_fn", "dataloader-collate_fn"),
        says="The default collate turns NumPy arrays and Python numbers into tensors and keeps the structure of a "
        "sample.",
        verdict=ONLY_WHEN,
        when="a sample is made of numbers, arrays, dicts, lists and named tuples",
        believe="A plain tuple comes back as a list, a list of two numbers as two tensors, and a Python float as "
        "float64. None, a dataclass or an array of strings raises TypeError.",
        setting="batches of 4, 2 workers",
        measure=inside("batches.collate_default_types"),
    ),
    Claim(
        id="batch-size-none",
        source=documentation("Disable automatic batching", "disable-automatic-batching"),
        says="batch_size=None turns batching off: what the dataset gives is delivered one by one.",
        verdict=TRUE,
        believe="Right for datasets that make whole batches themselves. Arrays still become tensors, and no dimension "
        "is added; batch_size=1 adds one.",
        setting="8 samples and 2 workers; a stream of 2 arrays and one worker",
        measure=inside("batches.batch_size_none"),
    ),
    Claim(
        id="getitems-batch",
        source=tutorial(),
        says="A dataset that defines __getitems__ is asked once for all samples of a batch.",
        verdict=ONLY_WHEN,
        when="the loader has the dataset itself or a Subset of it",
        believe="A ConcatDataset does not pass it on and asks for one sample at a time, and so will a wrapper of your "
        "own unless it defines __getitems__ too. It saves work where reading many at once is cheaper, as in a "
        "database.",
        setting="batches of 4; each sample says with how many others it was asked for",
        measure=inside("batches.getitems_batch"),
    ),
    Claim(
        id="in-order",
        source=documentation("DataLoader, in_order", DATALOADER),
        says="Batches come in the order of the sampler, however slow one of the workers is.",
        verdict=TRUE,
        believe="So it is by default, and the order of an epoch is repeatable. With in_order=False it is first come, "
        "first served.",
        setting="12 batches, 2 workers; the first batch is held back until others are ready",
        measure=inside("batches.in_order"),
    ),
    Claim(
        id="in-order-slow-sample",
        source=issue(105203, "Pytorch dataloader not loading first-available data with multiple workers"),
        says="One slow sample holds up all batches behind it, and in_order=False helps.",
        verdict=TRUE,
        believe="Until it is there, nothing is delivered, whatever is ready. in_order=False (since torch 2.6) lets the "
        "others pass, at the price of an order that depends on time. It helps against a few slow samples, not against "
        "slow ones throughout.",
        setting="12 batches, 2 workers; the first sample never comes",
        measure=inside("batches.in_order_slow_sample"),
    ),
    Claim(
        id="pin-memory-custom-batch",
        source=documentation("Memory Pinning", "memory-pinning"),
        says="A batch of a type of one's own is not pinned unless the type has a pin_memory method.",
        verdict=TRUE,
        believe="Give the class a pin_memory method that pins its tensors and returns the batch, or deliver a dict or "
        "a named tuple. What pinning gains needs a GPU, and was not measured.",
        setting="torch's own pinning function, without a GPU, on stand-ins for tensors that note that they were asked",
        measure=inside("batches.pin_memory_custom_batch"),
    ),
    Claim(
        id="pin-memory-no-gpu",
        source=Source(
            "JaidedAI/EasyOCR#1414: \"UserWarning: 'pin_memory' argument is set as true but no accelerator is found\"",
            "https://github.com/JaidedAI/EasyOCR/issues/1414",
        ),
        says="pin_memory=True on a machine without a GPU only warns, and changes nothing.",
        verdict=TRUE,
        believe="It is harmless. pin_memory=torch.accelerator.is_available() says what is meant, and keeps quiet.",
        setting="2 workers, a container without devices",
        measure=inside("batches.pin_memory_no_gpu"),
    ),
)
