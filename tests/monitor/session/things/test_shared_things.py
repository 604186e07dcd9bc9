"""Things that several sessions have in common (`across`): as one session with all their calls would have them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, combinations, product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor
from monitor.judging import thing_spaces
from monitor.limits import SECOND
from monitor.plain_records.kinds import UnkeptError
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.session.things.shared_judgement import VISITS_MAX, SharedThingsJudgement
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause
from monitor.visibility.gap import EVER, Gap
from tests.costly import COSTLY
from tests.samples import sampled

TEXT: Final = """
id: s
kind: policy
enforce: block
match: {}
each: {order: {look_up: id, refund: id, close: "ids[*]"}}
alphabet:
  login: {tool: login}
  look_up: {tool: look_up}
  refund: {tool: refund}
  close: {tool: close}
constraints: [{alternate_precedence: [look_up, refund]}, {at_most: [close, 1]}, {not_coexistence: [close, refund]}]
"""
NAMED: Final = ("look_up", "refund", "close")
HOUR: Final = 3_600_000_000_000


def spec_of(more: str = "") -> Spec:
    spec, found = compile_text(f"{TEXT}{more}\n", "s.yaml")
    assert spec is not None, found
    return spec


ALONE: Final = spec_of()
ACROSS: Final = spec_of("across: namespace")
AGENTS: Final = spec_of("across: agent\nwithin: 2h")
LIMITS: Final = Limits(history_complete=True, keep_arguments=True)


def call(
    number: int, session: str, tool: str, arguments: Any, at: int, agent: str = ""
) -> ToolCall:
    return ToolCall(
        session=SessionKey("", session),
        agent=agent,
        tool=tool,
        arguments=arguments,
        error=False,
        start_ns=at,
        end_ns=at,
        trace_id=session.encode().ljust(16, b"0"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={},
    )


def calls_of(
    made: random.Random, count: int, *, orders: int = 3, unknown: float = 0.0
) -> list[ToolCall]:
    """Calls of three sessions on some orders, one after the other; some share a time."""
    found: list[ToolCall] = []
    at = 10
    for number in range(1, count + 1):
        at += made.choice((0, 5, 10))
        tool = made.choice(NAMED)
        values = [f"A{made.randrange(orders)}" for _ in range(made.randrange(3))]
        arguments: Any = (
            {"ids": values} if tool == "close" else {"id": f"A{made.randrange(orders)}"}
        )
        if made.random() < unknown:
            arguments = None
        found.append(call(number, made.choice("abc"), tool, arguments, at))
    return found


def in_one(calls: Iterable[ToolCall]) -> list[ToolCall]:
    return [
        each._replace(session=SessionKey("", "one"), trace_id=each.span_id * 2)
        for each in calls
    ]


def kinds(monitor: Monitor, sessions: str | Sequence[str]) -> dict[str, str]:
    """What each call is, by the id of its span."""
    return {
        step["span_id"]: step["kind"]
        for name in sessions
        for judged in monitor.find(name)
        for step in judged["steps"]
    }


@given(st.integers(0, 2**32), st.integers(1, 14))
def test_sessions_have_things_in_common_as_one_session_with_their_calls(
    seed: int, count: int
) -> None:
    """Calls of several sessions, in any order of arrival, are judged as those of one session are."""
    made = random.Random(seed)
    calls = calls_of(made, count)
    several, one = Monitor([ACROSS], LIMITS), Monitor([ALONE], LIMITS)
    for number, each in enumerate(made.sample(calls, count)):
        several.observe(each, number + 1_000)
    for number, each in enumerate(in_one(calls)):
        one.observe(each, number + 1_000)
    assert kinds(several, "abc") == kinds(one, ["one"])


@COSTLY
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_folded_and_ended_sessions_leave_their_things_to_others(seed: int, count: int) -> None:
    """What sessions did that were folded, have ended or go on counts for the others, and decisions say what verdicts do."""
    made = random.Random(seed)
    calls = calls_of(made, count, orders=8)
    limits = Limits(history_complete=True, keep_arguments=True, window_ns=1)
    several, one = Monitor([ACROSS], limits), Monitor([ALONE], limits)
    for each, same in zip(calls, in_one(calls), strict=True):
        now = each.start_ns
        decided = several.decide(each, now)
        [mine, *_] = [v for v in several.observe(each, now) if v.span_id == each.span_id]
        [its, *_] = [v for v in one.observe(same, now) if v.span_id == each.span_id]
        assert mine.kind == its.kind
        assert (decided.answer == "deny") == (mine.kind == "harmful")
        several.finalise(now)
        if made.random() < 0.2:
            several.end(SessionKey("", made.choice("abc")), now)


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_a_value_that_is_not_known_may_be_of_any_session_s_thing(seed: int, count: int) -> None:
    """Calls of unknown things are allowed for in all sessions: what one session would not claim, no other does."""
    made = random.Random(seed)
    calls = calls_of(made, count, unknown=0.3)
    several, one = Monitor([ACROSS], LIMITS), Monitor([ALONE], LIMITS)
    for number, (each, same) in enumerate(zip(calls, in_one(calls), strict=True)):
        several.observe(each, number + 1_000)
        one.observe(same, number + 1_000)
    mine, its = kinds(several, "abc"), kinds(one, ["one"])
    assert {span for span, kind in mine.items() if kind == "harmful"} <= {
        span for span, kind in its.items() if kind == "harmful"
    }


@given(st.integers(0, 2**32), st.integers(1, 10))
def test_calls_that_turn_out_otherwise_leave_no_trace_in_other_sessions(
    seed: int, count: int
) -> None:
    """Arguments that come later, a call that is none, and a session that turns out to be another one's."""
    made = random.Random(seed)
    calls = calls_of(made, count)
    late, once = Monitor([ACROSS], LIMITS), Monitor([ACROSS], LIMITS)
    bare = [each._replace(arguments=None) if made.random() < 0.5 else each for each in calls]
    filed = [
        each._replace(session=SessionKey("", "t")) if each.session.id == "a" else each
        for each in bare
    ]
    for number, each in enumerate(made.sample(filed, count)):
        late.observe(each, number + 1_000)
    extra = call(count + 1, "b", "close", {"ids": ["A0", "A1"]}, 12)
    late.observe(extra, 2_000)
    for was, each in made.sample(list(zip(filed, calls, strict=True)), count):
        late.corrections.amend(was, each._replace(session=was.session), 2_100)
    late.retract(extra)
    late.corrections.rekey(SessionKey("", "t"), SessionKey("", "a"), "x", 2_200)
    for number, each in enumerate(calls):
        once.observe(each, number + 1_000)
    assert kinds(late, "abc") == kinds(once, "abc")


