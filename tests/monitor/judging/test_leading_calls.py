"""Calls of two clocks in one session, one of which is ahead by less than is corrected."""

from __future__ import annotations

import pytest

from monitor.limits import SECOND
from monitor.records import SessionKey
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.monitor.judging.two_clocks import SERVER, TwoClocks
from tests.monitor.test_engine import START, call

RULES = """
id: rules
kind: policy
match: {kind: shop}
alphabet: {look: {tool: look}, refund: {tool: refund}}
constraints: [{precedence: [look, refund]}]
"""

BROWSER = {"kind": "shop", "service.name": "browser"}


@pytest.mark.parametrize("ahead", [2, 5, 40, 58])
def test_a_right_call_of_another_clock_is_not_harmful(ahead: float) -> None:
    """`look` was made in a browser whose clock is ahead, before `refund`: by the times it was behind it."""
    bench = TwoClocks()
    bench.observe("look", 0, ahead, sender=BROWSER)
    bench.observe("refund", 1)

    assert bench.judged == (0, 1)
    assert bench.doubts == 1


@pytest.mark.parametrize("ahead", [2, 5, 40, 58])
def test_a_harmful_call_of_another_clock_is_counted_as_doubtful(ahead: float) -> None:
    """`refund` was made in a browser before `look`: by the times it was behind it, and right."""
    bench = TwoClocks()
    bench.observe("refund", 0, ahead, sender=BROWSER)
    assert bench.judged == (1, 0)
    bench.observe("look", 1)

    assert bench.judged == (0, 0)
    assert bench.doubts == 1


@pytest.mark.parametrize("ahead", [2, 5, 40, 58])
def test_calls_before_one_of_another_clock_are_doubted_too(ahead: float) -> None:
    """`refund` was received before the browser's `look`, which is the first call that shows the other clock."""
    bench = TwoClocks()
    bench.observe("log", 0)
    bench.observe("refund", 1)
    bench.observe("look", 1.5, ahead, sender=BROWSER)

    assert bench.judged[0] == 0
    assert bench.judged[1] > 0


def test_a_clock_is_right_that_is_ahead_by_milliseconds() -> None:
    """`refund` was received 2 ms before its end: its clock is right, and that of `look` is another one."""
    bench = TwoClocks()
    bench.observe("refund", 0, late=-0.002)
    bench.observe("look", 0.01, 5, sender=BROWSER)

    assert bench.judged == (0, 1)
    assert bench.doubts == 1


@pytest.mark.parametrize("ahead", [2, 5, 40, 58])
@pytest.mark.parametrize("first", [True, False])
def test_a_call_is_missing_by_the_clock_of_the_model(ahead: float, first: bool) -> None:
    """A model asked for `refund`, which left no span; the clock of the tools is ahead of the model's."""
    gap = Gap(Cause.SILENT_TOOL, START + SECOND, START + 2 * SECOND, "refund", service="server")
    bench = TwoClocks()
    if first:
        bench.monitor.gaps.note(gap)
    bench.observe("look", 0, ahead, late=min(ahead - 0.5, 9))
    bench.observe("log", 3, ahead)
    bench.monitor.gaps.note(gap)
    bench.monitor.gaps.look_again()
    assert bench.judged == (0, 1)
    bench.observe("look", 100, ahead)

    assert bench.judged[0] == 1


@pytest.mark.parametrize("ahead", [2, 5, 40, 58])
def test_what_we_missed_is_missing_by_the_clock_of_the_session(ahead: float) -> None:
    """We were down while `refund` was made, by our clock; the clock of all tools is ahead of ours."""
    bench = TwoClocks()
    bench.observe("look", 0, ahead)
    bench.monitor.gaps.missed(START + SECOND, START + 2 * SECOND)
    bench.observe("log", 3, ahead, late=1)
    assert bench.judged == (0, 1)
    bench.observe("look", 100, ahead)

    assert bench.judged[0] == 1


def test_hosts_that_tell_nothing_of_themselves_have_other_clocks_if_their_calls_arrive_so() -> (
    None
):
    """Spans of one clock do not arrive 40 s apart."""
    bench = TwoClocks()
    bench.observe("look", 0, 40)
    bench.observe("refund", 1)

    assert bench.judged == (0, 1)


@pytest.mark.parametrize("ahead", [2, 5, 40, 58])
@pytest.mark.parametrize("late", [0.1, 9])
def test_a_session_with_one_clock_has_its_order(ahead: float, late: float) -> None:
    """Whether its spans take long or not: `refund` without `look` is harm."""
    bench = TwoClocks()
    bench.observe("refund", 0, ahead)
    bench.observe("log", 1, ahead, late)
    bench.observe("look", 2, ahead)

    assert bench.judged[0] == 2
    assert bench.doubts == 0


def test_processes_on_one_host_have_one_clock() -> None:
    """Their resources differ, and name the same host."""
    bench = TwoClocks()
    bench.observe("refund", 0, 5, sender={**BROWSER, "host.name": "desk"})
    bench.observe("look", 1, 5, sender={**SERVER, "host.name": "desk"})

    assert bench.judged == (1, 0)


