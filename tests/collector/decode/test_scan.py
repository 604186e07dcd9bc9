from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from collector.decode.protobuf import otlp_proto, scan
from collector.decode.protobuf.anyvalue import value_of
from collector.decode.sizes import VALUE_BYTES_MIN
from collector.decode.span import ATTRIBUTES_MAX, FIELDS, Span, SpanBatch
from tests.bench.traffic import generate
from tests.conformance.bodies import raw_field as field
from tests.native import missing, native, native_reader

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

CODEC = otlp_proto.ProtoCodec()


IDS = field(1, b"\1" * 16) + field(2, b"\2" * 8)
PAIR = field(1, b"k") + field(2, field(1, b"v"))


def body(span: bytes) -> bytes:
    return field(1, field(2, field(2, span)))


def read(raw: bytes) -> SpanBatch | None:
    return scan.decode(raw, CODEC, native_reader())


def told(span: Span) -> dict[str, object]:
    """All fields of a span but its codec; both kinds of undecoded parts as lists."""
    fields = {name: getattr(span, name) for name in FIELDS if name != "codec"}
    return {**fields, "values": list(span.values), "events": list(span.events)}


def test_what_sdks_send_is_read() -> None:
    """Requests in four dialects give spans equal to the runtime's, with the same shared objects."""
    for raw in generate(50, 20).requests:
        scanned, full = read(raw), otlp_proto.decode_any(raw)
        assert scanned is not None
        for one, other in zip(scanned.spans, full.spans, strict=True):
            assert told(one) == told(other)
            assert one.shape is other.shape
            assert one.resource is other.resource


@pytest.mark.parametrize(
    "span",
    [
        IDS + field(5, b"name") + field(9, PAIR),
        IDS + field(9, field(1, b"k")),
        IDS + field(9, PAIR) + field(9, PAIR),
        field(9, PAIR) + field(5, b"late ids") + IDS,
        IDS + field(4, b"\0" * 8),
        IDS + b"\x30\x03\x50\x07\x85\x01abcd" + field(15, b"\x18\x02"),
        IDS + field(15, b"\x18\x02") + field(15, field(2, b"merged")),
        IDS + field(11, b"\x09" + b"\1" * 8 + field(2, b"event") + field(3, PAIR)),
        IDS + field(13, b"any link") + b"\x60\x01\x70\x02",
        IDS + field(3, b"ot=th:8"),
        IDS + field(5, b"twice") + field(5, b"the last counts"),
    ],
)
def test_usual_forms_mean_what_the_runtime_says(span: bytes) -> None:
    """Fields in any order, left out, or twice."""
    scanned, full = read(body(span)), otlp_proto.decode_any(body(span))

    assert scanned is not None
    (one,), (other,) = scanned.spans, full.spans
    assert told(one) == told(other)


@pytest.mark.parametrize(
    ("fault", "span"),
    [
        ("no ids", field(5, b"name")),
        ("a short trace id", field(1, b"\1" * 15) + field(2, b"\2" * 8)),
        ("a span id of zeros", field(1, b"\1" * 16) + field(2, b"\0" * 8)),
        ("a short parent", IDS + field(4, b"\1" * 7)),
        ("a name that is no text", IDS + field(5, b"\xff")),
        ("a name that is too long", IDS + field(5, b"n" * 9_000)),
        ("a key that is too long", IDS + field(9, field(1, b"k" * 3_000))),
        ("too many attributes", IDS + field(9, PAIR) * (ATTRIBUTES_MAX + 1)),
        ("value before key", IDS + field(9, field(2, b"") + field(1, b"k"))),
        ("two keys", IDS + field(9, field(1, b"a") + field(1, b"b"))),
        ("a field of another type", IDS + b"\x28\x01"),
        ("an unknown field", IDS + field(77, b"new")),
        ("a group", IDS + b"\x6b\x6c"),
        ("a time beyond 2^63", IDS + b"\x39" + b"\xff" * 8),
        ("a negative kind", IDS + b"\x30" + b"\xff" * 9 + b"\x01"),
        ("a length beyond the end", IDS + b"\x2a\x7fshort"),
        ("a time that is cut off", IDS + b"\x39\1\1"),
        ("flags that are cut off", IDS + b"\x85\x01ab"),
        ("an event with an odd field", IDS + field(11, field(9, b""))),
        ("a status with an odd field", IDS + field(15, field(9, b""))),
        ("a resource that is none", b"\x00"),
    ],
)
def test_all_else_is_left_to_the_runtime(fault: str, span: bytes) -> None:
    """For other bodies the scan returns nothing and raises nothing."""
    assert read(body(span)) is None, fault


