"""Tools without spans beside tools with spans: silence is learnt for each tool, from the results that models are given."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.calls.awaited_outcomes import AWAITED_MAX
from collector.calls.records import Requester
from collector.calls.tree.span_tree import SpanTree, WatchedRequest
from collector.calls.tree.trace import Trace
from collector.calls.unseen_calls import GAPS_MAX, IDS_MAX, WATCHED_MAX, UnseenCalls, watch
from collector.dialects.model_messages.given_results import given_results, may_answer
from collector.dialects.model_messages.outputs import outputs_of
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND, Orders, Wire

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


def _root(wire: Any, named: dict[str, str] = IN, **more: Any) -> Any:
    """The agent's span, above all: it names no other conversation."""
    attributes = {"gen_ai.operation.name": "invoke_agent", **named}
    return wire.span("run", attributes, id="run", end=9, **more)


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
    return [(gap.cause, gap.tool) for gap in found.monitor.state.judging_state.ledger]


def test_a_call_without_a_span_was_made_if_a_model_was_given_its_result(
    wire: Any, bench: Any
) -> None:
    """It is judged as a requested call, once, and nothing is missing then."""
    found = bench([_spec()]).send(*_run(wire), _root(wire))
    assert [(step["tool"], step["evidence"]) for step in found.steps()] == [
        ("look_up", "executed"),
        ("check", "requested"),
        ("pay", "executed"),
    ]
    (judged,) = found.monitor.judgements()
    assert judged["harmful"] == 0
    assert judged["exact"]
    assert _gaps(found) == []


def test_no_order_of_arrival_makes_harm_certain(wire: Any, bench: Any, orders: Orders) -> None:
    """Whichever span comes first, the run is right, or calls of the tool may be missing."""
    for order in orders(_run(wire)):
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


def _served(wire: Any, tool: str, start: float) -> Any:
    """A request to an MCP server, as its client tells it."""
    method = {"mcp.method.name": "tools/call", "jsonrpc.request.id": f"{start}", **IN}
    given = {"id": f"send {tool}", "parent": "run", "start": start, "end": start + 0.5}
    return wire.span(f"MCP send tools/call {tool}", method, scope="mcp-python-sdk", **given)


