"""Why a call is harmful, or a session cannot finish, in a sentence: in verdicts and in the judgement object."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor, ToolCall, Verdict
from monitor.alphabet.pattern_words import TEXT_MAX
from monitor.limits import SECOND
from monitor.records import Kind, Reason
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.monitor.test_engine import NOW, START, call, only, specs

SHOP = """
id: shop
kind: task
match: {service.name: rover}
alphabet:
  check: {tool: check}
  little: {tool: pay, arguments: {amount: {max: 100}}}
  big: {tool: pay, arguments: {amount: {min: 1000}}}
  close: {tool: close}
golden: [[check, little, close], [check, big, close]]
"""
RULES = """
id: rules
kind: policy
alphabet:
  check: {tool: check}
  little: {tool: pay, arguments: {amount: {max: 100}}}
  other: {tool: pay}
  close: {tool: close}
constraints: [{precedence: [check, little]}, {forbid: other}, {at_most: [close, 1]}]
"""
TIMED = """
id: timed
kind: task
match: {service.name: rover}
alphabet: {pay: {tool: pay}, confirm: {tool: confirm}, look: {tool: look}, lose: {tool: lose}}
initial: start
accepting: [done]
transitions:
  start: {pay: paid}
  paid: {confirm: done, lose: lost}
  lost: {look: lost}
deadlines: [{from: pay, to: confirm, within: 30}]
idle: {start: 5, paid: 60}
"""


def complete(*texts: str, **limits: Any) -> Monitor:
    """A monitor that sees every session from its first call."""
    return Monitor(specs(*texts), Limits(history_complete=True, **limits))


def pay(number: int, amount: Any) -> ToolCall:
    arguments = None if amount is None else {"amount": amount}
    return call(number, "pay", arguments=arguments)


def harm(monitor: Monitor, *calls: ToolCall) -> Verdict:
    """The verdict on the last call, which is harmful."""
    for each in calls:
        verdicts = monitor.observe(each, NOW)
    verdict = only(verdicts)
    assert verdict.kind is Kind.HARMFUL
    return verdict


def step_details(monitor: Monitor) -> list[str | None]:
    [found] = monitor.judgements()
    return [step["detail"] for step in found["steps"]]


# --- tasks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "reason", "detail"),
    [
        (
            [pay(1, 5)],
            Reason.OUT_OF_ORDER,
            "`little` (`amount` at most 100) is not allowed yet in state `G0`",
        ),
        ([call(1, "chekc")], Reason.UNKNOWN_TOOL, "no symbol of the spec has this tool"),
        (
            [call(1, "check"), call(2, "check")],
            Reason.REPEATED,
            "`check` was called before, and is not allowed again in state `G1`",
        ),
        (
            [call(1, "check"), pay(2, 5), pay(3, 5000)],
            Reason.UNREACHABLE,
            "`big` (`amount` at least 1000) is not allowed in state `G2`, nor in any state that can follow",
        ),
        (
            [call(1, "check"), pay(2, 5), call(3, "close"), call(4, "check")],
            Reason.AFTER_FINAL,
            "the task was done in state `G3`: no call may follow, not even `check`",
        ),
    ],
)
def test_a_task_names_symbol_and_state(
    calls: list[ToolCall], reason: Reason, detail: str
) -> None:
    """Each reason has a sentence of its own."""
    verdict = harm(complete(SHOP), *calls)
    assert (verdict.reason, verdict.detail) == (reason, detail)


def test_failed_calls_that_are_harmful_say_so() -> None:
    """Under the conventions of the paper's scorer."""
    text = SHOP.replace("kind: task", "kind: task\nconventions: core")
    verdict = harm(complete(text), call(1, "check", error=True))
    assert verdict.reason is Reason.FAILED_CALL
    assert verdict.detail == "`check` failed, and the spec counts failed calls as harmful"


def test_harmless_calls_have_no_detail() -> None:
    """Neither the verdict nor the step."""
    monitor = complete(SHOP)
    assert only(monitor.observe(call(1, "check"), NOW)).detail == ""
    assert step_details(monitor) == [None]


