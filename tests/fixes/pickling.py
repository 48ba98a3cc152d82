"""Fixes for the lab pickle."""

from tests.fixes.fix import Fix

RETURN_IMAGES = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)"
LAMBDA = "lambda image: image[:, ::-1]"

WRONG = [
    Fix(
        "pickle",
        "back to fork for this loader",
        ((RETURN_IMAGES, f'{RETURN_IMAGES[:-1]}, multiprocessing_context="fork")'),),
        ("other-workers",),
    ),
    Fix(
        "pickle",
        "back to fork for the whole program",
        ((RETURN_IMAGES, f'torch.multiprocessing.set_start_method("fork", force=True)\n    {RETURN_IMAGES}'),),
        ("other-workers",),
    ),
    Fix("pickle", "no worker processes", (("NUM_WORKERS = 2", "NUM_WORKERS = 0"),), ("other-workers",)),
    Fix("pickle", "the transform left out", ((f"{LAMBDA}, to_tensor", "to_tensor"),), ("wrong-content",)),
    Fix(
        "pickle",
        "a function, but a local one",
        (
            (
                f"return [{LAMBDA}, to_tensor]",
                "def mirror(image):\n        return image[:, ::-1]\n\n    return [mirror, to_tensor]",
            ),
        ),
        ("unpicklable",),
    ),
    Fix(
        "pickle",
        "shifted in place of mirrored",
        ((LAMBDA, "functools.partial(np.roll, shift=1, axis=1)"), ("import shutil", "import functools\nimport shutil")),
        ("wrong-content",),
    ),
]

RIGHT = [
    Fix(
        "pickle",
        "a callable class",
        (
            (LAMBDA, "Mirror()"),
            (
                "def make_transforms",
                "class Mirror:\n    def __call__(self, image):\n        return image[:, ::-1]\n\n\ndef make_transforms",
            ),
        ),
    ),
    Fix(
        "pickle",
        "functools.partial",
        ((LAMBDA, "functools.partial(np.flip, axis=1)"), ("import shutil", "import functools\nimport shutil")),
    ),
    Fix(
        "pickle",
        "the transforms made in the worker",
        (
            ("        self.transforms = transforms\n", ""),
            ("for transform in self.transforms:", "for transform in make_transforms():"),
        ),
    ),
    Fix("pickle", "another precision", ((LAMBDA, "np.fliplr"), (".float() / 255", ".to(torch.bfloat16) / 255"))),
]
