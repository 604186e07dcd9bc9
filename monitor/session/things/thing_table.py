"""The things of the folded steps: what each has counted, and the slot of those that are like it.

Idea: a thing is one small entry of a dictionary. Its state is that of its slot, which a run knows (`ThingsRun.slots`), so
stepping all things changes no entry. A table never changes once it is in use: folding makes the next one.

Invariant: the order of entries is that of the things' last folded calls, the longest untouched first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mypy_extensions import mypyc_attr

__all__ = ["SettledThing", "ThingTable", "is_marked", "marked"]

FORGOTTEN_BYTES: Final = 32 << 10
"""Bytes of what remembers dropped things: of 20,000, one new thing in a hundred seems to come back."""


class SettledThing(NamedTuple):
    """A thing in the table. Its counts are those beyond its slot's."""

    slot: int
    calls: int
    substantive: int
    harmful: int
    value: Any
    """What is shown of it; None if nothing is."""
    at_ns: int = 0
    """The `at` of its last call; 0 where things are never forgotten."""


@mypyc_attr(acyclic=True)
class ThingTable:
    """Settled things by key."""

    __slots__ = ("forgotten", "next_slot", "things")

    def __init__(self) -> None:
        self.things: dict[bytes, SettledThing] = {}
        self.next_slot = 0
        """The number that the next new slot gets."""
        self.forgotten: bytes | None = None
        """Bits of the things that were dropped (a Bloom filter); None while none was."""

    def has_forgotten(self, key: bytes) -> bool:
        """True if a thing was dropped, as far as is known: of many dropped ones, others seem so, too."""
        return is_marked(self.forgotten, key)

    def drop(self, keys: Sequence[bytes]) -> None:
        """Drops things, which are remembered by a few bits each."""
        for key in keys:
            del self.things[key]
        self.forgotten = marked(self.forgotten, keys)


def is_marked(bits: bytes | None, key: bytes) -> bool:
    """True if a thing is among those that some bits remember, or seems so."""
    return bits is not None and all(bits[at >> 3] >> (at & 7) & 1 for at in _places(key))


def marked(bits: bytes | None, keys: Sequence[bytes]) -> bytes:
    """The bits that remember these things, too."""
    found = bytearray(bits or FORGOTTEN_BYTES)
    for key in keys:
        for at in _places(key):
            found[at >> 3] |= 1 << (at & 7)
    return bytes(found)


def _places(key: bytes) -> list[int]:
    """The bits of a thing."""
    whole = int.from_bytes(key, "little")
    return [(whole >> shift) % (8 * FORGOTTEN_BYTES) for shift in (0, 30, 60)]