def test_attributes_are_counted_before_their_keys_are_read() -> None:
    """If a span has too many attributes, none of its keys is read."""
    asked = list[bytes]()

    def shape(raw: bytes) -> None:
        asked.append(raw)

    counting = native_reader(shape=shape)
    assert read(body(IDS + field(9, field(1, b"")) * ATTRIBUTES_MAX)) is not None
    assert scan.decode(body(IDS + field(9, PAIR) * 2), CODEC, counting) is None
    assert len(asked) == 1
    more = body(IDS + field(9, PAIR) * (ATTRIBUTES_MAX + 1))
    assert scan.decode(more, CODEC, counting) is None
    assert len(asked) == 1


def test_a_message_cut_off_anywhere_is_left_to_the_runtime() -> None:
    """Or means the same, where the cut falls between two fields."""
    raw = generate(2, 1).requests[0]
    for end in range(len(raw)):
        scanned = read(raw[:end])
        if scanned is not None:
            assert len(scanned.spans) == len(otlp_proto.decode_any(raw[:end]).spans)


@pytest.mark.parametrize(
    ("order", "is_read"),
    [
        ("resource first", True),
        ("resource last", False),
        ("resource in pieces", False),
        ("scope last", False),
        ("no resource and no scope", True),
    ],
)
def test_parts_of_a_request_in_other_orders_are_left_to_the_runtime(
    order: str, is_read: bool
) -> None:
    """The scan reads a resource and a scope only once and before their spans. The runtime reads any order."""
    described = Resource(
        attributes=[KeyValue(key="service.name", value=AnyValue(string_value="s"))]
    )
    resource = described.SerializeToString()
    spans, scope = field(2, IDS), field(1, field(1, b"scope"))
    resource_spans = {
        "resource first": field(1, resource) + field(2, scope + spans),
        "resource last": field(2, scope + spans) + field(1, resource),
        "resource in pieces": field(1, resource) + field(1, b"") + field(2, scope + spans),
        "scope last": field(1, resource) + field(2, spans + scope),
        "no resource and no scope": field(2, spans),
    }
    raw = field(1, resource_spans[order] + field(3, b"schema"))

    scanned, [expected] = read(raw), otlp_proto.decode_any(raw).spans
    [found] = scanned.spans if scanned is not None else [expected]

    assert (scanned is not None) is is_read
    told = ("", {}) if order.startswith("no ") else ("scope", {"service.name": "s"})
    for span in (found, expected):
        assert (span.scope, span.resource.attributes) == told


def test_values_are_a_sequence_of_what_was_sent() -> None:
    """Values have places and a length, and no access goes beyond the end."""
    span = read(body(IDS + field(9, PAIR) * 3))
    assert span is not None
    (values,) = (each.values for each in span.spans)

    assert (len(values), values[-1], list(values)) == (3, PAIR, [PAIR] * 3)
    with pytest.raises(IndexError):
        values[3]


def test_values_outlive_their_request() -> None:
    """Values keep their request's bytes alive."""
    batch = read(bytes(bytearray(body(IDS + field(9, PAIR)))))
    assert batch is not None
    (span,) = batch.spans
    del batch

    assert span.attribute(0) == value_of(PAIR)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("v", PAIR),
        ("", field(1, b"k") + field(2, field(1, b""))),
        ("ä" * 9_000, field(1, b"k" * 300) + field(2, field(1, "ä".encode() * 9_000))),
        (None, field(1, b"k") + field(2, field(1, b"\xff"))),
        (None, field(1, b"k") + field(2, field(5, b"list"))),
        (None, field(1, b"k") + field(2, b"")),
        (None, field(1, b"k")),
        (None, PAIR + field(2, field(1, b"overrides"))),
        (None, field(1, b"k") + field(2, field(1, b"v") + b"\x10\x01")),
        (None, PAIR[:-1]),
        (None, b""),
    ],
)
def test_texts_are_cut_out_and_nothing_else(text: str | None, pair: bytes) -> None:
    """A key and a string, whatever their lengths; the rest is for those who know it."""
    assert native().text(pair) == text


