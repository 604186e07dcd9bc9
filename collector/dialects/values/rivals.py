"""Arguments that one span tells under several conventions: what is certain of them.

Any of the conventions may be the one that the tool was given. So a value that they agree on is known, and one that
they contradict each other on is unread: it may be either. A convention may leave something out, or write a value
as its text; that contradicts nothing.

Example: {"to": "a", "liters": 5} and {"to": "a", "liters": 500} are {"to": "a"} with unread liters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.dialects.values.arguments import parsed
from monitor.alphabet.pattern import same
from monitor.partial import PartialArguments, all_but

__all__ = ["is_alike", "is_equal", "united"]


def united(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """What two conventions tell of the arguments of one call; the first itself if the other adds nothing."""
    common = one.keys() & other.keys()
    if not common and any(is_alike(one, each) for each in other.values()):
        return one  # the other is the call as a whole, with its arguments within
    odd = {name for name in common if not is_alike(one[name], other[name])}
    if not odd and len(common) == len(other) and (common or not one):
        return one
    if not odd and common and len(common) == len(one):
        return other
    odd |= one.keys() ^ other.keys()
    for each in (one, other):
        if type(each) is PartialArguments:
            odd |= each.unread
    return all_but({**other, **one}, odd)


def is_equal(one: Any, other: Any) -> bool:
    """True for equal values, as patterns compare them or as they are written."""
    return one is other or same(one, other) or repr(one) == repr(other)


def is_alike(one: Any, other: Any) -> bool:
    """True for equal values, and for a value and its text."""
    if is_equal(one, other):
        return True
    if isinstance(other, str):
        one, other = other, one
    return isinstance(one, str) and (one == str(other) or is_equal(parsed(one), other))
