from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.decode.protobuf.anyvalue import value_of
from tests.conformance.bodies import varint


def blob(**value: Any) -> bytes:
    return KeyValue(key="key", value=AnyValue(**value)).SerializeToString()


@pytest.mark.parametrize(
    "size", [0, 1, 123, 124, 125, 126, 127, 128, 129, 16_380, 16_384, 70_000]
)
def test_strings_of_every_length_prefix(size: int) -> None:
    """The short way and the full parser meet where length prefixes grow by a byte."""
    assert value_of(blob(string_value="x" * size)) == "x" * size


@pytest.mark.parametrize("key_size", [0, 1, 126, 127, 128, 300])
def test_keys_of_every_length_prefix(key_size: int) -> None:
    """Long and empty keys do not shift the value."""
    pair = KeyValue(key="k" * key_size, value=AnyValue(string_value="v"))
    assert value_of(pair.SerializeToString()) == "v"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"bool_value": True}, True),
        ({"int_value": -5}, -5),
        ({"double_value": 0.5}, 0.5),
        ({"bytes_value": b"\xff"}, b"\xff"),
        ({"string_value": "žluťoučký 🐎"}, "žluťoučký 🐎"),
        ({"array_value": {"values": [{"int_value": 1}, {}]}}, [1, None]),
        ({"kvlist_value": {"values": [{"key": "a", "value": {"int_value": 1}}]}}, {"a": 1}),
        ({}, None),
    ],
)
def test_every_kind_of_value(value: dict[str, Any], expected: Any) -> None:
    """AnyValue's kinds become Python's; unset is None."""
    got = value_of(blob(**value))
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\x12\x03\x0a\x01v\x0a\x01k", "v"),  # value before key
        (b"\x0a\x01k\x12\x03\x0a\x01v\x12\x03\x0a\x01w", "w"),  # value twice: the last
        (b"\x0a\x01k\x12\x06\x0a\x01v\x0a\x01w", "w"),  # string twice: the last
        (b"\x0a\x01k\x12\x05\x0a\x01v\x18\x07", 7),  # another kind after it
        (b"\x0a\x01k\x12\x84\x00\x0a\x02vw", "vw"),  # a length of two bytes where one will do
        (b"\x0a\x01k\x12\x03\x0a\x01v\x7a\x01u", "v"),  # an unknown field after it
        (b"\x0a\x01k", None),
        (b"", None),
        (b"\x0a\x01k\x12\x03\x0a\x01\xff", None),  # not UTF-8
        (b"\x0a\x01k\x12\x09\x0a\x01v", None),  # cut off
        (b"\xff\xff", None),
    ],
)
def test_odd_encodings_mean_what_the_full_parser_says(raw: bytes, expected: Any) -> None:
    """Unusual encodings are read by the official classes, or are unreadable."""
    assert value_of(raw) == expected


def test_deep_nesting_is_unreadable_and_harmless() -> None:
    """A value nested beyond protobuf's limit is None, not a crash."""
    inner = b""
    for _ in range(2_000):
        array = b"\x0a" + varint(len(inner)) + inner
        inner = b"\x2a" + varint(len(array)) + array
    assert value_of(b"\x0a\x01k\x12" + varint(len(inner)) + inner) is None
