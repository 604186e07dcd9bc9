"""Header blocks over several frames are joined as if in one, or refused with the code of RFC 9113."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.receive.grpc.http2.frames import (
    BLOCK_BYTES_MAX,
    CONTINUATION,
    DATA,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    PADDED,
    PRIORITISED,
    PROTOCOL_ERROR,
    ConnectionFault,
    number_of,
)
from collector.receive.grpc.http2.header_blocks import HeaderBlocks


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_a_block_is_the_same_however_it_is_cut(block: bytes, cuts: list[int]) -> None:
    """Over any number of frames, and the number of its stream is known meanwhile."""
    places = [0, *sorted(min(cut, len(block)) for cut in cuts), len(block)]
    pieces = [block[a:b] for a, b in pairwise(places)]
    blocks = HeaderBlocks()
    found = blocks.begin(END_HEADERS if len(pieces) == 1 else 0, 3, pieces[0])
    for number, piece in enumerate(pieces[1:], 2):
        assert (found, blocks.number) == (None, 3)
        blocks.check_order(CONTINUATION, 3)
        found = blocks.go_on(END_HEADERS if number == len(pieces) else 0, piece)
    assert (found, blocks.number) == (block, 0)


def test_what_surrounds_a_block_is_taken_away() -> None:
    """Padding and priority."""
    payload = b"\x02" + number_of(1) + b"\x10" + b"block" + bytes(2)
    found = HeaderBlocks().begin(END_HEADERS | PADDED | PRIORITISED, 3, payload)
    assert found == b"block"


@pytest.mark.parametrize(
    ("flags", "number", "payload", "code"),
    [
        (END_HEADERS, 2, b"", PROTOCOL_ERROR),
        (END_HEADERS | PADDED, 1, b"\x01", PROTOCOL_ERROR),
        (END_HEADERS | PRIORITISED, 1, b"\0\0\0\0", FRAME_SIZE_ERROR),
        (END_HEADERS | PRIORITISED, 1, number_of(1) + b"\0", PROTOCOL_ERROR),
    ],
)
def test_frames_that_no_client_may_send(
    flags: int, number: int, payload: bytes, code: int
) -> None:
    """An even stream id, too much padding, a short PRIORITY and a stream that depends on itself are refused."""
    with pytest.raises(ConnectionFault) as fault:
        HeaderBlocks().begin(flags, number, payload)
    assert fault.value.code == code


def test_nothing_comes_between_the_frames_of_a_block() -> None:
    """No other frame, no other stream; and no continuation of nothing."""
    blocks = HeaderBlocks()
    with pytest.raises(ConnectionFault):
        blocks.go_on(END_HEADERS, b"")
    blocks.check_order(DATA, 1)
    blocks.begin(0, 1, b"")
    for kind, number in ((DATA, 1), (CONTINUATION, 3)):
        with pytest.raises(ConnectionFault):
            blocks.check_order(kind, number)
    with pytest.raises(ConnectionFault) as fault:
        blocks.go_on(0, bytes(BLOCK_BYTES_MAX + 1))
    assert fault.value.code == ENHANCE_YOUR_CALM
