"""Calls that may have been told again: each stays a call, and the later ones are in doubt, in whatever order they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice, permutations
from typing import Any

import pytest

from collector.calls.call.same_call import digest_of
from collector.calls.correlation.repeated_call_ids import (
    CALLS_MAX,
    ENTRY_BYTES,
    LIKE_MAX,
    PERIOD_NS,
    RepeatedCallIds,
)
from collector.calls.tree.trace_store import Traces
from monitor.spec.compiler.compile import compile_text
from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND
from tests.written import written

PAY = {"amount": 5}
SURE: tuple[Cause, ...] = ()
TWICE, AGAIN, ROUND = (Cause.TOLD_TWICE,), (Cause.REPLAYED,), (Cause.ROUND_TRIP,)
IN = {"gen_ai.conversation.id": "s"}


def _pay(wire: Any, name: str, start: float, end: float, **more: Any) -> Any:
    given = {"call_id": "c", "arguments": PAY, "parent": f"agent of {name}", **more}
    return wire.tool("pay", id=name, start=start, end=end, attributes=IN, **given)


def _together(wire: Any) -> list[Any]:
    """Two workers execute one request at once."""
    return [_pay(wire, "a", 1, 3), _pay(wire, "b", 2, 4)]


def _five(wire: Any) -> list[Any]:
    """Five at once, without a span above."""
    return [_pay(wire, f"n{n}", 1 + n / 10, 3, parent="") for n in range(5)]


def _of_two_traces(wire: Any) -> list[Any]:
    """The two workers have traces of their own."""
    return [_pay(wire, "a", 1, 3, trace="one"), _pay(wire, "b", 2, 4, trace="two")]


def _replayed(wire: Any) -> list[Any]:
    """A workflow's spans come again, with other ids."""
    return [_pay(wire, "a", 1, 2), _pay(wire, "b", 5, 6), _pay(wire, "c", 8, 9)]


def _replayed_elsewhere(wire: Any) -> list[Any]:
    """They come again in a trace of their own."""
    return [_pay(wire, "a", 1, 2, trace="one"), _pay(wire, "b", 5, 6, trace="two")]


def _arguments_off(wire: Any) -> list[Any]:
    """No arguments are on the wire."""
    return [_pay(wire, "a", 1, 3, arguments=None), _pay(wire, "b", 2, 4, arguments=None)]


@pytest.mark.parametrize(
    ("made", "doubts"),
    [
        (_together, [SURE, TWICE]),
        (_five, [SURE, TWICE, TWICE, TWICE, TWICE]),
        (_of_two_traces, [SURE, TWICE]),
        (_replayed, [SURE, AGAIN, AGAIN]),
        (_replayed_elsewhere, [SURE, AGAIN]),
        (_arguments_off, [SURE, TWICE]),
    ],
)
def test_the_first_is_sure_and_the_others_are_in_doubt(
    wire: Any, bench: Any, made: Callable[[Any], list[Any]], doubts: list[Any]
) -> None:
    """Whatever the order of arrival; each doubt is counted at least once."""
    spans = made(wire)
    for order in permutations(spans) if len(spans) < 5 else [spans, spans[::-1]]:
        found = bench().send(*order)
        assert [each for _, each in found.doubts()] == doubts
        (cause,) = {cause for each in doubts for cause in each}
        assert found.covered(cause) >= len(spans) - 1


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"amount": 6}},
        {"call_id": "d"},
        {"status": 2},
        {"attributes": {"gen_ai.conversation.id": "another"}, "trace": "two"},
    ],
)
def test_what_differs_is_another_call(wire: Any, bench: Any, other: Any) -> None:
    """Other arguments, another id, another outcome or another session make two calls for certain."""
    spans = [
        _pay(wire, "a", 1, 2),
        wire.tool(
            "pay",
            id="b",
            start=5,
            end=6,
            **{"call_id": "c", "arguments": PAY, "attributes": IN, **other},
        ),
    ]
    for order in permutations(spans):
        assert [each for _, each in bench().send(*order).doubts()] == [SURE, SURE]


