"""Each session, and the service as a whole, counts what was not judged, by reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from collector.calls.tree.trace_store import PERIOD_NS
from monitor import load_specs

PERIOD = PERIOD_NS / 1e9


def coverage(bench: Any) -> dict[str, Any]:
    """The coverage of the only judgement there is."""
    (judgement,) = bench.monitor.judgements()
    found: dict[str, Any] = judgement["coverage"]
    return found


@pytest.fixture
def rover() -> Sequence[Any]:
    """The bundled task of a farm rover."""
    return [spec for spec in load_specs(["dfa_specs"]) if spec.id == "farm_rover"]


def test_every_span_of_a_session_is_counted(wire: Any, bench: Any) -> None:
    """Spans before, between and after the calls are counted as seen."""
    chat = {"gen_ai.operation.name": "chat"}
    made = bench().send(
        wire.span("chat", chat, start=0),
        wire.tool("move", start=1),
        wire.span("chat", chat, start=2),
    )
    found = coverage(made)
    assert found["spans"] == 3
    assert "no_dialect" not in found["not_judged"]


def test_spans_of_a_known_session_follow_it_to_its_late_id(wire: Any, bench: Any) -> None:
    """Spans counted under a trace move to the session when a later span names it."""
    made = bench().send(
        wire.tool("move", start=1),
        wire.span("chat", {"gen_ai.conversation.id": "c"}, start=0),
        wire.tool("move", trace="other", attributes={"gen_ai.conversation.id": "c"}, start=3),
    )
    assert coverage(made)["spans"] == 3


def test_spans_that_speak_no_dialect_are_a_reason(wire: Any, bench: Any) -> None:
    """Spans of databases and web servers are seen and not judged. A model's span is not counted so."""
    made = bench().send(
        wire.span("SELECT", {"db.system": "postgresql"}, start=0),
        wire.tool("move", start=1),
        wire.span("GET /", {"http.request.method": "GET"}, start=2),
        wire.span("chat", {"gen_ai.operation.name": "chat"}, start=3),
        wire.span("turn", scope="openinference.instrumentation.openai_agents", start=4),
    )
    found = coverage(made)
    assert found["spans"] == 5
    assert found["not_judged"]["no_dialect"] == 2
    assert made.covered("no_dialect") == 2


def test_foreign_spans_alone_make_no_session(wire: Any, bench: Any) -> None:
    """They are counted in all, as often as they come, and in no session."""
    made = bench().send(*(wire.span("SELECT", {"db.system": "x"}, start=n) for n in range(4)))
    assert made.covered("no_dialect") == 4
    assert not list(made.monitor.judgements())


def test_a_parent_that_never_comes_is_a_missing_span(wire: Any, bench: Any) -> None:
    """It is counted once, when its trace is forgotten, however many calls waited for it."""
    made = bench()
    made.send(
        wire.tool("move", start=1, parent="agent"), wire.tool("scan", start=2, parent="agent")
    )
    assert made.covered("span_missing") == 0
    for later in range(1, 5):
        made.send(wire.tool("x", trace=f"other{later}"), now=3600 + later * (PERIOD + 1))
    found = [each["coverage"] for each in made.monitor.judgements() if each["calls"] == 2]
    assert [each["not_judged"]["span_missing"] for each in found] == [1]
    assert made.covered("span_missing") == 1


def test_a_parent_that_comes_late_is_not_missing(wire: Any, bench: Any) -> None:
    """The end of the input finds nothing missing where every parent has come."""
    made = bench().send(
        wire.tool("move", start=1, parent="agent"),
        wire.span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent"}, id="agent"),
    )
    made.pipeline.finish()
    assert made.covered("span_missing") == 0


def test_the_end_of_the_input_tells_what_is_missing(wire: Any, bench: Any) -> None:
    """A replay of a file that lacks a parent reports it."""
    made = bench().send(wire.tool("move", start=1, parent="agent"))
    made.pipeline.finish()
    assert coverage(made)["not_judged"]["span_missing"] == 1


def chat(wire: Any, *results: str, session: str = "c", **fields: Any) -> Any:
    """A request to a model, which was given results of calls."""
    given = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": id_, "response": "ok"}]}
        for id_ in results
    ]
    user = {"role": "user", "parts": [{"type": "text", "content": "Go on."}]}
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": session,
        "gen_ai.input.messages": json.dumps([user, *given]),
    }
    return wire.span("chat", attributes, **fields)


