"""Questions of several sessions about things that they have in common (`across`): as one session would be answered.

A history has calls that were made, and calls that were answered and are on their way (in flight), in several sessions. Then one more
is asked about. Two oracles: the same history in one session; and every order in which the calls in flight may take effect.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from monitor import Answer, Limits, Monitor
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from offrails_guard import LocalGuard

BODY: Final = """
kind: policy
enforce: block
each: {order: {look_up: id, refund: id, close: "ids[*]"}}
alphabet:
  login: {tool: login}
  look_up: {tool: look_up}
  refund: {tool: refund}
  close: {tool: close}
"""
RULES: Final = (
    "[{precedence: [look_up, refund]}, {at_most: [refund, 1]}]",
    "[{alternate_precedence: [look_up, refund]}, {at_most: [close, 1]}]",
    "[{not_coexistence: [close, refund]}, {at_most: [look_up, 2]}]",
    "[{alternate_precedence: [[login, look_up], refund]}, {at_most: [close, 1]}]",
)
NAMED: Final = ("look_up", "refund", "close")


def spec_of(rules: str, across: str) -> Spec:
    made, findings = compile_text(
        f"id: s\n{BODY}\nacross: {across}\nconstraints: {rules}\n", "s.yaml"
    )
    assert made is not None, findings
    return made


ACROSS: Final = [spec_of(rules, "namespace") for rules in RULES]
LIMITS: Final = Limits(history_complete=True)


def call(number: int, session: str, tool: str, arguments: Any, at: int) -> ToolCall:
    return ToolCall(
        SessionKey("", session),
        agent="",
        tool=tool,
        arguments=arguments,
        error=False,
        start_ns=at,
        end_ns=at,
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={},
    )


def made_calls(chance: random.Random, tools: Sequence[str], count: int) -> list[ToolCall]:
    found: list[ToolCall] = []
    for number in range(1, count + 1):
        tool = chance.choice(tools)
        values = [f"A{chance.randrange(2)}" for _ in range(chance.choice((1, 1, 2)))]
        arguments: Any = {"ids": values} if tool == "close" else {"id": values[0]}
        if tool == "login":
            arguments = {}
        found.append(call(number, chance.choice("abc"), tool, arguments, 10 * number))
    return found


def in_one(calls: Sequence[ToolCall]) -> list[ToolCall]:
    return [each._replace(session=SessionKey("", "one")) for each in calls]


def answer(spec: Spec, calls: Sequence[ToolCall], flying: Sequence[int]) -> Answer:
    """What is answered on the last call, after the others were made, or answered (`flying`)."""
    monitor, beside = Monitor([spec], LIMITS), dict[SessionKey, list[ToolCall]]()
    for place, each in enumerate(calls):
        if place not in flying and place < len(calls) - 1:
            monitor.observe(each, each.start_ns)
            continue
        asked, mine = (
            each._replace(evidence=Evidence.DECIDED),
            beside.setdefault(each.session, []),
        )
        decision = monitor.decide(asked, asked.start_ns, beside=mine)
        if place == len(calls) - 1:
            return decision.answer
        monitor.reservations.reserve(asked.session, decision.claims, 10_000)
        mine.append(asked)
    raise AssertionError


@given(st.integers(0, 2**32), st.integers(2, 9))
def test_calls_in_flight_of_others_count_as_those_of_one_session(seed: int, count: int) -> None:
    """Without calls of unnamed tools, it makes no difference whose calls they are."""
    chance = random.Random(seed)
    spec, calls = chance.choice(ACROSS), made_calls(chance, NAMED, count)
    flying = [place for place in range(count - 1) if chance.random() < 0.4][:3]
    found, alone = answer(spec, calls, flying), answer(spec, in_one(calls), flying)
    assert found == alone, (calls, flying)


def worlds(calls: Sequence[ToolCall], flying: Sequence[int]) -> Iterator[list[ToolCall]]:
    """Every order in which the calls may take effect; those in flight, each after its start, or not at all."""
    for size in range(len(flying) + 1):
        for gone in combinations(flying, size):
            here = [place for place in range(len(calls)) if place not in gone]
            for order in permutations(here):
                at = {place: number for number, place in enumerate(order)}
                if all(
                    at[one] < at[other]
                    for one, other in combinations(here, 2)
                    if one not in flying
                ):
                    yield [
                        calls[place]._replace(
                            start_ns=10 * at[place] + 10, end_ns=10 * at[place] + 10
                        )
                        for place in order
                    ]


def harms(spec: Spec, calls: Sequence[ToolCall]) -> dict[str, bool]:
    """Whether each call is harmful, by its span, where all were made one after the other."""
    monitor = Monitor([spec], LIMITS)
    for each in calls:
        monitor.observe(each, each.start_ns)
    return {
        step["span_id"]: step["kind"] == "harmful"
        for found in monitor.judgements()
        for step in found["steps"]
    }


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_no_answer_is_given_that_some_order_contradicts(seed: int, count: int) -> None:
    """Also where calls of unnamed tools make a call right in one session alone."""
    chance = random.Random(seed)
    spec, calls = chance.choice(ACROSS), made_calls(chance, ("login", *NAMED), count)
    flying = [place for place in range(count - 1) if chance.random() < 0.5]
    found, span = answer(spec, calls, flying), calls[-1].span_id.hex()
    every = [harms(spec, world) for world in worlds(calls, flying)]
    if found == "allow":
        assert not any(world.get(span) for world in every), (calls, flying)
    if found == "deny":
        whole = [world for world in every if len(world) == len(every[0])]
        assert all(any(world.values()) for world in whole), (calls, flying)


# --- two conversations --------------------------------------------------------------------------------


def test_two_guards_that_ask_at_once_do_not_both_refund() -> None:
    """In one process: the second is denied until the first is known not to be made."""
    monitor, now = Monitor([ACROSS[0]], LIMITS), [1_000_000_000]

    def clock() -> int:
        now[0] += 1_000_000
        return now[0]

    one, other, third = (
        LocalGuard(monitor, session=name, confirm_seconds=5, clock=clock) for name in "abc"
    )
    looked = one.check("look_up", {"id": "A1"})
    one.outcome(looked.decision_id, "ran")
    first = one.check("refund", {"id": "A1"})
    second = other.check("refund", {"id": "A1"})
    assert (first.decision, second.decision) == ("allow", "deny")
    assert second.raw["until"] == "calls_in_flight"
    one.outcome(first.decision_id, "skipped")
    again = other.check("refund", {"id": "A1"})
    assert again.decision == "allow"
    now[0] += 6_000_000_000  # `other` is gone, and says nothing of it
    last = third.check("refund", {"id": "A1"})
    assert last.decision == "allow"
    third.outcome(last.decision_id, "ran")
    assert one.check("refund", {"id": "A1"}).decision == "deny"


def test_a_refund_of_no_known_order_may_be_of_one_that_others_have() -> None:
    """It is not allowed for certain, where another session has that order."""
    monitor = Monitor([ACROSS[2]], LIMITS)
    asked = call(2, "b", "close", None, 20)._replace(evidence=Evidence.DECIDED)
    assert monitor.decide(asked, 20).answer == "allow"
    monitor.observe(call(1, "a", "refund", {"id": "A1"}, 10), 10)
    assert monitor.decide(asked, 20).answer == "unknown"
