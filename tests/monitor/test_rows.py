"""Rows of a log written in C: the bytes that `struct` makes, and its refusals."""

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


@given(st.tuples(*FIELDS), st.binary(max_size=40))
def test_a_row_is_as_struct_packs_it(fields: tuple[Any, ...], before: bytes) -> None:
    """Behind what there is, ids cut or filled to eight bytes; what does not fit changes nothing."""
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
    """As any function does."""
    with pytest.raises(TypeError):
        native_rows().append(*given)


def test_rows_that_somebody_looks_at_stay_as_they_are() -> None:
    """Room cannot be made behind a view: that is said, and nothing is written."""
    rows = bytearray(b"x")
    with memoryview(rows), pytest.raises(BufferError):
        native_rows().append(rows, 1, 1, b"", 1, 1, 1)
    assert rows == b"x"
