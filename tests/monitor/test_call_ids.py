"""Call ids of a log: packed, found, and taken out again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.records import Evidence, SessionKey, ToolCall
from monitor.session import call_ids
from monitor.session.log import Log, Texts

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
    """Packed ids are what a list of pairs is, for any ids and any order of coming and going."""
    ids, known = b"", list[tuple[bytes, str]]()
    for span, text, comes in steps:
        packed = call_ids.packed(span, text)
        if comes and packed:
            ids += packed
            known.append((span, text))
        elif not comes:
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


def _call(number: int, call_id: str, **changes: Any) -> ToolCall:
    made = ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool="t",
        arguments=None,
        error=False,
        start_ns=number,
        end_ns=number + 1,
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id=call_id,
        evidence=Evidence.EXECUTED,
        attributes={},
    )
    return made._replace(**changes)


def _shown(log: Log) -> list[str]:
    texts = [log.row(place).texts for place in range(len(log))]
    return [each.call_id if each else "" for each in texts]


def test_a_log_shows_the_ids_of_the_steps_it_has() -> None:
    """Ids go where their steps go: into the middle, to another log, and out with them."""
    log, long = Log(), "x" * 300
    for number, call_id in [(1, "one"), (2, ""), (3, long), (5, "five")]:
        assert log.append(_call(number, call_id), 0, 0, number, number)
    log.insert(_call(4, "four"), 0, 0, 4, 9)
    assert _shown(log) == ["one", "", long, "four", "five"]

    other = Log()
    for place in range(5):
        other.take(log, place)
    assert _shown(other) == ["one", "", long, "four", "five"]

    log.remove(3)
    assert _shown(log) == ["one", "", long, "five"]
    log.forget(2)
    assert _shown(log) == [long, "five"]
    log.forget(2)
    assert (log._ids, log._texts) == (b"", {})


def test_ids_outlive_the_hashes_of_arguments() -> None:
    """What was kept to be compared goes; arguments that are shown, and all ids, stay."""
    log, long = Log(), "x" * 300
    for number, call_id in [(1, "one"), (2, long), (3, "three"), (4, "")]:
        log.append(_call(number, call_id), 0, 0, number, number)
        shown = {"a": 1} if number == 3 else None
        log.keep(number.to_bytes(8, "big"), Texts(call_id, shown, frozenset({number})))
    log.release()

    assert [log.row(place).texts for place in range(4)] == [
        Texts("one", None),
        Texts(long, None),
        Texts("three", {"a": 1}),
        None,
    ]
    assert len(log._texts or {}) == 2
