"""Fields of a parsed JSON message, each read as the type it has to be, by the proto3 JSON rules; faults name their place.

Ids, which OTLP writes otherwise, are in `hex_ids`, AnyValues in `read_values`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "INT32",
    "INT64",
    "NUMBER",
    "UINT32",
    "UINT64",
    "FieldFault",
    "enum",
    "field_of",
    "integer",
    "kind_of",
    "object_at",
    "objects",
    "text",
    "to_integer",
    "wrong",
]

INT32: Final = (-(1 << 31), (1 << 31) - 1)
INT64: Final = (-(1 << 63), (1 << 63) - 1)
UINT32: Final = (0, (1 << 32) - 1)
UINT64: Final = (0, (1 << 64) - 1)

_DIGITS: Final = re.compile(r"-?[0-9]{1,20}")
NUMBER: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")


class FieldFault(Exception):  # noqa: N818 - it never leaves the decoder
    """A fault in a value. Each caller adds its step of the path as the fault rises."""

    def __init__(self, message: str, *path: str) -> None:
        self.message = message
        self.path = list(path)

    def within(self, step: str) -> FieldFault:
        self.path.append(step)
        return self

    def __str__(self) -> str:
        place = ".".join(reversed(self.path))
        return f"{place}: {self.message}" if place else self.message


def field_of(item: Mapping[str, Any], *names: str) -> Any:
    """Return the first of the names that is set and not null, else None."""
    value = item.get(names[0])
    if value is not None:
        return value
    for name in names[1:]:
        value = item.get(name)
        if value is not None:
            return value
    return None


def objects(item: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    """Return the elements of a repeated message; [] if it is missing or null."""
    elements = field_of(item, *names)
    if elements is None:
        return []
    if not isinstance(elements, list):
        raise wrong(elements, "an array", names[0])
    for index, element in enumerate(elements):
        if not isinstance(element, dict):
            raise wrong(element, "an object", f"{names[0]}[{index}]")
    return elements


def object_at(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a message field; {} if it is missing or null."""
    value = item.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise wrong(value, "an object", name)


def text(item: Mapping[str, Any], *names: str) -> str:
    """Return a string field; "" if it is missing or null."""
    value = item.get(names[0])
    if type(value) is str:  # nearly always
        return value
    value = field_of(item, *names)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise wrong(value, "a string", names[0])


def integer(item: Mapping[str, Any], bounds: tuple[int, int], *names: str) -> int:
    """Return an integer field inside `bounds`; 0 if it is missing or null."""
    value = field_of(item, *names)
    if value is None:
        return 0
    if type(value) is int and bounds[0] <= value <= bounds[1]:
        return value
    try:
        return to_integer(value, bounds)
    except FieldFault as fault:
        raise fault.within(names[0]) from None


def enum(item: Mapping[str, Any], names: Mapping[str, int], field: str) -> int:
    """Read an enum: any 32-bit integer, known or not, or the name of a known value."""
    value = item.get(field)
    if isinstance(value, str) and value in names:
        return names[value]
    return integer(item, INT32, field)


def to_integer(value: Any, bounds: tuple[int, int]) -> int:
    """Read an integer: a number, an integral float, or either as a string."""
    number = value
    if isinstance(value, str):
        number = _number_in(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        raise wrong(value, "an integer")
    if not bounds[0] <= number <= bounds[1]:
        raise wrong(value, f"an integer from {bounds[0]} to {bounds[1]}")
    return number


def _number_in(digits: str) -> int | float | None:
    if _DIGITS.fullmatch(digits):
        return int(digits)
    return float(digits) if NUMBER.fullmatch(digits) else None


def wrong(value: Any, expected: str, *path: str) -> FieldFault:
    """Return the fault of a value of the wrong kind, found at the end of `path`."""
    shown = kind_of(value)
    if isinstance(value, str | float):
        shown = ascii(value)[:40]
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 80:
        shown = str(value)  # Python refuses to print integers of thousands of digits
    return FieldFault(f"expected {expected}, found {shown}", *path)


def kind_of(value: Any) -> str:
    """Name the JSON kind of a parsed value."""
    if value is None:
        return "null"
    kinds: dict[type, str] = {bool: "a boolean", dict: "an object", list: "an array"}
    return kinds.get(type(value), "a string" if isinstance(value, str) else "a number")
