"""Lines of a family as templates: one filling makes all the lines of a pair.

A scrape of thousands of pairs is mostly lines that differ in their labels and numbers alone. Made
one by one they cost a microsecond each; filled in, a fifth of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

__all__ = ["at_zero", "counters", "filled", "spread_lines"]

_LABELS = "\0"
"""Stands for the labels of a pair until they are put in, and is in no text of ours."""


@lru_cache(4_096)
def counters(name: str, further: tuple[str, ...]) -> str:
    """Counters of one pair.

    Args:
        name: as it stands in the line.
        further: each line's labels beside the pair's, as text.
    """
    return "".join(f"{name}{{{_LABELS},{labels}}} %s.0\n" for labels in further)


@cache
def spread_lines(name: str, bounds: tuple[float, ...]) -> str:
    """A histogram of one pair: cumulative buckets up to +Inf, the count, the sum."""
    lines = [f'{name}_bucket{{{_LABELS},le="{bound}"}} %s.0\n' for bound in (*bounds, "+Inf")]
    lines += [f"{name}_count{{{_LABELS}}} %s.0\n", f"{name}_sum{{{_LABELS}}} %s\n"]
    return "".join(lines)


def filled(template: str, labels: str, values: Iterable[float]) -> str:
    """The lines with these numbers; the labels come last, since they are hostile text."""
    return (template % tuple(values)).replace(_LABELS, labels)


def at_zero(template: str, labels: str) -> str:
    """The lines before anything was counted: most lines of most pairs."""
    return _zeros(template).replace(_LABELS, labels)


@lru_cache(4_096)
def _zeros(template: str) -> str:
    # The last one of a histogram is its sum, which is written as a float.
    ended = template.removesuffix(" %s\n")
    text = ended + " 0.0\n" if ended != template else template
    return text % ((0,) * text.count("%s"))
