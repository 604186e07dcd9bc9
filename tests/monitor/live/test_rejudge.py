"""A running session goes over to the specs in use: verdicts, counters, and what is not known any more."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.plain_calls import tool_call
from monitor.records import Kind, SessionKey, ToolCall, Verdict
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

NOW = 1_700_000_000 * SECOND
KEY = SessionKey("", "s")
TOOLS = ("look", "check", "pay", "wipe")
TASK = """
id: shop
match: {service.name: shop}
mode: page
alphabet:
  look: {tool: look}
  check: {tool: check}
  little: {tool: pay, arguments: {amount: {max: 10}}}
  much: {tool: pay, arguments: {amount: {min: 11}}}
golden: [%s]
reads: [%s]
"""
POLICY = """
id: rules
kind: policy
match: {service.name: shop}
alphabet: {check: {tool: check}, pay: {tool: pay}%s}
constraints: [%s]
"""

WORDS = st.lists(
    st.lists(st.sampled_from(["check", "little", "much"]), min_size=1, max_size=3).map(
        lambda word: f"[{', '.join(dict.fromkeys(word))}]"
    ),
    min_size=1,
    max_size=3,
    unique=True,
)
TASKS = WORDS.map(lambda words: TASK % (", ".join(words), "look"))
CALLS = st.lists(
    st.tuples(
        st.sampled_from(TOOLS),
        st.sampled_from([None, {}, {"amount": 5}, {"amount": 50}]),
        st.booleans(),
    ),
    max_size=12,
)


def spec(text: str, version: str = "1") -> Spec:
    found, findings = compile_text(f'{text}version: "{version}"\n', "shop.yaml")
    assert found is not None, findings
    return found


def made(number: int, tool: str, arguments: Any, *, error: bool = False) -> ToolCall:
    """The call that starts after so many tenths of a second."""
    return tool_call(
        tool,
        arguments,
        session="s",
        start_ns=NOW + number * SECOND // 10,
        error=error,
        attributes={"service.name": "shop"},
    )


def observe(monitor: Monitor, calls: Any, begin: int = 0) -> list[Verdict]:
    found: list[Verdict] = []
    for number, (tool, arguments, error) in enumerate(calls, start=begin + 1):
        call = made(number, tool, arguments, error=error)
        found += monitor.observe(call, call.start_ns)
    return found


def judged(monitor: Monitor) -> list[dict[str, Any]]:
    """What is said of the session, but for what shown arguments explain."""
    found = monitor.find("s")
    for each in found:
        for step in each["steps"]:
            del step["detail"]
    return found


@given(TASKS, TASKS, CALLS, CALLS)
def test_a_rejudged_session_is_as_if_the_new_version_had_judged_it(
    old: str, new: str, calls: Any, later: Any
) -> None:
    """Where tools have the same symbols, nothing is lost without their arguments: verdicts, scores, state, `exact`."""
    always = Monitor([spec(new, "2")], Limits(history_complete=True))
    corrected = Monitor([spec(old)], Limits(history_complete=True))
    observe(always, calls)
    observe(corrected, calls)
    corrected.use([spec(new, "2")])
    assert corrected.reader.is_under_earlier_specs(KEY) is bool(calls)
    corrected.rejudge(KEY, NOW + 3 * SECOND)
    assert not corrected.reader.is_under_earlier_specs(KEY)
    assert judged(corrected) == judged(always)
    observe(always, later, len(calls))
    observe(corrected, later, len(calls))
    assert judged(corrected) == judged(always)


@given(TASKS, TASKS, CALLS)
def test_what_is_reported_adds_up(old: str, new: str, calls: Any) -> None:
    """First verdicts and revisions lead to the verdicts of the session; each call is counted once."""
    monitor = Monitor([spec(old)], Limits(history_complete=True))
    told = {each.span_id: each.kind for each in observe(monitor, calls)}
    monitor.use([spec(new, "2")])
    for verdict in monitor.rejudge(KEY, NOW + 3 * SECOND):
        assert verdict.revised_from is told[verdict.span_id]
        assert verdict.spec_version == "2"
        told[verdict.span_id] = verdict.kind
    steps = [step for each in monitor.find("s") for step in each["steps"]]
    assert {bytes.fromhex(step["span_id"]): Kind(step["kind"]) for step in steps} == told
    for pair in monitor.totals.pairs.values():
        assert pair.progress + pair.loops + pair.harms + pair.controls == len(calls)
        assert pair.active == 1


def one(*texts: str, calls: Any, limits: Limits | None = None) -> Monitor:
    monitor = Monitor([spec(each) for each in texts], limits or Limits(history_complete=True))
    observe(monitor, calls)
    return monitor


def test_final_counters_stay_and_the_harm_is_withdrawn() -> None:
    """A harm that is final is revised for the alerts, and is in the final counter still: it never goes back."""
    monitor = one(TASK % ("[check, little]", "look"), calls=[("pay", {"amount": 5}, False)])
    monitor.tick(NOW + 60 * SECOND)
    monitor.use([spec(TASK % ("[little]", "look"), "2")])
    [verdict] = monitor.rejudge(KEY, NOW + 61 * SECOND)
    assert (verdict.kind, verdict.revised_from) == (Kind.PROGRESS, Kind.HARMFUL)
    monitor.tick(NOW + 90 * SECOND)
    [pair] = monitor.totals.pairs.values()
    assert pair.final.total() == 1
    assert monitor.find("s")[0]["harmful"] == 0


def test_arguments_that_other_patterns_need_are_unknown() -> None:
    """The log has none: harm is claimed only if every amount is harmful."""
    monitor = one(TASK % ("[check, little]", "look"), calls=[("pay", {"amount": 7}, False)])
    monitor.use([spec(TASK.replace("max: 10", "max: 6") % ("[little]", "look"), "2")])
    monitor.rejudge(KEY, NOW + SECOND)
    [found] = monitor.find("s")
    assert (found["harmful"], found["exact"]) == (0, False)


def test_shown_arguments_are_judged_again() -> None:
    """Where arguments are kept, the new patterns decide by them."""
    limits = Limits(history_complete=True, keep_arguments=True)
    calls: list[Any] = [("pay", {"amount": 7}, False)]
    monitor = one(TASK % ("[check, little]", "look"), calls=calls, limits=limits)
    monitor.use([spec(TASK.replace("max: 10", "max: 6") % ("[little]", "look"), "2")])
    monitor.rejudge(KEY, NOW + SECOND)
    [found] = monitor.find("s")
    assert (found["harmful"], found["exact"]) == (1, True)


def test_folded_steps_are_not_known_any_more() -> None:
    """A session whose first steps are folded is joined: what it left out is no certain harm."""
    calls: list[Any] = [("look", {}, False)] * 200
    monitor = one(TASK % ("[check, little]", "look"), calls=calls)
    monitor.tick(NOW + 3_600 * SECOND // 10)
    assert monitor.find("s")[0]["steps_folded"]
    monitor.use([spec(TASK % ("[check, little], [much, check]", "look"), "2")])
    monitor.rejudge(KEY, NOW + 360 * SECOND)
    [found] = monitor.find("s")
    assert found["joined"]
    assert not found["exact"]


def test_a_policy_that_names_more_tools_may_have_missed_calls() -> None:
    """Calls that its former version did not name are in no log: their lack is no harm."""
    calls: list[Any] = [("wipe", {}, False), ("check", {}, False), ("pay", {}, False)]
    monitor = one(POLICY % ("", "{precedence: [check, pay]}"), calls=calls)
    names = ", wipe: {tool: wipe}"
    monitor.use([spec(POLICY % (names, "{precedence: [wipe, pay]}"), "2")])
    assert Kind.HARMFUL not in {each.kind for each in monitor.rejudge(KEY, NOW + SECOND)}
    [found] = monitor.find("s")
    assert (found["harmful"], found["joined"]) == (0, True)


def test_a_spec_that_is_gone_takes_its_harm_along() -> None:
    """Its verdicts are withdrawn; a new spec begins with the calls that come."""
    calls: list[Any] = [("pay", {}, False), ("pay", {}, False)]
    monitor = one(
        TASK % ("[check, little]", "look"),
        POLICY % ("", "{at_most: [pay, 1]}"),
        calls=calls,
    )
    other = POLICY.replace("id: rules", "id: others") % ("", "{precedence: [check, pay]}")
    monitor.use([spec(TASK % ("[check, little]", "look")), spec(other)])
    withdrawn = monitor.rejudge(KEY, NOW + SECOND)
    assert [(each.spec, each.kind, each.revised_from) for each in withdrawn] == [
        ("rules", Kind.SELF_LOOP, Kind.HARMFUL)
    ]
    observe(monitor, [("pay", {}, False)], 30)
    found = {each["spec"]: each for each in monitor.find("s")}
    assert set(found) == {"shop", "others"}
    assert found["others"]["joined"]
    assert found["others"]["harmful"] == 0


def test_calls_of_specs_that_are_gone_leave_their_times_and_count_as_not_judged() -> None:
    """Where no spec of before is left, the session is as old as it was, and the new spec judges what comes."""
    rules = POLICY % ("", "{at_most: [pay, 1]}")
    monitor = one(rules, calls=[("pay", {}, False), ("check", {}, False)])
    [before] = monitor.find("s")
    monitor.use([spec(rules.replace("id: rules", "id: others"))])
    monitor.rejudge(KEY, NOW + SECOND)
    observe(monitor, [("pay", {}, False)], 30)
    later = made(40, "check", {})
    monitor.observe(later, later.start_ns)
    monitor.corrections.retract(later)
    [found] = monitor.find("s")

    assert before["started"] == found["started"]
    assert found["coverage"]["judged"] == 1
    assert found["coverage"]["not_judged"]["no_spec"] == 2


def test_a_dismissed_session_is_another_one_when_it_goes_on() -> None:
    """What comes under its id is judged by the specs in use, as a session whose first calls are missing."""
    monitor = one(TASK % ("[check, little]", "look"), calls=[("pay", {}, False)])
    monitor.use([spec(TASK % ("[check, much]", "look"), "2")])
    assert monitor.reader.live_named("s") == [KEY]
    [event] = monitor.corrections.dismiss(KEY, NOW + SECOND) or []
    assert event.ended == "operator"
    assert monitor.find("s")[0]["ended"] == "operator"
    assert monitor.reader.live_named("s") == []
    assert monitor.corrections.dismiss(KEY, NOW + SECOND) is None

    observe(monitor, [("pay", {"amount": 50}, False)], 20)
    [found] = monitor.find("s")
    assert (found["spec_version"], found["ended"], found["joined"], found["harmful"]) == (
        "2",
        None,
        True,
        0,
    )


def test_a_decision_on_a_dismissed_session_is_of_the_one_that_goes_on() -> None:
    """It is what observing the call says next: by the specs in use, and as if its first calls were missing."""
    monitor = one(TASK % ("[check, little]", "look"), calls=[("pay", {}, False)])
    monitor.use([spec(TASK % ("[check, much]", "look"), "2")])
    monitor.corrections.dismiss(KEY, NOW + SECOND)
    next_ = made(20, "pay", {"amount": 50})

    [decided] = monitor.decide(next_, next_.start_ns).specs
    [verdict] = monitor.observe(next_, next_.start_ns)
    assert (decided.spec_version, decided.kind) == (verdict.spec_version, verdict.kind)
    assert (decided.spec_version, decided.kind) == ("2", Kind.PROGRESS)
