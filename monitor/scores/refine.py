"""PC+HLR (papers/000 section 4) in polynomial time, without listing the candidates.

Idea: a candidate repairs the condensed path x (each harm is deleted, or replaced by a read of its
state) and continues with a golden suffix. Its score is 1 - N/M with N = 2 LD and M = |x| +
|candidate| + LD. There are exponentially many candidates, and both N and M vary. So candidate and
alignment are chosen together:

1. For a guess g of the least N/M, a table like Levenshtein's (`_Table`) gives the least N - g M
   over all candidates and alignments. A repaired harm is a row that matches any of its reads, or is
   skipped. A token takes part in one operation of an alignment, so the row need not commit to one
   read, wherever in x that read finds its match.
2. If the least value is below zero, it belongs to a smaller ratio, which is the next guess. If not,
   the guess was the least ratio. A handful of rounds are enough.

Suffixes count by their length and by their distance to what is left of x. That distance does not
depend on the guess and is computed once, bit-parallel (`_tails`).

Invariant: all numbers are integers until the last division, so no rounding decides between
candidates. A round takes O(|x|^2) time and O(|x|) memory.

Example: x = a h b, where h is harmful and a b is the golden path. LD = 1, so N/M = 2/6 and PC =
0.67. The candidate that deletes h is a b, too. The candidate that replaces h by a read r is a r b,
with LD = 1 and N/M = 2/7: PC+HLR = 0.71.

Source: fractional programming (Dinkelbach 1967); bit-parallel distances as in
`monitor.scores.running_scores`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import sub
from typing import NamedTuple

from monitor.automaton.dfa import Automaton
from monitor.scores.many import columns

__all__ = ["pc_hlr"]

Path = tuple[int, ...]


def pc_hlr(
    automaton: Automaton,
    golden: Sequence[Path],
    condensed: Sequence[int],
    states_before: Sequence[int],
    harm: Sequence[bool],
    end_state: int,
) -> float:
    """The greatest similarity (equation 3) of the condensed path to a candidate or golden path.

    Args:
        automaton: the task, for the reads of a state.
        golden: its golden paths.
        condensed: the condensed path's tokens.
        states_before: per token, the state it met.
        harm: per token, whether it was harmful.
        end_state: the state after the last token.

    Returns:
        PC+HLR, between 0 and 1, never below PC.

    Raises:
        ValueError: the three sequences differ in length.
    """
    path = tuple(condensed)
    best = _closest(path, golden)
    if not best.edits:
        return 1.0
    rows = _rows(automaton, path, states_before, harm)
    table = _Table(rows, _tails(path, _suffixes(automaton, golden, end_state)))
    while best.edits:
        found = table.least(best)
        if found.edits and found.edits * best.size >= best.edits * found.size:
            return 1 - 2 * best.edits / best.size
        best = found
    return 1.0


class _Match(NamedTuple):
    """A path y compared with x: NLD is 2 edits / size, where size = |x| + |y| + edits."""

    edits: int
    size: int


class _Row(NamedTuple):
    """A token that a candidate has (progress) or may have (a read in place of a harm)."""

    hits: tuple[bool, ...]
    """Per token of x, whether it can match."""
    optional: bool


def _closest(path: Path, golden: Iterable[Path]) -> _Match:
    """The golden path of least NLD; an NLD of 1 where none is better."""
    best = _Match(1, 2)
    for word, plus, minus in columns(path, set(golden)):
        edits = len(word) + plus.bit_count() - minus.bit_count()
        size = len(path) + len(word) + edits
        if not edits:
            return _Match(0, size)
        if edits * best.size < best.edits * size:
            best = _Match(edits, size)
    return best


def _suffixes(automaton: Automaton, golden: Iterable[Path], state: int) -> set[Path]:
    """What is left of each golden path from `state` on; nothing where none runs through it."""
    found = set()
    for path in golden:
        states = list(accumulate(path, automaton.step, initial=automaton.initial))
        if state in states:
            found.add(path[states.index(state) :])
    return found or {()}


def _rows(
    automaton: Automaton, path: Path, states_before: Sequence[int], harm: Sequence[bool]
) -> list[_Row]:
    """A candidate's tokens before the suffix, in order."""
    hits: dict[Path, tuple[bool, ...]] = {}
    rows = []
    for token, state, harmful in zip(path, states_before, harm, strict=True):
        choices = automaton.reads(state) if harmful else (token,)
        if choices not in hits:
            hits[choices] = tuple(other in choices for other in path)
        if choices:
            rows.append(_Row(hits[choices], harmful))
    return rows