def test_beside_tools_of_a_server_others_may_be_silent(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """Results are not on the wire: whether a tool that is on no server was executed is not known, until a span of it comes."""
    spans = [
        _model(wire, 1, [LOOK]),
        _served(wire, "look_up", 2),
        _model(wire, 3, [CHECK]),
        _model(wire, 5, [PAY]),
        _served(wire, "pay", 6),
    ]
    for order in orders(spans):
        found = bench([_spec()]).send(*order)
        found.monitor.tick(BASE + 3600 * SECOND)
        (judged,) = found.monitor.judgements()
        assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
        assert judged["harmful"] == 0
        found.send(_served(wire, "check", 4))
        (judged,) = found.monitor.judgements()
        assert _gaps(found) == []
        assert (judged["harmful"], judged["joined"]) == (0, False)


def test_a_models_span_names_its_requests_beside_them(wire: Any, bench: Any) -> None:
    """It may name the turn, while the agent's span, which comes later, names the conversation: of each request of an answer."""
    turn = {"gen_ai.conversation.id": "turn"}
    found = bench([_spec()]).send(
        _model(wire, 1, [LOOK, CHECK, PAY], named=turn),
        _model(wire, 3, [], [LOOK, CHECK, PAY], ["c1", "c2", "c3"], turn),
    )
    assert [each["harmful"] for each in found.monitor.judgements()] == [0]
    found.send(_root(wire))
    assert {key for key, steps in found.sessions().items() if steps} == {"s"}


STRICT = TASK.replace("[[look, check, pay]]", "[[check, look, pay]]\nconcurrent: strict")


def test_under_strict_a_call_without_a_span_overlaps_those_it_was_asked_for_with(
    wire: Any, bench: Any
) -> None:
    """It may have been made at any time until its model was asked again, so the worst order counts."""
    spans = [
        _model(wire, 1, [LOOK, CHECK]),
        _tool(wire, "look_up", "c1", 2),
        _model(wire, 3, [PAY], [LOOK, CHECK], ["c1", "c2"]),
        _root(wire),
    ]
    found = bench([_spec(STRICT)]).send(*spans)
    found.monitor.tick(BASE + 3600 * SECOND)
    assert sum(each["harmful"] for each in found.monitor.judgements()) == 1


def test_a_call_without_a_span_had_ended_when_its_model_was_asked_again(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """Also where that request comes late: calls that were asked for after it stand behind, under `strict`, too."""
    spans = [
        _model(wire, 1, [CHECK]),
        _model(wire, 3, [LOOK], [CHECK], ["c2"]),
        _tool(wire, "look_up", "c1", 4),
        _model(wire, 5, [PAY], [CHECK, LOOK], ["c2", "c1"]),
        _root(wire),
    ]
    for order in orders(spans):
        found = bench([_spec(STRICT)]).send(*order)
        found.monitor.tick(BASE + 10 * SECOND)
        assert sum(each["harmful"] or 0 for each in found.monitor.judgements()) == 0


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
        assert given_results(span, outputs).keys().isdisjoint(ids)


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
        _root(wire),
    )
    assert found.tools() == ["look_up", "check", "pay"]
    assert _gaps(found) == []


# --- calls without spans, of tools that leave spans --------------------------------------------------


def _seen_elsewhere(wire: Any) -> list[Any]:
    """Another conversation, in which all tools leave spans."""
    more = {"trace": "other", "parent": ""}
    return [
        wire.tool(
            tool, id=f"other {tool}", start=0.1 + n / 10, call_id=f"o{n}",
            attributes={"gen_ai.conversation.id": "other"}, **more,
        )
        for n, tool in enumerate(("look_up", "check", "pay"))
    ]  # fmt: skip


def _parallel(wire: Any, *, ids: bool = True) -> list[Any]:
    """`look_up` and `check` are asked for at once, and `check` leaves no span."""
    named = [LOOK, CHECK, PAY]
    return [
        _model(wire, 1, [LOOK, CHECK]),
        _tool(wire, "look_up", "c1" if ids else "", 2),
        _model(wire, 3, [PAY], [LOOK, CHECK], ["c1", "c2"]),
        _tool(wire, "pay", "c3" if ids else "", 4),
        _model(wire, 5, [], named, ["c1", "c2", "c3"]),
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_a_result_without_a_span_tells_of_a_call_that_is_missing(
    wire: Any, bench: Any, ids: bool
) -> None:
    """Its tool leaves spans, and this call left none: what it would explain is possible harm, until its span comes."""
    found = bench([_spec()]).send(*_seen_elsewhere(wire), *_parallel(wire, ids=ids), now=10)
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    assert [(step["tool"], bool(step.get("possible"))) for step in _steps(found)] == [
        ("look_up", False),
        ("pay", True),
    ]
    found.send(_tool(wire, "check", "c2" if ids else "", 2), now=11)
    assert _gaps(found) == []
    assert {(step["tool"], step["kind"]) for step in _steps(found)} == {
        ("look_up", "progress"),
        ("check", "progress"),
        ("pay", "progress"),
    }


def _steps(found: Any) -> list[dict[str, Any]]:
    found.monitor.tick(BASE + 12 * SECOND)
    return list(found.sessions()["s"])


def test_calls_whose_spans_have_come_leave_nothing_missing(wire: Any, bench: Any) -> None:
    """Also where the spans' ids are others than the models', and where requests arrive before them."""
    for ids in (("c1", "c2", "c3"), ("", "", ""), ("x1", "x2", "x3")):
        spans = _parallel(wire)
        tools = [
            _tool(wire, tool, call_id, 2 + n)
            for n, (tool, call_id) in enumerate(
                zip(("look_up", "check", "pay"), ids, strict=True)
            )
        ]
        usual = [spans[0], tools[0], tools[1], spans[2], tools[2], spans[4]]
        for order in (usual, [*tools, spans[0], spans[2], spans[4]]):
            assert _gaps(bench([_spec()]).send(*_seen_elsewhere(wire), *order)) == []


def test_a_result_tells_of_a_call_also_if_its_tool_is_seen_first_elsewhere(
    wire: Any, bench: Any
) -> None:
    """While no tool had a span, the request was judged. When one shows that the tool leaves spans, its own may be lost."""
    run = _parallel(wire)
    spans = [run[0], run[2], run[3], *_seen_elsewhere(wire)]
    found = bench([_spec()]).send(*spans, now=10)
    assert {step["tool"] for step in _steps(found) if step["kind"] == "harmful"} <= {
        step["tool"] for step in _steps(found) if step.get("possible")
    }
    assert (Cause.SILENT_TOOL, "check") in _gaps(found)


def _within(wire: Any, call_id: str) -> Any:
    """An execution of `pay` below a span that is not there."""
    return wire.tool(
        "pay", id="inner", parent="outer", start=6, end=6.5, call_id=call_id, attributes=IN
    )


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("comes", ["call", "step", "nothing"])
def test_a_call_below_a_span_that_has_not_come_may_be_within_the_one_that_was_asked_for(
    wire: Any, bench: Any, ids: bool, comes: str
) -> None:
    """Until that span comes: it is the call, whose tool made the other one, or stands between the agent and its tool."""
    outer = {
        "call": wire.tool(
            "pay", id="outer", parent="run", start=5.8, end=7, attributes=IN, call_id=ids * "c3"
        ),
        "step": wire.span("step", IN, id="outer", parent="run", start=5.8, end=7),
    }
    found = bench([_spec()]).send(
        *_seen_elsewhere(wire),
        _model(wire, 5, [PAY]),
        _within(wire, ids * "x"),
        _model(wire, 8, [], [PAY], ["c3"]),
    )
    assert _gaps(found) == [(Cause.SILENT_TOOL, "pay")]
    if comes in outer:
        assert _gaps(found.send(outer[comes])) == []
    else:
        assert (Cause.SILENT_TOOL, "pay") in _gaps(found.send(_root(wire)))


def test_where_ids_are_the_models_a_call_with_another_one_was_not_asked_for(
    wire: Any, bench: Any
) -> None:
    """The span of `look_up` has its request's id. So `pay` with another id is not the `pay` whose result was given."""
    found = bench([_spec()]).send(
        *_seen_elsewhere(wire),
        _model(wire, 1, [LOOK]),
        _tool(wire, "look_up", "c1", 2),
        _model(wire, 5, [PAY], [LOOK], ["c1"]),
        _tool(wire, "pay", "x", 6),
        _model(wire, 8, [], [LOOK, PAY], ["c1", "c3"]),
    )
    assert _gaps(found) == [(Cause.SILENT_TOOL, "pay")]
    assert _gaps(found.send(_tool(wire, "pay", "y", 7))) == [(Cause.SILENT_TOOL, "pay")]
    own = wire.tool(
        "pay", id="own", parent="run", start=5.5, end=6, call_id="c3", attributes=IN
    )
    assert _gaps(found.send(own)) == []


def test_what_is_watched_is_bounded(wire: Any, bench: Any) -> None:
    """Requests of one trace, and gaps that can be lifted."""
    tree, unseen = SpanTree(), UnseenCalls()
    for number in range(2 * WATCHED_MAX):
        watch(tree, WatchedRequest(str(number), "pay", number))
    assert len(tree.watched or ()) == WATCHED_MAX
    traces = [Trace("", number.to_bytes(16, "big")) for number in range(2 * GAPS_MAX)]
    for number, trace in enumerate(traces):
        request = WatchedRequest("c", "pay", number)
        unseen.miss(Requester("", "svc"), trace, request, number, number + 1)
    lifted = [unseen.came(trace, "pay", "c", 0, is_open=False) for trace in traces]
    assert [bool(each) for each in lifted] == [False] * GAPS_MAX + [True] * GAPS_MAX


def test_beyond_the_bound_on_ids_a_gap_stays() -> None:
    """Requests that are not told apart any more may be those that left no span, whichever others have come since."""
    for count, stays in ((IDS_MAX, False), (IDS_MAX + 1, True)):
        trace, unseen = Trace("", b"t" * 16), UnseenCalls()
        trace.tree = SpanTree()
        trace.tree.matched = {"pay"}
        for number in range(count):
            request = WatchedRequest(f"c{number}", "pay", 1)
            unseen.miss(Requester("", "svc"), trace, request, 1, 2)
        ended = [
            unseen.came(trace, "pay", f"c{number}", 0, is_open=False) for number in range(count)
        ]
        assert any(ended) is not stays


@pytest.mark.parametrize("ids", [True, False])
def test_a_tool_that_is_asked_for_again_and_again_is_missing_nowhere(
    wire: Any, bench: Any, ids: bool
) -> None:
    """Each answer asks for `pay`, and each has its span: the next one's request is no sign that one is missing."""
    spans, heard = [], list[str]()
    for number in range(4):
        call_id, start = f"p{number}", 1.0 + 3 * number
        spans.append(_model(wire, start, [(call_id, "pay")], [], list(heard)))
        spans.append(
            wire.tool(
                "pay", id=call_id, parent="run", start=start + 1, end=start + 1.5,
                call_id=call_id if ids else "", attributes=IN,
            )
        )  # fmt: skip
        heard.append(call_id)
    found = bench([_spec()]).send(*_seen_elsewhere(wire))
    for span in spans:
        found.send(span)
        assert _gaps(found) == []


@pytest.mark.parametrize("ids", [True, False])
def test_spans_that_come_after_later_requests_leave_nothing_missing(
    wire: Any, bench: Any, ids: bool
) -> None:
    """Each call is told by its own number, though other requests for the tool are open, or it began after the results of others."""
    asked = [f"p{number}" for number in range(3)]
    models = [
        _model(wire, 1 + 3 * n, [(call_id, "pay")], [], asked[:n])
        for n, call_id in enumerate(asked)
    ]
    tools = [
        wire.tool(
            "pay", id=call_id, parent="run", start=2 + 3 * n, end=2.5 + 3 * n,
            call_id=call_id if ids else "", attributes=IN,
        )
        for n, call_id in enumerate(asked)
    ]  # fmt: skip
    for order in permutations(tools):
        found = bench([_spec()]).send(*_seen_elsewhere(wire), *models)
        assert _gaps(found) == [(Cause.SILENT_TOOL, "pay")]
        found.send(*order[:2])
        assert _gaps(found) == ([(Cause.SILENT_TOOL, "pay")] if tools[2] in order[:2] else [])
        found.send(order[2])
        assert _gaps(found) == []


# --- calls without spans, of tools on an MCP server --------------------------------------------------


def _server(wire: Any, tool: str, start: float, parent: str = "", **more: Any) -> Any:
    """A request to an MCP server, as the server tells it, below its client's span or a step that makes the requests."""
    attributes = {
        "mcp.method.name": "tools/call", "gen_ai.tool.name": tool, "jsonrpc.request.id": f"{start}", **IN, **more,
    }  # fmt: skip
    given = {"id": f"{tool}{start}", "parent": parent or f"send {tool}", "kind": 2}
    name, scope = f"tools/call {tool}", "mcp-python-sdk"
    return wire.span(name, attributes, scope=scope, start=start, end=start + 0.2, **given)


def _served_run(wire: Any) -> list[Any]:
    """`check` is asked for beside `look_up`, and leaves no span; requests to the server have no ids of the model's."""
    return [
        _model(wire, 1, [LOOK, CHECK]),
        _served(wire, "look_up", 2),
        _model(wire, 3, [PAY], [LOOK, CHECK], ["c1", "c2"]),
        _served(wire, "pay", 4),
    ]


def _served_elsewhere(wire: Any) -> list[Any]:
    """Another conversation, in which each call of the server's tools has a span."""
    more = {"scope": "mcp-python-sdk", "trace": "other", "parent": ""}
    return [
        wire.span(
            f"MCP send tools/call {tool}",
            {"mcp.method.name": "tools/call", "gen_ai.conversation.id": "other"},
            id=f"other {tool}", start=0.1 + n / 10, **more,
        )
        for n, tool in enumerate(("look_up", "check", "pay"))
    ]  # fmt: skip


def test_a_call_of_a_servers_tool_that_left_no_span_is_missed(wire: Any, bench: Any) -> None:
    """The result was given, and fewer calls of the tool had spans than were asked for: until its span comes."""
    found = bench([_spec()]).send(*_served_elsewhere(wire), *_served_run(wire), now=10)
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    assert [(step["tool"], bool(step.get("possible"))) for step in _steps(found)] == [
        ("look_up", False),
        ("pay", True),
    ]
    found.send(_served(wire, "check", 2.2), now=11)
    assert _gaps(found) == []


def test_two_spans_of_one_request_to_a_server_are_one_call_of_it(wire: Any, bench: Any) -> None:
    """Its client's span comes last: it shows that no span is missing above the call, and not that another call was made."""
    found = bench([_spec()]).send(
        _model(wire, 1, [CHECK]),
        _model(wire, 3, [LOOK], [CHECK], ["c2"]),
        _served(wire, "look_up", 4),
        _model(wire, 5, [("c4", "check")], [CHECK, LOOK], ["c2", "c1"]),
        _server(wire, "check", 6),
    )
    assert (Cause.SILENT_TOOL, "check") in _gaps(found)
    found.send(_served(wire, "check", 5.9))
    assert (Cause.SILENT_TOOL, "check") in _gaps(found)


def test_the_rounds_of_one_call_stand_for_one_request(wire: Any, bench: Any) -> None:
    """A call whose server asks back is two requests to it: the second one is not the call of which no span tells."""
    found = bench([_spec()]).send(
        *_served_elsewhere(wire),
        _model(wire, 1, [CHECK]),
        _model(wire, 3, [("c4", "check")], [CHECK], ["c2"]),
        _served(wire, "check", 4),
    )
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    found.send(_served(wire, "check", 4.6))
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]


def test_a_span_that_comes_before_its_request_stands_for_no_earlier_one(
    wire: Any, bench: Any
) -> None:
    """It began after the result of the earlier request was given, so of that call none tells."""
    found = bench([_spec()]).send(
        *_served_elsewhere(wire),
        _model(wire, 1, [CHECK]),
        _served(wire, "check", 3.6),
        _model(wire, 3, [("c4", "check")], [CHECK], ["c2"]),
    )
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    found.send(_served(wire, "check", 3.7))
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    found.send(_served(wire, "check", 2))
    assert _gaps(found) == []


# --- results that are not on the wire ----------------------------------------------------------------


def _mute(wire: Any, start: float, asked: list[tuple[str, str]], **more: Any) -> Any:
    """A model's span that has what it asks for, if it asks for calls, and not what it was given."""
    output = [{"type": "tool_call", "id": i, "name": t, "arguments": {}} for i, t in asked]
    said = json.dumps([{"role": "assistant", "parts": output}])
    attributes = {"gen_ai.operation.name": "chat", **more.pop("named", IN)}
    if asked:
        attributes["gen_ai.output.messages"] = said
    given = {"id": f"chat{start}", "parent": "run", "start": start, "end": start + 0.5, **more}
    return wire.span("chat", attributes, **given)


@pytest.mark.parametrize("asked", [[PAY], []])
def test_where_results_are_not_recorded_a_later_request_shows_that_a_call_was_made(
    wire: Any, bench: Any, asked: list[tuple[str, str]]
) -> None:
    """Also a request that nothing is told of: the call left no span, so it may be missing, until its span comes."""
    found = bench([_spec()]).send(
        *_seen_elsewhere(wire),
        _mute(wire, 1, [LOOK]),
        _tool(wire, "look_up", "c1", 2),
        _mute(wire, 3, [CHECK]),
        _mute(wire, 5, asked),
        _tool(wire, "pay", "c3", 6),
        now=10,
    )
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    assert [step["tool"] for step in _steps(found) if step.get("possible")] == ["pay"]
    found.send(_tool(wire, "check", "c2", 4), now=11)
    assert _gaps(found) == []


def test_while_no_model_is_asked_again_a_call_of_a_tool_with_spans_is_under_way(
    wire: Any, bench: Any
) -> None:
    """Its span comes when it has ended."""
    found = bench([_spec()]).send(
        *_seen_elsewhere(wire),
        _mute(wire, 1, [LOOK]),
        _tool(wire, "look_up", "c1", 2),
        _mute(wire, 3, [CHECK]),
    )
    assert _gaps(found) == []


@pytest.mark.parametrize("asked", [[], [CHECK]])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
def test_a_clients_span_within_the_models_is_no_later_request(
    wire: Any, bench: Any, order: tuple[int, ...], asked: list[tuple[str, str]]
) -> None:
    """Two instrumentations tell of one request to a model, with what it asks for or without; the client's comes first or last."""
    within = {"parent": "chat3", "end": 3.4}
    for own in ("client", "a client", "the client"):
        spans = [
            _tool(wire, "look_up", "c1", 2),
            _mute(wire, 3, [CHECK]),
            _mute(wire, 3.1, asked, id=own, **within),
        ]
        found = bench([_spec()]).send(*_seen_elsewhere(wire), _mute(wire, 1, [LOOK]))
        for place in order:
            found.send(spans[place])
        assert _gaps(found) == []


@pytest.mark.parametrize("last", [[PAY], []])
def test_a_request_from_before_the_first_span_of_its_tool_may_have_been_executed(
    wire: Any, bench: Any, last: list[tuple[str, str]]
) -> None:
    """Another conversation shows that the tool leaves spans; the model had been asked again by then."""
    other = {"gen_ai.conversation.id": "other"}
    found = bench([_spec()]).send(
        _mute(wire, 1, [LOOK]),
        _tool(wire, "look_up", "c1", 2),
        _mute(wire, 3, [CHECK]),
        _mute(wire, 5, last),
        _tool(wire, "pay", "c3", 6),
        wire.tool("check", id="o", trace="other", start=7, call_id="o1", attributes=other),
        now=10,
    )
    assert (Cause.SILENT_TOOL, "check") in _gaps(found)
    assert [step["tool"] for step in _steps(found) if step.get("possible")] == ["pay"]
    found.send(_tool(wire, "check", "c2", 4), now=11)
    assert (Cause.SILENT_TOOL, "check") not in _gaps(found)


# --- spans that come in another order than they began ------------------------------------------------


@pytest.mark.parametrize("ids", [True, False])
def test_a_request_that_comes_after_its_result_may_have_left_no_span(
    wire: Any, bench: Any, ids: bool
) -> None:
    """The model's next request came before it: the call was made, and no span has told of it."""
    spans = _parallel(wire, ids=ids)
    found = bench([_spec()]).send(*_seen_elsewhere(wire))
    for place in (4, 2, 0, 1, 3):
        found.send(spans[place], now=10)
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    assert [step["tool"] for step in _steps(found) if step.get("possible")] == ["pay"]
    found.send(_tool(wire, "check", "c2" if ids else "", 2), now=11)
    assert _gaps(found) == []


@pytest.mark.parametrize("is_asked_first", [True, False])
def test_a_span_that_came_before_its_request_was_taken_for_an_earlier_one_until_its_id_tells(
    wire: Any, bench: Any, is_asked_first: bool
) -> None:
    """`check` is asked for twice, and the first call left no span: the ids of both requests are known at last."""
    again = ("c4", "check")
    given = [CHECK, again], ["c2", "c4"]
    second = _model(wire, 3, [again], [CHECK], ["c2"])
    third = wire.tool("check", id="third", parent="run", start=7, call_id="c5", attributes=IN)
    found = bench([_spec()]).send(*_seen_elsewhere(wire))
    for span in (
        _model(wire, 1, [CHECK]),
        _tool(wire, "check", "c4", 4),
        _model(wire, 6, [("c5", "check")], *given),
        *([second, third] if is_asked_first else [third, second]),
    ):
        found.send(span)
    assert _gaps(found) == [(Cause.SILENT_TOOL, "check")]
    first = wire.tool("check", id="first", parent="run", start=2, call_id="c2", attributes=IN)
    assert _gaps(found.send(first)) == []


# --- calls without spans that failed -----------------------------------------------------------------


def _told_failed(model: Any, call_id: str) -> Any:
    """The model's span, with a mark on one of the results that it was given."""
    plain = json.dumps({"type": "tool_call_response", "id": call_id, "result": "ok"})
    marked = json.dumps({"type": "tool_call_response", "id": call_id, "is_error": True})
    values = [v.replace(plain, marked) if type(v) is str else v for v in _values(model)]
    return model.but(values=tuple(values))


def _values(span: Any) -> list[Any]:
    return [span.attribute(at) for at in range(len(span.shape))]


def test_a_call_of_one_silent_tool_has_failed_if_its_result_says_so(
    wire: Any, bench: Any
) -> None:
    """`check` leaves no span and fails: so `pay` comes without it."""
    spans = _run(wire)
    spans[3], spans[5] = _told_failed(spans[3], "c2"), _told_failed(spans[5], "c2")
    found = bench([_spec()]).send(*spans, _root(wire))
    found.monitor.tick(BASE + 3600 * SECOND)
    assert [(step["tool"], step["kind"]) for step in found.steps()] == [
        ("look_up", "progress"),
        ("check", "self_loop"),
        ("pay", "harmful"),
    ]


def _without_tools(wire: Any) -> list[Any]:
    """No tool leaves spans."""
    return [span for span in _run(wire) if span.name == "chat"]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)])
