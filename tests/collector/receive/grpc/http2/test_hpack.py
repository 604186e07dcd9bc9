"""HPACK, by the examples of RFC 7541 and by laws."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hpack import Decoder as Other
from hpack import Encoder
from hpack.exceptions import HPACKError
from hypothesis import given
from hypothesis import strategies as st

from collector.receive.grpc.http2.hpack import (
    LIST_BYTES_MAX,
    Decoder,
    Header,
    HpackError,
    literal,
)

TEXT = st.binary(max_size=300)
HEADERS = st.lists(st.tuples(TEXT, TEXT), max_size=8)


def decoder() -> Decoder[list[Header]]:
    return Decoder(list)


AUTHORITY = (b":authority", b"www.example.com")
REQUEST = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), AUTHORITY]


@pytest.mark.parametrize(
    "blocks",
    [
        (
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ),
        (
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ),
    ],
)
def test_the_requests_of_the_specification(blocks: tuple[str, str, str]) -> None:
    """Sections C.3 and C.4: three requests on one connection, plain and in Huffman's code."""
    reader = decoder()
    first, second, third = (reader.decode(bytes.fromhex(block)) for block in blocks)
    assert first == REQUEST
    assert second == [*REQUEST, (b"cache-control", b"no-cache")]
    assert third == [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        AUTHORITY,
        (b"custom-key", b"custom-value"),
    ]


def test_the_responses_of_the_specification() -> None:
    """Section C.6: every letter of dates and cookies, in Huffman's code."""
    block = (
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"
        "6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    assert decoder().decode(bytes.fromhex(block)) == [
        (b":status", b"302"),
        (b"cache-control", b"private"),
        (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT"),
        (b"location", b"https://www.example.com"),
    ]


def _kept(header: Header) -> bytes:
    """A literal that goes into the table."""
    return b"\x40" + literal(*header)[1:]


@given(first=HEADERS, second=HEADERS)
def test_what_is_written_is_read(first: list[Header], second: list[Header]) -> None:
    """Remembered or not, once or twice, and by its index afterwards."""
    reader = decoder()
    kept = b"".join(map(_kept, first))
    plain = b"".join(literal(*header) for header in second)
    assert reader.decode(kept) == first
    assert [reader.decode(plain) for _ in range(2)] == [second, second]
    sizes = [len(name) + len(value) + 32 for name, value in reversed(first)]
    there = sum(sum(sizes[: n + 1]) <= 4096 for n in range(len(sizes)))
    by_index = bytes(0x80 | 62 + n for n in range(there))
    newest = list(reversed(first))[:there]
    assert [reader.decode(by_index) for _ in range(2)] == [newest, newest]
    with pytest.raises(HpackError):
        reader.decode(bytes((0x80 | 62 + there,)))


def test_a_block_means_what_the_table_holds() -> None:
    """Once the table has changed, the same bytes mean other headers."""
    reader = decoder()
    reader.decode(_kept((b"a", b"1")))
    assert reader.decode(b"\xbe") == [(b"a", b"1")]
    reader.decode(_kept((b"b", b"2")))
    assert reader.decode(b"\xbe") == [(b"b", b"2")]
    assert reader.decode(b"\x20") == []  # the table is emptied
    with pytest.raises(HpackError):
        reader.decode(b"\xbe")


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",
        b"\xff\xff\xff\xff\xff\xff\xff",
        b"\xbe",
        b"\x40",
        b"\x00\x05ab",
        b"\x00\x01a\x7f\xff\xff\xff\xff\x7f",
        b"\x82\x3f\xe1\x1f",
        b"\x3f\xff\xff\x03",
        b"\x00\x01a\x84\xff\xff\xff\xff",
        b"\x00\x01a\x81\x18",
        b"\x00\x01a\x82\x1f\xff",
    ],
)
def test_broken_blocks(block: bytes) -> None:
    """Bad indices, cut blocks, too large numbers or tables, and bad ends of Huffman texts are refused."""
    with pytest.raises(HpackError):
        decoder().decode(block)


def test_a_small_block_does_not_become_large() -> None:
    """Thousands of references to one large header are refused."""
    reader = decoder()
    reader.decode(_kept((b"n", b"v" * 4_000)))
    assert len(reader.decode(b"\xbe" * 10)) == 10
    with pytest.raises(HpackError, match="too large"):
        reader.decode(b"\xbe" * (LIST_BYTES_MAX // 4_000 + 1))


FIELD = st.tuples(
    st.sampled_from([b":path", b"content-type", b"x", b"cookie", b"te"]) | TEXT, TEXT
)


@given(
    blocks=st.lists(st.lists(FIELD, max_size=8), max_size=6),
    huffman=st.booleans(),
    sizes=st.lists(st.sampled_from([0, 40, 300, 4096]), max_size=6),
)
def test_what_another_encoder_writes_is_read(
    blocks: list[list[Header]], huffman: bool, sizes: list[int]
) -> None:
    """Blocks of the encoder `hpack` are read: indexed, compressed, with resized tables."""
    encoder, reader = Encoder(), decoder()
    for fields, size in zip_longest(blocks, sizes):
        if size is not None:
            encoder.header_table_size = size
        assert reader.decode(encoder.encode(fields or [], huffman=huffman)) == (fields or [])


PIECES = st.one_of(
    st.binary(max_size=12),
    st.integers(0, 70).map(lambda index: bytes((0x80 | index,))),
    st.sampled_from([b"\x20", b"\x3f\xe1\x1f", b"\x3e", b"\x40\1a\1b", b"\0\1c\x81\x1f", b"\x7f\0\0"]),
    st.tuples(TEXT, TEXT).map(lambda field: literal(*field)),
    st.tuples(TEXT, TEXT).map(lambda field: b"\x40" + literal(*field)[1:]),
)  # fmt: skip


@given(st.lists(st.lists(PIECES, max_size=6).map(b"".join), max_size=4))
def test_hostile_blocks_mean_what_another_decoder_reads(blocks: list[bytes]) -> None:
    """One that is broken to `hpack` is broken to us; all others are the same fields to both."""
    reader, other = decoder(), Other()
    other.max_allowed_table_size = 4096
    for block in blocks:
        try:
            expected = [(bytes(n), bytes(v)) for n, v in other.decode(block, raw=True)]
        except (HPACKError, ValueError):
            with pytest.raises(HpackError):
                reader.decode(block)
            return
        try:
            assert reader.decode(block) == expected
        except HpackError:
            assert _resizes(block) > 2, "it is no more than two resizes that we refuse alone"
            return


def _resizes(block: bytes) -> int:
    """How many resizes of the table it begins with."""
    count = at = 0
    while at < len(block) and block[at] & 0xE0 == 0x20:
        is_long = block[at] & 0x1F == 0x1F
        at += 1
        while is_long and at < len(block) and block[at] & 0x80:
            at += 1
        at += is_long
        count += 1
    return count
