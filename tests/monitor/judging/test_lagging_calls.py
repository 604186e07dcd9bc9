"""Calls of two clocks in one session, one of which is behind, as spans of the other one show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from monitor.judging.clocks.lagging_calls import LaggingCalls
from monitor.limits import SECOND
from monitor.records import SessionKey, ToolCall
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.monitor.judging.two_clocks import TwoClocks
from tests.monitor.test_engine import START, call

AGENT = {"kind": "shop", "service.name": "agent"}
WORKER = {"kind": "shop", "service.name": "worker"}


class Bench(TwoClocks):
    """The clock is behind, by up to hours."""

    def __init__(self) -> None:
        super().__init__(before=3 * 7_200)

    def observe(
        self,
        tool: str,
        made: float,
        behind: float = 0,
        late: float = 0.1,
        sender: Mapping[str, Any] = AGENT,
        session: str = "s",
    ) -> ToolCall:
        """As by a clock that is ahead by less than nothing."""
        return super().observe(tool, made, -behind, late, sender, session)

    def show(self, made_call: ToolCall, behind: float, at: float) -> None:
        """A span has come at a second that began so much later than a call which it has caused."""
        now, behind_ns = START + int(at * SECOND), int(behind * SECOND)
        self.monitor.corrections.doubt_clock(made_call, behind_ns, now)


@pytest.mark.parametrize("behind", [2, 5, 40, 7_200])
def test_a_right_call_of_another_clock_is_not_harmful(behind: float) -> None:
    """`refund` was made by a worker, behind `look`: by the times it was before it."""
    bench = Bench()
    bench.observe("look", 0)
    refund = bench.observe("refund", 1, behind, sender=WORKER)
    assert bench.judged[0] > 0
    bench.show(refund, behind - 0.5, 3)

    assert bench.judged == (0, 1)
    assert bench.doubts == 1
    assert bench.monitor.counters.skewed == 1


@pytest.mark.parametrize("behind", [2, 5, 40, 7_200])
def test_a_harmful_call_of_another_clock_is_counted_as_doubtful(behind: float) -> None:
    """`look` was made by a worker, behind `refund`: by the times it was before it, and all is right."""
    bench = Bench()
    bench.observe("refund", 0)
    look = bench.observe("look", 1, behind, sender=WORKER)
    assert bench.judged == (0, 0)
    bench.show(look, behind - 0.5, 3)

    assert bench.judged == (0, 0)
    assert bench.doubts == 1


@pytest.mark.parametrize("behind", [2, 40])
def test_further_calls_of_this_clock_are_doubted_without_a_sign_of_their_own(
    behind: float,
) -> None:
    """Those before the one that shows it, and those behind it: each arrives later than its clock is behind."""
    bench = Bench()
    bench.observe("look", 0)
    bench.observe("refund", 1, behind, sender=WORKER)
    log = bench.observe("log", 2, behind, sender=WORKER)
    bench.show(log, behind - 0.5, 3)
    assert bench.judged[0] == 0
    bench.observe("refund", 60)
    bench.observe("refund", 61)
    assert bench.judged[0] == 1
    bench.observe("look", 62, behind, sender=WORKER)

    assert bench.judged[0] == 0


def test_a_call_that_arrived_sooner_does_not_have_this_clock() -> None:
    """`refund` came a tenth of a second after its end, long before the worker's call: its harm is certain."""
    bench = Bench()
    bench.observe("refund", 0)
    bench.observe("log", 300)
    look = bench.observe("look", 320, 5, sender=WORKER)
    bench.show(look, 4, 321)

    assert bench.doubts == 1
    assert bench.judged[0] == 2


def test_the_sign_may_come_before_the_call() -> None:
    """It is told of a call that is judged next; the session may have none before."""
    bench = Bench()
    known = call(1, "refund", start_ns=START - 5 * SECOND, end_ns=START - 4 * SECOND)
    bench.show(known._replace(attributes=WORKER, session=SessionKey("", "s")), 4, 0.1)
    bench.observe("refund", 0, 4, sender=WORKER)
    assert bench.judged == (1, 0)
    bench.observe("look", 1)

    assert bench.judged[0] == 0