def test_where_no_tool_leaves_spans_failures_are_told_by_results(
    wire: Any, bench: Any, order: tuple[int, ...]
) -> None:
    """A request that is judged at once is judged again when its result was given; also if spans overtake each other."""
    spans = _without_tools(wire)
    spans[1] = _told_failed(spans[1], "c1")
    spans[2:] = [_told_failed(span, "c1") for span in spans[2:]]
    earlier = [_model(wire, 0.1, [LOOK], named={"gen_ai.conversation.id": "r"}, trace="r")]
    earlier.append(
        _model(wire, 0.5, [], [LOOK], ["c1"], {"gen_ai.conversation.id": "r"}, trace="r")
    )
    earlier.append(_root(wire, {"gen_ai.conversation.id": "r"}, trace="r"))
    found = bench([_spec()]).send(*earlier)
    for place in order:
        found.send(spans[place])
    steps = {step["tool"]: step["kind"] for step in found.sessions()["s"]}
    assert steps == {"look_up": "self_loop", "check": "harmful", "pay": "harmful"}


def test_a_result_of_a_later_trace_tells_of_a_call(wire: Any, bench: Any) -> None:
    """A person answers: the next turn's first request to the model holds the result."""
    found = bench([_spec()]).send(*_without_tools(wire))
    found.send(_model(wire, 8, [("c4", "look_up")]))
    heard = [LOOK, CHECK, PAY, ("c4", "look_up")]
    later = _model(wire, 20, [], heard, [each for each, _ in heard], trace="later")
    found.send(_told_failed(later, "c4"))
    assert [call.error for call in found.judged() if call.call_id == "c4"] == [True]


