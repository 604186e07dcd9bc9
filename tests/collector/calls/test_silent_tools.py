"""Tools without spans beside tools with spans: silence is learnt for each tool, from the results that models are given."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.dialects.outputs import answered_ids, may_answer, outputs_of
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND, Wire

TASK = """
id: shop
match: {service.name: svc}
alphabet: {look: {tool: look_up}, check: {tool: check}, pay: {tool: pay}}
golden: [[look, check, pay]]
"""
IN = {"gen_ai.conversation.id": "s"}


def _spec(text: str = TASK) -> Spec:
    found, findings = compile_text(text, "spec.yaml")
    assert found is not None, findings
    return found


def _model(
    wire: Any,
    start: float,
    asked: list[tuple[str, str]],
    heard: list[tuple[str, str]] = [],  # noqa: B006
    results: list[str] = [],  # noqa: B006
    named: dict[str, str] = IN,
    **more: Any,
) -> Any:
    """A model's span: what it asks for, and of what it was given the requests it had made and their results."""
    output = [{"type": "tool_call", "id": i, "name": t, "arguments": {}} for i, t in asked]
    told = [{"type": "tool_call", "id": i, "name": t, "arguments": {}} for i, t in heard]
    back = [{"type": "tool_call_response", "id": i, "result": "ok"} for i in results]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(
            [{"role": "assistant", "parts": told}, {"role": "user", "parts": back}]
        ),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": output}]),
        **named,
    }
    given = {"id": f"chat{start}", "parent": "run", "start": start, "end": start + 0.5, **more}
    return wire.span("chat", attributes, **given)


def _tool(wire: Any, tool: str, call_id: str, start: float, named: dict[str, str] = IN) -> Any:
    return wire.tool(
        tool,
        id=tool,
        parent="run",
        start=start,
        end=start + 0.5,
        call_id=call_id,
        attributes=named,
    )


LOOK, CHECK, PAY = ("c1", "look_up"), ("c2", "check"), ("c3", "pay")


def _run(wire: Any, named: dict[str, str] = IN) -> list[Any]:
    """`check` leaves no span; the model that asks for `pay` is given its result."""
    return [
        _model(wire, 1, [LOOK], named=named),
        _tool(wire, "look_up", "c1", 2, named),
        _model(wire, 3, [CHECK], [LOOK], ["c1"], named),
        _model(wire, 5, [PAY], [LOOK, CHECK], ["c1", "c2"], named),
        _tool(wire, "pay", "c3", 6, named),
        _model(wire, 7, [], [LOOK, CHECK, PAY], ["c1", "c2", "c3"], named),
    ]


def _gaps(found: Any) -> list[tuple[Cause, str]]:
    return [(gap.cause, gap.tool) for gap in found.monitor._call_judge.ledger]


def test_a_call_without_a_span_was_made_if_a_model_was_given_its_result(
    wire: Any, bench: Any
) -> None:
    """It is judged as a requested call, once, and nothing is missing then."""
    found = bench([_spec()]).send(*_run(wire))
    assert [(step["tool"], step["evidence"]) for step in found.steps()] == [
        ("look_up", "executed"),
        ("check", "requested"),
        ("pay", "executed"),
    ]
    (judged,) = found.monitor.judgements()
    assert judged["harmful"] == 0
    assert judged["exact"]
    assert _gaps(found) == []


def test_no_order_of_arrival_makes_harm_certain(wire: Any, bench: Any) -> None:
    """Whichever span comes first, the run is right, or calls of the tool may be missing."""
    for order in permutations(_run(wire)):
        found = bench([_spec()]).send(*order)
        found.monitor.tick(BASE + 3600 * SECOND)
        assert sum(each["harmful"] or 0 for each in found.monitor.judgements()) == 0
        assert found.tools().count("check") <= 1
        assert found.tools().count("pay") == 1


def test_while_a_tool_may_be_silent_its_calls_may_be_missing(wire: Any, bench: Any) -> None:
    """A request without a result may have been executed: harm that it would explain is possible harm."""
    spans = _run(wire)
    found = bench([_spec()]).send(*spans[:3])
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    found.send(_tool(wire, "pay", "c3", 6))
    (judged,) = found.monitor.judgements()
    assert judged["harmful"] == 0
    assert [step["tool"] for step in judged["steps"] if step.get("possible")] == ["pay"]


_ID = st.text('ab-é\\"/', min_size=1, max_size=3)
_RESULT = st.builds(
    lambda id_, key, more: {"type": "tool_call_response", key: id_, **more},
    _ID,
    st.sampled_from(["id", "tool_call_id", "other"]),
    st.dictionaries(_ID, _ID, max_size=2),
)


