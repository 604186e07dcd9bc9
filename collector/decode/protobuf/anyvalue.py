"""Attribute values of the protobuf encoding: KeyValue bytes to Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

from collector.decode.protobuf.messages import KeyValue
from monitor.partial import told_once

__all__ = ["attributes_of", "python_value", "text_of", "value_of"]

KEY_TAG: Final = 0x0A
"""KeyValue.key = 1, length-delimited."""
VALUE_TAG: Final = 0x12
"""KeyValue.value = 2, length-delimited."""
STRING_TAG: Final = 0x0A
"""AnyValue.string_value = 1, length-delimited."""
MORE: Final = 0x80
"""The bit of a varint byte that announces another byte."""


def _text(blob: bytes) -> str | None:
    """The text of a KeyValue with a key and a string, in the form of all encoders; else None.

    Each length must reach exactly to the end of the blob, so no later field can override the text.
    The loop is unrolled, because the function runs for each decoded value.
    """
    try:
        at = blob[1] + 2
        if blob[0] != KEY_TAG or at > MORE + 1 or blob[at] != VALUE_TAG:
            return None
        length = blob[at + 1]
        if length < MORE:
            at += 2
        else:
            length = (blob[at + 2] << 7) + length - MORE if blob[at + 2] < MORE else -1
            at += 3
        if at + length != len(blob) or blob[at] != STRING_TAG:
            return None
        length = blob[at + 1]
        if length < MORE:
            at += 2
        else:
            length = (blob[at + 2] << 7) + length - MORE if blob[at + 2] < MORE else -1
            at += 3
        return str(blob[at:], "utf-8") if at + length == len(blob) else None
    except (IndexError, UnicodeDecodeError):
        return None  # cut off, or another form


def _fastest() -> Callable[[bytes], str | None]:
    """`_text` in C if it was built."""
    try:
        from collector.decode import native
    except ImportError:
        return _text
    return native.text


text_of: Final = _fastest()
"""The text of a KeyValue that is a key and a string, as every encoder writes it; None of all others."""


def value_of(blob: bytes) -> Any:
    """The value of any KeyValue: str, bool, int, float, bytes, list, dict.

    None if it is unset or unreadable (not UTF-8, nested too deeply, cut off).
    """
    try:
        return python_value(KeyValue.FromString(blob).value)
    except (UnicodeDecodeError, DecodeError):
        return None


def python_value(value: Any) -> Any:
    """Turn a parsed AnyValue into Python; unknown kinds are None."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [python_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        pairs = value.kvlist_value.values
        return told_once([(pair.key, python_value(pair.value)) for pair in pairs])
    return getattr(value, kind) if kind in _SCALARS else None


_SCALARS: Final = frozenset(
    {"string_value", "bool_value", "int_value", "double_value", "bytes_value"}
)


def attributes_of(pairs: Iterable[Any]) -> dict[str, Any]:
    """Turn parsed KeyValues into a dict; of duplicate keys the last wins."""
    return {pair.key: python_value(pair.value) for pair in pairs}
