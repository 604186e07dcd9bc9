"""Attribute values of the protobuf encoding: KeyValue bytes to Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

from collector.decode.messages import KeyValue
from collector.decode.sizes import Sizes

__all__ = ["attributes_of", "python_value", "reader", "value_of"]

KEY_TAG: Final = 0x0A
"""KeyValue.key = 1, length-delimited."""
VALUE_TAG: Final = 0x12
"""KeyValue.value = 2, length-delimited."""
STRING_TAG: Final = 0x0A
"""AnyValue.string_value = 1, length-delimited."""
MORE: Final = 0x80
"""The bit of a varint byte that says another one follows."""


def reader(sizes: Sizes) -> Callable[[bytes], Any]:
    """Return the function that decodes the value of one KeyValue message.

    It gives str, bool, int, float, bytes, list, dict; None where the value is unset, over the bound
    or unreadable (not UTF-8, nested too deeply, cut off).
    """
    bytes_max, note = sizes.bytes_max, sizes.note

    def value(blob: bytes) -> Any:
        # A string in `key, value { string_value }` as every encoder writes it is cut out, if each
        # length reaches exactly to the end of the blob: then nothing can follow that would override
        # it. Unrolled, because it runs for each value that is asked for. It is shorter than any
        # bound.
        try:
            at = blob[1] + 2
            if blob[0] == KEY_TAG and at <= MORE + 1 and blob[at] == VALUE_TAG:
                size = len(blob)
                length = blob[at + 1]
                if length < MORE:
                    at += 2
                else:
                    length = (blob[at + 2] << 7) + length - MORE if blob[at + 2] < MORE else -1
                    at += 3
                if at + length == size and blob[at] == STRING_TAG:
                    length = blob[at + 1]
                    if length < MORE:
                        at += 2
                    else:
                        length = (
                            (blob[at + 2] << 7) + length - MORE if blob[at + 2] < MORE else -1
                        )
                        at += 3
                    if at + length == size:
                        return str(blob[at:], "utf-8")
        except IndexError:
            pass  # cut off, or of another form
        except UnicodeDecodeError:
            return None
        if len(blob) > bytes_max:
            note()
            return None
        return _parsed(blob)

    return value


def _parsed(blob: bytes) -> Any:
    try:
        return python_value(KeyValue.FromString(blob).value)
    except (UnicodeDecodeError, DecodeError):
        return None


value_of: Final = reader(Sizes())
"""With the usual bound, and nobody to tell."""


def python_value(value: Any) -> Any:
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


def attributes_of(pairs: Iterable[Any]) -> dict[str, Any]:
    """Turn parsed KeyValues into a dict; of duplicate keys the last wins."""
    return {pair.key: python_value(pair.value) for pair in pairs}
