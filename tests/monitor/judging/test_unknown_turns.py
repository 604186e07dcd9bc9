"""Calls whose turn is not known, under specs that judge each turn by itself."""

from __future__ import annotations

import pytest

from monitor import Monitor, ToolCall, Verdict
from monitor.decision import Answer
from monitor.records import NO_TRACE, Evidence, Kind
from monitor.visibility.cause import Cause
from monitor.visibility.words import unless_words
from tests.monitor.test_engine import call
from tests.monitor.test_engine import monitor as monitor_of

POLICY = """
id: policy
kind: policy
scope: turn
alphabet: {approve: {tool: approve}, pay: {tool: pay}, wipe: {tool: wipe}}
constraints: [{precedence: [approve, pay]}, {forbid: wipe}]
"""
TASK = """
id: task
kind: task
scope: turn
match: {service.name: rover}
alphabet: {approve: {tool: approve}, pay: {tool: pay}}
golden: [[approve, pay]]
"""


def asked(number: int, tool: str) -> ToolCall:
    """A call as a client asks about it that knows its session alone."""
    return call(number, tool, trace_id=NO_TRACE, evidence=Evidence.DECIDED)


def approved(text: str) -> Monitor:
    """A span has told of `approve`, in a turn."""
    monitor = monitor_of(text)
    monitor.observe(call(1, "approve"), call(1, "approve").end_ns)
    return monitor


def decided(monitor: Monitor, tool: str, *, together: bool) -> Answer:
    question = asked(2, tool)
    if together:
        return monitor.decide_together([question], question.start_ns)[0].answer
    return monitor.decide(question, question.start_ns).answer


@pytest.mark.parametrize("text", [POLICY, TASK])
@pytest.mark.parametrize("together", [False, True])
def test_a_call_that_some_turn_allows_is_not_denied(text: str, together: bool) -> None:
    """`pay` may belong to the turn with `approve`, or to another one: unknown. `wipe` is wrong in every turn."""
    monitor = approved(text)

    assert decided(monitor, "pay", together=together) is Answer.UNKNOWN
    assert decided(monitor, "wipe", together=together) is Answer.DENY
    assert monitor.gaps.doubts[Cause.TURN_UNKNOWN] == 0


@pytest.mark.parametrize("text", [POLICY, TASK])
def test_a_call_that_was_made_in_an_unknown_turn_is_possible_harm(text: str) -> None:
    """It says what would make it none, and is counted, once for its session; a forbidden one is certain."""
    monitor = approved(text)
    found: list[Verdict] = []
    for number, tool in ((2, "pay"), (3, "wipe")):
        found += monitor.observe(asked(number, tool), asked(number, tool).end_ns)

    assert [(each.tool, each.possible) for each in found if each.possible] == [("pay", True)]
    assert [each.tool for each in found if each.kind is Kind.HARMFUL] == ["wipe"]
    assert "another turn" in unless_words(found[0].unless, "now")
    assert monitor.gaps.doubts[Cause.TURN_UNKNOWN] == 1


def test_turns_that_are_known_are_judged_as_before() -> None:
    """`pay` in a turn of its own lacks `approve` for certain, whatever calls of the session have no turn."""
    monitor = approved(POLICY)
    monitor.observe(asked(2, "pay"), asked(2, "pay").end_ns)
    other = call(3, "pay", trace_id=b"u" * 16)

    assert monitor.decide(other, other.start_ns).answer is Answer.DENY


@pytest.mark.parametrize("scope", ["session", "agent"])
def test_other_scopes_need_no_turn(scope: str) -> None:
    """The call follows on `approve` in its session, and with its agent."""
    monitor = approved(POLICY.replace("scope: turn", f"scope: {scope}"))

    assert decided(monitor, "pay", together=False) is Answer.ALLOW
