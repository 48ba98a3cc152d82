"""Small programs for tests: a healthy loader for the lab `pickle`, to be bent in one place."""

from labs.catalog import LABS

GOOD = LABS["pickle"].solution.read_text()


def bent(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new)


def in_main(code: str) -> str:
    """Run this in the main process, when the loader is made."""
    return bent("    dataset = Images(", f"    {code}\n    dataset = Images(")


def in_worker(code: str) -> str:
    """Run this in a worker, at its eighth sample."""
    return bent(
        "        image = cv2.imread(", f"        if index == 7:\n            {code}\n        image = cv2.imread("
    )
