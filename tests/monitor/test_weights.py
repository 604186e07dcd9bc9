"""Texts weigh no less than Python takes for their characters."""

from __future__ import annotations

import sys

import msgspec
import pytest

from monitor.weights import ITEM_BYTES, text_bytes


@pytest.mark.parametrize("character", ["a", "\xe9", "\u4e2d", "\U0001f600"])
def test_a_text_weighs_what_it_takes_once_it_is_written(character: str) -> None:
    """Of a text that is not ASCII, Python keeps the UTF-8 from the first time that it is written as JSON."""
    text = character * 1_000 + "."
    msgspec.json.encode({"text": text})
    assert sys.getsizeof(text) <= text_bytes(text) + 2 * ITEM_BYTES
