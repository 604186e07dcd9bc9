"""Counts of spans and calls by agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.calls.inventory.agent_changes import CHANGES_MAX, STOPPED_AFTER_CALLS
from collector.calls.inventory.inventory import BYTES_MAX, Inventory
from collector.metrics.agent_calls import AGENTS_MAX as AGENT_SERIES_MAX
from collector.metrics.agent_calls import AgentCalls
from monitor import ToolCall
from monitor.aggregate.totals import OVERFLOW
from monitor.limits import SECOND
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


def test_calls_are_counted_by_the_source_of_their_session_id() -> None:
    """Calls are counted by the source of their session id, in the order of first appearance."""
    seen = Inventory()
    for told_by in ("trace", "trace", "session.id", "trace"):
        seen.record(_call(told_by), "", "scope", 1)
    (found,) = seen
    assert list(found.session_sources().items()) == [("trace", 3), ("session.id", 1)]

    seen.record_move(_call("trace"), "session.id")
    seen.record(_call("session.id"), "", "scope", 2)
    assert found.session_sources() == {"trace": 2, "session.id": 3}
    assert (found.calls, found.last_ns) == (5, 2)


def test_agents_and_arguments_are_noted_once() -> None:
    """Names that come again, by calls or by other spans, add nothing."""
    seen = Inventory()
    seen.record_agent("", SERVICE, "nobody")
    for agent, more in (("a", {"x": 1}), ("b", {"x": 2, "y": 3}), ("a", {"y": 1})):
        seen.record(_call("trace", agent, **more), "", "scope", 1)
    seen.record_agent("", SERVICE, "c")
    (found,) = seen
    assert list(found.agents) == ["a", "b", "c"]
    assert found.tools == {"move": {"x", "y"}}


def test_services_of_one_tenant_do_not_push_out_anothers() -> None:
    """At the bound the tenant with most services forgets the one that it sent first."""
    seen = Inventory(10)
    for number in range(3):
        seen.record(_of("quiet", f"mine{number}"), "", "scope", number)
    for number in range(1_000):
        seen.record(_of("loud", f"invented{number}"), "", "scope", number)

    assert len(seen) == 10
    assert [each.service for each in seen][:3] == ["mine0", "mine1", "mine2"]


def test_what_is_remembered_of_a_service_is_bounded_in_bytes() -> None:
    """Names of tools and arguments of a thousand characters each are few."""
    seen = Inventory()
    for number in range(1_000):
        name = f"{number}".zfill(1_000)
        seen.record(_call("trace")._replace(tool=name, arguments={name: 1}), "", "scope", 0)
    [found] = seen

    assert found.calls == 1_000
    assert len(found.tools) < 64


def test_calls_without_arguments_among_others_are_no_change() -> None:
    """A run that is not long enough, or not old enough, is forgotten with the next call that has arguments."""
    seen = Inventory()
    seen.record(_call("trace", "a", x=1), "", "scope", 0)
    (found,) = seen
    bare = _call("trace", "a")._replace(arguments=None)
    for number in range(50):
        for _ in range(STOPPED_AFTER_CALLS if number % 2 else 1):
            seen.record(bare, "", "scope", number * SECOND)
        assert not seen.changed(number * SECOND)
        seen.record(_call("trace", "a", x=1), "", "scope", number * SECOND)

    assert not seen.changed(1_000 * SECOND)
    assert not found.changes


def test_arguments_that_come_with_a_later_span_have_not_stopped() -> None:
    """Calls whose arguments always come late are calls with arguments."""
    seen = Inventory()
    whole = _call("trace", "a", x=1)
    seen.record(whole, "", "scope", 0)
    for _ in range(2 * STOPPED_AFTER_CALLS):
        seen.record(whole._replace(arguments=None), "", "scope", 0)
    seen.record_arguments(whole)

    assert not seen.changed(1_000 * SECOND)
    (found,) = seen
    assert found.arguments == 2


def test_calls_without_arguments_are_counted_by_agent() -> None:
    """Of each agent: calls with arguments, and those of the same tools without; others are counted by neither."""
    seen = Inventory()
    for _ in range(3):
        seen.record(_call("trace", "a", x=1), "", "scope", 0)
        seen.record(_call("trace", "b", x=1), "", "scope", 0)
        seen.record(_call("trace", "b")._replace(tool="list", arguments={}), "", "scope", 0)
    for _ in range(4):
        seen.record(_call("trace", "a")._replace(arguments=None), "", "scope", 0)
        seen.record(_call("trace", "b")._replace(tool="list", arguments=None), "", "scope", 0)

    assert dict(_counted(seen)) == {
        ("a", "", "known"): 3,
        ("a", "", "missing"): 4,
        ("b", "", "known"): 3,
        ("b", "", "missing"): 0,
    }


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 30))
def test_calls_before_their_agents_name_are_the_only_agents(named: list[bool], at: int) -> None:
    """Which calls of a service with one agent carry its name changes neither its counters nor when arguments stop."""
    seen = Inventory()
    for place, has_name in enumerate(named):
        if place == at:
            seen.record_agent("", SERVICE, "a")
        seen.record(_call("trace", "a" if has_name else "", x=1), "", "scope", 0)
    seen.record_agent("", SERVICE, "a")
    bare = [*named, *[not each for each in named]] * STOPPED_AFTER_CALLS
    for has_name in bare:
        call = _call("trace", "a" if has_name else "")._replace(arguments=None)
        seen.record(call, "", "scope", 0)

    assert dict(_counted(seen)) == {
        ("a", "", "known"): len(named),
        ("a", "", "missing"): len(bare),
    }
    (found,) = seen.changed(1_000 * SECOND)
    (change,) = found.take_unlogged()
    assert (change.kind, change.agent, change.calls) == ("arguments_stopped", "a", len(bare))


@given(st.lists(st.sampled_from(("whole", "late", "bare", "scrape")), max_size=60))
def test_late_arguments_are_not_missing(calls: list[str]) -> None:
    """The counter never falls, and counts no more than calls that had no arguments when it was read."""
    seen = Inventory()
    whole = _call("trace", "a", x=1)
    seen.record(whole, "", "scope", 0)
    bare, last = 0, 0.0
    for what in calls:
        if what != "scrape":
            seen.record(whole if what == "whole" else whole._replace(arguments=None), "", "", 0)
        if what == "late":
            seen.record_arguments(whole)
        bare += what == "bare"
        if what == "scrape":
            now = dict(_counted(seen))["a", "", "missing"]
            assert now == max(last, bare)
            last = now


def test_agents_beyond_the_bound_are_one() -> None:
    """Any number of invented agents has a bounded number of series, and none is lost."""
    seen = Inventory()
    for number in range(AGENT_SERIES_MAX + 300):
        call = _of("t", f"service{number % 500}")._replace(
            agent=f"a{number}", arguments={"x": 1}
        )
        seen.record(call, "", "scope", 0)
    found = dict(_counted(seen))

    assert len(found) == 2 * (AGENT_SERIES_MAX + 1)
    assert found[OVERFLOW, OVERFLOW, "known"] == 300


def _counted(seen: Inventory) -> Iterable[tuple[tuple[str, ...], Any]]:
    (reading,) = AgentCalls(seen).readings()
    return reading.values


def test_changes_of_a_service_are_bounded() -> None:
    """A service that invents instrumentations and agents keeps a few changes and names."""
    seen = Inventory()
    seen.record(_call("trace", "a", x=1), "", "scope", 0)
    (found,) = seen
    found.is_introduced = True
    for number in range(2_000):
        new = _call("trace", f"agent{number}", x=1)
        seen.record(new, "", f"scope{number}", 0)
        for _ in range(STOPPED_AFTER_CALLS):
            seen.record(new._replace(arguments=None), "", "scope", 0)

    assert seen.changed(1_000 * SECOND) == [found]
    assert len(found.take_unlogged()) == len(found.changes) == CHANGES_MAX
    assert not seen.changed(2_000 * SECOND)
    assert (len(found.scopes), found.bytes) <= (256, BYTES_MAX)
