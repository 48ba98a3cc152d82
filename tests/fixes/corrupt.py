"""Fixes for the lab corrupt."""

from tests.fixes.fix import Fix, with_subclass

READ = "        image = cv2.imread(str(self.paths[index]))\n"
RETURN_IMAGES = "return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, shuffle=True)"
READABLE = """\
good = [n for n, path in enumerate(dataset.paths) if cv2.imread(str(path)) is not None]
    sampler = torch.utils.data.SubsetRandomSampler(good)
"""
RETURN_READABLE = RETURN_IMAGES.replace("shuffle=True", "sampler=sampler")

WRONG = [
    Fix(
        "corrupt",
        "a black picture in its place",
        ((READ, f"{READ}        image = np.zeros((SIZE, SIZE, 3), np.uint8) if image is None else image\n"),),
        ("wrong-content",),
    ),
    Fix(
        "corrupt",
        "its neighbour in its place",
        ((READ, f"{READ}        image = cv2.imread(str(self.paths[index - 1])) if image is None else image\n"),),
        ("wrong-content",),
    ),
    Fix(
        "corrupt",
        "the exception swallowed, and the rest of the epoch with it",
        with_subclass(
            RETURN_IMAGES,
            "        try:\n            yield from super().__iter__()\n"
            "        except AttributeError:\n            pass\n",
        ),
        ("lost",),
    ),
    Fix(
        "corrupt",
        "another image once more in its place, under its own number",
        ((READ, f"{READ}        if image is None:\n            return self[0]\n"),),
        ("duplicated",),
    ),
    Fix("corrupt", "no unreadable image in the job", (("UNREADABLE = 1", "UNREADABLE = 0"),), ("raised",)),
    Fix(
        "corrupt",
        "left out by its name",
        (('sorted(folder.glob("*.png"))', 'sorted(path for path in folder.glob("*.png") if path.name != "047.png")'),),
        ("goes-on",),
    ),
    Fix("corrupt", "left out, however many", ((RETURN_IMAGES, f"{READABLE}    {RETURN_READABLE}"),), ("goes-on",)),
    Fix(
        "corrupt",
        "left out, and too many only mentioned",
        (
            (
                RETURN_IMAGES,
                f"{READABLE}    print(len(dataset) - len(good), 'images cannot be read')\n    {RETURN_READABLE}",
            ),
        ),
        ("goes-on",),
    ),
]

RIGHT = [
    Fix(
        "corrupt",
        "left out by the collate_fn",
        (
            (READ, f"{READ}        if image is None:\n            return None\n"),
            (RETURN_IMAGES, f"{RETURN_IMAGES[:-1]}, collate_fn=without_none)"),
            (
                "def make_loader",
                "def without_none(samples):\n"
                "    good = [one for one in samples if one is not None]\n"
                "    if len(good) < len(samples) - 2:\n"
                "        raise RuntimeError(f'{len(samples) - len(good)} of {len(samples)} images cannot be read')\n"
                "    return torch.utils.data.default_collate(good)\n\n\n"
                "def make_loader",
            ),
        ),
    ),
    Fix(
        "corrupt",
        "left out by the sampler",
        (
            (
                RETURN_IMAGES,
                f"{READABLE}"
                "    assert len(good) > 0.9 * len(dataset), 'too many images cannot be read'\n"
                f"    {RETURN_READABLE}",
            ),
        ),
    ),
]
