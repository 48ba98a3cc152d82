"""Pieces of Markdown, as the site's extensions understand it."""

import re
from collections.abc import Iterable


def table(headings: list[str], rows: Iterable[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def included(path: str) -> str:
    """A file of the repository in this place, as it is when the site is built."""
    return f'--8<-- "{path}"'


def command(*lines: str) -> str:
    return fence("console", "\n".join(f"$ {line}" for line in lines)) + "\n"


def message(text: str) -> str:
    return f"``` {{ .text .message }}\n{text}\n```\n"


def tab(title: str, text: str) -> str:
    return f'=== "{title}"\n\n{indented(text)}\n'


def fence(language: str, text: str) -> str:
    """A block of code; in place of a language it may have attributes, as in `{ .python .program }`."""
    return f"```{language}\n{text}\n```"


def indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())


def escaped(text: str) -> str:
    """Text that is no Markdown and no HTML: __init__ is not bold, and <lambda> is no tag."""
    return re.sub(r"([\\`*_\[\]])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")