def test_siblings_of_one_instrumentation_are_two_calls_for_certain(
    wire: Any, bench: Any
) -> None:
    """One instrumentation that writes two overlapping spans below one span tells two calls."""
    spans = [_pay(wire, "a", 1, 3, parent="p"), _pay(wire, "b", 2, 4, parent="p")]
    for order in permutations(spans):
        assert [each for _, each in bench().send(*order).doubts()] == [SURE, SURE]


def test_siblings_of_which_one_has_no_times_may_be_one_call(wire: Any, bench: Any) -> None:
    """Times that are not on the wire do not tell two spans apart; the call that has none is the first."""
    never = -BASE / SECOND
    for times in ([(never, never), (1, 3)], [(never, never), (never, never)]):
        spans = [
            _pay(wire, name, *each, parent="p") for name, each in zip("ab", times, strict=True)
        ]
        for order in permutations(spans):
            assert [each for _, each in bench().send(*order).doubts()] == [SURE, TWICE]


def test_a_copy_of_a_span_that_is_begun_anew_may_be_the_same_call(
    wire: Any, bench: Any
) -> None:
    """Its span is exported while it runs, and again with a later start: the copy has the start of one and the end of the other."""
    spans = [
        _pay(wire, "a", 1, 2, parent="p"),
        _pay(wire, "a", 3, 4, parent="p"),
        _pay(wire, "b", 1, 4, parent="p"),
    ]
    for order in permutations(spans):
        doubts = [each for _, each in bench().send(*order).doubts()]
        assert len(doubts) == 3
        assert doubts[0] == SURE
        assert SURE not in doubts[1:]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_request_does_not_make_two_executions_one(
    wire: Any, bench: Any, at_once: bool
) -> None:
    """The request was judged, as its tool had no spans; then both spans of its id come: two executions, or one told twice."""
    asked = {"type": "tool_call", "id": "c", "name": "pay", "arguments": PAY}
    said = [{"role": "assistant", "parts": [asked]}]
    model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(said)}
    chat = wire.span("chat", {**model, **IN}, id="m", parent="run", start=0, end=0.5)
    second = (2, 4) if at_once else (5, 6)
    spans = [_pay(wire, "a", 1, 3), _pay(wire, "b", *second)]
    for order in permutations(spans):
        found = bench(requested="always").send(chat, *order)
        assert found.doubts() == [("pay", SURE), ("pay", TWICE if at_once else AGAIN)]


@pytest.mark.parametrize("start", [1, 30])
def test_a_request_that_was_judged_leaves_its_execution_in_no_doubt(
    wire: Any, bench: Any, start: float
) -> None:
    """Its tool had no spans yet; the first one has lost its context, and comes in a trace of its own."""
    asked = {"type": "tool_call", "id": "c", "name": "pay", "arguments": PAY}
    answer = {"type": "tool_call_response", "id": "c", "response": "done"}
    said = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [asked]}])}
    given = {"gen_ai.input.messages": json.dumps([{"role": "tool", "parts": [answer]}])}
    chat = {"gen_ai.operation.name": "chat", **IN}
    found = bench().send(
        wire.span("chat", {**chat, **said}, id="m", start=0, end=0.5),
        wire.span("chat", {**chat, **given}, id="n", start=3, end=4),
    )
    assert [each.evidence.value for each in found.judged()] == ["requested"]
    found.send(_pay(wire, "a", start, start + 1, trace="alone", parent=""))

    assert [each.evidence.value for each in found.judged()] == ["executed"]
    assert found.doubts() == [("pay", SURE)]


def test_a_span_between_makes_them_one_call(wire: Any, bench: Any) -> None:
    """Until the span between them comes they may be two; then one is below the other, and the doubt ends."""
    spans = [
        _pay(wire, "a", 1, 4, parent="p"),
        wire.span("step", id="step", parent="a", start=1.5, end=3.5),
        _pay(wire, "b", 2, 3, parent="step"),
    ]
    for order in permutations(spans):
        found = bench().send(*order)
        assert found.doubts() == [("pay", SURE)]
        assert len(found.steps()) == 1


