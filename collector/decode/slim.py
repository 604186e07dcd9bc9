"""Protobuf message classes from a table, in a descriptor pool of our own.

A table lets us read standard messages through other field types than the official ones (bytes
where the content need not be looked at), and our names can never clash with those that other
libraries register in the default pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
]

_Proto = descriptor_pb2.FieldDescriptorProto

BYTES: Final = _Proto.TYPE_BYTES
FIXED32: Final = _Proto.TYPE_FIXED32
FIXED64: Final = _Proto.TYPE_FIXED64
INT32: Final = _Proto.TYPE_INT32
INT64: Final = _Proto.TYPE_INT64
STRING: Final = _Proto.TYPE_STRING
UINT32: Final = _Proto.TYPE_UINT32

Field = tuple[str, int, "_Proto.Type.ValueType | str", bool]
"""Name, number, type (a constant above, or the name of a message of the table), repeated."""


def build(package: str, messages: Mapping[str, Sequence[Field]]) -> dict[str, Any]:
    """Return message name -> class for a proto3 file holding `messages`."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, package, *field)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: _message_class(pool, f"{package}.{name}") for name in messages}


def _add_field(
    message: descriptor_pb2.DescriptorProto,
    package: str,
    name: str,
    number: int,
    kind: _Proto.Type.ValueType | str,
    repeated: bool,
) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _Proto.LABEL_REPEATED if repeated else _Proto.LABEL_OPTIONAL
    if isinstance(kind, str):
        field.type = _Proto.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
    else:
        field.type = kind


def _message_class(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
    descriptor = pool.FindMessageTypeByName(name)  # type: ignore[no-untyped-call,unused-ignore]
    return message_factory.GetMessageClass(descriptor)
