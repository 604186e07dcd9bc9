"""Commands and outputs on a page, and whether a real output matches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

__all__ = ["Block", "blocks", "shows", "steps"]

_BLOCK = re.compile(r"^( *)```(\w+) ?(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ", re.MULTILINE)
_LEFT_OUT = "..."


class Block(NamedTuple):
    """One block of code of a page."""

    kind: str
    name: str
    """Of the file that it is, else ""."""
    text: str


def blocks(page: Path, heading: str = "") -> Iterator[Block]:
    """The blocks of a page, or of one of its sections, in their order."""
    read = page.read_text()
    if heading:
        read = read.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for indent, kind, name, text in _BLOCK.findall(read):
        yield Block(kind, name, dedent(text) if indent else text)


def steps(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the answer that is shown."""
    for part in _COMMAND.split(text)[1:]:
        command, _, answer = part.partition("\n")
        yield command, answer


def shows(shown: str, answer: str) -> bool:
    """True where an answer is what is shown; `...` stands for any text, also of several lines."""
    parts = map(re.escape, shown.strip().split(_LEFT_OUT))
    return re.fullmatch(".*".join(parts), answer.strip(), re.DOTALL) is not None