def test_the_last_status_tells_a_retry_from_a_replay(wire: Any, bench: Any) -> None:
    """A failed call and one that succeeded are two. When the first is told to have succeeded after all, they may be one."""
    first, second = _pay(wire, "a", 1, 2, status=2), _pay(wire, "b", 5, 6)
    found = bench().send(first, second)
    assert [each for _, each in found.doubts()] == [SURE, SURE]
    found.send(_pay(wire, "a", 1, 3))
    assert [each for _, each in found.doubts()] == [SURE, AGAIN]


@pytest.mark.parametrize("turns", [(0, 1, 2, 3), (1, 3, 0, 2), (3, 2, 1, 0)])
def test_calls_meet_when_their_traces_session_is_known(
    wire: Any, bench: Any, turns: tuple[int, ...]
) -> None:
    """The session's id may come on the root alone, and last: then the calls of both traces are compared."""
    spans = []
    for name, start in (("one", 1), ("two", 5)):
        root = wire.span("run", IN, id=f"r{name}", trace=name, start=start, end=start + 3)
        spans.append(
            wire.tool(
                "pay",
                call_id="c",
                arguments=PAY,
                trace=name,
                parent=f"r{name}",
                start=start + 1,
                end=start + 2,
            )
        )
        spans.append(root)
    found = bench().send(*[spans[turn] for turn in turns])
    assert found.doubts() == [("pay", SURE), ("pay", AGAIN)]


def test_a_doubt_goes_with_the_call_that_it_was_about(wire: Any, bench: Any) -> None:
    """A later call is in doubt until the earlier one turns out to be of another session."""
    spans = [
        wire.tool("pay", id="a", call_id="c", trace="t", parent="r", start=1, end=2),
        wire.tool("pay", id="b", call_id="c", trace="t", parent="q", start=5, end=6),
    ]
    found = bench().send(*spans)
    assert found.doubts() == [("pay", SURE), ("pay", AGAIN)]
    found.send(
        wire.span("run", {"gen_ai.conversation.id": "x"}, id="r", trace="t", start=0, end=3),
        wire.span("run", {"gen_ai.conversation.id": "y"}, id="q", trace="t", start=4, end=7),
    )
    assert found.doubts() == [("pay", SURE), ("pay", SURE)]


AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop", **IN}


def _workers(wire: Any, *, above: str) -> list[Any]:
    """Two workers execute one request, below agents' spans of their own; the second one's is below `above`."""
    return [
        wire.span("run", AGENT, id="run", start=0, end=9),
        wire.span("worker", AGENT, id="one", parent="run", start=1, end=4),
        wire.span("worker", AGENT, id="two", parent=above, start=1, end=5),
        _pay(wire, "a", 2, 3, parent="one"),
        _pay(wire, "b", 2.5, 4, parent="two"),
    ]


@pytest.mark.parametrize("is_deep", [False, True])
def test_two_executions_of_one_request_stand_below_what_is_above_both(
    wire: Any, bench: Any, is_deep: bool
) -> None:
    """That has asked for it: so they run beside its other calls, in whatever order the spans come."""
    spans = _workers(wire, above="team" if is_deep else "run")
    if is_deep:
        spans.append(wire.span("team", AGENT, id="team", parent="run", start=1, end=6))
    run = spans[0].span_id
    for order in islice(permutations(spans), 0, None, 5 if is_deep else 1):
        found = bench().send(*order)
        assert found.doubts() == [("pay", SURE), ("pay", TWICE)]
        assert [call.parent_span_id for call in found.judged()] == [run, run]


def test_a_part_of_a_call_stays_below_it(wire: Any, bench: Any) -> None:
    """What is above both workers is above the call, too; but the call has made the second one."""
    spans = _workers(wire, above="step")
    spans.append(wire.tool("step", id="step", parent="run", start=1, end=6, attributes=IN))
    for order in islice(permutations(spans), 0, None, 5):
        found = bench().send(*order)
        parents = {call.span_id: call.parent_span_id for call in found.judged()}
        assert [parents[each.span_id] for each in spans[3:5]] == [
            each.parent_span_id for each in spans[3:5]
        ]