def test_an_unknown_tool_names_the_nearest_where_it_is_looked_at() -> None:
    """The judgement object has the tool that was probably meant; one that is like none has no guess."""
    monitor = complete(SHOP)
    harm(monitor, call(1, "chekc"))
    harm(monitor, call(2, "transfer"))
    assert step_details(monitor) == [
        "no symbol of the spec has this tool; the nearest tool is `check`",
        "no symbol of the spec has this tool",
    ]


# --- arguments -----------------------------------------------------------------------------------


def test_a_mismatch_names_argument_and_limit_but_no_value() -> None:
    """On default settings, also after the call itself is gone."""
    monitor = complete(SHOP)
    monitor.observe(call(1, "check"), NOW)
    verdict = harm(monitor, pay(2, 250))

    assert verdict.reason is Reason.ARGUMENT_MISMATCH
    assert (
        verdict.detail == ("`amount` is below the minimum 1000; the nearest symbol is `big`")
        or verdict.detail == "`amount` is above the maximum 100; the nearest symbol is `little`"
    )
    assert step_details(monitor) == [None, verdict.detail]


def test_a_value_is_shown_where_arguments_are() -> None:
    """With `keep_arguments`, by what may be shown of it."""
    asked = []

    def show(value: Any) -> Any:
        asked.append(value)
        return "[redacted]"

    limits = Limits(history_complete=True, keep_arguments=True)
    plain = Monitor(specs(SHOP), limits)
    assert "`amount` (250) is" in harm(plain, pay(1, 250)).detail
    hiding = Monitor(specs(SHOP), limits, show=show)
    assert '`amount` ("[redacted]") is' in harm(hiding, pay(1, 250)).detail
    assert asked == [250]
    silent = Monitor(specs(SHOP), Limits(history_complete=True), show=show)
    harm(silent, pay(1, 250))
    assert asked == [250]


def test_a_call_without_arguments_known_is_no_mismatch() -> None:
    """Unknown arguments are never blamed."""
    monitor = complete(SHOP)
    monitor.observe(call(1, "check"), NOW)
    assert only(monitor.observe(pay(2, None), NOW)).detail == ""


def test_a_fuller_span_brings_its_own_sentence() -> None:
    """A call that is judged again says which argument of the fuller span does not match."""
    monitor = complete(SHOP, keep_arguments=True)
    old, new = pay(1, 250), pay(1, 300)
    harm(monitor, old)
    monitor.corrections.amend(old, new, NOW)
    [detail] = step_details(monitor)
    assert detail is not None
    assert "(300)" in detail


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_sentences_do_not_depend_on_arrival(order: tuple[int, ...]) -> None:
    """Whatever order calls arrive in, each step has the same sentence in the end."""
    calls = [pay(1, 5), call(2, "check"), pay(3, 250), call(4, "close")]
    monitor, sorted_one = complete(SHOP), complete(SHOP)
    for place in order:
        monitor.observe(calls[place], NOW)
    for each in calls:
        sorted_one.observe(each, NOW)
    assert step_details(monitor) == step_details(sorted_one)


def test_notes_are_dropped_with_their_steps() -> None:
    """What is remembered of mismatches has the bound of the log."""
    monitor = complete(SHOP)
    sizes = []
    for number in range(1, 400):
        now = START + number * 60 * SECOND
        monitor.observe(
            pay(number, 250)._replace(start_ns=now - SECOND, end_ns=now - SECOND), now
        )
        monitor.tick(now + 30 * SECOND)
        sizes.append(sum(monitor.kept.memory().values()))
    assert max(sizes[200:]) < 1.2 * max(sizes[:100])


# --- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "detail"),
    [
        (
            [pay(1, 5)],
            '`little` (`amount` at most 100) breaks the rule "no `little` before `check`"',
        ),
        (
            [pay(1, 500)],
            '`other` (with other arguments than `little`) breaks the rule "`other` is never allowed"',
        ),
        (
            [call(1, "close"), call(2, "close")],
            '`close` breaks the rule "`close` at most once"',
        ),
    ],
)
def test_a_policy_names_symbol_and_rule(calls: list[ToolCall], detail: str) -> None:
    """The rule in a sentence, beside the constraint as the spec has it."""
    verdict = harm(complete(RULES), *calls)
    assert verdict.detail == detail
    assert verdict.constraint