def _tails(path: Path, suffixes: Iterable[Path]) -> dict[int, list[int]]:
    """Suffix length -> per place i in x, the least LD(x[i:], suffix) at that length."""
    tails: dict[int, list[int]] = {}
    for word, plus, minus in columns(path, suffixes):
        steps = map(sub, _bits(plus, len(path)), _bits(minus, len(path)))
        tail = list(accumulate(steps, initial=len(word)))[::-1]
        other = tails.get(len(word))
        tails[len(word)] = list(map(min, other, tail)) if other else tail
    return tails


def _bits(number: int, width: int) -> bytes:
    """The lowest `width` bits, lowest first, one byte each (only their differences count)."""
    return f"{number:0{width + 1}b}".encode()[:0:-1]


class _Table:
    """The alignments of x with its candidates, to be searched for the least 2 LD - g M."""

    def __init__(self, rows: Sequence[_Row], tails: dict[int, list[int]]) -> None:
        self._rows = rows
        self._tails = tails
        self._length = len(next(iter(tails.values()))) - 1
        self._fixed = sum(not row.optional for row in rows)
        self._radix = 2 * (self._length + len(rows) + max(tails)) + 1

    def least(self, guess: _Match) -> _Match:
        """The candidate and alignment whose 2 edits - g size is least, g the guess's NLD.

        Scaled by the guess's size the sum is whole: an edit costs 2 q - p and a candidate's
        token gains p. The number of edits travels along in the lowest digit of each value, so
        that the winner can be read off its value, and fewer edits win a draw.
        """
        p, q = 2 * guess.edits, guess.size
        edit, token = (2 * q - p) * self._radix + 1, p * self._radix
        costs = [i * edit - saved for i, saved in enumerate(self._saved(edit, token))]
        least = min(
            min(cost + left * edit for cost, left in zip(costs, tail, strict=True)) - n * token
            for n, tail in self._tails.items()
        )
        value, edits = divmod(least - self._fixed * token, self._radix)
        gained = ((2 * q - p) * edits - value) // p
        return _Match(edits, self._length + gained + edits)

    def _saved(self, edit: int, token: int) -> list[int]:
        """Per place i in x, the most that aligning saves over deleting all of x[:i].

        Left out of it: what the progress tokens gain, the same for every candidate.
        """
        saved = [0] * (self._length + 1)
        for hits, optional in self._rows:
            saved = _maybe(saved, hits, edit, token) if optional else _surely(saved, hits, edit)
        return saved


def _surely(saved: list[int], hits: tuple[bool, ...], edit: int) -> list[int]:
    """The row of a token that the candidate has: matched, substituted or inserted."""
    corner = saved[0]
    best = corner - edit
    row = [best]
    for above, hit in zip(saved[1:], hits, strict=True):
        aligned = corner + edit if hit else corner
        inserted = above - edit
        if aligned > best:
            best = aligned
        if inserted > best:
            best = inserted
        row.append(best)
        corner = above
    return row


def _maybe(saved: list[int], hits: tuple[bool, ...], edit: int, token: int) -> list[int]:
    """The row of a token that the candidate may have: matched, substituted or left out.

    Never inserted: that costs more (2 q - p) than the token gains (p <= q).
    """
    corner = best = saved[0]
    matched = edit + token
    row = [best]
    for above, hit in zip(saved[1:], hits, strict=True):
        aligned = corner + (matched if hit else token)
        if aligned > best:
            best = aligned
        if above > best:
            best = above
        row.append(best)
        corner = above
    return row