# --- requests to an MCP server -------------------------------------------------------------------


def _asked(wire: Any, name: str, start: float, version: str, **more: Any) -> list[Any]:
    """A request as the MCP SDK for Python tells it: the client's span, and below it the server's."""
    method = {"mcp.method.name": "tools/call", "jsonrpc.request.id": more.pop("request", name)}
    told = {"mcp.protocol.version": version} if version else {}
    status = more.pop("status", 0)
    server = {**method, **told, "gen_ai.tool.name": "pay", **more}
    return [
        wire.span(
            "tools/call pay",
            server,
            id=f"s{name}",
            parent=name,
            start=start,
            end=start + 1,
            status=status,
        ),
        wire.span(
            "MCP send tools/call pay",
            method,
            id=name,
            parent="step" if name < "8" else "other step",
            start=start,
            end=start + 1.5,
            scope="mcp-python-sdk",
        ),
    ]


@pytest.mark.parametrize(
    ("version", "second", "doubt"),
    [
        ("2026-07-28", {}, ROUND),
        ("2027-01-01", {}, ROUND),
        ("", {}, ROUND),
        ("2025-11-25", {}, SURE),
        ("2026-07-28", {"gen_ai.tool.call.arguments": '{"amount": 6}'}, SURE),
    ],
)
def test_requests_one_after_the_other_may_be_one_call(
    wire: Any, bench: Any, version: str, second: Any, doubt: Any
) -> None:
    """From a protocol version on, unless their arguments differ; an unknown version may be one of these."""
    first = {"gen_ai.tool.call.arguments": '{"amount": 5}'} if second else {}
    spans = _asked(wire, "1", 1, version, **first) + _asked(wire, "2", 5, version, **second)
    for order in permutations(spans):
        assert bench().send(*order).doubts() == [("pay", SURE), ("pay", doubt)]


def test_a_request_that_is_sent_again_and_fails_leaves_the_first_open(
    wire: Any, bench: Any
) -> None:
    """Both may be one call, which has failed: the first is no success for certain."""
    spans = _asked(wire, "1", 1, "2026-07-28") + _asked(wire, "2", 5, "2026-07-28", status=2)
    for order in permutations(spans):
        found = bench().send(*order)
        assert found.doubts() == [("pay", (Cause.CONTRADICTED,)), ("pay", ROUND)]


def test_a_clients_span_that_is_written_twice_may_be_the_request_that_failed(
    wire: Any, bench: Any
) -> None:
    """The server's span below the first one says that it failed; below the copy there is none."""
    failed, copy = _asked(wire, "1", 1, "2025-11-25", status=2), _asked(wire, "0", 1, "")[1]
    for order in permutations([*failed, copy]):
        doubts = [each for _, each in bench().send(*order).doubts()]
        assert doubts == [(Cause.CONTRADICTED,), TWICE]


@pytest.mark.parametrize("later", [0, 0.001])
def test_requests_that_are_written_twice_may_be_one_call(
    wire: Any, bench: Any, later: float
) -> None:
    """Client's and server's spans come again under other ids, with the times of the first ones: other times are another call."""
    spans = _asked(wire, "1", 1, "2025-11-25") + _asked(wire, "2", 1 + later, "2025-11-25")
    for order in permutations(spans):
        found = bench().send(*order)
        assert found.doubts() == [("pay", SURE), ("pay", SURE if later else TWICE)]


@pytest.mark.parametrize(
    ("other", "start", "request_id", "doubt"),
    [
        ("9", 1.001, "1", TWICE),
        ("9", 1.001, "2", SURE),
        ("9", 5, "1", SURE),
        ("2", 1.001, "1", SURE),
    ],
    ids=["told twice", "another request", "later", "below one span"],
)
def test_requests_with_one_id_at_one_time_may_be_one_call(
    wire: Any, bench: Any, other: str, start: float, request_id: str, doubt: Any
) -> None:
    """Below different spans: a request that is told twice, or two of two connections, which count their own."""
    spans = _asked(wire, "1", 1, "2025-11-25")
    spans += _asked(wire, other, start, "2025-11-25", request=request_id)
    for order in permutations(spans):
        assert bench().send(*order).doubts() == [("pay", SURE), ("pay", doubt)]


