"""Message classes from a table."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.decode.protobuf import message_classes, messages
from collector.decode.protobuf.message_classes import Field, build, file_descriptor
from collector.decode.protobuf.messages import OFFICIAL

PROTO = descriptor_pb2.FieldDescriptorProto
NAMES = st.from_regex(r"[a-z]{1,3}", fullmatch=True)
KINDS = st.sampled_from(
    [
        message_classes.BYTES,
        message_classes.FIXED32,
        message_classes.FIXED64,
        message_classes.INT32,
        message_classes.INT64,
        message_classes.STRING,
        message_classes.UINT32,
    ]
)


@given(
    st.dictionaries(
        NAMES,
        st.lists(st.tuples(NAMES, st.integers(1, 2**29 - 1), KINDS | NAMES, st.booleans())),
        max_size=4,
    )
)
def test_the_descriptor_is_as_the_runtime_writes_it(messages: dict[str, list[Field]]) -> None:
    """The bytes equal those that descriptor.proto's own classes serialise."""
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p", syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for own, number, kind, repeated in fields:
            field = message.field.add(name=own, number=number)
            field.label = PROTO.LABEL_REPEATED if repeated else PROTO.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = PROTO.TYPE_MESSAGE, f".p.{kind}"
            else:
                field.type = PROTO.Type.ValueType(kind)

    assert file_descriptor("p", messages, {}) == file.SerializeToString()


def test_types_have_their_official_numbers() -> None:
    """The numbers are those of descriptor.proto."""
    for name in (
        "BOOL",
        "BYTES",
        "DOUBLE",
        "FIXED32",
        "FIXED64",
        "INT32",
        "INT64",
        "STRING",
        "UINT32",
    ):
        assert getattr(message_classes, name) == PROTO.Type.Value(f"TYPE_{name}")


def test_built_classes_read_what_they_write() -> None:
    """Round trips keep nested and repeated messages."""
    built = build(
        "test.slim", {"A": [("b", 1, "B", True)], "B": [("n", 2, message_classes.INT64, False)]}
    )

    message = built["A"](b=[built["B"](n=7), built["B"](n=-1)])
    assert [each.n for each in built["A"].FromString(message.SerializeToString()).b] == [7, -1]


def official(name: str) -> Any:
    """The generated class of that name."""
    if name == "Event":
        return trace_pb2.Span.Event
    places = (common_pb2, resource_pb2, trace_service_pb2)
    return next(getattr(place, name) for place in places if hasattr(place, name))


@pytest.mark.parametrize("name", OFFICIAL)
def test_standard_messages_have_the_official_fields(name: str) -> None:
    """Names, numbers, types, repetition and oneofs of all messages equal the official ones."""
    file = descriptor_pb2.FileDescriptorProto.FromString(
        file_descriptor("p", OFFICIAL, {"AnyValue": "value"})
    )
    ours = next(each for each in file.message_type if each.name == name)
    theirs = descriptor_pb2.DescriptorProto()
    official(name).DESCRIPTOR.CopyToProto(theirs)

    for field in (*ours.field, *theirs.field):
        field.type_name = field.type_name.rpartition(".")[2]
        field.ClearField("json_name")
    assert list(ours.field) == list(theirs.field)
    assert list(ours.oneof_decl) == list(theirs.oneof_decl)


@pytest.mark.parametrize("public", [False, True])
def test_either_runtime_reads_the_same(monkeypatch: pytest.MonkeyPatch, public: bool) -> None:
    """Where the C implementation cannot be asked itself, the public modules do as well."""
    if public:
        monkeypatch.setitem(sys.modules, "google._upb._message", None)
    built = build(f"test.public_{public}", OFFICIAL, {"AnyValue": "value"})
    theirs = common_pb2.KeyValue(
        key="k",
        value=common_pb2.AnyValue(
            kvlist_value=common_pb2.KeyValueList(
                values=[common_pb2.KeyValue(key="i", value=common_pb2.AnyValue(int_value=-7))]
            )
        ),
    )

    ours = built["KeyValue"].FromString(theirs.SerializeToString())
    assert ours.SerializeToString() == theirs.SerializeToString()
    assert ours.value.WhichOneof("value") == "kvlist_value"
    assert ours.value.kvlist_value.values[0].value.int_value == -7
    with pytest.raises(DecodeError):
        built["KeyValue"].FromString(b"\x0a\x01\xff")


def test_a_choice_keeps_the_last_that_was_set() -> None:
    """At most one field of an AnyValue is set: the last."""
    value = messages.AnyValue(int_value=1)
    value.string_value = "a"
    assert value.WhichOneof("value") == "string_value"
    assert messages.AnyValue().WhichOneof("value") is None
