"""Estimates how many bytes of memory received values take: for bounds in bytes.

Objects, their places in tables, and the allocator's losses are counted by constants. They were measured on
CPython, and are upper bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from monitor.records import Returned, ToolCall, UnreadResult

__all__ = [
    "CALL_BYTES",
    "ITEM_BYTES",
    "arguments_bytes",
    "call_bytes",
    "result_bytes",
    "text_bytes",
    "value_bytes",
]

ITEM_BYTES: Final = 64
"""Bytes of one object and its place in a list or a dictionary."""

CALL_BYTES: Final = 512
"""Bytes of a call without its arguments."""

WIDE_BYTES: Final = 8
"""Most bytes of one character of a text that is not ASCII: four of the text, and four of its UTF-8, which Python keeps beside
the text once it was written as JSON."""


def text_bytes(text: str) -> int:
    """What the characters of a text take."""
    return len(text) if text.isascii() else WIDE_BYTES * len(text)


def value_bytes(value: Any) -> int:
    """What a decoded value takes, with all that is in it."""
    total = 0
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        total += ITEM_BYTES
        if isinstance(each, str):
            total += text_bytes(each)
        elif each is None or isinstance(each, (int, float)):
            continue  # most of many values are these; the check for a Mapping takes a microsecond
        elif isinstance(each, bytes):
            total += len(each)
        elif isinstance(each, (list, tuple)):
            waiting.extend(each)
        elif isinstance(each, Mapping):
            for key, inner in each.items():
                total += ITEM_BYTES + (text_bytes(key) if isinstance(key, str) else 0)
                waiting.append(inner)
    return total


def arguments_bytes(arguments: Mapping[str, Any] | None) -> int:
    """What the arguments of a call take: each span asks, and mostly they are a few short texts."""
    if arguments is None:
        return 0
    if not isinstance(arguments, dict):
        return value_bytes(arguments)
    total = 0
    for key, value in arguments.items():
        total += 2 * ITEM_BYTES + len(key)
        if isinstance(value, str):
            total += text_bytes(value)
        elif isinstance(
            value, (dict, list, bytes)
        ):  # compiled, `|` would make a type each time
            total += value_bytes(value)
    return total


def call_bytes(call: ToolCall) -> int:
    """What a call takes, with its arguments."""
    total = CALL_BYTES + text_bytes(call.tool) + text_bytes(call.call_id)
    if call.returned:
        total += result_bytes(call.returned)
    return total + arguments_bytes(call.arguments)


def result_bytes(returned: Returned) -> int:
    """What a tool's result takes, read or not."""
    if isinstance(returned, UnreadResult):
        return returned.size()
    return value_bytes(returned) if returned else 0
