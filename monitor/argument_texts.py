"""Reads the arguments of a call as a model wrote them: mostly the JSON text of an object, now and then not quite.

Idea: an evaluation has many thousand calls, and a few have odd texts. What a text says for certain is read. Arguments
that may have been others are unknown, with the reason, and no text is an error: the call is then harmful only if it is
for all arguments.

Read: an object; one that was encoded twice; one inside a Markdown fence. Of an object that has a name twice, with
other values, this name is unread and the others are known. Unknown: an empty text (also as frameworks write what they have not recorded), a text
that was cut, text behind the object, and what is no object.

Example: a text `{"q": 1}` in a fence has the arguments {"q": 1}; `{"q": 1}<|im_end|>` has None, and why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from monitor.partial import PartialArguments, all_but, told_once

__all__ = ["ReadArguments", "read"]

_FENCE: Final = re.compile(r"\s*```[\w.+-]*[ \t]*\r?\n?(.*?)\s*```\s*", re.DOTALL)
"""A Markdown fence and nothing beside it."""
_ENCODED_MAX: Final = 3
"""Times that a text may be encoded: by its model, by the framework, by who wrote the call down."""
_NAMES_MAX: Final = 3
"""Names that a reason lists."""
_WHY_MAX: Final = 80
"""Characters of another's message, or of a name, in a reason."""


class ReadArguments(NamedTuple):
    """What is known of a call's arguments."""

    arguments: Mapping[str, Any] | None
    """None if they are unknown; a `PartialArguments` where some are."""
    why: str = ""
    """Why they are not all known; "" if they are, or where nothing was written."""


def read(given: Any) -> ReadArguments:
    """The arguments of one call.

    Args:
        given: a mapping, the JSON text of one, or None if nothing was written.
    """
    if given is None or isinstance(given, Mapping):
        return ReadArguments(given)
    if isinstance(given, str):
        return _of_text(given, _ENCODED_MAX)
    return ReadArguments(None, f"no arguments by name, but {_kind(given)}")


def _of_text(text: str, encoded_max: int) -> ReadArguments:
    fenced = _FENCE.fullmatch(text)
    text = (fenced[1] if fenced else text).strip()
    if not text:
        return ReadArguments(None, "an empty text")
    try:
        found, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError) as problem:
        why = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        return ReadArguments(None, f"no JSON: {why[:_WHY_MAX]}")
    if text[end:].strip():
        return ReadArguments(None, f"text behind the JSON, at character {end + 1}")
    if isinstance(found, str) and encoded_max > 1:
        return _of_text(found, encoded_max - 1)
    if not isinstance(found, dict):
        return ReadArguments(None, f"no arguments by name, but {_kind(found)}")
    return _known(found)


_decoder: Final = json.JSONDecoder(object_pairs_hook=told_once)


def _known(found: dict[str, Any]) -> ReadArguments:
    """The arguments without those that have a name with several values, at any depth."""
    unread = {name for name, value in found.items() if _is_partial(value)}
    if isinstance(found, PartialArguments):
        unread |= found.unread
    if not unread:
        return ReadArguments(found)
    listed = ", ".join(f"`{name[:_WHY_MAX]}`" for name in sorted(unread)[:_NAMES_MAX])
    return ReadArguments(all_but(found, unread), f"a name comes twice: {listed}")


def _is_partial(value: Any) -> bool:
    """True if an object in it, at any depth, has a name with several values."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, PartialArguments):
            return True
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return False


def _kind(value: Any) -> str:
    """What a value is, in the words of JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    return "null" if value is None else "a text" if isinstance(value, str) else "a list"
