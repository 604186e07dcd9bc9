"""An error of ours while a spec is bound late: held calls are judged, or owed, or counted as lost."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import AgentName, Monitor, SessionKey, Verdict
from monitor.limits import SECOND
from monitor.records import Kind
from monitor.visibility.cause import Cause
from tests.monitor.test_engine import ATTRIBUTES, BY_AGENT, NOW, POLICY, START, call, monitor

pytestmark = pytest.mark.plain

KEY = SessionKey("", "s")


def held(*specs: str) -> Monitor:
    """Three calls wait for the name of their agent."""
    judge = monitor(*specs)
    for number in (1, 2, 3):
        judge.observe(call(number, "dig"), NOW)
    return judge


def name(judge: Monitor) -> list[Verdict]:
    named = AgentName(START, b"root", "gardener")
    return judge.learn(KEY, NOW, attributes=ATTRIBUTES, start_ns=START, named=named)


def fail_on(
    judge: Monitor, patch: pytest.MonkeyPatch, holder: Any, stage: str, *numbers: int
) -> None:
    """Has a stage fail the times that are listed; 0 for always."""
    inner, count = getattr(holder, stage), 0

    def failing(*given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count in numbers or 0 in numbers:
            raise ZeroDivisionError
        return inner(*given, **more)

    patch.setattr(holder, stage, failing)


def state(judge: Monitor) -> list[tuple[Any, ...]]:
    return sorted(
        (each["spec"], each["calls"], each["harmful"], each["joined"])
        for each in judge.find("s")
    )


@pytest.mark.parametrize("stage", ["under", "token", "open", "time_in_order"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_held_call_that_fails_is_judged_when_its_session_is_seen_again(
    stage: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other held calls are judged and delivered at once."""
    good, bad = held(BY_AGENT), held(BY_AGENT)
    name(good)
    fail_on(bad, monkeypatch, bad.state.judging.calls, stage, number)
    verdicts = name(bad)
    if stage != "open":
        assert len({verdict.span_id for verdict in verdicts}) == 2
    assert len(bad.errors()) == (stage != "open" or number == 1)
    assert bad.errors() == []
    bad.corrections.saw(KEY, 3, 0)

    assert state(bad) == state(good) == [("named", 3, 2, False)]
    assert not bad.errors()


def test_an_error_of_accounting_leaves_no_call_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is in the log when the error comes is taken out, and judged again."""
    good, bad = held(BY_AGENT, POLICY), held(BY_AGENT, POLICY)
    name(good)
    fail_on(bad, monkeypatch, bad.state.accounting, "verdict", 2)
    name(bad)
    bad.corrections.saw(KEY, 3, 0)

    assert state(bad) == state(good)


@pytest.mark.parametrize("holder", ["binder", "catch_up"])
def test_an_error_before_the_held_calls_binds_again(
    holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed binding is not recorded, so the next span binds the session."""
    good, bad = held(BY_AGENT), held(BY_AGENT)
    name(good)
    where, stage = (
        (bad.binder, "bound") if holder == "binder" else (bad.state.judging.binder, "catch_up")
    )
    fail_on(bad, monkeypatch, where, stage, 1)
    with pytest.raises(ZeroDivisionError):
        name(bad)
    verdicts = name(bad)

    assert [each.kind for each in verdicts][:2] == [Kind.PROGRESS, Kind.HARMFUL]
    assert state(bad) == state(good)


def test_a_call_that_always_fails_is_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the window the call is dropped and counted, and its session is joined under the spec."""
    judge = held(BY_AGENT)
    inner = judge.state.judging.calls.under

    def failing(session: Any, under: Any, given: Any, *more: Any, **named: Any) -> Any:
        if given.span_id == call(2, "dig").span_id:
            raise ZeroDivisionError
        return inner(session, under, given, *more, **named)

    monkeypatch.setattr(judge.state.judging.calls, "under", failing)
    name(judge)
    judge.corrections.saw(KEY, 3, 0)
    judge.tick(NOW + 11 * SECOND)
    (found,) = judge.find("s")

    assert (found["calls"], found["joined"], found["bound_late"]) == (2, True, True)
    assert judge.gaps.doubts[Cause.BOUND_LATE] == 1
    assert found["coverage"]["not_judged"]["no_spec"] == 1


def test_an_owed_call_that_is_taken_back_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is withdrawn before it was judged is never judged."""
    judge = held(BY_AGENT)
    fail_on(judge, monkeypatch, judge.state.judging.calls, "under", 2)
    name(judge)
    judge.retract(call(2, "dig"))
    judge.corrections.saw(KEY, 3, 0)

    assert state(judge) == [("named", 2, 1, False)]