@pytest.mark.parametrize("which", [1, 3])
@pytest.mark.parametrize("asked", [False, True])
def test_a_request_without_times_may_be_one_beside_it(
    wire: Any, bench: Any, which: int, asked: bool
) -> None:
    """Nothing says that it was sent before the other was answered, also where the answer that asked for one is known."""
    spans = _asked(wire, "1", 1, "") + _asked(wire, "2", 5, "")
    spans[which] = wire.span(
        "MCP send tools/call pay",
        {"mcp.method.name": "tools/call", "jsonrpc.request.id": "12"[which == 3]},
        id="12"[which == 3],
        parent="step",
        start=-BASE / SECOND,
        end=-BASE / SECOND,
        scope="mcp-python-sdk",
    )
    if asked:
        parts = [{"type": "tool_call", "id": "c", "name": "pay", "arguments": {}}]
        said = json.dumps([{"role": "assistant", "parts": parts}])
        model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}
        spans.append(wire.span("chat", model, id="m", parent="step", start=0, end=0.5))
    for order in islice(permutations(spans), 0, None, 5):
        found = bench().send(*order)
        assert sorted(each for _, each in found.doubts()) == [SURE, ROUND]


def test_requests_at_once_or_of_other_steps_are_calls(wire: Any, bench: Any) -> None:
    """A client sends a call again after it was answered, from where it sent it first."""
    steps = [wire.span("step", id=name, start=0, end=9) for name in ("step", "other step")]
    for other in (("2", 1.2), ("9", 5.0)):
        spans = _asked(wire, "1", 1, "2026-07-28") + _asked(wire, *other, "2026-07-28")
        for order in permutations(spans):
            found = bench().send(*order, *steps)
            assert found.doubts() == [("pay", SURE), ("pay", SURE)]


def test_a_frameworks_span_around_the_requests_is_the_call(wire: Any, bench: Any) -> None:
    """Its requests are parts of it, and the second one is counted."""
    around = wire.tool("pay", id="step", start=0, end=9)
    spans = _asked(wire, "1", 1, "2026-07-28") + _asked(wire, "2", 5, "2026-07-28")
    for order in ([around, *spans], [*spans, around]):
        found = bench().send(*order)
        assert found.doubts() == [("pay", SURE)]
        assert found.covered("repeated_within") >= 1


# --- executions within a call --------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["one after the other", "at once"])
def test_executions_within_a_call_are_counted(wire: Any, bench: Any, inner: str) -> None:
    """They are parts of one call, and each one beyond the first is counted, in any order."""
    outer = wire.tool("pay", id="o", start=0, end=9)
    gap = 2.0 if inner == "one after the other" else 0.1
    parts = [wire.tool("pay", id=f"i{n}", parent="o", start=1 + n * gap) for n in range(3)]
    for order in permutations([outer, *parts]):
        found = bench().send(*order)
        assert found.tools() == ["pay"]
        assert found.covered("repeated_within") == 2


def test_executions_within_a_call_may_be_calls(wire: Any, bench: Any) -> None:
    """What more of them would explain is possible harm, in any order of arrival; what they would not is certain."""
    spec, findings = compile_text(
        "id: shop\nmatch: {service.name: svc}\nalphabet: {pay: {tool: pay}, send: {tool: send}, wipe: {tool: wipe}}\n"
        "golden: [[pay, pay, send, wipe]]",
        "spec.yaml",
    )
    assert spec is not None, findings
    spans = [
        wire.tool("pay", id="o", parent="run", start=0, end=4, attributes=IN),
        wire.tool("pay", id="i1", parent="o", start=1, end=2, attributes=IN),
        wire.tool("pay", id="i2", parent="o", start=2.5, end=3, attributes=IN),
        wire.tool("send", id="s", parent="run", start=5, end=6, attributes=IN),
    ]
    for order in permutations(spans):
        found = bench([spec]).send(*order, now=10)
        found.monitor.tick(BASE + 12 * SECOND)
        (judged,) = found.monitor.judgements()
        assert judged["harmful"] == 0
        assert [step["tool"] for step in judged["steps"] if step.get("possible")] == ["send"]
        found.send(wire.tool("guess", start=7, parent="run", attributes=IN), now=13)
        (judged,) = found.monitor.judgements()
        assert judged["harmful"] == 1


