"""A Markdown extension: a space after the label of each tab.

The page lays the labels out and needs none. The search does not, and would show "BrokenFixedDiff".
"""

from typing import Any
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor


class Spaces(Treeprocessor):  # type: ignore[misc]
    def run(self, root: Element) -> None:
        for labels in root.iter("div"):
            if labels.get("class") == "tabbed-labels":
                for label in labels:
                    label.tail = " "


class TabLabels(Extension):  # type: ignore[misc]
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(Spaces(md), "tab-labels", 0)  # last, when there are tabs


def makeExtension(**settings: Any) -> Extension:
    return TabLabels(**settings)
