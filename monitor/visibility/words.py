"""What would make a possible harm none, in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from monitor.visibility.cause import Cause

__all__ = ["DOUBTED_CALLS", "unless_words"]

DOUBTED_CALLS: Final = "doubted_calls"
"""Stands beside the causes of gaps: a call of the session may not be what it seems."""

_WORDS: Final[Mapping[str, str]] = {
    Cause.RESUMED: "it goes on with calls that another session has",
    Cause.OUTAGE: "calls were missed while the monitor was down",
    Cause.REFUSED: "calls are missing whose spans were refused",
    Cause.LOST: "calls are missing whose spans were lost",
    Cause.SILENT_TOOL: "a call was made that left no span",
    Cause.REPEATED_WITHIN: "a call was made more than once",
    Cause.UNPLACED: "it lacks a call whose conversation is not known",
    Cause.MISTIMED: "calls were made in another order than their times say",
    Cause.TURN_UNKNOWN: "it belongs to another turn than the calls before it",
    DOUBTED_CALLS: "one of its calls is not what it seems",
}


def unless_words(unless: Iterable[str], began: str) -> str:
    """A clause such as "unless this session began before 02:21:07 UTC".

    Args:
        unless: `Verdict.unless`.
        began: when the monitor started, in words.
    """
    found = [
        f"this session began before {began}" if each == Cause.STARTED else _WORDS[each]
        for each in unless
        if each == Cause.STARTED or each in _WORDS
    ]
    return f"unless {', or '.join(found)}" if found else "unless something was missed"