@pytest.mark.parametrize(
    ("outer", "inner", "counted"),
    [
        ({"arguments": {"n": 1}}, {"arguments": {"n": 1}}, 1),
        ({"arguments": {"n": 1}}, {}, 0),
        ({"arguments": {"n": 1}, "call_id": "c"}, {"arguments": {"n": 1}, "call_id": "c"}, 0),
        ({"arguments": {"n": 1}}, {"arguments": {"n": 1}, "status": 2}, 0),
    ],
)
def test_a_call_within_an_equal_one_is_counted(
    wire: Any, bench: Any, outer: Any, inner: Any, counted: int
) -> None:
    """A tool may call itself: one instrumentation wrote both in full, and no id says that they are one."""
    spans = [
        wire.tool("pay", id="o", start=0, end=9, **outer),
        wire.tool("pay", id="i", parent="o", start=1, end=2, **inner),
    ]
    for order in permutations(spans):
        found = bench().send(*order)
        assert found.tools() == ["pay"]
        assert found.covered("repeated_within") == counted


@pytest.mark.parametrize("provisional", ["o", "i"])
def test_a_call_within_one_that_has_not_failed_after_all_is_counted(
    wire: Any, bench: Any, provisional: str
) -> None:
    """A span was sent when its first attempt had failed, and again when it had ended well."""
    given: dict[str, dict[str, Any]] = {
        "o": {"start": 0, "end": 9},
        "i": {"parent": "o", "start": 1, "end": 4},
    }
    spans = {
        name: wire.tool("pay", id=name, arguments={"n": 1}, **more)
        for name, more in given.items()
    }
    given[provisional] |= {"end": 2, "status": 2}
    early = wire.tool("pay", id=provisional, arguments={"n": 1}, **given[provisional])
    rest = [spans["o"], spans["i"]]
    for order in permutations([early, *rest]):
        found = bench().send(*order)
        assert found.tools() == ["pay"]
        assert found.covered("repeated_within") == 1


def test_attempts_that_failed_are_not_counted(wire: Any, bench: Any) -> None:
    """A client that retries executes once."""
    outer = wire.tool("pay", id="o", start=0, end=9)
    parts = [
        wire.tool("pay", id=f"i{n}", parent="o", start=1 + n, status=2 if n < 2 else 0)
        for n in range(3)
    ]
    for order in permutations([outer, *parts]):
        assert bench().send(*order).covered("repeated_within") == 0


# --- bounds --------------------------------------------------------------------------------------


def _note(repeats: RepeatedCallIds, bench: Any, wire: Any, now: int, number: int) -> bool:
    made = bench().send(_pay(wire, f"x{number}", 1, 2, call_id=f"c{number}"))
    (known,) = made.judged()
    trace = next(iter(made.pipeline.traces))
    call = trace.tree.calls()[0].call
    return repeats.note(call, known, now)


def test_calls_are_remembered_for_a_period_at_least(wire: Any, bench: Any) -> None:
    """A call is known again one period later, and forgotten after two."""
    repeats = RepeatedCallIds(Traces())
    assert not _note(repeats, bench, wire, 0, 1)
    assert _note(repeats, bench, wire, PERIOD_NS - 1, 1)
    assert _note(repeats, bench, wire, PERIOD_NS + 1, 1)
    assert not _note(repeats, bench, wire, 4 * PERIOD_NS, 1)


