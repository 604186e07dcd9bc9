"""Call ids, packed: found, and taken out again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.session.log import call_ids
from tests.native import missing, native_rows

SPANS = [bytes(8), b"\xff" * 8, b"call_12\0", b"12345678"]
TEXTS = st.one_of(
    st.text(st.characters(codec=None), max_size=20),
    # Ids that hold spans' ids, as they lie in memory, are not taken for them.
    st.sampled_from(
        ["12345678", "call_12\0", "\xff" * 8, "x" * 255, "x" * 256, "é" * 128, "\ud800"]
    ),
)
STEPS = st.lists(st.tuples(st.sampled_from(SPANS), TEXTS, st.booleans()))


@given(STEPS)
def test_the_first_id_of_a_span_is_found_until_it_is_taken_out(
    steps: list[tuple[bytes, str, bool]],
) -> None:
    """Packed ids equal a list of pairs, for any ids inserted and removed in any order."""
    ids, known = b"", list[tuple[bytes, str]]()
    for span, text, comes in steps:
        if comes:
            before, ids = ids, call_ids.added(ids, span, text)
            if ids is not before:
                known.append((span, text))
        else:
            ids = call_ids.without(ids, span)
            first = next((pair for pair in known if pair[0] == span), None)
            known = [pair for pair in known if pair is not first]
        for each in SPANS:
            expected = next((text for span, text in known if span == each), "")
            assert call_ids.found(ids, each) == expected


@pytest.mark.parametrize(
    ("span", "text", "fits"),
    [
        (b"12345678", "call", True),
        (b"12345678", "x" * 255, True),
        (b"12345678", "x" * 256, False),
        (b"12345678", "é" * 128, False),
        (b"12345678", "", False),
        (b"1234567", "call", False),
    ],
)
def test_what_does_not_fit_is_not_packed(span: bytes, text: str, fits: bool) -> None:
    """A text of more than 255 bytes, or a span's id of another length, is left to the log."""
    assert bool(call_ids.packed(span, text)) is fits
    ids = b"others"
    assert (call_ids.added(ids, span, text) is not ids) is fits


@pytest.mark.skipif(bool(missing()), reason=missing())
@given(st.binary(max_size=99), st.sampled_from([*SPANS, b"short"]), TEXTS)
def test_in_c_they_are_packed_alike(ids: bytes, span: bytes, text: str) -> None:
    """The C packer appends plain ids that fit as the Python packer does, and leaves others to it."""
    packed = call_ids.packed(span, text)
    expected = ids + packed if packed and text.isascii() else None
    assert native_rows().add_id(ids, span, text) == expected


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("given", [(), (b"", b"", 1), (b"", "", ""), (bytearray(), b"", "")])
def test_in_c_nothing_else_is_taken(given: tuple[object, ...]) -> None:
    """Arguments of other types are refused."""
    with pytest.raises(TypeError):
        native_rows().add_id(*given)
