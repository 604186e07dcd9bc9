"""What somebody may have meant by a pattern that cannot be used, or that means something else than it looks like."""

from __future__ import annotations

import re
from typing import Any, Final

from monitor.alphabet.pattern import Pattern
from monitor.spec.document.faults import Notes
from monitor.spec.suggestions import closest

__all__ = ["advice", "check_zeros"]

_COMPARISONS: Final = ("from", "not_from", "same_as")
_KEYS: Final = (
    "exact",
    "any",
    "one_of",
    "not_in",
    "regex",
    "type",
    "min",
    "max",
    *_COMPARISONS,
)

_ZEROS: Final = re.compile(r"[-+]?0[0-9]+")
"""A number as ids are written, which YAML reads without its zeros."""


def advice(raw: Any, *, of_result: bool) -> str:
    """What may have been meant, to be put behind the message; "" if nothing comes to mind."""
    if not isinstance(raw, dict):
        return ""
    remembered = "value" in raw or any(
        isinstance(each, dict) and "value" in each for each in raw.values()
    )
    if of_result and (remembered or not raw.keys().isdisjoint(_COMPARISONS)):
        return (
            "; only arguments are compared with what was seen: of a result, write fixed values"
        )
    if "value" in raw:
        return "; write {max: {value: NAME}}, so min, one_of and not_in, or {same_as: NAME}"
    for key, bound in raw.items():
        if key in ("min", "max") and isinstance(bound, str) and not of_result:
            return f"; for a value of `remember` write {{{key}: {{value: {bound}}}}}"
        if key not in _KEYS and (close := closest(key, _KEYS)):
            return f"; did you mean {close!r}?"
    return ""


def check_zeros(notes: Notes, parsed: Pattern, *path: str | int) -> None:
    """Finds numbers that are written as ids are: 007 is the number 7, which no text is equal to."""
    if parsed.kind not in ("exact", "one_of", "not_in"):
        return
    places = [path, (*path, "exact")]
    if parsed.kind != "exact":
        places = [(*path, parsed.kind, place) for place in range(len(parsed.operand))]
    for place in places:
        text = notes.read.texts.get(place, "")
        if _ZEROS.fullmatch(text):
            message = f"{text} is the number {int(text)}: write {text!r} if it is a text"
            notes.add("leading_zero", message, *place)
