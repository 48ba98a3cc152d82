"""Small things about words: a sentence, and what somebody may have meant. For nox as well, so it imports nothing."""

import difflib
from collections.abc import Iterable


def sentence(text: str) -> str:
    first = text.split(maxsplit=1)[0] if text else ""
    begun = text[:1].upper() + text[1:] if first.isalpha() else text  # cv2.imread is not Cv2.imread
    return begun if begun.endswith((".", ".)")) else f"{begun}."


def no_lab(name: str, labs: Iterable[str]) -> str:
    return f"there is no lab called {name!r}; {did_you_mean(name, labs)}nox -l lists them all"


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question with the nearest of what there is, or nothing where none is near."""
    near = difflib.get_close_matches(given, list(dict.fromkeys(known)), n=2)
    return f"did you mean {' or '.join(near)}? " if near else ""
