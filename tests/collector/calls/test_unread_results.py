"""Results that nobody has asked for: they are read once a spec of their session asks, and nothing depends on when."""

from __future__ import annotations

import json
from itertools import count, permutations
from typing import Any

import pytest

from collector.decode.json.otlp_json import JsonCodec
from collector.dialects.values.returned import returned
from collector.dialects.values.span_result import SpanResult
from monitor import Limits, Monitor, tool_call
from monitor.records import ToolCall
from monitor.value_paths import path_of
from monitor.weights import call_bytes
from tests.collector.calls.test_deciding import NAMED
from tests.collector.calls.test_results import RESULT, asked, read, removed, spec
from tests.collector.conftest import Bench

ELSEWHERE = {"service.name": "elsewhere"}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The values that were read, as they were written."""
    found: list[Any] = []

    def noted(value: Any, *, quoted: bool) -> tuple[Any, ...]:
        found.append(value)
        return returned(value, quoted=quoted)

    monkeypatch.setattr("collector.dialects.values.span_result.returned", noted)
    return found


def test_a_session_without_such_a_spec_reads_no_result(wire: Any, reads: list[Any]) -> None:
    """Another service's spec asks for results of this tool; the result of a call that is not judged by it stays unread."""
    made = Bench([spec()]).send(asked(wire, {"status": "approved"}, resource=ELSEWHERE))
    assert [type(each.returned).__name__ for each in made.judged()] == ["SpanResult"]
    assert not reads


def test_a_session_with_such_a_spec_reads_it_once(wire: Any, reads: list[Any]) -> None:
    """However many specs ask, and however often it is looked at: what they ask for is kept then."""
    made = Bench([spec()]).send(asked(wire, {"status": "approved"}), removed(wire))
    assert [each.result for each in made.judged()] == [({"status": "approved"},), ()]
    assert len(reads) == 1


def test_a_spec_that_binds_later_reads_it(wire: Any, reads: list[Any]) -> None:
    """A span of the service that it matches comes last: the refusal before it counts."""
    first = asked(wire, {"status": "denied"}, resource=ELSEWHERE)
    made = Bench([spec()]).send(first)
    assert not reads
    made.send(removed(wire))
    assert read(made) == [("refused", "self_loop"), ("remove", "harmful")]


def test_of_two_spans_the_first_that_can_be_read_counts(wire: Any) -> None:
    """The outer span shows what Python shows of an object, which says nothing; the inner one has the answer, in any order."""
    outer = wire.tool(
        "ask", id="a", start=0, end=1, attributes={**NAMED, RESULT: "{'status': 0}"}
    )
    below = {**NAMED, RESULT: json.dumps({"status": "denied"})}
    inner = wire.tool("ask", id="i", parent="a", start=0.1, end=0.9, attributes=below)
    for order in permutations([outer, inner, removed(wire)]):
        made = Bench([spec()]).send(*order)
        assert read(made) == [("refused", "self_loop"), ("remove", "harmful")]


def test_trees_read_results_before_they_give_up_arguments(wire: Any, reads: list[Any]) -> None:
    """Long texts that no spec asks for fill the bound; what is asked for of them does not."""
    made, number = Bench([spec()], arguments_bytes_max=1 << 20), count(1)
    for _ in range(60):
        each = next(number)
        attributes = {RESULT: json.dumps({"status": "denied", "text": "x" * 40_000})}
        made.send(
            wire.tool(
                "ask",
                trace=f"t{each}",
                id=f"{each}",
                arguments={"n": each},
                attributes=attributes,
                resource=ELSEWHERE,
            )
        )
    assert made.pipeline.traces.held < 1 << 20
    assert reads
    assert made.covered("arguments_given_up") == 0
    assert len(made.judged()) == 60
    assert all(call.result == ({"status": "denied"},) for call in made.judged())


def test_sessions_read_results_before_they_let_calls_go() -> None:
    """Calls that wait for another spec have their results read at the bound, and still wait."""
    monitor = Monitor([spec()], Limits(history_complete=True, held_bytes_max=1 << 17))
    for number in range(40):
        call = tool_call(
            "ask", {}, session=f"s{number}", start_ns=number + 1, end_ns=number + 2
        )
        monitor.observe(_with(call), number + 2)
    state = monitor.state.judging_state
    assert state.held == 40
    assert state.held_given_up == 0
    assert state.held_bytes.total <= 1 << 17


def _with(call: ToolCall) -> ToolCall:
    """A long text, of which little is asked for."""
    text = json.dumps({"status": "denied", "text": "x" * 10_000})
    made = call._replace(result=SpanResult(JsonCodec(), text, False, (path_of("status"),)))
    assert call_bytes(made) > 10_000
    return made
