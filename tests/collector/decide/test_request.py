"""Questions are read strictly, and each fault says where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decide.request import (
    CALLS_MAX,
    BadRequest,
    QuestionRequest,
    read_outcome,
    read_question,
)
from collector.dialects.names.name_bound import NAME_MAX, bounded
from collector.dialects.values.arguments import mapping
from monitor.partial import PartialArguments
from offrails_guard.transport.wire import outcome_body

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def question(**fields: Any) -> QuestionRequest:
    return read_question(json.dumps(fields).encode())


def fault(body: bytes | dict[str, Any]) -> tuple[str, str]:
    """The error and where it is."""
    with pytest.raises(BadRequest) as caught:
        read_question(body if isinstance(body, bytes) else json.dumps(body).encode())
    return caught.value.error, caught.value.where


def test_a_question_is_read_with_all_its_fields() -> None:
    """Ids become bytes, the service is an attribute, and the call commits."""
    found = question(
        session="s1",
        agent="rover",
        service="shop",
        tool="pay",
        arguments={"amount": 5},
        call_id="c1",
        question_id="q1",
        trace_id=TRACE,
        span_id=SPAN,
        parent_span_id=SPAN,
        attributes={"service.namespace": "a", "n": 3},
    )
    (call,) = found.calls

    assert (call.session, call.agent, call.tool, call.call_id) == ("s1", "rover", "pay", "c1")
    assert call.arguments == {"amount": 5}
    assert (call.question_id, call.place) == ("q1", 0)
    assert (call.trace_id.hex(), call.span_id.hex(), call.parent_span_id.hex()) == (
        TRACE,
        SPAN,
        SPAN,
    )
    assert found.attributes == {"service.namespace": "a", "n": 3, "service.name": "shop"}
    assert (found.commit, found.is_batch) == (True, False)


def test_absent_and_null_arguments_are_unknown() -> None:
    """Only an object, empty or not, says what the arguments are."""
    assert question(session="s", tool="t").calls[0].arguments is None
    assert question(session="s", tool="t", arguments=None).calls[0].arguments is None
    assert question(session="s", tool="t", arguments={}).calls[0].arguments == {}


def test_a_batch_shares_what_stands_beside_its_calls() -> None:
    """Session, agent, trace and parent are of all calls; a call may have a parent of its own."""
    other = "00f067aa0ba902b7"
    found = question(
        session="s",
        agent="a",
        trace_id=TRACE,
        parent_span_id=SPAN,
        commit=False,
        question_id="q1",
        calls=[{"tool": "one"}, {"tool": "two", "call_id": "c", "parent_span_id": other}],
    )

    assert [each.tool for each in found.calls] == ["one", "two"]
    assert [(each.question_id, each.place) for each in found.calls] == [("q1", 0), ("q1", 1)]
    assert {each.session for each in found.calls} == {"s"}
    assert [each.parent_span_id.hex() for each in found.calls] == [SPAN, other]
    assert (found.commit, found.is_batch) == (False, True)


def test_a_long_call_id_is_cut_as_that_of_a_span_is() -> None:
    """Gateways put a model's signature into it. Two long ids that begin alike stay two, and one is the same in both ways."""
    signed = "call_1__thought__" + "x" * 1_300
    [first] = question(session="s", tool="t", call_id=signed).calls
    [second] = question(session="s", calls=[{"tool": "t", "call_id": f"{signed}2"}]).calls

    assert first.call_id == bounded(signed) != second.call_id
    assert len(first.call_id) == len(second.call_id) == NAME_MAX


