"""Rows and contexts of a log in C: the bytes that `struct` makes, what is found, and its refusals."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - as what it is
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.native import missing, native_rows

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a C compiler")

ROW = Struct("<QQ8sIHH")
FIELDS = (
    st.integers(-1, 2**64),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=10),
    st.integers(0, 2**32),
    st.integers(-1, 2**16),
    st.integers(0, 2**16 - 1),
)

IDS = st.sampled_from([bytes(8), b"\1" * 8, bytes(7) + b"\1", b"\1" + bytes(7), b"12345678"])
"""Few, so that they meet."""


@given(st.tuples(*FIELDS), st.binary(max_size=40))
def test_a_row_is_as_struct_packs_it(fields: tuple[Any, ...], before: bytes) -> None:
    """A row is appended, with ids cut or padded to eight bytes. One that does not fit changes nothing."""
    rows = bytearray(before)
    try:
        packed = ROW.pack(*fields)
    except StructError:
        with pytest.raises(OverflowError):
            native_rows().append(rows, *fields)
        assert rows == before
        return
    native_rows().append(rows, *fields)

    assert rows == before + packed


@pytest.mark.parametrize(
    "given",
    [
        (),
        (bytearray(), 1, 1, b"", 1, 1),
        (b"", 1, 1, b"", 1, 1, 1),
        (bytearray(), 1, 1, "", 1, 1, 1),
        (bytearray(), "1", 1, b"", 1, 1, 1),
        (bytearray(), 1, 1, b"", 1, None, 1),
    ],
)
def test_what_is_no_row_is_refused(given: tuple[Any, ...]) -> None:
    """Arguments of a wrong type or number raise TypeError."""
    with pytest.raises(TypeError):
        native_rows().append(*given)


def test_rows_that_somebody_looks_at_stay_as_they_are() -> None:
    """Rows under a memory view cannot grow: that raises, and nothing is written."""
    rows = bytearray(b"x")
    with memoryview(rows), pytest.raises(BufferError):
        native_rows().append(rows, 1, 1, b"", 1, 1, 1)
    assert rows == b"x"


@given(
    st.lists(st.tuples(st.binary(min_size=16, max_size=16), IDS), max_size=20),
    IDS,
    st.integers(0, 23),
)
def test_a_parent_is_found_where_it_stands(
    contexts: list[tuple[bytes, bytes]], span_id: bytes, more: int
) -> None:
    """Among any number of them, whatever their traces' ids are, and nothing behind the last."""
    joined = b"".join(trace_id + parent for trace_id, parent in contexts)
    expected = span_id in {parent for _, parent in contexts}

    assert native_rows().names(joined, span_id) is expected
    assert native_rows().names(joined + bytes(more), span_id) is expected


@pytest.mark.parametrize(
    "given", [(), (b"", b"x" * 7), (bytearray(), b"x" * 8), (b"", "x" * 8), (b"", b"x" * 9)]
)
def test_what_is_no_span_id_is_refused(given: tuple[Any, ...]) -> None:
    """The C reader refuses such ids, and the caller falls back to Python."""
    with pytest.raises(TypeError):
        native_rows().names(*given)
