"""Counts of spans and calls by agent."""

from __future__ import annotations

from collector.calls.seen_agents import Inventory
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


def _of(namespace: str, service: str) -> ToolCall:
    key, attributes = SessionKey(namespace, "s"), {"service.name": service}
    return _call("trace")._replace(session=key, attributes=attributes)


def test_calls_are_counted_by_what_told_their_session() -> None:
    """Calls are counted by the source of their session id, in the order of first appearance."""
    seen = Inventory()
    for told_by in ("trace", "trace", "session.id", "trace"):
        seen.record(_call(told_by), "", 1)
    (found,) = seen
    assert list(found.session_sources().items()) == [("trace", 3), ("session.id", 1)]

    seen.record_move(_call("trace"), "session.id")
    seen.record(_call("session.id"), "", 2)
    assert found.session_sources() == {"trace": 2, "session.id": 3}
    assert (found.calls, found.last_ns) == (5, 2)


def test_agents_and_arguments_are_noted_once() -> None:
    """Names that come again, by calls or by other spans, add nothing."""
    seen = Inventory()
    seen.record_agent("", SERVICE, "nobody")
    for agent, more in (("a", {"x": 1}), ("b", {"x": 2, "y": 3}), ("a", {"y": 1})):
        seen.record(_call("trace", agent, **more), "", 1)
    seen.record_agent("", SERVICE, "c")
    (found,) = seen
    assert list(found.agents) == ["a", "b", "c"]
    assert found.tools == {"move": {"x", "y"}}


def test_services_of_one_tenant_do_not_push_out_anothers() -> None:
    """At the bound the tenant with most services forgets the one that it sent first."""
    seen = Inventory(10)
    for number in range(3):
        seen.record(_of("quiet", f"mine{number}"), "", number)
    for number in range(1_000):
        seen.record(_of("loud", f"invented{number}"), "", number)

    assert len(seen) == 10
    assert [each.service for each in seen][:3] == ["mine0", "mine1", "mine2"]


def test_what_is_remembered_of_a_service_is_bounded_in_bytes() -> None:
    """Names of tools and arguments of a thousand characters each are few."""
    seen = Inventory()
    for number in range(1_000):
        name = f"{number}".zfill(1_000)
        seen.record(_call("trace")._replace(tool=name, arguments={name: 1}), "", 0)
    [found] = seen

    assert found.calls == 1_000
    assert len(found.tools) < 64
