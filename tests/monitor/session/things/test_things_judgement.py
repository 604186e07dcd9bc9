"""A spec with `each` in a monitor: any order of arrival, folding, amended calls, copies."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.costly import COSTLY

EACH: Final = 'each: {order: {look_up: id, refund: id, close: "ids[*]"}}\n'
BODY: Final = """
match: {}
alphabet:
  login: {tool: login}
  approve: {tool: approve}
  look_up: {tool: look_up}
  refund: {tool: refund}
  close: {tool: close}
"""
RULES: Final = {
    "policy": "kind: policy\nconstraints: [{alternate_precedence: [look_up, refund]}, {precedence: [login, look_up]}]",
    "shared": "kind: policy\nconstraints: [{alternate_precedence: [approve, refund]}, {not_coexistence: [close, approve]}]",
    "lenient": "kind: policy\nconcurrent: any_order\nconstraints: [{alternate_precedence: [look_up, refund]}, {not_coexistence: [close, login]}]",
}
TOOLS: Final = ("login", "approve", "look_up", "refund", "close")
KEY: Final = SessionKey("", "s")
SECOND: Final = 1_000_000_000


def spec_of(rules: str, each: str = EACH) -> Spec:
    spec, found = compile_text(f"id: s\n{each}{BODY}{rules}\n", "s.yaml")
    assert spec is not None, found
    return spec


SPECS: Final = {name: (spec_of(rules), spec_of(rules, "")) for name, rules in RULES.items()}


def call(number: int, tool: str, arguments: Any, start: int, end: int) -> ToolCall:
    return ToolCall(
        session=KEY,
        agent="",
        tool=tool,
        arguments=arguments,
        error=False,
        start_ns=start,
        end_ns=end,
        trace_id=bytes(16),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={},
    )


def calls_of(made: random.Random, count: int, values: int) -> list[ToolCall]:
    """Calls one after the other, some of which overlap the next; some carry no value, or values that are not known."""
    found: list[ToolCall] = []
    for number in range(1, count + 1):
        tool = made.choice(TOOLS)
        value = f"A{made.randrange(values)}"
        arguments: dict[str, Any] | None = {"id": value} if made.random() < 0.9 else {}
        if tool == "close":
            arguments = {
                "ids": [f"A{made.randrange(values)}" for _ in range(made.randrange(3))]
            }
        start = number * 10
        found.append(call(number, tool, arguments, start, start + made.choice((0, 0, 5, 15))))
    return found


def judged(
    spec: Spec, calls: Iterable[ToolCall], **limits: Any
) -> tuple[Monitor, dict[str, Any]]:
    monitor = Monitor([spec], Limits(history_complete=True, keep_arguments=True, **limits))
    for number, each in enumerate(calls):
        monitor.observe(each, number)
    [found] = monitor.find("s")
    return monitor, found


def kinds(found: dict[str, Any]) -> dict[str, str]:
    return {step["span_id"]: step["kind"] for step in found["steps"]}


def values_of(each: ToolCall) -> list[str] | None:
    """The values of a call; None for a call of an unnamed tool."""
    if each.tool in ("login", "approve"):
        return None
    assert each.arguments is not None
    values = each.arguments.get("ids", [each.arguments.get("id")])
    return list(dict.fromkeys("none" if v is None else v for v in values)) or ["none"]


def alone(spec: Spec, calls: Sequence[ToolCall]) -> dict[str, dict[str, Any]]:
    """The spec without `each`, once for each value over that value's calls, and for no value ("")."""
    values = {v: None for each in calls for v in values_of(each) or ()}
    found: dict[str, dict[str, Any]] = {}
    for value in ("", *values):
        own = [each for each in calls if (its := values_of(each)) is None or value in its]
        if own:
            _, found[value] = judged(spec, own, fold=False)
    return found


_RANK: Final = {"harmful": 2, "progress": 1, "self_loop": 0}


