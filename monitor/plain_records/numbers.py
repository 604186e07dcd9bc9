"""Columns of numbers as bytes, little-endian, each number in as few bytes as the greatest needs."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Final

__all__ = ["as_bytes", "from_bytes", "narrow", "of_code"]

_WIDTHS: Final = (
    ("B", 0, (1 << 8) - 1),
    ("b", -(1 << 7), (1 << 7) - 1),
    ("H", 0, (1 << 16) - 1),
    ("I", 0, (1 << 32) - 1),
    ("q", -(1 << 63), (1 << 63) - 1),
)
"""Codes of arrays, and what their numbers lie between."""


def narrow(numbers: Sequence[int]) -> tuple[str, bytes] | None:
    """The code of an array that holds them, and its bytes; None if 64 bits do not hold one."""
    low, high = (min(numbers), max(numbers)) if numbers else (0, 0)
    for code, least, most in _WIDTHS:
        if least <= low and high <= most:
            return code, as_bytes(array(code, numbers))
    return None


def as_bytes(numbers: array[int] | array[float]) -> bytes:
    """An array's bytes."""
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def from_bytes(code: str, payload: bytes) -> array[int]:
    """The array again.

    Raises:
        ValueError: they are none of such numbers.
    """
    found: array[int] = array(code, payload)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def of_code(code: str, payload: bytes) -> list[int]:
    """The numbers of a column.

    Raises:
        ValueError: they are none of such numbers.
    """
    return from_bytes(code, payload).tolist()
