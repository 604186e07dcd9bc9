"""Chance: what is drawn for one thing of a world does not depend on the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.worlds.spans import Span


class Chance(Random):
    """The draws of one fault, or of an emitter.

    A world and its twin (`twins`) have spans in common. What is drawn for such a span by draws of its own is the same in both.
    """

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self._seed = seed

    def of(self, *things: object) -> Random:
        """The draws of a thing, which is known by these texts."""
        text = " ".join(map(str, (self._seed, *things)))
        return Random(int.from_bytes(blake2b(text.encode(), digest_size=8).digest()))

    def each(self, spans: Iterable[Span], what: str = "") -> Iterator[tuple[Span, Random]]:
        """Spans, each with its own draws for something."""
        return ((span, self.of(what, f"{span.trace:x}", f"{span.id:x}")) for span in spans)