def test_a_forbidden_order_that_lies_apart_stays_certain() -> None:
    """The clocks differ by seconds; `refund` was made minutes before `look`."""
    bench = TwoClocks()
    bench.observe("refund", 0)
    bench.observe("look", 300, 2, sender=BROWSER)
    bench.observe("log", 301)

    assert bench.judged[0] == 1


def test_hosts_that_are_a_second_apart_are_right() -> None:
    """Models take longer than clocks differ."""
    bench = TwoClocks()
    bench.observe("refund", 0)
    bench.observe("look", 5, 0.9, sender=BROWSER)

    assert bench.judged == (1, 0)


def test_our_own_clock_may_be_set_back() -> None:
    """All senders' clocks are ahead then, by the same, and none is wrong."""
    bench = TwoClocks()
    bench.observe("refund", 0)
    bench.monitor.clock_moved(-30 * SECOND, START)
    bench.observe("log", 1, 30, sender=BROWSER)
    bench.observe("look", 2, 30)

    assert bench.doubts == 0


def test_sessions_that_turn_out_to_be_one_may_have_two_clocks() -> None:
    """The browser's calls were filed under their trace, and belong to the conversation."""
    bench = TwoClocks()
    bench.observe("look", 0, 40, sender=BROWSER, session="trace")
    bench.observe("refund", 1)
    assert bench.doubts == 0
    moved = bench.monitor.corrections.rekey(
        SessionKey("", "trace"), SessionKey("", "s"), "id", START + 2 * SECOND
    )

    assert moved
    assert bench.judged == (0, 1)


def test_a_span_may_say_later_that_its_clock_is_another() -> None:
    """The model's request told of `look`; its own span came from the browser."""
    bench = TwoClocks()
    asked = call(90, "look", start_ns=START, end_ns=START + SECOND // 10)._replace(
        attributes=SERVER, session=SessionKey("", "s")
    )
    bench.monitor.observe(asked, START + SECOND)
    made = asked._replace(
        start_ns=START + 40 * SECOND, end_ns=START + 41 * SECOND, attributes=BROWSER
    )
    bench.monitor.corrections.amend(asked, made, START + 2 * SECOND)
    bench.observe("refund", 3)

    assert bench.judged == (0, 1)


@pytest.mark.parametrize("ahead", [2, 20])
def test_a_clock_that_is_ahead_may_be_set_forward(ahead: float) -> None:
    """`look` was made before: only the calls after the setting are moved back, so that it stands behind them."""
    bench = TwoClocks()
    bench.observe("look", 0, ahead)
    bench.observe("refund", 1, ahead + 60)

    assert bench.judged == (0, 1)
    assert bench.doubts == 1


@pytest.mark.parametrize("ahead", [61, 3_600])
def test_a_clock_may_be_set_forward_while_a_call_runs(ahead: int) -> None:
    """`refund` began behind `look`, by a right clock, and ended by one that is far ahead: it is moved back before `look`."""
    bench = TwoClocks(RULES)
    bench.observe("look", 0)
    long = call(90, "refund", start_ns=START + SECOND, end_ns=START + (2 + ahead) * SECOND)
    long = long._replace(attributes=SERVER, session=SessionKey("", "s"))
    bench.monitor.observe(long, START + 2 * SECOND)

    assert bench.judged == (0, 1)
    assert bench.doubts == 1


@pytest.mark.parametrize("ahead", [40, 70])
def test_sessions_of_one_clock_that_turn_out_to_be_one_have_its_order(ahead: float) -> None:
    """Whether the clock is ahead by so much that calls are moved back, or by less."""
    bench = TwoClocks()
    bench.observe("refund", 0, ahead, session="trace")
    bench.observe("look", 1, ahead)
    bench.monitor.corrections.rekey(
        SessionKey("", "trace"), SessionKey("", "s"), "id", START + 2 * SECOND
    )

    assert bench.judged[0] == 1
    assert bench.doubts == 0


@pytest.mark.parametrize("ahead", [40, 65])
def test_a_call_that_is_known_better_long_after_stays_in_its_place(ahead: float) -> None:
    """The agent's span came half a minute later, and took a doubt from `look`: its times are as far ahead as before."""
    bench = TwoClocks()
    bench.observe("look", 0, ahead)
    bench.observe("refund", 1, ahead)
    known = call(
        1,
        "look",
        start_ns=START + int(ahead * SECOND) - SECOND // 10,
        end_ns=START + int(ahead * SECOND),
    )._replace(attributes=SERVER, session=SessionKey("", "s"))
    bench.monitor.corrections.amend(
        known, known._replace(agent="shop"), START + int(0.7 * ahead * SECOND)
    )

    assert bench.judged == (0, 0)
    assert bench.doubts == 0


def test_calls_in_quick_succession_do_not_each_have_all_steps_judged_again() -> None:
    """Fifty calls of a clock that is ahead in ten seconds, beside one of another clock: the gap grows once or twice."""
    bench = TwoClocks()
    bench.observe("look", 0)
    for number in range(50):
        bench.observe("log", 1 + number / 5, 40, sender=BROWSER)

    assert 1 <= bench.doubts <= 3