def test_results_of_calls_that_a_session_lacks_are_a_reason(wire: Any, bench: Any) -> None:
    """A model's first request of a trace shows two earlier calls, also of a session without any other one. They are counted once."""
    made = bench().send(chat(wire, "c1", "c2", trace="t", start=1))
    assert made.covered("result_only") == 0
    for later in range(1, 5):
        made.send(wire.tool("x", trace=f"other{later}"), now=3600 + later * (PERIOD + 1))
    assert made.covered("result_only") == 2
    made.send(chat(wire, "c1", "c2", "c3", trace="t", start=9), now=3600 + 9 * PERIOD)
    made.pipeline.finish()
    assert made.covered("result_only") == 2


def test_results_of_calls_of_a_session_are_no_reason(wire: Any, bench: Any) -> None:
    """A model is given what its trace, and the earlier traces of its conversation, have done, in whatever order that comes."""
    named = {"gen_ai.conversation.id": "c"}
    made = bench().send(
        chat(wire, "c1", trace="t", id="m2", start=3),
        wire.tool("move", trace="t", attributes=named, start=2),
        chat(wire, trace="t", id="m1", start=1),
        chat(wire, "c1", trace="later", id="m3", start=5),
    )
    made.pipeline.finish()
    assert made.covered("result_only") == 0


def test_a_later_turn_whose_conversation_is_named_last_lacks_nothing(
    wire: Any, bench: Any
) -> None:
    """Its model's request comes before the agent's span, which says that the session has made the calls."""
    named = {"gen_ai.conversation.id": "c"}
    agent = {"gen_ai.operation.name": "invoke_agent", **named}
    made = bench().send(
        chat(wire, trace="t", id="m1", start=1),
        wire.tool("move", trace="t", attributes=named, start=2),
        chat(wire, "c1", session="", trace="later", id="m2", parent="agent", start=5),
        wire.span("invoke_agent a", agent, trace="later", id="agent", start=4),
    )
    made.pipeline.finish()
    assert made.covered("result_only") == 0


def test_a_session_tells_what_it_lacks(wire: Any, bench: Any) -> None:
    """Its coverage has the number of results that no call of it explains."""
    named = {"gen_ai.conversation.id": "c"}
    made = bench().send(
        chat(wire, "c1", "c2", trace="t", start=1),
        wire.tool("move", trace="t", attributes=named, start=2),
    )
    made.pipeline.finish()
    assert coverage(made)["not_judged"]["result_only"] == 2


def test_calls_without_a_spec_are_a_reason(wire: Any, bench: Any, rover: Any) -> None:
    """They show in the session at once, and in all when it has ended, once."""
    made = bench(rover).send(wire.tool("move", start=1), wire.tool("scan", start=2))
    found = coverage(made)
    assert (found["judged"], found["not_judged"]["no_spec"]) == (0, 2)
    assert made.monitor.counters.without_spec == 0
    made.monitor.close(0)
    assert made.monitor.counters.without_spec == 2
    made.monitor.close(0)
    assert made.monitor.counters.without_spec == 2


def test_judged_calls_are_not_without_a_spec(wire: Any, bench: Any, rover: Any) -> None:
    """A session that a spec matches is covered, and nothing is left over at its end."""
    resource = {"service.name": "svc", "offrails.spec": "farm_rover"}
    made = bench(rover).send(wire.tool("move", start=1, resource=resource))
    found = coverage(made)
    assert found["judged"] == 1
    assert "no_spec" not in found["not_judged"]
    made.monitor.close(0)
    assert made.monitor.counters.without_spec == 0


def test_a_call_of_two_spans_is_judged_once(wire: Any, bench: Any, rover: Any) -> None:
    """A call that was withdrawn, because its span is part of another call, is not counted."""
    resource = {"service.name": "svc", "offrails.spec": "farm_rover"}
    spans = (
        wire.tool("move", id="server", parent="between", start=2, resource=resource),
        wire.tool("move", id="client", parent="root", start=1, end=4, resource=resource),
        wire.span("between", id="between", parent="client", start=1.5, resource=resource),
    )
    found = coverage(bench(rover).send(*spans))
    assert found["judged"] == 1


def test_a_duplicate_is_seen_twice_and_judged_once(wire: Any, bench: Any) -> None:
    """A span that is exported twice is one call and two spans seen; the reason is counted."""
    call = wire.tool("move", start=1)
    found = coverage(bench().send(call, call))
    assert found["spans"] == 2
    assert found["not_judged"]["duplicate"] == 1
