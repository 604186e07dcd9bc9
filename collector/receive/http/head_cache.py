"""Heads of requests that come again: a sender says the same each time, but for how long its body is.

What the parser and the exchange made of the first such head holds for the next, so that is neither
parsed nor read, but compared.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HEAD_BYTES_MAX", "KnownHead", "known_head"]

HEAD_BYTES_MAX: Final = 1024
"""Bytes of a remembered head."""
DIGITS_MAX: Final = 12
LENGTH: Final = b"content-length"
ZERO: Final = 0x30
"""The digit."""
NINE: Final = 0x39


class KnownHead:
    """The head of a request, but for the digits of its Content-Length.

    Args:
        before: what stands before the digits.
        after: what stands behind them, up to the body.
    """

    __slots__ = ("after", "before")

    def __init__(self, before: bytes, after: bytes) -> None:
        self.before = before
        self.after = after

    def read(self, data: bytes) -> tuple[int, int]:
        """The length of the body, and where it begins; (0, 0) where `data` begins otherwise."""
        before, after = self.before, self.after
        begin = end = len(before)
        if data[:begin] != before:
            return 0, 0
        length, last = 0, min(len(data), begin + DIGITS_MAX)
        while end < last:
            digit = data[end]
            if digit < ZERO or digit > NINE:
                break
            length = length * 10 + digit - ZERO
            end += 1
        at = end + len(after)
        if end == begin or data[end:at] != after:
            return 0, 0
        return length, at


def known_head(data: bytes) -> KnownHead | None:
    """What is to be remembered of a request that begins so; None of one without a plain length.

    It is known to be valid, and framed by its length alone.
    """
    size = data.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX) + 4
    head = data[:size].lower() if size >= 4 else b""
    if head.count(LENGTH) != 1:
        return None
    begin = head.find(b"\r\n" + LENGTH + b":") + len(LENGTH) + 3
    while head[begin : begin + 1] == b" ":
        begin += 1
    end = head.find(b"\r\n", begin)
    if not head[begin:end].isdigit():
        return None
    return KnownHead(data[:begin], data[end:size])
