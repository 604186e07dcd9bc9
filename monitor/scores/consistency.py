"""Consistency of repeated runs (papers/002 section 3.2), in batch and one run at a time.

Two rules for argument consistency are in use. The paper says that where two runs call different
tools at a step their key-value sets are disjoint, so that the step counts 0. The published code
compares the key-value sets whatever the tools are. Both are here, by name: `paper`, `repository`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "Consistency",
    "RollingConsistency",
    "Rule",
    "TraceCall",
    "consistency",
    "distance",
    "first_difference",
    "flatten",
    "output_agreement",
    "similarity",
    "step_agreement",
    "text_of",
]

Rule = Literal["paper", "repository"]

FIRST: Final = 2
"""Steps that section 6.2 proposes to watch."""


class TraceCall(NamedTuple):
    """One call of a trace: the tool's name, and its arguments as a flat set."""

    tool: str
    pairs: frozenset[Any]
    """Pairs as `flatten` gives them, or hashes of them."""


class Consistency(NamedTuple):
    """The metrics of a set of runs; of fewer than two runs those of perfect agreement."""

    runs: int
    tss: float
    """Definition 3: mean over pairs of 1 - Levenshtein / longer length."""
    ac_paper: float
    """Definition 4: mean Jaccard index over step-aligned pairs, 0 if the tools differ."""
    ac_repository: float
    """The same, whatever the tools are."""
    unique_sequences: int
    divergence_point: float | None
    """Mean step, from 1, at which a pair first differs; None if no pair does."""
    first_two_agreement: float
    """Share of pairs whose first two tools are the same."""


def flatten(arguments: Mapping[str, Any] | None) -> frozenset[tuple[str, str]]:
    """The flat key-value set of Definition 4; lists count without their order."""
    return frozenset((key, text_of(value)) for key, value in (arguments or {}).items())


def text_of(value: Any) -> str:
    """An argument's value as it is compared."""
    return str(sorted(map(str, value))) if isinstance(value, (list, tuple)) else str(value)


# --- one pair of runs -------------------------------------------------------------------------


def distance(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Levenshtein distance over whole tokens, bit-parallel (Hyyrö 2003): O(n) integer steps."""
    if len(one) < len(other):
        one, other = other, one
    if not other:
        return len(one)
    masks: dict[Any, int] = {}
    for place, token in enumerate(other):
        masks[token] = masks.get(token, 0) | 1 << place
    last, full = 1 << (len(other) - 1), (1 << len(other)) - 1
    up, down, score = full, 0, len(other)
    for token in one:
        match = masks.get(token, 0)
        diagonal = (((match & up) + up) ^ up) | match | down
        right_up, right_down = down | ~(diagonal | up) & full, up & diagonal
        score += bool(right_up & last) - bool(right_down & last)
        right_up, right_down = (right_up << 1 | 1) & full, right_down << 1 & full
        up, down = right_down | ~(diagonal | right_up) & full, right_up & diagonal
    return score


def similarity(one: Sequence[Any], other: Sequence[Any]) -> float:
    """The term of Definition 3 for one pair; two empty sequences are the same."""
    longer = max(len(one), len(other))
    return 1 - distance(one, other) / longer if longer else 1.0


def step_agreement(one: TraceCall, other: TraceCall, rule: Rule) -> float:
    """Jaccard index of two calls at one step; two empty sets agree."""
    if rule == "paper" and one.tool != other.tool:
        return 0.0
    union = len(one.pairs | other.pairs)
    return len(one.pairs & other.pairs) / union if union else 1.0


def first_difference(one: Sequence[TraceCall], other: Sequence[TraceCall]) -> int | None:
    """Step, from 1, at which two runs first differ: in their tools, else in their arguments."""
    for step, (a, b) in enumerate(zip(one, other, strict=False), start=1):
        if a.tool != b.tool:
            return step
    if len(one) != len(other):
        return min(len(one), len(other)) + 1
    steps = enumerate(zip(one, other, strict=True), start=1)
    return next((step for step, (a, b) in steps if a.pairs != b.pairs), None)


# --- a set of runs ----------------------------------------------------------------------------


def consistency(runs: Iterable[Sequence[TraceCall]]) -> Consistency:
    """All metrics of a set of runs, by their definitions."""
    rolling = RollingConsistency()
    for run in runs:
        rolling.add(run)
    return rolling.value()


def output_agreement(outputs: Sequence[str]) -> float:
    """Share of pairs of final responses that match exactly; 1 for fewer than two."""
    pairs = math.comb(len(outputs), 2)
    same = sum(math.comb(count, 2) for count in Counter(map(str.strip, outputs)).values())
    return same / pairs if pairs else 1.0


class RollingConsistency:
    """The metrics of the runs so far, of the last `keep` of them where that is given.

    Every pair is compared once, when its later run comes; dropping the oldest takes its pairs
    out again. Sums are of integers and of fractions summed exactly when asked for.
    """

    def __init__(self, keep: int | None = None) -> None:
        self._keep = keep
        self._runs: list[tuple[TraceCall, ...]] = []
        self._pairs: list[list[_Pair]] = []
        """Comparisons of each run with each later run."""

    def add(self, run: Sequence[TraceCall]) -> None:
        """Takes a run; the oldest goes where there are more than `keep`."""
        new = tuple(run)
        for old, pairs in zip(self._runs, self._pairs, strict=True):
            pairs.append(_pair(old, new))
        self._runs.append(new)
        self._pairs.append([])
        if self._keep is not None and len(self._runs) > self._keep:
            del self._runs[0], self._pairs[0]

    def value(self) -> Consistency:
        """The metrics as of now."""
        pairs = [pair for row in self._pairs for pair in row]
        steps = sum(pair.steps for pair in pairs)
        differ = [pair.differ for pair in pairs if pair.differ is not None]
        return Consistency(
            runs=len(self._runs),
            tss=_mean([pair.similarity for pair in pairs], len(pairs)),
            ac_paper=_mean([part for pair in pairs for part in pair.paper], steps),
            ac_repository=_mean([part for pair in pairs for part in pair.repository], steps),
            unique_sequences=len({tuple(call.tool for call in run) for run in self._runs}),
            divergence_point=sum(differ) / len(differ) if differ else None,
            first_two_agreement=_mean([float(pair.first_two) for pair in pairs], len(pairs)),
        )


class _Pair(NamedTuple):
    similarity: float
    steps: int
    paper: tuple[float, ...]
    repository: tuple[float, ...]
    differ: int | None
    first_two: bool


def _pair(one: tuple[TraceCall, ...], other: tuple[TraceCall, ...]) -> _Pair:
    names, others = [call.tool for call in one], [call.tool for call in other]
    both = list(zip(one, other, strict=False))
    return _Pair(
        similarity=similarity(names, others),
        steps=len(both),
        paper=tuple(step_agreement(a, b, "paper") for a, b in both),
        repository=tuple(step_agreement(a, b, "repository") for a, b in both),
        differ=first_difference(one, other),
        first_two=names[:FIRST] == others[:FIRST],
    )


def _mean(values: Sequence[float], count: int) -> float:
    return math.fsum(values) / count if count else 1.0
