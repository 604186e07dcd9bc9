"""Message classes from a table."""

from __future__ import annotations

from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from collector.decode import slim
from collector.decode.slim import Field, build, file_descriptor

PROTO = descriptor_pb2.FieldDescriptorProto
NAMES = st.from_regex(r"[a-z]{1,3}", fullmatch=True)
KINDS = st.sampled_from(
    [slim.BYTES, slim.FIXED32, slim.FIXED64, slim.INT32, slim.INT64, slim.STRING, slim.UINT32]
)


@given(
    st.dictionaries(
        NAMES,
        st.lists(st.tuples(NAMES, st.integers(1, 2**29 - 1), KINDS | NAMES, st.booleans())),
        max_size=4,
    )
)
def test_the_descriptor_is_as_the_runtime_writes_it(messages: dict[str, list[Field]]) -> None:
    """Byte for byte what descriptor.proto's own classes serialise."""
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

    assert file_descriptor("p", messages) == file.SerializeToString()


def test_types_have_their_official_numbers() -> None:
    """As descriptor.proto names them."""
    for name in ("BYTES", "FIXED32", "FIXED64", "INT32", "INT64", "STRING", "UINT32"):
        assert getattr(slim, name) == PROTO.Type.Value(f"TYPE_{name}")


def test_built_classes_read_what_they_write() -> None:
    """Also of messages in messages, repeated."""
    built = build("test.slim", {"A": [("b", 1, "B", True)], "B": [("n", 2, slim.INT64, False)]})

    message = built["A"](b=[built["B"](n=7), built["B"](n=-1)])
    assert [each.n for each in built["A"].FromString(message.SerializeToString()).b] == [7, -1]