@pytest.mark.plain
def test_what_is_remembered_has_a_bound(
    wire: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all calls and of equal ones; bytes are told."""
    monkeypatch.setattr("collector.calls.correlation.repeated_call_ids.CALLS_MAX", 8)
    repeats = RepeatedCallIds(Traces())
    for number in range(40):
        _note(repeats, bench, wire, 0, number)
    assert 0 < repeats.size <= 8 * ENTRY_BYTES
    assert CALLS_MAX > 8


def test_so_many_equal_calls_are_remembered(wire: Any, bench: Any) -> None:
    """Further ones take no more room."""
    repeats, sizes = RepeatedCallIds(Traces()), list[int]()
    for _ in range(3 * LIKE_MAX):
        _note(repeats, bench, wire, 0, 7)
        sizes.append(len(written(repeats)))
    assert sizes[0] < sizes[LIKE_MAX // 2] < sizes[LIKE_MAX - 1]
    assert sizes[-1] - sizes[LIKE_MAX - 1] < 32


_REMEMBERS = """
import json
from collector.calls.pipeline import Pipeline
from collector.decode.json import otlp_json
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from tests.written import written

told = {"gen_ai.tool.name": "pay", "gen_ai.tool.call.id": "c", "gen_ai.conversation.id": "s"}
told |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": '{"a": [1], "b": "2"}'}
attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "execute_tool pay", "attributes": attributes}
span |= {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
pipeline = Pipeline(Monitor([]), Stats(), lambda verdicts: None)
pipeline.consume(otlp_json.decode(json.dumps(body).encode()).spans, 3, "test")
print(written(pipeline.correlation.repeated_ids))
"""
"""A process that sees one call, and prints what it remembers."""


def test_what_is_remembered_means_the_same_in_the_next_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A snapshot of this process is read by another one, whose hashes of texts are others."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    other = subprocess.run(
        [sys.executable, "-c", _REMEMBERS],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    exec(_REMEMBERS, {})
    assert len(other) > 64
    assert capsys.readouterr().out == other


def test_the_order_of_arguments_tells_no_calls_apart() -> None:
    """A model may write the members of its arguments in another order; their values and nesting count."""
    given = {"to": "a", "more": {"x": 1, "y": [1, 2]}}
    turned = {"more": {"y": [1, 2], "x": 1}, "to": "a"}
    assert digest_of(given) == digest_of(turned)
    assert digest_of(given) != digest_of({"to": "a", "more": {"x": 1, "y": [2, 1]}})
    assert digest_of({"a": 2**70}) != digest_of({"a": "\ud800"})


@pytest.mark.parametrize("failed", [False, True])
def test_a_span_that_comes_again_with_another_start_may_be_the_same_call(
    wire: Any, bench: Any, failed: bool
) -> None:
    """An evicted workflow exports a running call, and the same ids again, begun anew: the later one is in doubt."""
    early = _pay(wire, "a", 1, 2, call_id="")
    late = _pay(wire, "a", 3, 4, call_id="", status=2 if failed else 0)
    for order in ((early, late), (late, early), (early, late, early)):
        made = bench().send(*order)
        steps = sorted(made.steps(), key=lambda each: each["start_ns"])
        assert len(steps) == 2
        assert made.covered("id_reused") == 1
        assert made.covered("replayed") == 1


def test_a_span_that_comes_again_with_other_arguments_is_a_call_for_certain(
    wire: Any, bench: Any
) -> None:
    """Ids that were seen hide no call: other arguments are no copy's."""
    early = _pay(wire, "a", 1, 2, call_id="")
    other = _pay(wire, "a", 3, 4, call_id="", arguments={"amount": 9})
    made = bench().send(early, other)
    assert (len(made.steps()), made.covered("replayed")) == (2, 0)


# --- calls without ids, whose requests have some ---------------------------------------------------


def _asking(wire: Any, name: str, start: float, *ids: str, **more: Any) -> Any:
    """A model's span that asks for one payment for each id."""
    parts = [{"type": "tool_call", "id": id_, "name": "pay", "arguments": PAY} for id_ in ids]
    said = wire.json([{"role": "assistant", "parts": parts}])
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said, **IN}
    given = {"parent": f"agent of {name}", **more}
    return wire.span(
        "chat", attributes, id=f"chat {name}", start=start, end=start + 0.5, **given
    )