@pytest.mark.parametrize("behind", [2, 5, 40, 7_200])
@pytest.mark.parametrize("late", [0.1, 9])
def test_a_session_with_one_clock_has_its_order(behind: float, late: float) -> None:
    """All calls are the worker's, whose clock is behind the agent's: `refund` without `look` is harm."""
    bench = Bench()
    refund = bench.observe("refund", 0, behind, sender=WORKER)
    bench.observe("log", 1, behind, late, sender=WORKER)
    bench.show(refund, behind - 0.5, 1)
    bench.observe("look", 2, behind, sender=WORKER)

    assert bench.judged[0] == 2
    assert bench.doubts == 0


def test_one_host_has_one_clock() -> None:
    """Two services of one host: nothing follows from what their spans contradict."""
    bench = Bench()
    bench.observe("look", 0, sender={**AGENT, "host.name": "a"})
    refund = bench.observe("refund", 1, 5, sender={**WORKER, "host.name": "a"})
    bench.show(refund, 4, 3)

    assert bench.judged[0] > 0
    assert bench.doubts == 0


def test_the_other_clock_may_be_the_wrong_one() -> None:
    """The worker's call came sooner than it is early: the agent's clock is ahead, and calls behind it may have been before it."""
    bench = Bench()
    refund = bench.observe("refund", 0, sender=WORKER)
    bench.show(refund, 4, 3)
    bench.observe("look", 1, -5, late=9, sender=AGENT)

    assert bench.judged == (0, 1)
    assert bench.doubts > 0


@pytest.mark.parametrize(
    "gap",
    [
        Gap(Cause.SILENT_TOOL, START + SECOND, START + 2 * SECOND, "refund", service="worker"),
        Gap(Cause.OUTAGE, START + SECOND, START + 2 * SECOND),
    ],
)
def test_a_call_is_missing_by_the_clock_that_tells_of_it(gap: Gap) -> None:
    """`refund` is missing by the model's clock, or by ours. All calls are the worker's, whose clock is behind both."""
    bench = Bench()
    bench.observe("look", 0, 40, sender=WORKER)
    log = bench.observe("log", 3, 40, sender=WORKER)
    bench.monitor.gaps.note(gap)
    bench.monitor.gaps.look_again()
    assert bench.judged == (1, 0)
    bench.show(log, 39, 4)

    assert bench.judged == (0, 1)


@pytest.mark.parametrize("first", ["s", "trace"])
def test_sessions_that_turn_out_to_be_one_have_the_doubt_of_either(first: str) -> None:
    """The worker's call is filed under its trace until that names the conversation."""
    bench = Bench()
    for session in (first, "s" if first == "trace" else "trace"):
        if session == "s":
            bench.observe("look", 0)
        else:
            refund = bench.observe("refund", 1, 5, sender=WORKER, session="trace")
            bench.show(refund, 4, 2)
    now = START + 3 * SECOND
    bench.monitor.rekey(SessionKey("", "trace"), SessionKey("", "s"), "id", now)

    assert bench.judged == (0, 1)
    assert bench.doubts == 1


def test_calls_in_quick_succession_do_not_each_have_all_steps_judged_again() -> None:
    """Fifty calls of this clock in ten seconds, each of which ends later than those before: the gap grows once or twice."""
    bench = Bench()
    bench.observe("look", 0)
    refund = bench.observe("refund", 1, 40, sender=WORKER)
    bench.show(refund, 39, 1.2)
    for number in range(50):
        bench.observe("log", 1 + number / 5, 40, sender=WORKER)

    assert 1 <= bench.doubts <= 3


def test_calls_that_show_less_and_less_seldom_change_which_others_have_this_clock() -> None:
    """A thousand calls below one span seem early by less and less. A change has all calls of the session looked at."""
    shown = range(40_000, 1_000, -39)
    found = [LaggingCalls.of(0, SECOND, 100 * SECOND, each * SECOND // 1_000) for each in shown]

    assert len({each.behind_ns for each in found}) <= 7
    for each, thousandths in zip(found, shown, strict=True):
        assert thousandths * SECOND // 2_000 < each.behind_ns <= thousandths * SECOND // 1_000
    assert LaggingCalls.of(0, SECOND, SECOND, SECOND).behind_ns == 0