FAULTS: list[tuple[Any, str, str]] = [
    ({"session": "s"}, "tool", "expected a tool, or calls"),
    ({"session": "s", "tool": ""}, "tool", "expected the name of a tool"),
    ({"session": "s", "tool": 3}, "tool", "expected `str`, got `int`"),
    ({"session": "s", "tool": "t", "x": 1}, "", "object contains unknown field `x`"),
    (
        {"session": "s", "calls": [{"tool": "t", "x": 1}]},
        "calls[0]",
        "object contains unknown field `x`",
    ),
    ({"session": "s", "tool": "t", "arguments": [1]}, "arguments", "expected an object"),
    ({"session": "s", "tool": "t", "arguments": "{}"}, "arguments", "expected an object"),
    (
        {"session": "s", "calls": [{"tool": "t"}, {"tool": "t", "arguments": 1}]},
        "calls[1].arguments",
        "expected an object",
    ),
    ({"session": "s", "calls": []}, "calls", "expected 1 to 64 calls, found 0"),
    ({"session": "s", "calls": [{"tool": "t"}] * (CALLS_MAX + 1)}, "calls", "found 65"),
    ({"session": "s", "calls": [{"tool": "t"}], "tool": "t"}, "tool", "in each of the calls"),
    (
        {"session": "s", "calls": [{"tool": "t"}], "arguments": {}},
        "arguments",
        "in each of the calls",
    ),
    ({"tool": "t", "trace_id": "ab"}, "trace_id", "expected 32 hexadecimal digits"),
    ({"tool": "t", "trace_id": "0" * 32}, "trace_id", "not all zero"),
    ({"tool": "t", "trace_id": "g" * 32}, "trace_id", "expected 32 hexadecimal digits"),
    ({"session": "s", "tool": "t", "span_id": SPAN}, "span_id", "needs a trace_id"),
    (
        {"session": "s", "trace_id": TRACE, "calls": [{"tool": "t", "span_id": "x"}]},
        "calls[0].span_id",
        "expected 16 hexadecimal digits",
    ),
    ({"session": "s" * 1_025, "tool": "t"}, "session", "at most 1024 characters"),
    ({"session": "s", "tool": "t", "question_id": "q" * 129}, "question_id", "at most 128"),
    ({"session": "s", "tool": "t", "question_id": 1}, "question_id", "expected `str`"),
    ({"session": "s", "tool": "t" * 10_000}, "tool", "expected at most"),
    ({"session": "s", "tool": "t", "attributes": {"a": []}}, "attributes[...]", "expected"),
    (
        {"session": "s", "tool": "t", "arguments": dict.fromkeys(map(str, range(1_025)))},
        "arguments",
        "at most 1024 arguments, found 1025",
    ),
    (
        {"session": "s", "tool": "t", "attributes": {"a": "v" * 2_000}},
        "attributes.a",
        "at most 1024 characters",
    ),
    (
        {"session": "s", "tool": "t", "attributes": dict.fromkeys(map(str, range(65)), 1)},
        "attributes",
        "at most 64 attributes",
    ),
    (
        {
            "session": "s",
            "tool": "t",
            "service": "a",
            "attributes": {"service.name": "b"},
        },
        "service",
        "differs from attributes.service.name",
    ),
    ({"session": "s", "tool": "t", "unread": ["a"]}, "unread", "that are known beside them"),
    (
        {"session": "s", "calls": [{"tool": "t"}], "unread": ["a"]},
        "unread",
        "in each of the calls",
    ),
    (
        {"session": "s", "tool": "t", "arguments": {}, "unread": [str(n) for n in range(1025)]},
        "arguments",
        "at most 1024 arguments",
    ),
]


@pytest.mark.parametrize(("body", "where", "error"), FAULTS)
def test_a_fault_says_where_it_is(body: Any, where: str, error: str) -> None:
    """The path of the fault is that of the field in the body."""
    said, found = fault(body)

    assert found == where
    assert error in said


@pytest.mark.parametrize(
    ("told", "unread"),
    [
        (b'{"a": 1}, "unread": ["b"]', {"b"}),
        (b'{"a": 1, "b": [], "b": 2}, "unread": ["c"]', {"b", "c"}),
        (b'{"a": 1, "b": ' + b"[" * 200 + b"]" * 200 + b"}", {"b"}),
    ],
    ids=["told", "twice", "deep"],
)
def test_some_arguments_may_be_unread(told: bytes, unread: set[str]) -> None:
    """A value that its client could not write, that nests too deeply, or that has several takes no other with it."""
    found = read_question(b'{"session": "s", "tool": "t", "arguments": %s}' % told)
    arguments = found.calls[0].arguments

    assert isinstance(arguments, PartialArguments)
    assert arguments["a"] == 1
    assert set(arguments.unread) == unread


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"session": "s", "tool": "t", "arguments": {"a": }}',
        b"\xff\xfe",
        b'{"session": "s", "tool": "\\ud800"}',
        b'{"a":' * 100_000,
        b'{"session": "s", "tool": "t", "arguments": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
    ],
    ids=range(8),
)
def test_what_is_no_question_is_refused(body: bytes) -> None:
    """Broken, foreign and deeply nested bodies raise nothing but BadRequest."""
    fault(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """No body raises anything but BadRequest."""
    try:
        read_question(body)
        read_outcome(body)
    except BadRequest:
        pass


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=4))
def test_arguments_equal_those_of_a_span(arguments: dict[str, Any]) -> None:
    """The same text gives the same arguments in a question and in a span."""
    text = json.dumps(arguments)
    body = b'{"session": "s", "tool": "t", "arguments": ' + text.encode() + b"}"

    assert read_question(body).calls[0].arguments == mapping(text)


@pytest.mark.parametrize("result", [{"status": "ok"}, "", None, 5, []])
def test_an_outcome_may_carry_what_the_tool_returned(result: Any) -> None:
    """Any JSON value is a result, also an empty one and null; without the key it is unknown."""
    told = {"decision_id": "d", "outcome": "ran", "result": result}
    assert read_outcome(json.dumps(told).encode()) == ("d", "ran", (result,))
    assert read_outcome(outcome_body("d", "ran", (result,))) == ("d", "ran", (result,))
    assert read_outcome(outcome_body("d", "ran")) == ("d", "ran", ())


def test_an_outcome_is_one_of_three() -> None:
    """Whatever else is told is refused, with its place."""
    told = {"decision_id": "d", "outcome": "ran"}

    assert read_outcome(json.dumps(told).encode()) == ("d", "ran", ())
    for body, where in (
        ({**told, "outcome": "maybe"}, "outcome"),
        ({**told, "decision_id": ""}, "decision_id"),
        ({"outcome": "ran"}, ""),
        ({**told, "more": 1}, ""),
    ):
        with pytest.raises(BadRequest) as caught:
            read_outcome(json.dumps(body).encode())
        assert caught.value.where == where
