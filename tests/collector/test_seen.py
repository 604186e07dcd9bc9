"""What was seen of each agent."""

from __future__ import annotations

from collector.seen import SeenAgents
from monitor import ToolCall
from monitor.records import Evidence, SessionKey

SERVICE = {"service.name": "rover"}


def _call(session_from: str, agent: str = "", **arguments: int) -> ToolCall:
    return ToolCall(
        session=SessionKey("", "s"),
        agent=agent,
        tool="move",
        arguments=arguments,
        error=False,
        start_ns=0,
        end_ns=0,
        trace_id=b"",
        span_id=b"",
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        session_from=session_from,
        attributes=SERVICE,
        source="gen_ai",
    )


def test_calls_are_counted_by_what_told_their_session() -> None:
    """In the order in which that was first seen, whoever asks in between."""
    seen = SeenAgents()
    for told_by in ("trace", "trace", "session.id", "trace"):
        seen.see(_call(told_by), "", 1)
    (found,) = seen
    assert list(found.told_by().items()) == [("trace", 3), ("session.id", 1)]

    seen.moved(_call("trace"), "session.id")
    seen.see(_call("session.id"), "", 2)
    assert found.told_by() == {"trace": 2, "session.id": 3}
    assert (found.calls, found.last_ns) == (5, 2)


def test_agents_and_arguments_are_noted_once() -> None:
    """Names that come again, by calls or by other spans, add nothing."""
    seen = SeenAgents()
    seen.named("", SERVICE, "nobody")
    for agent, more in (("a", {"x": 1}), ("b", {"x": 2, "y": 3}), ("a", {"y": 1})):
        seen.see(_call("trace", agent, **more), "", 1)
    seen.named("", SERVICE, "c")
    (found,) = seen
    assert list(found.agents) == ["a", "b", "c"]
    assert found.tools == {"move": {"x", "y"}}