def test_two_conversations_cannot_refund_one_order_twice() -> None:
    """The second conversation is denied before its call, and told of after it, by the order's name."""
    monitor = Monitor([ACROSS], LIMITS)
    monitor.observe(call(1, "a", "look_up", {"id": "A1"}, 10), 10)
    assert monitor.decide(call(2, "b", "refund", {"id": "A1"}, 20), 20).answer == "allow"
    monitor.observe(call(2, "b", "refund", {"id": "A1"}, 20), 20)
    decided = monitor.decide(call(3, "a", "refund", {"id": "A1"}, 30), 30)
    assert (decided.answer, str(decided.specs[0].thing)) == ("deny", "order A1")
    [verdict] = monitor.observe(call(3, "a", "refund", {"id": "A1"}, 30), 30)
    assert (verdict.kind, str(verdict.thing)) == ("harmful", "order A1")
    [judged] = monitor.find("a")
    [thing] = judged["things"]
    assert (thing["value"], thing["calls"], thing["harmful"]) == ("A1", 2, 1)


ONCE: Final = """
id: once
kind: policy
enforce: block
match: {}
each: {order: {look_up: id, refund: id}}
across: namespace
within: 2h
alphabet: {look_up: {tool: look_up}, refund: {tool: refund}}
constraints: [{at_most: [refund, 1]}]
"""