def test_calls_beyond_the_bound_wait_no_more_and_are_counted(wire: Any, bench: Any) -> None:
    """Of too many calls that wait for results, those of the oldest traces went well, as far as is known: that is counted."""
    over = 3
    traces = [f"t{number}" for number in range(AWAITED_MAX + over)]
    found = bench([_spec()], requested="always")
    for number, name in enumerate(traces, 1):
        found.send(_model(wire, 1, [(name, "look_up")], trace=name, named=_session(name)))
        assert found.covered("over_bound") == max(0, number - AWAITED_MAX)
    for name in traces:
        later = _model(wire, 5, [], [(name, "look_up")], [name], _session(name), trace=name)
        found.send(_told_failed(later, name))
    failed = {call.call_id for call in found.judged() if call.error}
    assert failed == set(traces[over:])


def _session(name: str) -> dict[str, str]:
    return {"gen_ai.conversation.id": name}


def test_a_calls_own_span_knows_better_whether_it_failed(wire: Any, bench: Any) -> None:
    """A model is given a failure of a call that went well by its span, whichever comes first."""
    for late in (True, False):
        spans = _run(wire)
        spans[3], spans[5] = _told_failed(spans[3], "c2"), _told_failed(spans[5], "c2")
        spans.insert(6 if late else 3, _tool(wire, "check", "c2", 4))
        found = bench([_spec()]).send(*spans)
        assert {step["kind"] for step in found.steps()} == {"progress"}
