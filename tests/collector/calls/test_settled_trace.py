"""Traces whose trees were freed are kept in few bytes, and are the same again if a span arrives."""

from __future__ import annotations

from typing import Any

import pytest

from collector.calls.records import Requester
from collector.calls.tree.session_claim import Claim
from collector.calls.tree.settled_trace import settled
from collector.calls.tree.trace import OpenRequest, Trace
from collector.calls.tree.trace_store import PERIOD_NS
from monitor.records import FROM_TRACE, AgentName, SessionKey
from tests.collector.conftest import BASE, SECOND

PERIOD = PERIOD_NS / SECOND
TRACE_ID = bytes(range(16))
FIELDS = [
    "namespace",
    "trace_id",
    "tree",
    "spans",
    "split",
    "touched",
    "sampled",
    "has_tools",
    "learnt_early",
    "doubted",
    "answered_ns",
    "called_ns",
    "first_ns",
    "first_by",
    "session_from",
    "named",
    "learnt",
    "learnt_named",
    "requester",
    "open",
    "foreign",
    "missed",
    "pinned",
    "key",
]


def _claimed() -> Trace:
    """A trace with the usual facts known."""
    trace, key = Trace("farm", TRACE_ID), SessionKey("farm", "s1")
    claim = Claim(3, key, "session.id", b"as it came")
    trace.set_first(claim, b"span id.", 2**63 + 1)
    trace.belong(claim)
    trace.called_ns, trace.answered_ns = 17, 2**64 - 1
    trace.has_tools = trace.doubted = True
    trace.named = trace.learnt_named = AgentName(5, b"another.", "rover")
    trace.learnt, trace.requester = {"service.name": "x"}, Requester("farm", "x")
    return trace


def _told(trace: Trace) -> list[Any]:
    first = trace.first
    claim = (first.rung, first.key, first.name) if first is not None else None
    return [*(getattr(trace, name) for name in FIELDS), claim]


def test_a_settled_trace_comes_back_as_it_was() -> None:
    """Packing keeps the session, the claim that won, the times and the flags."""
    trace = _claimed()
    packed = settled(trace)

    assert packed is not None
    assert _told(packed.trace("farm", TRACE_ID)) == _told(trace)


@pytest.mark.parametrize("name", ["sampled", "learnt_early", "has_tools", "doubted"])
@pytest.mark.parametrize("value", [True, False])
def test_what_is_true_of_a_trace_stays_true(name: str, value: bool) -> None:
    """Each flag survives packing, for a trace that is a session of its own."""
    trace = Trace("", TRACE_ID)
    assert trace.key.id == TRACE_ID.hex()
    setattr(trace, name, value)
    packed = settled(trace)

    assert packed is not None
    found = packed.trace("", TRACE_ID)
    assert _told(found) == _told(trace)
    assert (found.first, found.session_from) == (None, FROM_TRACE)


def _unknown(trace: Trace) -> None:
    trace.assign(None, FROM_TRACE)


def _rare(trace: Trace) -> None:
    trace.add({"offrails.spec": "x"}, 1, b"span id.")


def _open(trace: Trace) -> None:
    trace.open = OpenRequest(trace, "move", 1, None)


def _far(trace: Trace) -> None:
    trace.called_ns = 2**64


@pytest.mark.parametrize(
    "change",
    [
        _unknown,
        _rare,
        _open,
        _far,
        lambda trace: setattr(trace, "split", True),
        lambda trace: setattr(trace, "touched", True),
        lambda trace: setattr(trace, "pinned", True),
        lambda trace: setattr(trace, "spans", 1),
        lambda trace: setattr(trace, "foreign", 1),
        lambda trace: trace.miss("duplicate"),
    ],
)
def test_what_does_not_fit_stays_as_it_is(change: Any) -> None:
    """A trace with references, without a known session, or with rare facts is not packed."""
    trace = _claimed()
    change(trace)
    assert settled(trace) is None
    trace.open = None


def _settled(made: Any, at: float) -> None:
    """Time passes until trees are freed."""
    for minutes in range(1, 12):
        made.pipeline.tick(BASE + int((at + minutes * PERIOD / 2) * SECOND))
    assert not any(trace.tree is not None for trace in made.pipeline.traces)


def test_calls_move_when_their_session_is_told_after_the_tree_was_freed(
    wire: Any, bench: Any
) -> None:
    """A claim that comes late, and a further call of the session, find the trace's former session."""
    made = bench().send(wire.tool("move", start=1), wire.tool("scan", start=2), now=10)
    _settled(made, 10)
    assert not list(made.pipeline.traces)

    told = wire.span("chat", {"gen_ai.operation.name": "chat", "session.id": "s1"}, start=3)
    made.send(told, wire.tool("water", start=4), now=20 + 6 * PERIOD)
    assert {key: [s["tool"] for s in steps] for key, steps in made.sessions().items()} == {
        "s1": ["move", "scan", "water"]
    }


def test_a_call_that_follows_its_trace_late_joins_the_session_told_before(
    wire: Any, bench: Any
) -> None:
    """The claim that won stays known, and wins over a later one of the same kind."""
    told = wire.span("chat", {"gen_ai.operation.name": "chat", "session.id": "s1"}, start=0)
    made = bench().send(told, wire.tool("move", start=1), now=10)
    _settled(made, 10)
    assert not list(made.pipeline.traces)

    made.send(wire.tool("scan", start=4), now=20 + 6 * PERIOD)
    assert {key: [s["tool"] for s in steps] for key, steps in made.sessions().items()} == {
        "s1": ["move", "scan"]
    }


def test_memory_is_told_by_what_holds_it(wire: Any, bench: Any) -> None:
    """Trees and arguments are counted while spans may follow, and no longer once they are freed."""
    made = bench().send(wire.tool("move", start=1, arguments={"x": "y" * 500}), now=10)
    held = made.pipeline.memory()
    assert held["arguments"] > 500
    assert min(held["span_trees"], held["traces"], held["span_ids"]) > 0

    _settled(made, 10)
    after = made.pipeline.memory()
    assert (after["arguments"], after["span_trees"]) == (0, 0)
    assert (after["traces"], after["span_ids"]) == (held["traces"], held["span_ids"])