@pytest.mark.parametrize("looks", [0, 14, 15, 16, 40])
@pytest.mark.parametrize("value", ["A1", {"id": "A1"}])
def test_a_new_session_is_told_of_calls_that_are_not_kept(looks: int, value: Any) -> None:
    """However many calls followed a refund on its thing, or on any, no new session may refund it for certain."""
    spec, found = compile_text(ONCE, "once.yaml")
    assert spec is not None, found
    monitor = Monitor([spec], LIMITS)
    monitor.observe(call(1, "a", "refund", {"id": value}, 10), 10)
    for number in range(looks):
        at = 20 + number
        monitor.observe(call(2 + number, "a", "look_up", {"id": value}, at), at)

    assert monitor.decide(call(99, "b", "refund", {"id": "A1"}, 90), 90).answer != "allow"


@pytest.mark.parametrize("late", [0, HOUR])
def test_a_thing_that_was_dropped_is_in_any_state_for_a_new_session(late: int) -> None:
    """Beyond the bound on things, one that comes back may have been refunded."""
    spec, found = compile_text(ONCE, "once.yaml")
    assert spec is not None, found
    monitor = Monitor([spec], replace(LIMITS, shared_things_max=50))
    start = 10 * HOUR
    monitor.observe(call(1, "a", "refund", {"id": "A1"}, start), start)
    for number in range(150):
        at = start + number
        monitor.observe(call(2 + number, f"x{number}", "look_up", {"id": f"B{number}"}, at), at)
    at = start + 1_000 + late

    assert monitor.decide(call(999, "b", "refund", {"id": "A1"}, at), at).answer == "unknown"


@pytest.mark.parametrize(
    ("spec", "session", "who"), [(ACROSS, "b", "some session"), (ALONE, "a", "this session")]
)
def test_a_sentence_says_whose_call_it_names(spec: Spec, session: str, who: str) -> None:
    """Where things are of several sessions, the look-up of another thing may be another session's."""
    monitor = Monitor([spec], LIMITS)
    monitor.observe(call(1, "a", "look_up", {"id": "A1"}, 10), 10)
    monitor.observe(call(2, session, "refund", {"id": "A1"}, 20), 20)
    monitor.observe(call(3, "a", "look_up", {"id": "A1"}, 30), 30)
    monitor.observe(call(4, session, "login", {}, 40), 40)
    [verdict] = monitor.observe(call(5, session, "refund", {"id": "B7"}, 50), 50)
    assert f"; {who} has `look_up` of order A1" in (verdict.detail or "")


def test_a_call_of_another_session_revises_verdicts_that_were_given() -> None:
    """A refund of another session that began earlier, and is seen later, makes the refund of this one the second."""
    monitor = Monitor([ACROSS], LIMITS)
    monitor.observe(call(1, "a", "look_up", {"id": "A1"}, 10), 10)
    monitor.observe(call(2, "a", "refund", {"id": "A1"}, 30), 30)
    verdicts = monitor.observe(call(3, "b", "refund", {"id": "A1"}, 20), 40)
    told = [(v.session.id, v.kind, v.revised_from) for v in verdicts]
    assert told == [("b", "progress", None), ("a", "harmful", "progress")]


def test_things_are_those_of_one_agent_and_of_some_hours() -> None:
    """Another agent has things of its own, and a thing is new once its last call is too long ago."""
    monitor = Monitor([AGENTS], LIMITS)

    def kind(number: int, session: str, tool: str, at: int, agent: str) -> str:
        asked = call(number, session, tool, {"id": "A1"}, at, agent)
        [verdict] = monitor.observe(asked, at)
        return verdict.kind

    assert kind(1, "a", "look_up", HOUR, "shop") == "progress"
    assert kind(2, "b", "refund", 2 * HOUR, "shop") == "progress"
    assert kind(3, "c", "refund", 2 * HOUR, "desk") == "harmful"
    assert kind(4, "d", "look_up", 3 * HOUR, "shop") == "progress"
    assert kind(5, "e", "refund", 5 * HOUR + 1, "shop") == "harmful"
    assert kind(6, "e", "look_up", 6 * HOUR, "shop") == "progress"
    assert kind(7, "d", "refund", 7 * HOUR, "shop") == "progress"


