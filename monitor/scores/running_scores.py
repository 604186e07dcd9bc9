"""The scores of CORE, kept call by call: a few integers and floats, never the path.

Idea: HarmRate and PrefixCrit (equations 7 and 6) need two counters and one sum (`HarmTally`). PC
and PC-KTC (equations 4 and 5) need the Levenshtein distance and the inversions to every golden path
(`PathRows`). Of a distance table only the last column is kept, as its vertical differences, which
are -1, 0 or 1: two bits a cell. Myers' algorithm moves a whole column with a few operations on
integers. All golden paths are packed into one integer, a block of bits each, so one pass moves all
of them. Python's integers have no word size, so number and lengths of the golden paths cost time
only.

Invariant: on every prefix each accumulator equals its batch twin in `monitor.scores.paper_formulas`, to
1e-12. What depends on the spec alone (`Goldens`) is computed once and shared by all its sessions.

Example: golden paths `a b` and `c` have the blocks 0b00011 and 0b01000, with the separators 0b00100
and 0b10000 above them. The mask of `b` is 0b00010. At the start every vertical difference is +1:
the distances are 2 and 1. After `a` the distances are 1 and 1.

Source: Myers 1999, in Hyyrö's form for the global distance (2003).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import expm1, log
from typing import Final

from mypy_extensions import mypyc_attr

__all__ = ["OTHER", "Goldens", "HarmTally", "PathRows", "efficiency"]

OTHER: Final = -1
"""The token of a call that is a token of its own: no symbol, so never equal to a golden token."""


@mypyc_attr(acyclic=True)
class HarmTally:
    """Counts and weights of equations 6 and 7; one method call per tool call.

    Args:
        beta: the base of equation 6, between 0 and 1, both excluded.
    """

    __slots__ = ("_lost", "beta", "calls", "harmful_steps", "substantive")

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.calls = 0
        """n: calls of any kind (equation 8)."""
        self.substantive = 0
        """N: progress and harmful calls (equations 6 and 7)."""
        self.harmful_steps = 0
        """H (section 3.4)."""
        self._lost = 0.0

    def progress(self) -> None:
        self.calls += 1
        self.substantive += 1

    def self_loop(self) -> None:
        self.calls += 1

    def harmful(self) -> None:
        # Far into a session the weight is 0.0, which loses nothing that counts.
        self._lost += self.beta**self.substantive
        self.calls += 1
        self.substantive += 1
        self.harmful_steps += 1

    @property
    def harm_rate(self) -> float:
        """Equation 7; 0 before the first substantive step."""
        return self.harmful_steps / self.substantive if self.substantive else 0.0

    @property
    def prefix_crit(self) -> float:
        """Equation 6; 1 before the first harm, 0 while every substantive step is harmful."""
        if not self.harmful_steps:
            return 1.0
        if self.harmful_steps == self.substantive:
            return 0.0
        # (1 - beta^N) / (1 - beta), without the cancellation where beta is close to 1.
        weights = -expm1(self.substantive * log(self.beta)) / (1 - self.beta)
        return max(0.0, 1 - self._lost / weights)

    def copy(self) -> HarmTally:
        """An independent tally with the same counts."""
        twin = HarmTally(self.beta)
        twin.calls = self.calls
        twin.substantive = self.substantive
        twin.harmful_steps = self.harmful_steps
        twin._lost = self._lost
        return twin


class Goldens:
    """A spec's golden paths, packed for `PathRows`; immutable, shared by all sessions.

    The path at index g owns `len(paths[g])` bits, lowest bit first token, and one separator bit
    above them, which takes the carry of an addition and lends to a subtraction, so that blocks
    never touch.
    """

    __slots__ = (
        "blocks",
        "fields",
        "full",
        "inner",
        "lengths",
        "masks",
        "paths",
        "separators",
        "starts",
        "width",
    )

    def __init__(self, paths: Iterable[Sequence[int]]) -> None:
        self.paths = tuple(tuple(path) for path in paths)
        self.lengths = tuple(sorted({len(path) for path in self.paths if path}))
        """The distinct golden lengths from 1 up, ascending, as `efficiency` wants them."""
        offsets = list(accumulate((len(path) + 1 for path in self.paths), initial=0))
        self.blocks = tuple((1 << end - 1) - (1 << start) for start, end in pairwise(offsets))
        self.starts = sum(
            1 << start for start, path in zip(offsets, self.paths, strict=False) if path
        )
        self.separators = sum(1 << end - 1 for end in offsets[1:])
        self.inner = sum(self.blocks)
        self.full = self.inner | self.separators
        self.masks = self._masks(offsets)
        """Token -> the bits of its occurrences in every golden path."""
        # An inversion count is below length squared: a field this wide never overflows.
        self.width = max(1, 2 * max(map(len, self.paths), default=0).bit_length())
        self.fields = tuple(range(0, self.width * len(self.paths), self.width))

    def _masks(self, offsets: Sequence[int]) -> dict[int, int]:
        masks: dict[int, int] = {}
        for start, path in zip(offsets, self.paths, strict=False):
            for place, token in enumerate(path, start=start):
                masks[token] = masks.get(token, 0) | 1 << place
        return masks

    def __reduce__(self) -> tuple[type[Goldens], tuple[tuple[tuple[int, ...], ...]]]:
        return Goldens, (self.paths,)


class PathRows:
    """PC and PC-KTC (equations 4 and 5) of a growing condensed path against all golden paths.

    Five integers: the length so far, the positive and negative vertical differences of the
    last column of each distance table, the golden places already matched, and the inversions
    among the matches, one field per golden path.
    """

    __slots__ = ("_inversions", "_matched", "_minus", "_plus", "goldens", "length")

    def __init__(self, goldens: Goldens) -> None:
        self.goldens = goldens
        self.length = 0
        self._plus = goldens.inner
        self._minus = 0
        self._matched = 0
        self._inversions = 0

    def add(self, token: int) -> None:
        """Append one condensed token: a symbol, or `OTHER`."""
        goldens = self.goldens
        self.length += 1
        equal = goldens.masks.get(token)
        if equal is None:
            self._add_foreign(goldens)
            return
        full, plus, minus = goldens.full, self._plus, self._minus
        diagonal = (((equal & plus) + plus) ^ plus) | equal
        right = (minus | (full ^ (diagonal | plus))) << 1 | goldens.starts
        either = equal | minus
        self._plus = ((plus & diagonal) << 1 | (full ^ (either | right))) & goldens.inner
        self._minus = right & either
        free = equal & ~self._matched
        if free:
            self._match(goldens, free)

    def _add_foreign(self, goldens: Goldens) -> None:
        # `add` with equal = 0.
        minus = self._minus
        right = (goldens.full ^ self._plus) << 1 | goldens.starts
        self._plus = (goldens.full ^ (minus | right)) & goldens.inner
        self._minus = right & minus

    def _match(self, goldens: Goldens, free: int) -> None:
        # Places of a token are taken in order, so the k-th occurrence takes the k-th place: the
        # lowest free bit of each block. An inversion is a place already taken above it.
        separators = goldens.separators
        new = free & ~((free | separators) - goldens.starts)
        above = self._matched & (separators - new)
        if above:
            self._inversions += sum(
                (above & block).bit_count() << field
                for block, field in zip(goldens.blocks, goldens.fields, strict=True)
            )
        self._matched |= new

    def pc(self) -> float:
        """Equation 4; 0 without golden paths."""
        return max(self._similarities(), default=0.0)

    def pc_ktc(self, lambda_: float, tau_below_two: float) -> float:
        """Equation 5; 0 without golden paths."""
        return max(
            (
                lambda_ * similarity + (1 - lambda_) * order
                for similarity, order in zip(
                    self._similarities(), self._orders(tau_below_two), strict=True
                )
            ),
            default=0.0,
        )

    def _similarities(self) -> Iterator[float]:
        """1 - NLD (equation 3) to each golden path."""
        length, plus, minus = self.length, self._plus, self._minus
        for block, path in zip(self.goldens.blocks, self.goldens.paths, strict=True):
            distance = length + (plus & block).bit_count() - (minus & block).bit_count()
            total = length + len(path) + distance
            yield 1 - 2 * distance / total if total else 1.0

    def _orders(self, below_two: float) -> Iterator[float]:
        """tau+ (section 3.2) to each golden path."""
        goldens, matched, inversions = self.goldens, self._matched, self._inversions
        limit = (1 << goldens.width) - 1
        for block, field in zip(goldens.blocks, goldens.fields, strict=True):
            matches = (matched & block).bit_count()
            if matches < 2:
                yield below_two
            else:
                inverted = inversions >> field & limit
                yield 1 - inverted / (matches * (matches - 1) // 2)

    def copy(self) -> PathRows:
        """An independent accumulator at the same place, on the same golden paths."""
        twin = PathRows(self.goldens)
        twin.length = self.length
        twin._plus = self._plus
        twin._minus = self._minus
        twin._matched = self._matched
        twin._inversions = self._inversions
        return twin


def efficiency(n: int, lengths: Sequence[int], undefined: float | None) -> float | None:
    """Equation 8 from two counters.

    Args:
        n: calls so far, of any kind.
        lengths: golden lengths, ascending. A length 0 never counts as l*.
        undefined: the value while no golden length is at most `n`.
    """
    place = bisect_right(lengths, n)
    longest = lengths[place - 1] if place else 0
    return longest / n if longest else undefined
