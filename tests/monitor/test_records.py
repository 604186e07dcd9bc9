"""The records compare, copy and store as values."""

from __future__ import annotations

import pickle
from inspect import signature

import pytest

from monitor.records import Evidence, SessionKey, ToolCall


def call(**changes: object) -> ToolCall:
    made = ToolCall(
        session=SessionKey("", "s"),
        agent="a",
        tool="t",
        arguments={"x": 1},
        error=False,
        start_ns=2**61,
        end_ns=2**64 - 1,
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        parent_span_id=b"",
        call_id="c",
        evidence=Evidence.PENDING,
        attributes={"service.name": "a"},
    )
    return made._replace(**changes)


def test_calls_of_equal_fields_are_equal() -> None:
    """A call is its fields, whichever object holds them, and equals nothing else."""
    assert call() == call()
    assert call() != call(gaps=True)
    assert call() != tuple(
        getattr(call(), name) for name in signature(ToolCall).parameters if name != "result"
    )
    assert len({call(arguments=None, attributes=()), call(arguments=None, attributes=())}) == 1


def test_a_call_with_other_values_is_another_one() -> None:
    """`_replace` returns another call and leaves the first; an unknown field is refused."""
    made = call()
    other = made._replace(tool="u", start_ns=7)

    assert (made.tool, other.tool, other.start_ns, other.end_ns) == ("t", "u", 7, 2**64 - 1)
    with pytest.raises(TypeError):
        made._replace(nothing=1)


def test_a_call_can_be_kept_and_shown() -> None:
    """Pickled and back it is the same, and its text names every field in order."""
    made = call(source="genai", session_from="trace", control=True)

    assert pickle.loads(pickle.dumps(made)) == made
    text = repr(made)
    assert text.startswith("ToolCall(session=SessionKey(namespace='', id='s'), agent='a', ")
    assert text.endswith(
        "control=True, source='genai', session_from='trace', gaps=False, doubts=(), answer=b'', result=())"
    )