def test_what_was_called_before_the_start_is_not_known_for_so_long() -> None:
    """Within `within` of the start a missing look-up is possible, and no claim; what was seen twice is one."""
    monitor = Monitor([AGENTS], Limits(keep_arguments=True), started_ns=10 * HOUR)
    [early] = monitor.observe(call(1, "a", "refund", {"id": "A1"}, 11 * HOUR), 11 * HOUR)
    assert (early.kind, early.possible) == ("self_loop", True) or early.kind != "harmful"
    [twice] = monitor.observe(
        call(2, "b", "refund", {"id": "A1"}, 11 * HOUR + 1), 11 * HOUR + 1
    )
    assert twice.kind == "harmful"
    [late] = monitor.observe(call(3, "c", "refund", {"id": "C3"}, 13 * HOUR), 13 * HOUR)
    assert late.kind == "harmful"


def answers(monitor: Monitor) -> Callable[..., str]:
    """What a call of an order is: the kind of its verdict."""
    numbers = itertools.count(1)

    def kind(session: str, tool: str, order: str | None, at: int) -> str:
        asked = call(next(numbers), session, tool, {"id": order} if order else None, at)
        found = {v.span_id: v.kind for v in monitor.observe(asked, at)}
        return str(found[asked.span_id])

    return kind


