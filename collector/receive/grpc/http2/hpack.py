"""HPACK (RFC 7541): header blocks of HTTP/2, read with a dynamic table; what we write needs none.

Idea: a block is a list of headers. Each is an index into a table, or a literal, which may be added to the
table. The table has a static part (61 entries) and a dynamic one, the newest entry first, of 4,096 bytes. So
after its first request a sender writes the same few bytes each time.

Invariants:

- Every block of a connection is decoded, in order: each may change the table for all that follow.
- A block that leaves the table as it is means the same as long as the table is the same. Up to 64 such blocks
  are remembered with what was made of them (`_known`); any change of the table forgets them.
- Work and memory are bounded: 64 KiB of headers a block, entries cost 32 bytes each (4.1), Huffman's code is
  read four bits at a time.

Example: `82` is index 2, `:method GET`. `40 01 61 01 62` is the literal `a: b`, which is added to the table, so
that `be` (index 62, the newest entry) means `a: b` from then on. Our own answers use static indices and
literals that are never added (`literal`): they need no table on the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, Generic, TypeVar

__all__ = ["Decoder", "Header", "HpackError", "TooLarge", "literal"]

Header = tuple[bytes, bytes]
Read = TypeVar("Read")

TABLE_BYTES_MAX: Final = 4096
"""RFC 9113 6.5.2: the initial value of SETTINGS_HEADER_TABLE_SIZE, which we leave."""
ENTRY_BYTES: Final = 32
"""RFC 7541 4.1: what an entry counts beside its name and value."""
LIST_BYTES_MAX: Final = 64 << 10
"""Bytes of all headers of a request, counted the same way: this also bounds their number."""
RESIZES_MAX: Final = 2
"""Size changes of the table at the beginning of a block (4.2): the least size since the last block,
and the last."""
KNOWN_MAX: Final = 64
KNOWN_BYTES_MAX: Final = 512
"""Blocks that are remembered: how many, and of what size."""
NUMBER_MAX: Final = 1 << 24

_STATIC: Final = """\
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate
"""
"""Appendix A, from index 1."""


def _static() -> list[Header]:
    lines = _STATIC.encode().splitlines()
    pairs = (line.partition(b" ") for line in lines)
    return [(name, value) for name, _, value in pairs]


STATIC: Final = [(b"", b""), *_static()]
FIRST_DYNAMIC: Final = len(STATIC)

# fmt: off
_LENGTHS: Final = (
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
)
"""Appendix B: bits of the code of each byte, and of the end. The code is canonical: in order of
length, then of the byte, each is one more than the last."""
# fmt: on
END_OF_STRING: Final = 256
NOTHING: Final = -1
PADDING_MAX: Final = 7

_Steps = list[list[tuple[int, int]]]


@cache
def _huffman() -> tuple[_Steps, frozenset[int]]:
    """The code as a machine: what four bits lead to, and where a text may end.

    Each state is a beginning of codes, by number; a step gives the next one and the byte that has
    ended on the way, if any: codes have five bits at least. Bit by bit, a hostile block would hold up
    everyone for a tenth of a second.
    """
    children: list[list[int]] = [[NOTHING, NOTHING]]
    code = length = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda each: (_LENGTHS[each], each)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        _plant(children, code, length, symbol)
        code += 1
    steps = [
        [_step(children, state, four) for four in range(16)] for state in range(len(children))
    ]
    ends, state = {0}, 0
    for _ in range(PADDING_MAX):
        state = children[state][1]
        ends.add(state)
    return steps, frozenset(ends)


def _plant(children: list[list[int]], code: int, length: int, symbol: int) -> None:
    """Adds a code; what it leads to is kept below NOTHING."""
    state = 0
    for shift in range(length - 1, 0, -1):
        bit = code >> shift & 1
        if children[state][bit] == NOTHING:
            children[state][bit] = len(children)
            children.append([NOTHING, NOTHING])
        state = children[state][bit]
    children[state][code & 1] = NOTHING - 1 - symbol


def _step(children: list[list[int]], state: int, four: int) -> tuple[int, int]:
    symbol = NOTHING
    for shift in (3, 2, 1, 0):
        state = children[state][four >> shift & 1]
        if state < NOTHING:
            symbol, state = NOTHING - 1 - state, 0
            if symbol == END_OF_STRING:
                break
    return state, symbol


class HpackError(Exception):
    """A block that cannot be read; the connection cannot go on (RFC 7541 2.2)."""


class TooLarge(HpackError):  # noqa: N818 - a bound of ours, not a fault
    """More comes of a block than we read."""


class Decoder(Generic[Read]):
    """Reads the header blocks of one connection, all of them, in order.

    Args:
        read: makes of the headers what is wanted.
    """

    def __init__(self, read: Callable[[list[Header]], Read]) -> None:
        self._read = read
        self._table: list[Header] = []
        """The newest first."""
        self._size = 0
        self._size_max = TABLE_BYTES_MAX
        self._known: dict[bytes, Read] = {}
        """Blocks that left the table as it is, while it is as it is."""

    def decode(self, block: bytes) -> Read:
        """Return what is made of the headers of a block, as they came.

        Raises:
            TooLarge: too much comes of it. The table is not what it should be then, either.
            HpackError: it is none.
        """
        known = self._known.get(block)
        if known is not None:
            return known
        try:
            headers, is_changed = self._decode(block)
        except IndexError:
            raise HpackError("the block is cut off, or names what is not there") from None
        found = self._read(headers)
        if is_changed or len(self._known) >= KNOWN_MAX:
            self._known.clear()
        if not is_changed and len(block) <= KNOWN_BYTES_MAX:
            self._known[block] = found
        return found

    def _decode(self, block: bytes) -> tuple[list[Header], bool]:
        found: list[Header] = []
        at, room, resizes, is_changed = 0, LIST_BYTES_MAX, 0, False
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _number(block, at, 7)
                header = self._entry(index)
            elif first & 0xE0 == 0x20:
                size, at = _number(block, at, 5)
                resizes += 1
                if size > TABLE_BYTES_MAX or found or resizes > RESIZES_MAX:
                    raise HpackError("a size of the table that is not allowed here")
                self._size_max, is_changed = size, True
                self._evict()
                continue
            else:
                is_kept = bool(first & 0x40)
                index, at = _number(block, at, 6 if is_kept else 4)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = _string(block, at)
                value, at = _string(block, at)
                header = name, value
                if is_kept:
                    self._keep(header)
                    is_changed = True
            room -= len(header[0]) + len(header[1]) + ENTRY_BYTES
            if room < 0:
                raise TooLarge("the headers are too large")
            found.append(header)
        return found, is_changed

    def _entry(self, index: int) -> Header:
        if index == 0:
            raise HpackError("index 0")
        return STATIC[index] if index < FIRST_DYNAMIC else self._table[index - FIRST_DYNAMIC]

    def _keep(self, header: Header) -> None:
        self._table.insert(0, header)
        self._size += len(header[0]) + len(header[1]) + ENTRY_BYTES
        self._evict()

    def _evict(self) -> None:
        while self._size > self._size_max:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + ENTRY_BYTES


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number that begins in the low bits of a byte (5.1), and where it ends."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        shift += 7
        if number > NUMBER_MAX or shift > 28:
            raise HpackError("a number is too large")
        if byte < 0x80:
            return number, at


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    """A text (5.2), and where it ends."""
    is_packed = block[at] >= 0x80
    length, at = _number(block, at, 7)
    raw = block[at : at + length]
    if len(raw) < length:
        raise HpackError("a text is cut off")
    return (_unpacked(raw) if is_packed else raw), at + length


def _unpacked(raw: bytes) -> bytes:
    """A text in Huffman's code."""
    steps, ends = _huffman()
    found = bytearray()
    state = 0
    for byte in raw:
        for four in (byte >> 4, byte & 15):
            state, symbol = steps[state][four]
            if symbol == END_OF_STRING:
                raise HpackError("the end within a text")
            if symbol >= 0:
                found.append(symbol)
    if state not in ends:
        raise HpackError("a text does not end as it should")
    return bytes(found)


def literal(name: bytes, value: bytes) -> bytes:
    """A header that is neither packed nor to be remembered (6.2.2)."""
    return b"\0" + _text(name) + _text(value)


def _text(raw: bytes) -> bytes:
    if len(raw) < 0x7F:
        return bytes((len(raw),)) + raw
    head = bytearray((0x7F,))
    rest = len(raw) - 0x7F
    while rest >= 0x80:
        head.append(rest & 0x7F | 0x80)
        rest >>= 7
    head.append(rest)
    return bytes(head) + raw
