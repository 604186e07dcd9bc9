"""Builds protobuf message classes from a table, in a private descriptor pool.

A table can give a field of a standard message another type than the official one: bytes, if the content
is not decoded. In a private pool no name clashes with those of other libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "FIXED32",
    "FIXED64",
    "INT32",
    "INT64",
    "STRING",
    "UINT32",
    "Field",
    "Messages",
    "build",
    "file_descriptor",
    "varint",
]

# FieldDescriptorProto.Type and Label, of descriptor.proto.
DOUBLE: Final = 1
INT64: Final = 3
INT32: Final = 5
FIXED64: Final = 6
FIXED32: Final = 7
BOOL: Final = 8
STRING: Final = 9
_MESSAGE: Final = 11
BYTES: Final = 12
UINT32: Final = 13
_OPTIONAL: Final = 1
_REPEATED: Final = 3

Field = tuple[str, int, int | str, bool]
"""Name, number, type (a constant above, or the name of a message of the table), repeated."""


Messages = Mapping[str, Sequence[Field]]


def build(
    package: str, messages: Messages, choices: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return message name -> class for a proto3 file holding `messages`.

    Args:
        package: the file's package.
        messages: fields by message name.
        choices: message -> name of its `oneof`, which holds all its fields.
    """
    pool, class_of = _runtime()
    pool.AddSerializedFile(file_descriptor(package, messages, choices or {}))
    return {
        name: class_of(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages
    }


def _runtime() -> tuple[Any, Callable[[Any], Any]]:
    """A descriptor pool, and a function that makes a class of a descriptor.

    The public modules also load the runtime's pure Python implementation (1.5 MB), which nobody uses.
    So the C implementation is imported directly if possible.
    """
    try:
        from google._upb._message import DescriptorPool, MessageMeta
    except ImportError:
        from google.protobuf import descriptor_pool, message_factory

        return descriptor_pool.DescriptorPool(), message_factory.GetMessageClass

    def class_of(descriptor: Any) -> Any:
        return MessageMeta(
            descriptor.name, (Message,), {"DESCRIPTOR": descriptor, "__module__": __name__}
        )

    return DescriptorPool(), class_of


# --- descriptor.proto, written by hand: its own classes cost more memory than all we build ----------


def file_descriptor(package: str, messages: Messages, choices: Mapping[str, str]) -> bytes:
    """Return the serialised FileDescriptorProto of a proto3 file holding `messages`."""
    parts = [_text(1, f"{package}.proto"), _text(2, package)]
    for name, fields in messages.items():
        end = _number(9, 0) if name in choices else b""  # oneof_index
        own = [_text(1, name), *(_bytes(2, _field(package, *field) + end) for field in fields)]
        if name in choices:
            own.append(_bytes(8, _text(1, choices[name])))
        parts.append(_bytes(4, b"".join(own)))
    return b"".join([*parts, _text(12, "proto3")])


def _field(package: str, name: str, number: int, kind: int | str, repeated: bool) -> bytes:
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
    return varint(number << 3 | 2) + varint(len(value)) + value


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    """A number as a varint: 7 bits per byte, the lowest first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