@pytest.mark.parametrize("cause", ["outage", "refused", "lost"])
def test_what_was_called_in_a_gap_is_not_known_to_later_sessions(cause: str) -> None:
    """Within `within` of its end a session that begins later makes no claim by what it lacks; what was seen is one."""
    monitor = Monitor([AGENTS], LIMITS)
    kind = answers(monitor)
    kind("a", "look_up", "A1", HOUR)
    kind("a", "refund", "A1", HOUR + 1)
    if cause == "outage":
        monitor.gaps.missed(2 * HOUR, 2 * HOUR + HOUR // 60)
    else:
        monitor.gaps.note(Gap(Cause(cause), 2 * HOUR, 2 * HOUR + HOUR // 60, service="other"))
    assert kind("b", "refund", "A1", 3 * HOUR) != "harmful"
    assert kind("c", "refund", "B2", 3 * HOUR + 1) != "harmful"
    assert kind("d", "refund", "B2", 3 * HOUR + 2) == "harmful"
    assert kind("e", "refund", "C3", 5 * HOUR) == "harmful"


def test_a_gap_that_is_over_is_kept_as_long_as_things_are() -> None:
    """The ledger forgets a gap half an hour after its end; sessions with things of others allow for it longer."""
    monitor = Monitor([AGENTS], LIMITS)
    kind = answers(monitor)
    monitor.gaps.note(Gap(Cause.LOST, HOUR, HOUR + 1))
    for minute in range(0, 90, 10):
        monitor.tick(HOUR + minute * HOUR // 60)
    assert kind("a", "refund", "A1", 2 * HOUR + HOUR // 2) != "harmful"
    assert kind("b", "refund", "B2", 3 * HOUR + HOUR // 2) == "harmful"


@pytest.mark.parametrize("by", [-HOUR, HOUR // 2, HOUR])
def test_a_gap_that_is_over_moves_with_the_clock(by: int) -> None:
    """When the service's clock is set, sessions with things of others go on to allow for what was lost before."""
    monitor = Monitor([AGENTS], LIMITS)
    kind = answers(monitor)
    monitor.gaps.note(Gap(Cause.LOST, HOUR, HOUR + 1))
    for minute in range(0, 90, 10):
        monitor.tick(HOUR + minute * HOUR // 60)
    now = 2 * HOUR + HOUR // 2 + by
    monitor.clock_moved(by, now)
    assert kind("a", "refund", "A1", now) != "harmful"
    assert kind("b", "refund", "B2", now + HOUR) == "harmful"


def test_a_gap_that_cannot_concern_the_things_changes_nothing() -> None:
    """Gaps of another tenant, of a tool that only others need, and those that were taken back leave claims as they are."""
    monitor = Monitor([AGENTS], LIMITS)
    kind = answers(monitor)
    lifted = Gap(Cause.REFUSED, HOUR, HOUR + 1)
    monitor.gaps.note(Gap(Cause.REFUSED, HOUR, HOUR + 1, namespace="other"))
    monitor.gaps.note(Gap(Cause.SILENT_TOOL, 0, EVER, tool="close", service="desk"))
    monitor.gaps.note(lifted)
    assert kind("a", "refund", "A1", 2 * HOUR) != "harmful"
    monitor.gaps.lift(lifted)
    assert kind("b", "refund", "B2", 2 * HOUR + 1) == "harmful"
    monitor.gaps.note(Gap(Cause.SILENT_TOOL, 0, EVER, tool="look_up", service="desk"))
    assert kind("c", "refund", "C3", 2 * HOUR + 2) != "harmful"


def test_a_call_of_unknown_things_counts_as_long_as_a_thing_is_known() -> None:
    """Within `within` it may have been of a new thing, or have kept a known one; after that it is as if it were not made."""
    kind = answers(Monitor([AGENTS], LIMITS))
    kind("a", "look_up", None, HOUR)
    assert kind("b", "refund", "A1", 2 * HOUR) != "harmful"
    assert kind("a", "refund", "A2", 3 * HOUR + 1) == "harmful"
    assert kind("c", "refund", "A3", 3 * HOUR + 2) == "harmful"
    kind("a", "look_up", "B1", 4 * HOUR)
    kind("a", "close", None, 5 * HOUR + HOUR // 2)
    assert kind("a", "refund", "B1", 7 * HOUR) != "harmful"
    kind("a", "look_up", "B2", 14 * HOUR)
    assert kind("a", "refund", "B2", 17 * HOUR) == "harmful"


def test_a_call_that_comes_when_its_thing_is_forgotten_may_be_on_any_state() -> None:
    """A call that began before others, and is seen when its thing is over, is no claim by what is not known any more."""
    kind = answers(Monitor([AGENTS], LIMITS))
    kind("a", "look_up", "A1", HOUR)
    kind("b", "look_up", "B2", 3 * HOUR + 1)
    assert (
        kind("c", "refund", "A1", 3 * HOUR) != "harmful"
    )  # within the time that calls may be late
    kind("b", "look_up", "C3", 9 * HOUR)
    assert kind("d", "refund", "A1", 4 * HOUR) != "harmful"


def test_a_decision_allows_for_what_is_not_known_of_a_thing() -> None:
    """What the verdict on a call would not claim is not denied: things from before the start, and things that were dropped."""
    early = Monitor([AGENTS], Limits(keep_arguments=True), started_ns=10 * HOUR)
    asked = call(1, "a", "refund", {"id": "A1"}, 11 * HOUR)
    assert early.decide(asked, 11 * HOUR).answer == "unknown"
    limits = Limits(history_complete=True, keep_arguments=True, things_max=16, window_ns=1)
    small = Monitor([ALONE], limits)
    for number in range(1, 200):
        made = call(number, "s", "look_up", {"id": f"A{number}"}, number * 10)
        small.observe(made, number * 10, quiet=True)
        small.finalise(number * 10)
    assert (
        small.decide(call(200, "s", "refund", {"id": "A1"}, 9_000), 9_000).answer == "unknown"
    )
    assert small.decide(call(200, "s", "refund", {"id": "new"}, 9_000), 9_000).answer == "deny"


MINUTE: Final = HOUR // 60
AN_HOUR: Final = spec_of("across: namespace\nwithin: 1h")


def timed(made: random.Random, count: int, unknown: float) -> list[ToolCall]:
    """Calls of three sessions over some hours, by which things are forgotten."""
    steps = (0, 5, 10, 20 * MINUTE, 40 * MINUTE, 70 * MINUTE)
    ends = list(accumulate(made.choice(steps) for _ in range(count)))
    calls = calls_of(made, count, orders=2, unknown=unknown)
    return [
        each._replace(start_ns=HOUR + at, end_ns=HOUR + at)
        for each, at in zip(calls, ends, strict=True)
    ]


def claimed(calls: Iterable[ToolCall], *gaps: Gap) -> tuple[int, set[str]]:
    """The number of harmful calls, and those of them that are certain to be the harmful ones."""
    monitor = Monitor([AN_HOUR], LIMITS)
    for gap in gaps:
        monitor.gaps.note(gap)
    for number, each in enumerate(calls):
        monitor.observe(each, 100 * HOUR + number)
    steps = [
        step for name in "abc" for judged in monitor.find(name) for step in judged["steps"]
    ]
    harmful = [step for step in steps if step["kind"] == "harmful"]
    return len(harmful), {s["span_id"] for s in harmful if s.get("certain_call", True)}


VALUES: Final[tuple[dict[str, Any], ...]] = ({"id": "A0"}, {"id": "A1"}, {"id": "new"}, {})
LISTS: Final[tuple[dict[str, Any], ...]] = tuple(
    {"ids": list(chosen)}
    for size in range(3)
    for chosen in combinations(("A0", "A1", "new"), size)
)


@given(st.integers(0, 2**32), st.integers(2, 7))
def test_what_is_claimed_of_unknown_values_holds_for_each_of_them(
    seed: int, count: int
) -> None:
    """However the unknown values are set, so many calls are harmful; in whatever order the calls arrive within a minute."""
    made = random.Random(seed)
    calls = timed(made, count, 0.3)
    unknown = [place for place, each in enumerate(calls) if each.arguments is None][:2]
    calls = [
        each if each.arguments is not None or place in unknown else each._replace(arguments={})
        for place, each in enumerate(calls)
    ]
    found, _ = claimed(calls)
    options = [LISTS if calls[place].tool == "close" else VALUES for place in unknown]
    for chosen in product(*options):
        known = list(calls)
        for place, arguments in zip(unknown, chosen, strict=True):
            known[place] = calls[place]._replace(arguments=arguments)
        assert found <= claimed(known)[0]


@given(st.integers(0, 2**32), st.integers(2, 9))
def test_what_is_claimed_beside_a_gap_is_true(seed: int, count: int) -> None:
    """Calls of any sender are lost in a gap: no later session claims a harm that the whole has not."""
    made = random.Random(seed)
    calls = timed(made, count, 0.0)
    number, truth = claimed(calls)
    first, last = sorted((made.randrange(count), made.randrange(count)))
    tool = made.choice(("", *NAMED))
    gone = {
        place
        for place in range(first, last + 1)
        if made.random() < 0.6 and tool in ("", calls[place].tool)
    }
    cause = made.choice((Cause.LOST, Cause.REFUSED, Cause.OUTAGE))
    gap = Gap(cause, calls[first].start_ns - 1, calls[last].start_ns + 1, tool)
    found, certain = claimed([c for place, c in enumerate(calls) if place not in gone], gap)
    assert found <= number
    assert certain <= truth


def test_an_agent_that_invents_things_loses_those_of_its_own() -> None:
    """Beyond the bound, things that were longest untouched go, counted; one that comes back may be in any state."""
    limits = Limits(history_complete=True, keep_arguments=True, shared_things_max=64)
    monitor = Monitor([ACROSS], limits)
    for number in range(1, 1_000):
        made = call(number, f"s{number % 7}", "look_up", {"id": f"A{number}"}, number * 10)
        monitor.observe(made, number * 10, quiet=True)
    assert sum(pair.things_dropped for pair in monitor.totals.pairs.values()) > 900
    [back] = monitor.observe(call(1_000, "x", "refund", {"id": "A1"}, 10_000), 10_000)
    [new] = monitor.observe(call(1_001, "x", "refund", {"id": "never"}, 10_010), 10_010)
    assert back.kind != "harmful"
    assert new.kind == "harmful"


def test_things_of_several_sessions_are_bounded_in_bytes() -> None:
    """Things with many calls go by the bytes that these take, those of who has most first; all are counted."""
    limits = Limits(history_complete=True, shared_things_bytes_max=1 << 16)
    monitor = Monitor([AGENTS], limits)
    monitor.observe(call(1, "z", "look_up", {"id": "its own"}, 5, "desk"), 5)
    for number in range(2, 1_000):
        made = call(number, f"s{number % 7}", "look_up", {"id": f"A{number // 9}"}, number * 10)
        monitor.observe(made, number * 10, quiet=True)
    spaces = monitor.state.judging_state.spaces.by_key.values()
    for space in spaces:
        assert space.held_bytes == sum(each.held_bytes for each in space.things.values())
    assert 1 << 15 < sum(space.held_bytes for space in spaces) <= 1 << 16
    assert sum(pair.things_dropped for pair in monitor.totals.pairs.values()) > 80
    after = call(1_000, "y", "refund", {"id": "its own"}, 20_000, "desk")
    [kept] = monitor.observe(after, 20_000)
    assert kept.kind == "progress"


@pytest.mark.parametrize("arguments", [{"id": "A1"}, None])
def test_what_a_session_is_told_between_two_calls_is_bounded(arguments: Any) -> None:
    """However many calls of others come before its last one, few are kept of a thing; what those that go would excuse is no claim."""
    monitor = Monitor([AGENTS], LIMITS)
    kind = answers(monitor)
    kind("a", "look_up", "A1", HOUR)
    kind("a", "look_up", "B2", HOUR + 9 * SECOND)
    kind("b", "look_up", "A1", HOUR + 1)
    for number in range(300):
        made = call(1_000 + number, "b", "refund", arguments, HOUR + SECOND + number)
        monitor.observe(made, HOUR + 9 * SECOND, quiet=True)
    [told] = next(s for s in monitor.state.table if s.key.id == "a").judgements
    assert isinstance(told, SharedThingsJudgement)
    assert len(told.visits) <= VISITS_MAX + 2
    assert kind("a", "refund", "A1", HOUR + 10 * SECOND) != "harmful"


@given(st.integers(0, 2**32), st.integers(2, 40))
def test_a_session_goes_to_another_process_with_what_it_was_told(seed: int, count: int) -> None:
    """A session that is handed over is judged there as it would have been: its things are as all made them."""
    made = random.Random(seed)
    calls = calls_of(made, count)
    home, there = Monitor([ACROSS], LIMITS), Monitor([ACROSS], LIMITS)
    cut = made.randrange(1, count)
    for each in calls[:cut]:
        home.observe(each, each.start_ns)
    keys = [SessionKey("", name) for name in "abc"]
    try:
        moved = home.kept.handover("1").hand_over(keys)
    except UnkeptError as problem:
        raise AssertionError(problem) from problem
    there.kept.handover("1").take_over(moved, 1_000)
    one = Monitor([ALONE], LIMITS)
    for each in in_one(calls):
        one.observe(each, each.start_ns)
    for each in calls[cut:]:
        there.observe(each, each.start_ns)
    assert kinds(there, "abc") == kinds(one, ["one"])


@pytest.mark.parametrize("seed", sampled(range(3), {0}))
def test_long_sessions_that_are_folded_have_the_things_of_one(seed: int) -> None:
    """Calls that arrive late within the window, in sessions whose older calls are folded, are judged as in one session."""
    made = random.Random(seed)
    calls = calls_of(made, 330, orders=90)
    limits = Limits(history_complete=True, keep_arguments=True, window_ns=100)
    several, one = Monitor([ACROSS], limits), Monitor([ALONE], limits)
    mine: dict[bytes, str] = {}
    its: dict[bytes, str] = {}
    for each in sorted(calls, key=lambda one: one.start_ns + made.random() * 60):
        now = each.start_ns + 70
        for monitor, seen, asked in ((several, mine, each), (one, its, in_one([each])[0])):
            seen.update({v.span_id: str(v.kind) for v in monitor.observe(asked, now)})
            monitor.finalise(now)
    assert mine == its
    assert max(judged["calls"] for judged in several.find("a")) > 80


@pytest.mark.plain
def test_sessions_whose_space_was_dropped_meet_in_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond the bound of spaces, their things stay within theirs, and live sessions of a dropped one find each other."""
    monkeypatch.setattr(thing_spaces, "SPACES_MAX", 2)
    limits = Limits(history_complete=True, keep_arguments=True, shared_things_max=64)
    monitor = Monitor([AGENTS], limits)
    for number in range(1, 301):
        agent = "xyz"[number % 3]
        made = call(number, agent, "look_up", {"id": f"A{number}"}, HOUR + number, agent)
        monitor.observe(made, HOUR + number, quiet=True)
    monitor.observe(call(301, "x", "refund", {"id": "B"}, 2 * HOUR, "x"), 2 * HOUR)
    again = call(302, "w", "refund", {"id": "B"}, 2 * HOUR + 1, "x")
    [verdict] = monitor.observe(again, 2 * HOUR + 1)
    assert verdict.kind == "harmful"


def test_a_harmful_call_says_nothing_of_a_thing_whose_calls_are_not_known() -> None:
    """A session that comes late does not know the look-up that allows its refund: harmful calls behind it prove none missing."""
    monitor = Monitor([ACROSS], LIMITS)
    monitor.observe(call(1, "a", "look_up", {"id": "A1"}, 1), 1)
    monitor.observe(call(2, "a", "refund", {"id": "A1"}, 2), 2)
    monitor.observe(call(3, "b", "look_up", {"id": "A1"}, 3), 3)
    for number in range(4, 40):
        [closed] = monitor.observe(call(number, "b", "close", {"ids": ["A1"]}, number), number)
        assert closed.kind == "harmful"
    [late] = monitor.observe(call(40, "c", "refund", {"id": "A1"}, 40), 40)
    assert (late.kind, late.possible) == ("progress", True)


def test_a_session_that_waits_keeps_the_last_calls_of_others() -> None:
    """However many calls others make on its thing, it takes no more memory, and is judged by the last of them."""
    bytes_kept: list[int] = []
    for count in (600, 3_000):
        monitor = Monitor([ACROSS], LIMITS)
        monitor.observe(call(1, "a", "look_up", {"id": "A1"}, 1), 1)
        for number in range(2, count):
            made = call(number, "b", "look_up", {"id": "A1"}, number)
            monitor.observe(made, number, quiet=True)
        asked = call(count + 1, "a", "refund", {"id": "A1"}, count + 1)
        assert monitor.decide(asked, count + 1).answer != "deny"
        monitor.observe(call(count, "b", "refund", {"id": "A1"}, count), count)
        assert monitor.decide(asked, count + 1).answer == "deny"
        bytes_kept.append(len(monitor.kept.handover("1").hand_over([SessionKey("", "a")])))
    assert bytes_kept[1] < 1.1 * bytes_kept[0]


def test_what_a_session_that_waits_does_not_know_any_more_is_no_claim() -> None:
    """A refund that only a forgotten look-up of another session allows is not called harmful; a second one is."""
    monitor = Monitor([ACROSS], LIMITS)
    monitor.observe(call(1, "a", "look_up", {"id": "A1"}, 1), 1)
    monitor.observe(call(2, "a", "refund", {"id": "A1"}, 2), 2)
    monitor.observe(call(3, "b", "look_up", {"id": "A1"}, 3), 3)
    for number in range(4, 600):  # harmful in their session, so they move nothing
        monitor.observe(call(number, "b", "close", {"id": "A1", "ids": ["A1"]}, number), number)
    kinds_of: list[str] = []
    for number in (600, 601):
        asked = call(number, "a", "refund", {"id": "A1"}, number)
        found = monitor.observe(asked, number)
        kinds_of += [str(each.kind) for each in found if each.span_id == asked.span_id]
    assert kinds_of[0] != "harmful"
    assert kinds_of[1] == "harmful"


def test_a_thing_met_later_may_be_that_of_an_unknown_call_behind_its_own() -> None:
    """A look-up of an unknown order behind a refund of A1 may be of A1, when another session meets A1 only then."""
    monitor = Monitor([ACROSS], LIMITS)
    calls = [
        call(1, "a", "look_up", {"id": "A1"}, 10),
        call(2, "a", "refund", {"id": "A1"}, 20),
        call(3, "a", "look_up", None, 30),
        call(4, "b", "look_up", {"id": "B7"}, 40),
        call(5, "b", "refund", {"id": "A1"}, 50),
    ]
    for each in calls:
        monitor.observe(each, 1_000)
    [found] = monitor.find("b")
    assert found["harmful"] == 0
