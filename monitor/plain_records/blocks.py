"""What a file of plain records consists of."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["Block", "BlockKind"]


class BlockKind(IntEnum):
    """What a block holds, in the order in which they are read."""

    WORDS = 1
    """Texts and bytes, which all columns refer to by number."""
    VALUES = 2
    """Rows that are made of what they hold, each behind those it refers to."""
    RECORDS = 3
    """Fields of records."""
    CONTAINERS = 4
    """Items of lists, sets, queues, arrays and dictionaries: what a dictionary has for a key is whole by then."""
    INDEX = 5
    """The kinds, how many rows each has, and the root; the last block."""


class Block(NamedTuple):
    """A part of what is written."""

    kind: BlockKind
    payload: bytes