USUAL = [PAIR, field(1, b"k") + field(2, field(1, b"w" * 200)), field(1, b"k")]
ODD = [field(1, b"k") + field(2, field(5, b"")), field(1, b"k") + field(2, field(1, b"\xff"))]


@given(st.lists(st.sampled_from([*USUAL, *ODD]) | st.binary(max_size=40), max_size=8))
def test_a_value_is_read_by_its_index_as_by_itself(pairs: list[bytes]) -> None:
    """Text, recurring text and comparison give the same by place and by bytes."""
    batch = read(body(IDS + b"".join(field(9, pair) for pair in pairs)))
    if batch is None:
        return
    values = batch.spans[0].values
    for _ in range(2):  # read, and remembered
        for index, raw in enumerate(values):
            told = native().text(raw)
            assert native().text_at(values, index) == told
            assert native().recurring_at(values, index) == (told if len(raw) <= 128 else None)
            assert native().came_as(values, index, raw)
            assert not native().came_as(values, index, raw + b"more")
        pairs_of = tuple(enumerate(values))
        assert native().all_came_as(values, pairs_of)
        for index, raw in pairs_of:
            other = (*pairs_of[:index], (index, raw + b"more"), *pairs_of[index + 1 :])
            assert not native().all_came_as(values, other)


@pytest.mark.parametrize("size", [5, 20, 40])
def test_keys_that_differ_in_any_byte_are_told_apart(size: int) -> None:
    """Keys that share a place in the cache are distinguished by all their bytes."""
    for at in range(size):
        for byte in b"ab":
            key = bytes([*b"k" * at, byte, *b"k" * (size - at - 1)])
            batch = read(body(IDS + field(9, field(1, key) + field(2, field(1, b"v")))))
            assert batch is not None
            (span,) = batch.spans
            assert span.attributes() == {key.decode(): "v"}


def test_recurring_texts_are_one_object() -> None:
    """Equal texts of two requests are one object."""
    first, second = (read(body(IDS + field(9, PAIR))) for _ in range(2))
    assert first is not None
    assert second is not None
    texts = [native().recurring_at(each.spans[0].values, 0) for each in (first, second)]

    assert texts[0] is texts[1]


def test_long_texts_are_left_to_who_looks_at_their_size() -> None:
    """Texts of up to TEXT_BYTES_MAX bytes are read from the index; longer ones are not."""
    most = native().TEXT_BYTES_MAX
    text = b"v" * (most - 9)
    pairs = [field(1, b"k") + field(2, field(1, text + more)) for more in (b"", b"v")]
    batch = read(body(IDS + b"".join(field(9, pair) for pair in pairs)))
    assert batch is not None
    values = batch.spans[0].values

    assert most == VALUE_BYTES_MIN
    assert [len(value) - most for value in values] == [0, 1]
    assert native().text_at(values, 0) == text.decode()
    assert native().text_at(values, 1) is None


def test_values_of_other_readers_are_left_to_their_codec() -> None:
    """They are no parts of a body; to compare them is possible all the same."""
    assert native().text_at([PAIR], 0) is None
    assert native().recurring_at([PAIR], 0) is None
    assert native().came_as([PAIR, "text"], 0, PAIR)
    assert native().came_as([PAIR, "text"], 1, "text")
    assert not native().came_as([PAIR], 0, "text")
    assert native().all_came_as([PAIR, "text"], ((1, "text"), (0, PAIR)))
    assert not native().all_came_as([PAIR, "text"], ((1, "text"), (0, "text")))
    with pytest.raises(IndexError):
        native().came_as([PAIR], 1, PAIR)
    with pytest.raises(IndexError):
        native().all_came_as([PAIR], ((0, PAIR), (1, PAIR)))