@given(st.sampled_from(sorted(SPECS)), st.integers(0, 2**32), st.integers(1, 14))
def test_any_order_of_arrival_is_the_spec_run_for_each_value(
    name: str, seed: int, count: int
) -> None:
    """However calls arrive, verdicts, things and counts are those of one run for each value over its calls."""
    made = random.Random(seed)
    spec, plain = SPECS[name]
    calls = calls_of(made, count, 3)
    shuffled = made.sample(calls, len(calls))
    monitor, found = judged(spec, shuffled, fold=False)
    each = alone(plain, calls)
    expected = {
        f"{number:016x}": max(
            (
                kinds(one)[f"{number:016x}"]
                for one in each.values()
                if f"{number:016x}" in kinds(one)
            ),
            key=_RANK.__getitem__,
        )
        for number in range(1, count + 1)
    }
    assert kinds(found) == expected
    things = {thing["value"]: thing for thing in found["things"]}
    each.pop("", None)
    assert things.keys() == each.keys()
    for value, one in each.items():
        assert things[value]["state"] == one["state"]
        assert things[value]["accepting"] == one["accepting"]
        assert things[value]["calls"] == one["calls"]
        assert things[value]["substantive"] == one["substantive"]
        assert things[value]["harmful"] == one["harmful"]
    for step in found["steps"]:
        if step["kind"] == "harmful" and step["thing"] is not None:
            assert kinds(each[step["thing"]["value"]])[step["span_id"]] == "harmful"
    del monitor


@COSTLY
@given(st.sampled_from(sorted(SPECS)), st.integers(0, 2**32))
def test_folded_calls_leave_their_things_as_they_are(name: str, seed: int) -> None:
    """In a long session, things are those of a session that keeps every step, and memory is bounded."""
    made = random.Random(seed)
    spec, plain = SPECS[name]
    calls = calls_of(made, 210, 8)
    order = sorted(calls, key=lambda each: each.start_ns + made.choice((0, 0, 0, 100)))
    monitor = Monitor([spec], Limits(history_complete=True, keep_arguments=True, window_ns=20))
    for number, each in enumerate(order):
        monitor.observe(each, 10 * number)
        if number % 8 == 0:
            monitor.finalise(10 * number)
    [found] = monitor.find("s")
    assert found["steps_folded"] > 100
    _, whole = judged(spec, calls, fold=False)
    one, other = ({t["value"]: t for t in each["things"]} for each in (found, whole))
    assert one == other
    for key in ("calls", "substantive", "harmful", "harm_rate", "accepting", "state"):
        assert found[key] == whole[key]
    each_alone = alone(plain, calls)
    for value, thing in one.items():
        assert thing["harmful"] == each_alone[value]["harmful"]
        assert thing["state"] == each_alone[value]["state"]


_ANSWERS: Final = {"deny": 2, "unknown": 1, "allow": 0}


def observed(spec: Spec, calls: Sequence[ToolCall]) -> Monitor:
    monitor = Monitor([spec], Limits(history_complete=True, keep_arguments=True))
    for number, each in enumerate(calls):
        monitor.observe(each, number)
    return monitor


@given(st.sampled_from(sorted(SPECS)), st.integers(0, 2**32), st.integers(0, 10), st.booleans())
def test_a_decision_is_the_worst_of_those_for_each_value(
    name: str, seed: int, count: int, flying: bool
) -> None:
    """What is answered before a call is the worst answer of the spec run for each value; its kind is that of the verdict."""
    made = random.Random(seed)
    spec, plain = SPECS[name]
    *calls, asked = calls_of(made, count + 1, 3)
    if flying and calls:
        last = calls.pop()
        calls.append(last._replace(evidence=Evidence.PENDING, end_ns=last.start_ns))
    monitor = observed(spec, calls)
    decided = monitor.decide(asked, 1_000)
    own = values_of(asked)
    seen = dict.fromkeys(v for each in calls for v in values_of(each) or ())
    worst = 0
    for value in ["", *seen] if own is None else own:
        mine = [c for c in calls if (its := values_of(c)) is None or value in its]
        found = observed(plain, mine).decide(asked, 1_000)
        worst = max(worst, _ANSWERS[found.answer])
    assert _ANSWERS[decided.answer] == worst
    again = monitor.decide(asked, 1_000)
    assert again == decided
    if not flying:
        [verdict] = [
            each for each in monitor.observe(asked, 1_000) if each.span_id == asked.span_id
        ]
        if verdict.kind == "harmful":
            assert decided.answer != "allow"
            assert decided.specs[0].kind == "harmful"
            if own is not None and len(own) == 1:
                assert decided.specs[0].thing == verdict.thing


