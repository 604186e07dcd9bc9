"""One file of the journal: what was written is read, and nothing else."""

from __future__ import annotations

import struct
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from collector.state.segment import HEAD_BYTES, HEADERS_BYTES, VERSION, head_of, new_header
from collector.state.segment_reading import Damage, Record, read, read_header

PAYLOADS = (b"first", b"", b"third" * 20)


def journal(payloads: tuple[bytes, ...] = PAYLOADS) -> tuple[bytes, list[int]]:
    """A file, and where each record ends."""
    header = new_header(7, 1_000)
    data, ends = header.pack(), []
    for number, payload in enumerate(payloads):
        data += (
            head_of(header.mark, header.seed, 2, 10 + number, len(payload), (payload,))
            + payload
        )
        ends.append(len(data))
    return data, ends


def payloads(data: bytes) -> list[bytes]:
    return [each.payload for each in read(data) if isinstance(each, Record)]


def test_what_was_written_is_read() -> None:
    """Kinds, times, payloads and places come back."""
    data, ends = journal()
    found = [each for each in read(data) if isinstance(each, Record)]
    assert [(each.kind, each.at_ns, each.payload) for each in found] == [
        (2, 10 + number, payload) for number, payload in enumerate(PAYLOADS)
    ]
    assert [each.offset for each in found] == [HEADERS_BYTES, *ends[:-1]]


def test_every_torn_end_leaves_the_records_before_it() -> None:
    """A file that was cut anywhere gives its whole records, and says what is torn."""
    data, ends = journal()
    for length in range(len(data)):
        found = list(read(data[:length]))
        whole = [each for each in found if isinstance(each, Record)]
        damages = [each for each in found if isinstance(each, Damage)]
        assert len(whole) == sum(end <= length for end in ends), length
        # A second copy of the header is not needed.
        has_header = HEADERS_BYTES // 2 <= length <= HEADERS_BYTES
        is_clean = length in (0, *ends) or has_header
        assert (not damages) == is_clean, length
        assert all(each.torn for each in damages), length


def test_every_flipped_bit_is_noticed_or_harmless() -> None:
    """No bit of a file can be turned so that another record is read, or more than one is lost."""
    data, _ = journal()
    for place in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[place] ^= 1 << bit
            found = payloads(bytes(wrong))
            if place < HEADERS_BYTES:
                assert found == list(PAYLOADS)  # the other copy counts
            else:
                assert len(found) == len(PAYLOADS) - 1
                assert [each for each in PAYLOADS if each in found] == found
                assert any(isinstance(each, Damage) for each in read(bytes(wrong)))


def test_a_body_cannot_pass_for_a_record() -> None:
    """A payload that holds another file's records is read as one payload, also where its record is damaged."""
    other, _ = journal((b"planted",))
    data, ends = journal((b"before", other, b"behind"))
    assert payloads(data) == [b"before", other, b"behind"]
    wrong = bytearray(data)
    wrong[ends[0] + 8] ^= 1  # the length of the record that holds it
    assert payloads(bytes(wrong)) == [b"before", b"behind"]


def test_a_newer_format_is_told_and_not_read() -> None:
    """A file of a newer format gives no record, says which it is, and is not called damaged."""
    header = new_header(1, 5)._replace(version=VERSION + 1)
    data = header.pack() + head_of(header.mark, header.seed, 2, 1, 1, (b"x",)) + b"x"
    (damage,) = read(data)
    assert isinstance(damage, Damage)
    assert (damage.newer, damage.torn, damage.bytes) == (True, False, len(data))
    assert damage.why == "it is of format 4, and this program reads 1 and 2 and 3"


def test_format_1_is_read() -> None:
    """A file whose records have CRC-32, as the first versions wrote it, gives its records, and its damage is noticed."""
    header = new_header(7, 1_000)._replace(version=1)
    data = header.pack()
    for number, payload in enumerate(PAYLOADS):
        bare = struct.pack("<8sIB3xQ", header.salt[:8], len(payload), 2, 10 + number)
        seed = int.from_bytes(header.salt[8:12], "little")
        data += bare + struct.pack("<I", crc32(payload, crc32(bare, seed))) + payload
    assert payloads(data) == list(PAYLOADS)
    wrong = bytearray(data)
    wrong[HEADERS_BYTES + 28] ^= 1
    assert payloads(bytes(wrong)) == list(PAYLOADS[1:])


def test_a_lost_header_is_told() -> None:
    """Without either copy of the header nothing can be read, and that is damage."""
    data, _ = journal()
    found = list(read(bytes(HEADERS_BYTES) + data[HEADERS_BYTES:]))
    assert found == [Damage(0, len(data), "no header of a journal")]


@given(st.lists(st.binary(max_size=60)), st.binary(max_size=40), st.data())
def test_pieces_make_no_difference(
    made: list[bytes], noise: bytes, data: st.DataObject
) -> None:
    """However small the pieces are in which a file is read, it gives the same records and damages."""
    whole, ends = journal(tuple(made))
    at = data.draw(st.sampled_from([HEADERS_BYTES, *ends]))
    mixed = whole[:at] + noise + whole[at + data.draw(st.integers(0, 9)) :]
    expected = list(read(mixed))
    assert list(read(mixed, data.draw(st.integers(1, 50)))) == expected


@given(st.binary(max_size=400), st.integers(0, 400), st.booleans())
def test_any_bytes_can_be_read(noise: bytes, place: int, begins: bool) -> None:
    """Whatever a file holds, reading it raises nothing and covers every byte once."""
    data, _ = journal()
    place = min(place, len(data))
    mixed = (data[:place] if begins else b"") + noise + data[place:]
    at = 0 if isinstance(read_header(mixed), Damage) else HEADERS_BYTES
    for each in read(mixed):
        assert each.offset == at
        at += each.bytes if isinstance(each, Damage) else HEAD_BYTES + len(each.payload)
    assert at == len(mixed)