@pytest.mark.parametrize("known", [[(0, PAIR)], ((0,),), (0,), ((0, PAIR, 0),)])
def test_what_is_compared_comes_in_pairs(known: Any) -> None:
    """An odd number of arguments raises an error."""
    with pytest.raises(TypeError, match="pairs"):
        native().all_came_as([PAIR], known)


def test_equal_ids_and_names_are_one_object() -> None:
    """A trace's id in each of its spans, and a span's in those below it."""
    child = field(1, b"\1" * 16) + field(2, b"\3" * 8) + field(4, b"\2" * 8) + field(5, b"n")
    reader = native_reader()
    raws = [body(IDS + field(5, b"n")), body(child)]
    parent, below = (reader(raw, CODEC)[0] for raw in raws)

    assert below.trace_id is parent.trace_id
    assert below.parent_span_id is parent.span_id
    assert below.name is parent.name


def test_equal_keys_are_one_object_in_all_shapes() -> None:
    """Equal keys are one object, so that each is hashed once."""
    pairs = [field(9, field(1, key) + field(2, b"")) for key in (b"a key", b"another")]
    reader = native_reader()
    raws = [body(IDS + b"".join(each)) for each in (pairs, pairs[::-1])]
    forwards, backwards = (reader(raw, CODEC)[0].shape for raw in raws)

    assert forwards == backwards[::-1] == ("a key", "another")
    assert forwards[0] is backwards[1]
    assert forwards[1] is backwards[0]


@pytest.mark.parametrize("key", [b"\xff", b"k\xc3", b"\0", b"", "ä".encode() * 64, b"k" * 129])
def test_odd_keys_are_what_the_runtime_says(key: bytes) -> None:
    """Keys that are empty, long or not UTF-8 are read as the runtime reads them, each time."""
    raw = body(IDS + field(9, field(1, key) + field(2, b"")))
    reader = native_reader()
    (expected,) = otlp_proto.decode_any(raw, CODEC).spans

    for _ in range(2):
        (span,) = reader(raw, CODEC)
        assert span.shape == expected.shape


def test_more_than_is_remembered_is_read_all_the_same() -> None:
    """Ids, names and shapes may evict each other from the cache, and are never confused."""
    reader = native_reader()
    numbers = [*range(3_000), *range(3_000)]
    for number in numbers:
        text = f"{number}".encode()
        ids = field(1, text.zfill(16)) + field(2, text.zfill(8)) + field(4, text.zfill(8))
        pair = field(1, b"a key of number " + text + b" with an end") + field(2, b"")
        (span,) = reader(body(ids + field(5, b"name " + text) + field(9, pair)), CODEC)
        assert (span.trace_id, span.span_id) == (text.zfill(16), text.zfill(8))
        assert (span.parent_span_id, span.name) == (text.zfill(8), f"name {number}")
        assert span.shape == (f"a key of number {number} with an end",)


def test_a_reader_takes_a_body_and_its_codec() -> None:
    """Anything else is a fault of the caller's."""
    reader: Any = native_reader()
    for given_ in ((), (b"",), (b"", CODEC, 1), (bytearray(), CODEC)):
        with pytest.raises(TypeError):
            reader(*given_)
    with pytest.raises(TypeError):
        reader(b"", codec=CODEC)


def test_a_reader_may_be_asked_while_it_reads() -> None:
    """Nested reads, from code that Python runs meanwhile, each give their own spans."""
    inner = body(IDS + field(9, PAIR) * 300)
    counts = list[int]()

    def shape(keys: tuple[str, ...]) -> tuple[str, ...]:
        if not counts:
            counts.append(0)
            counts.append(len(reader(inner, CODEC)[0].values))
        return keys

    reader = native_reader(shape=shape)
    (span,) = reader(body(IDS + field(9, PAIR) * 2), CODEC)

    assert counts == [0, 300]
    assert list(span.values) == [PAIR] * 2
