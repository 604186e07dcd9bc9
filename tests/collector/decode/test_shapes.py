"""Shapes: one object for equal lists of keys, in bounded memory."""

from __future__ import annotations

import sys

import pytest

from collector.decode.memo import BYTES_MAX, KEY_BYTES_MAX
from collector.decode.shapes import Shapes, key_of
from collector.decode.span import ATTRIBUTES_MAX, KEY_MAX, OverBound


def _keys(number: int, size: int) -> tuple[str, ...]:
    return (f"{number} ".ljust(size, "k"), "last")


def test_equal_lists_are_one_object_while_they_are_remembered() -> None:
    """Another order, or where one key ends and the next begins, makes another shape."""
    shapes = Shapes()
    first = shapes.of(_keys(1, 9))
    assert shapes.of(_keys(1, 9)) is first
    for other in (first[::-1], ("".join(first),), (first[0] + "l", "ast"), ()):
        assert shapes.of(other) == other


def test_more_than_is_remembered_is_forgotten_at_once() -> None:
    """The cache stays below its bound, and shapes that recur are found again."""
    shapes, size, gone = Shapes(), 1_000, list[int]()
    first = shapes.of(_keys(0, size))
    held = sys.getrefcount(first)
    for number in range(1, 3 * BYTES_MAX // size):
        assert shapes.of(_keys(number, size)) == _keys(number, size)
        if sys.getrefcount(first) < held:
            gone.append(number)
            first = shapes.of(_keys(number, size))
    assert len(gone) >= 3
    assert BYTES_MAX // size // 2 < gone[0] < BYTES_MAX // size
    assert shapes.of(_keys(number, size)) is shapes.of(_keys(number, size))


def test_a_large_list_is_not_held() -> None:
    """A large list of keys is not cached and evicts nothing."""
    shapes = Shapes()
    small = shapes.of(_keys(1, 2))
    large = tuple(f"{number}".ljust(KEY_MAX) for number in range(KEY_BYTES_MAX // KEY_MAX + 1))
    free = sys.getrefcount(large)
    assert shapes.of(large) == large
    assert sys.getrefcount(large) == free
    assert shapes.of(_keys(1, 2)) is small


@pytest.mark.parametrize("keys", [("k",) * (ATTRIBUTES_MAX + 1), ("a", "k" * (KEY_MAX + 1))])
def test_lists_over_the_bounds_are_refused(keys: tuple[str, ...]) -> None:
    """Too many keys, or one that is too long; those at the bounds are not."""
    shapes = Shapes()
    with pytest.raises(OverBound, match="more than"):
        shapes.of(keys)
    assert shapes.of(tuple(key[:KEY_MAX] for key in keys[:ATTRIBUTES_MAX]))


def test_equal_keys_are_one_text() -> None:
    """Bytes that are no UTF-8 are replaced, as the runtime has it."""
    raw, odd = b"gen_ai.tool.name", b"odd\xff"
    assert key_of(raw) is key_of(bytes(bytearray(raw)))
    assert (key_of(raw), key_of(odd)) == ("gen_ai.tool.name", "odd\ufffd")