def _paid(wire: Any, name: str, start: float, **more: Any) -> Any:
    return _pay(wire, name, start, start + 0.5, call_id="", **more)


@pytest.mark.parametrize("traces", [("one", "one"), ("one", "two")])
@pytest.mark.parametrize(
    ("first", "second", "doubts"),
    [
        (("c1",), ("c1",), [SURE, AGAIN]),
        (("c1", "c2"), ("c1", "c2"), [SURE, AGAIN]),
        (("c1",), ("c2",), [SURE, SURE]),
        (("c1",), ("",), [SURE, SURE]),
        (("", "c1"), ("", "c1"), [SURE, SURE]),
    ],
)
def test_an_answer_that_comes_again_leaves_its_calls_in_doubt(
    wire: Any, bench: Any, traces: Any, first: Any, second: Any, doubts: Any
) -> None:
    """Tools' spans have no ids, the model's requests do: a workflow's answer that is replayed has the same ones."""
    spans = [
        _asking(wire, "a", 1, *first, trace=traces[0]),
        _paid(wire, "a", 2, trace=traces[0]),
        _asking(wire, "b", 5, *second, trace=traces[1]),
        _paid(wire, "b", 6, trace=traces[1]),
    ]
    for order in permutations(spans):
        assert [each for _, each in bench().send(*order).doubts()] == doubts


def test_two_calls_of_one_answer_are_two_calls_for_certain(wire: Any, bench: Any) -> None:
    """The model asked once, and the tool ran twice; with other arguments or another outcome, calls are two, too."""
    once = [_asking(wire, "a", 1, "c1"), _paid(wire, "a", 2), _pay(wire, "a2", 3, 4, call_id="", parent="agent of a")]  # fmt: skip
    for order in permutations(once):
        assert [each for _, each in bench().send(*order).doubts()] == [SURE, SURE]
    for differs in ({"arguments": {"amount": 6}}, {"status": 2}):
        again = [_asking(wire, "a", 1, "c1"), _paid(wire, "a", 2)]
        again += [_asking(wire, "b", 5, "c1"), _paid(wire, "b", 6, **differs)]
        for order in permutations(again):
            assert [each for _, each in bench().send(*order).doubts()] == [SURE, SURE]


def _within(wire: Any, name: str, start: float, call_id: str, **more: Any) -> list[Any]:
    """The span of a tool, and one of another instrumentation below it, which has no id."""
    inner = {"call_id": "", "arguments": PAY, "parent": name, "attributes": IN}
    return [
        _pay(wire, name, start, start + 0.8, call_id=call_id, **more),
        wire.tool("pay", id=f"{name} in", start=start + 0.1, end=start + 0.7, **inner),
    ]


def test_a_call_whose_id_comes_late_is_compared_by_it(wire: Any, bench: Any) -> None:
    """The span with the id comes after the one below it, which was a call without one until then."""
    first = [_pay(wire, "a", 1, 2)]
    for order in permutations(first + _within(wire, "b", 5, "c")):
        assert [each for _, each in bench().send(*order).doubts()] == [SURE, AGAIN]


def test_a_call_that_another_answer_turns_out_to_have_asked_for_is_compared_anew(
    wire: Any, bench: Any
) -> None:
    """Until its outer span comes, a call is taken for that of the latest answer: doubts by that answer are over then."""
    once = [_asking(wire, "a", 1, "c1"), _paid(wire, "a", 2)]
    again = [
        _asking(wire, "b", 5, "c1"),
        _asking(wire, "c", 5.6, "c2"),
        *_within(wire, "b", 6.2, ""),
    ]
    other = [_asking(wire, "d", 8, "c2"), _paid(wire, "d", 9)]
    expected = [SURE, AGAIN, SURE]
    for order in permutations(again):
        for spans in ([*once, *other, *order], [*order, *other, *once]):
            assert [each for _, each in bench().send(*spans).doubts()] == expected
