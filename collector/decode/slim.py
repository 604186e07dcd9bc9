"""Protobuf message classes from a table, in a descriptor pool of our own.

A table lets us read standard messages through other field types than the official ones (bytes
where the content need not be looked at), and our names can never clash with those that other
libraries register in the default pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory

__all__ = [
    "BYTES",
    "FIXED32",
    "FIXED64",
    "INT32",
    "INT64",
    "STRING",
    "UINT32",
    "Field",
    "build",
    "file_descriptor",
]

# FieldDescriptorProto.Type and Label, of descriptor.proto.
INT64: Final = 3
INT32: Final = 5
FIXED64: Final = 6
FIXED32: Final = 7
STRING: Final = 9
_MESSAGE: Final = 11
BYTES: Final = 12
UINT32: Final = 13
_OPTIONAL: Final = 1
_REPEATED: Final = 3

Field = tuple[str, int, int | str, bool]
"""Name, number, type (a constant above, or the name of a message of the table), repeated."""


def build(package: str, messages: Mapping[str, Sequence[Field]]) -> dict[str, Any]:
    """Return message name -> class for a proto3 file holding `messages`."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file_descriptor(package, messages))
    return {name: _message_class(pool, f"{package}.{name}") for name in messages}


def _message_class(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
    descriptor = pool.FindMessageTypeByName(name)  # type: ignore[no-untyped-call,unused-ignore]
    return message_factory.GetMessageClass(descriptor)


# --- descriptor.proto, written by hand: its own classes cost more memory than all we build ----------


def file_descriptor(package: str, messages: Mapping[str, Sequence[Field]]) -> bytes:
    """Return the serialised FileDescriptorProto of a proto3 file holding `messages`."""
    parts = [_text(1, f"{package}.proto"), _text(2, package)]
    for name, fields in messages.items():
        own = [_bytes(2, _field(package, *field)) for field in fields]
        parts.append(_bytes(4, b"".join([_text(1, name), *own])))
    return b"".join([*parts, _text(12, "proto3")])


def _field(package: str, name: str, number: int, kind: int | str, repeated: bool) -> bytes:
    """A FieldDescriptorProto."""
    found = [_text(1, name), _number(3, number)]
    found.append(_number(4, _REPEATED if repeated else _OPTIONAL))
    if isinstance(kind, str):
        found += [_number(5, _MESSAGE), _text(6, f".{package}.{kind}")]
    else:
        found.append(_number(5, kind))
    return b"".join(found)


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
