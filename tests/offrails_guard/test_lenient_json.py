"""JSON as lenient readers take it: equal to the strict reader where that reads, and never an exception elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offrails_guard.lenient_json import NESTED_MAX, UNREAD, has_unread, read

TEXTS = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_it_reads_what_the_strict_reader_reads(
    value: Any, indent: int | None, escapes: bool
) -> None:
    """Every value of JSON, however it is written."""
    text = json.dumps(value, indent=indent, ensure_ascii=escapes).encode()
    found = read(b'{"k":1,"k":1,"value":' + text + b"}")  # a strict reader would refuse the key

    assert (found.values, found.is_whole) == ([{"k": 1, "value": value}], True)
    assert not found.is_strict
    assert read(text).is_strict


@given(
    st.binary()
    | st.text('{}[]:,"\\ a1\n\t\r\ud800').map(lambda text: text.encode(errors="surrogatepass"))
)
def test_no_bytes_are_too_odd(text: bytes) -> None:
    """It reads what it can, and raises nothing."""
    found = read(text)

    assert found.is_whole or not found.is_strict


@given(VALUES, st.data())
def test_what_is_read_of_half_a_text_is_not_whole(value: Any, data: st.DataObject) -> None:
    """A structure that is cut anywhere is not taken for a whole one."""
    text = json.dumps({"a": value})
    cut = data.draw(st.integers(1, len(text) - 1))

    assert not read(text[:cut].encode()).is_whole


@pytest.mark.parametrize("levels", [NESTED_MAX - 2, NESTED_MAX - 1, NESTED_MAX, 1_500, 500_000])
def test_what_nests_too_deeply_is_unread_and_the_rest_is_read(levels: int) -> None:
    """Brackets of both kinds are matched at every depth; what follows is read."""
    deep = '{"a":[' * (levels // 2) + "]}" * (levels // 2)
    found = read(f'{{"k": 1, "k": 1, "n": {deep}, "after": 1}}'.encode())
    [value] = found.values

    assert found.is_whole
    assert value["after"] == 1
    assert has_unread(value["n"]) is (levels >= NESTED_MAX)
    torn = f'{{"n": {deep[:-1]}, "after": 1}}'.encode()
    assert not read(torn).is_whole


def test_a_key_that_is_there_twice_is_unread_if_its_values_differ() -> None:
    """Readers take the first or the last; where both are equal it makes no difference."""
    [found] = read(b'{"a":1,"a":2,"b":"x","b":"x","c":true,"c":1}').values

    assert found == {"a": UNREAD, "b": "x", "c": UNREAD}