@given(st.lists(_ID, max_size=3), st.lists(_RESULT, max_size=3), st.booleans(), st.booleans())
def test_a_history_that_is_not_read_has_no_result(
    ids: list[str], results: list[dict[str, str]], ascii_only: bool, odd: bool
) -> None:
    """Where the texts have none of the ids, reading them finds none, however they are written."""
    text = json.dumps([{"parts": results}], ensure_ascii=ascii_only)
    if odd:
        text = text.replace("a", "\\u0061")
    wire = Wire()
    span = wire.span("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": text})
    outputs = outputs_of({key: at for at, key in enumerate(span.shape)})
    assert outputs is not None
    if not may_answer(span, outputs, ids):
        assert answered_ids(span, outputs).isdisjoint(ids)


def test_a_span_of_the_tool_ends_the_doubt(wire: Any, bench: Any) -> None:
    """The tool leaves spans after all: its request is not judged, and its calls are not missing."""
    found = bench([_spec()]).send(*_run(wire)[:3], _tool(wire, "check", "c2", 4))
    assert _gaps(found) == []
    assert [step["evidence"] for step in found.steps()] == ["executed", "executed"]
    found.send(*_run(wire)[3:])
    assert found.tools() == ["look_up", "check", "pay"]


def test_a_late_span_takes_the_place_of_its_request(wire: Any, bench: Any) -> None:
    """A request that was judged and a span that comes later are one call."""
    found = bench([_spec()]).send(*_run(wire), _tool(wire, "check", "c2", 4))
    assert [(step["tool"], step["evidence"]) for step in found.steps()] == [
        ("look_up", "executed"),
        ("check", "executed"),
        ("pay", "executed"),
    ]


def test_what_is_new_of_a_request_is_no_span_of_its_tool(wire: Any, bench: Any) -> None:
    """A request that was judged loses its doubt when the spans above it come: it is a request as before."""
    found = bench([_spec()]).send(*_run(wire, {}))
    (check,) = [call for call in found.judged() if call.tool == "check"]
    assert check.doubts == (Cause.ORPHAN,)

    found.send(wire.span("run", {"gen_ai.operation.name": "invoke_agent"}, id="run", end=9))
    (check,) = [call for call in found.judged() if call.tool == "check"]
    assert (check.evidence, check.doubts) == ("requested", ())
    assert found.tools() == ["look_up", "check", "pay"]


@pytest.mark.parametrize(
    ("asked", "results"),
    [
        (("c2", "final_result"), ["c1", "c2"]),
        (("c2", "check"), ["c1"]),
        (("", "check"), ["c1"]),
        (("c2", "pay"), ["c1", "c2"]),
    ],
)
def test_what_is_not_known_to_be_a_call_is_none(
    wire: Any, bench: Any, asked: tuple[str, str], results: list[str]
) -> None:
    """A tool that no spec names, a request without a result or an id, and a tool that leaves spans."""
    found = bench([_spec()]).send(
        _tool(wire, "pay", "c0", 0),
        _tool(wire, "look_up", "c1", 2),
        _model(wire, 3, [asked], [LOOK], ["c1"]),
        _model(wire, 5, [], [LOOK, asked], results),
    )
    assert found.tools() == ["pay", "look_up"]


def test_a_span_that_names_the_tool_in_another_way_may_be_its(wire: Any, bench: Any) -> None:
    """Then nothing is judged twice: calls of the tool may be missing."""
    found = bench([_spec()]).send(
        wire.tool("shop.check", id="x", parent="run", start=4, attributes=IN),
        _model(wire, 3, [CHECK]),
        _model(wire, 5, [], [CHECK], ["c2"]),
    )
    assert found.tools() == ["shop.check"]
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]


def test_what_a_provider_executed_is_told_by_its_answer(wire: Any, bench: Any) -> None:
    """The result stands beside the request, in the model's own output; the next request shows it as well."""
    output = [
        {"type": "tool_call", "id": "c2", "name": "check", "arguments": {}},
        {"type": "tool_call_response", "id": "c2", "result": "ok"},
    ]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": "[]",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": output}]),
        **IN,
    }
    found = bench([_spec()]).send(
        _tool(wire, "look_up", "c1", 2),
        wire.span("chat", attributes, id="p", parent="run", start=3, end=4),
        _model(wire, 5, [PAY], [LOOK, CHECK], ["c1", "c2"]),
        _tool(wire, "pay", "c3", 6),
    )
    assert found.tools() == ["look_up", "check", "pay"]
    assert _gaps(found) == []