def test_an_agent_that_invents_things_costs_its_own_bound() -> None:
    """Of more things than the bound, accepting ones that were longest untouched go, counted; one that comes back is read as joined."""
    spec = spec_of(
        "kind: policy\nconstraints: [{alternate_precedence: [look_up, refund]}, {response: [close, approve]}]"
    )
    monitor = Monitor(
        [spec],
        Limits(history_complete=True, keep_arguments=True, window_ns=1, things_max=64),
    )
    opened = call(
        1, "close", {"ids": ["first"]}, 1, 1
    )  # its thing waits for `approve`: it does not accept
    monitor.observe(opened, 1)
    for number in range(2, 1_000):
        made = call(number, "look_up", {"id": f"A{number}"}, number * 10, number * 10)
        monitor.observe(made, number * 10, quiet=True)
        monitor.finalise(number * 10)
    [found] = monitor.find("s")
    assert found["things_count"] < 64 + 160
    assert "first" in {thing["value"] for thing in found["things"]}
    assert "A2" not in {thing["value"] for thing in found["things"]}
    [pair] = monitor.totals.pairs.values()
    assert pair.things_dropped > 700
    back = monitor.observe(call(1_000, "refund", {"id": "A2"}, 10_000, 10_000), 10_000)
    new = monitor.observe(call(1_001, "refund", {"id": "never"}, 10_010, 10_010), 10_010)
    assert [each.kind for each in back] == ["progress"]
    assert [each.kind for each in new] == ["harmful"]


@COSTLY
@given(st.sampled_from(sorted(SPECS)), st.integers(0, 2**32), st.integers(2, 120))
def test_things_go_to_another_process_as_they_are(name: str, seed: int, count: int) -> None:
    """A session that is handed over in the middle, folded or not, has the things of one that never moved."""
    made = random.Random(seed)
    spec, _ = SPECS[name]
    calls = calls_of(made, count, 8)
    limits = Limits(history_complete=True, keep_arguments=True, window_ns=20)
    home, first, second = (Monitor([spec], limits) for _ in range(3))
    cut = made.randrange(1, count)
    for number, each in enumerate(calls):
        now = 10 * number + 10
        if number == cut:
            second.kept.handover("1").take_over(first.kept.handover("1").hand_over([KEY]), now)
        moved = first if number < cut else second
        for monitor in (home, moved):
            monitor.observe(each, now)
            monitor.finalise(now)
    [here], [there] = home.find("s"), second.find("s")
    assert here == there


@given(st.sampled_from(sorted(SPECS)), st.integers(0, 2**32), st.integers(1, 12))
def test_calls_that_turn_out_otherwise_are_judged_as_if_they_had_been_so_at_once(
    name: str, seed: int, count: int
) -> None:
    """A call whose arguments come later, and one that turns out to be none, leave no trace in any thing."""
    made = random.Random(seed)
    spec, _ = SPECS[name]
    calls = calls_of(made, count, 3)
    limits = Limits(history_complete=True, keep_arguments=True)
    late, once = Monitor([spec], limits), Monitor([spec], limits)
    bare = [each._replace(arguments=None) if made.random() < 0.5 else each for each in calls]
    for number, each in enumerate(made.sample(bare, count)):
        late.observe(each, number)
    extra = call(count + 1, "look_up", {"id": "A0"}, 15, 15)
    late.observe(extra, 50)
    for was, each in made.sample(list(zip(bare, calls, strict=True)), count):
        if was is not each:
            late.corrections.amend(was, each, 60)
    late.retract(extra)
    for number, each in enumerate(calls):
        once.observe(each, number)
    [one], [other] = late.find("s"), once.find("s")
    assert kinds(one) == kinds(other)
    assert {t["value"]: t for t in one["things"]} == {t["value"]: t for t in other["things"]}


@given(st.sampled_from(sorted(SPECS)), st.integers(0, 2**32), st.integers(1, 12))
def test_a_joined_session_claims_no_more_of_a_thing_than_of_a_session(
    name: str, seed: int, count: int
) -> None:
    """Where first calls are missing, a thing has no more certain harms than the spec without `each` over its calls."""
    made = random.Random(seed)
    spec, plain = SPECS[name]
    calls = [c for c in calls_of(made, count, 1) if values_of(c) != ["none"]]
    started = made.choice((15, 35, 75))
    found = []
    for each in (spec, plain):
        monitor = Monitor([each], Limits(keep_arguments=True), started_ns=started)
        for number, one in enumerate(calls):
            monitor.observe(one, 200 + number)
        found += monitor.find("s")
    if calls and found[0]["things"]:
        [thing] = found[0]["things"]
        assert thing["harmful"] <= found[1]["harmful"]
        assert found[1]["joined"] or thing["harmful"] == found[1]["harmful"]
