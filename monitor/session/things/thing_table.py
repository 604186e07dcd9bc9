"""The things of the folded steps: what each has counted, and the slot of those that are like it.

Idea: a thing is one small entry of a dictionary. Its state is that of its slot, which a run knows (`ThingsRun.slots`), so
stepping all things changes no entry. A table never changes once it is in use: folding makes the next one.

Invariant: the order of entries is that of the things' last folded calls, the longest untouched first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mypy_extensions import mypyc_attr

__all__ = ["SettledThing", "ThingTable"]


class SettledThing(NamedTuple):
    """A thing in the table. Its counts are those beyond its slot's."""

    slot: int
    calls: int
    substantive: int
    harmful: int
    value: Any
    """What is shown of it; None if nothing is."""


@mypyc_attr(acyclic=True)
class ThingTable:
    """Settled things by key."""

    __slots__ = ("next_slot", "things")

    def __init__(self) -> None:
        self.things: dict[bytes, SettledThing] = {}
        self.next_slot = 0
        """The number that the next new slot gets."""