def test_a_failed_call_that_is_forbidden_names_the_rule() -> None:
    """Even where the failure alone would be harmful."""
    text = RULES.replace("kind: policy", "kind: policy\nconventions: core")
    verdict = harm(complete(text), pay(1, 500)._replace(error=True))
    assert verdict.reason is Reason.FORBIDDEN
    assert verdict.detail.endswith('breaks the rule "`other` is never allowed"')


# --- sessions ------------------------------------------------------------------------------------


def missed(monitor: Monitor, now: int) -> list[tuple[str, str]]:
    """(reason, detail) of the verdicts on sessions that time brings."""
    monitor.tick(now)
    return [(str(each.reason), each.detail) for each in monitor.news()]


def test_a_deadline_says_what_did_not_follow_and_when_it_was_due() -> None:
    """The time of the day is the calls' own, in UTC."""
    monitor = complete(TIMED)
    monitor.observe(call(1, "pay"), START + 2 * SECOND)
    assert missed(monitor, START + 40 * SECOND) == [
        (
            "deadline",
            "`confirm` did not follow `pay` within 30 s; it was due at 22:13:51 UTC",
        )
    ]
    [found] = monitor.judgements()
    assert [each["detail"] for each in found["missed"]] == [
        "`confirm` did not follow `pay` within 30 s; it was due at 22:13:51 UTC"
    ]


def test_an_idle_session_says_where_it_stands() -> None:
    """And until when a call was due."""
    monitor = complete(TIMED.replace("within: 30", "within: 3000"))
    monitor.observe(call(1, "pay"), START + 2 * SECOND)
    assert missed(monitor, START + 90 * SECOND) == [
        (
            "idle",
            "no call came within 60 s in state `paid`; one was due at 22:14:21 UTC",
        )
    ]


def test_a_trap_says_where_it_is() -> None:
    """The state from which nothing can be finished."""
    monitor = complete(TIMED.replace("deadlines:", "#"))
    monitor.observe(call(1, "pay"), START + 2 * SECOND)
    verdicts = monitor.observe(call(2, "lose"), START + 3 * SECOND)
    assert [(str(each.reason), each.detail) for each in verdicts if each.reason] == [
        ("trap", "no accepting state can be reached any more in state `lost`")
    ]


def test_a_withdrawn_verdict_has_no_detail() -> None:
    """A deadline that a late span has kept after all."""
    monitor = complete(TIMED)
    monitor.observe(call(1, "pay"), START + 2 * SECOND)
    missed(monitor, START + 40 * SECOND)
    verdicts = monitor.observe(call(5, "confirm"), START + 41 * SECOND)
    assert [each.detail for each in verdicts] == ["", ""]


# --- laws ----------------------------------------------------------------------------------------


def spec_of(text: str) -> Spec:
    spec, _ = compile_text(text, "spec.yaml")
    assert spec is not None
    return spec


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["check", "pay", "close", "nothing"]),
        st.sampled_from([5, 500, 5000, "x" * 400, None]),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(calls=CALLS, text=st.sampled_from([SHOP, RULES]), arguments=st.booleans())
def test_every_harm_is_explained_alike_everywhere(
    calls: list[tuple[str, Any, bool]], text: str, arguments: bool
) -> None:
    """Each harmful verdict has a sentence of at most 300 characters, and its step begins with the same one."""
    monitor = Monitor([spec_of(text)], Limits(history_complete=True, keep_arguments=arguments))
    told: dict[int, str] = {}
    for number, (tool, amount, error) in enumerate(calls, 1):
        given_to_it = None if amount is None else {"amount": amount}
        made = call(number, tool, arguments=given_to_it, error=error)
        for verdict in monitor.observe(made, made.end_ns):
            told[verdict.step] = verdict.detail
            assert bool(verdict.detail) is (verdict.kind is Kind.HARMFUL)
            assert len(verdict.detail) <= TEXT_MAX
    for found in monitor.judgements():
        for step in found["steps"]:
            assert (step["detail"] or "").startswith(told[step["index"]])
