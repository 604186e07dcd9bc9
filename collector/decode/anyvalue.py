"""Attribute values of the protobuf encoding: KeyValue bytes to Python values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

__all__ = ["attributes_of", "python_value", "value_of"]

KEY_TAG: Final = 0x0A
"""KeyValue.key = 1, length-delimited."""
VALUE_TAG: Final = 0x12
"""KeyValue.value = 2, length-delimited."""
STRING_TAG: Final = 0x0A
"""AnyValue.string_value = 1, length-delimited."""
MORE: Final = 0x80
"""The bit of a varint byte that says another one follows."""


def value_of(blob: bytes) -> Any:
    """Decode the value of one KeyValue message.

    Returns:
        str, bool, int, float, bytes, list, dict; None where the value is unset or unreadable
        (not UTF-8, nested too deeply, cut off).
    """
    start = _start_of_string(blob)
    try:
        if start:
            return str(blob[start:], "utf-8")
        return python_value(KeyValue.FromString(blob).value)
    except (UnicodeDecodeError, DecodeError):
        return None


def _start_of_string(blob: bytes) -> int:
    """Return where the string begins in `key, value { string_value }` as every encoder writes it.

    0 unless each length reaches exactly to the end of the blob: then nothing can follow that
    would override what was read. Unrolled, because it runs for each value that is asked for.
    """
    try:
        at = blob[1] + 2
        if blob[0] != KEY_TAG or at > MORE + 1 or blob[at] != VALUE_TAG:
            return 0
        rest = len(blob) - at - 2
        if blob[at + 1] < MORE:
            at += 2
            if blob[at - 1] != rest:
                return 0
        elif blob[at + 2] < MORE:
            at += 3
            rest -= 1
            if blob[at - 2] - MORE + (blob[at - 1] << 7) != rest:
                return 0
        else:
            return 0
        if blob[at] != STRING_TAG:
            return 0
        if blob[at + 1] < MORE:
            return at + 2 if blob[at + 1] == rest - 2 else 0
        exact = blob[at + 1] - MORE + (blob[at + 2] << 7) == rest - 3
        return at + 3 if exact and blob[at + 2] < MORE else 0
    except IndexError:
        return 0


def python_value(value: AnyValue) -> Any:
    """Turn a parsed AnyValue into Python; unknown kinds are None."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [python_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    return getattr(value, kind) if kind in _SCALARS else None


_SCALARS: Final = frozenset(
    {"string_value", "bool_value", "int_value", "double_value", "bytes_value"}
)


def attributes_of(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """Turn parsed KeyValues into a dict; of duplicate keys the last wins."""
    return {pair.key: python_value(pair.value) for pair in pairs}
