"""Plain calls are judged like the same calls in a recording, and refused if they are malformed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import monitor
from monitor import CallError, Kind, Limits, Monitor, Reason, judge_calls, load_spec, tool_call

ROOT = Path(__file__).parents[2]
ROVER = load_spec(ROOT / "dfa_specs" / "farm_rover.yaml")
TASK = load_spec(ROOT / "examples" / "specs" / "support_desk.yaml")
RULES = load_spec(ROOT / "examples" / "specs" / "support_rules.yaml")

ORDER: Sequence[Mapping[str, Any]] = [
    {"name": "look_up_order", "arguments": {"order": "A-17"}},
    {"name": "refund", "arguments": {"order": "A-17", "amount": 25}},
    {"name": "check_refund_policy", "arguments": {"order": "A-17"}},
    {"name": "refund", "arguments": {"order": "A-17", "amount": 25}},
    {"name": "notify_customer", "arguments": {"order": "A-17", "text": "done"}},
]


def kinds(calls: Sequence[Mapping[str, Any]]) -> list[Kind | None]:
    return [each and each.kind for each in judge_calls(TASK, calls).verdicts]


def test_each_call_has_its_verdict() -> None:
    """A call before its precondition is harmful with the skipped calls, and the run ends accepted."""
    judged = judge_calls(TASK, ORDER)

    assert kinds(ORDER) == ["progress", "harmful", "progress", "progress", "progress"]
    [harmful] = judged.harmful
    assert (harmful.step, harmful.tool, harmful.reason) == (2, "refund", Reason.OUT_OF_ORDER)
    assert harmful.skipped == ("check",)
    assert judged.judgement["harm_rate"] == pytest.approx(0.2, abs=1e-12)
    assert judged.judgement["accepting"]
    assert judged.judgement["exact"]


def test_a_policy_has_no_verdict_on_what_it_does_not_name() -> None:
    """Verdicts stand beside their calls; a call that a policy does not name has None."""
    judged = judge_calls(RULES, ORDER)

    assert [each and each.kind for each in judged.verdicts] == [
        None,
        "harmful",
        "progress",
        "self_loop",
        None,
    ]
    assert [each.constraint for each in judged.harmful] == ["precedence: [check, small_refund]"]


def test_arguments_may_be_json_and_may_be_unknown() -> None:
    """JSON text is read; without arguments a call is harmful only if it is for all of them."""
    first = [ORDER[0], ORDER[2]]
    assert kinds([*first, {"name": "refund", "arguments": '{"amount": 900}'}])[2] == "harmful"
    assert kinds([*first, {"name": "refund", "arguments": '{"amount": 90}'}])[2] == "progress"
    assert kinds([*first, {"name": "refund"}])[2] == "progress"
    assert not judge_calls(TASK, [*first, {"name": "refund"}]).judgement["exact"]


@pytest.mark.parametrize("text", ["", '{"amount": 900', '{"amount": 900}<|im_end|>', "[]"])
def test_a_text_that_cannot_be_read_is_unknown_and_why_is_said(text: str) -> None:
    """It is judged as a call without arguments is, and the result has the reason beside its place."""
    first = [ORDER[0], ORDER[2]]
    judged, bare = (
        judge_calls(TASK, [*first, {"name": "refund", **more}])
        for more in ({"arguments": text}, {})
    )
    assert [each.kind for each in judged.verdicts if each] == [
        each.kind for each in bare.verdicts if each
    ]
    assert not judged.harmful
    assert not judged.judgement["exact"]
    assert list(judged.unread) == [3]
    assert not bare.unread


def test_a_failed_call_has_no_effect() -> None:
    """A call with an error leaves the state as it was."""
    failed = {**ORDER[0], "error": True}
    assert kinds([failed, *ORDER[2:]]) == ["self_loop", "harmful", "harmful", "harmful"]


def test_a_run_without_calls_is_judged() -> None:
    """Its path is empty and its task is not done."""
    judged = judge_calls(ROVER, [])
    assert judged.verdicts == ()
    assert (judged.judgement["spec"], judged.judgement["calls"]) == ("farm_rover", 0)
    assert judged.judgement["accepting"] is False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("refund", "call 2: expected a mapping, not str"),
        ({"arguments": {}}, "call 2: expected the tool's name under 'name'"),
        ({"name": 7}, "call 2: expected the tool's name under 'name'"),
        ({"name": "a", "args": {}}, "call 2: 'args' is none of name, arguments, error, result"),
        (
            {"name": "a", "arguments": [1]},
            "call 2: expected arguments by name, not list",
        ),
    ],
)
def test_what_is_no_call_is_refused(call: Any, message: str) -> None:
    """The error names the call and its fault."""
    with pytest.raises(CallError) as refused:
        judge_calls(TASK, [ORDER[0], call])
    assert str(refused.value).startswith(message)


def test_built_calls_go_to_a_monitor() -> None:
    """A call of an agent's own loop is bound by its attributes, and is one call however often it is made."""
    found = Monitor([ROVER], Limits(history_complete=True))
    call = tool_call(
        "water",
        {"field": 3, "liters": 10},
        session="field-7",
        start_ns=5,
        attributes={"service.name": "farm-rover"},
    )
    [verdict] = found.observe(call, now=6)

    assert (verdict.kind, verdict.session.id, call.end_ns) == (Kind.HARMFUL, "field-7", 5)
    assert call == tool_call(
        "water",
        {"field": 3, "liters": 10},
        session=monitor.SessionKey("", "field-7"),
        start_ns=5,
        attributes={"service.name": "farm-rover"},
    )
    assert call.span_id != tool_call("water", session="field-7", start_ns=6).span_id


def test_every_exported_name_can_be_had() -> None:
    """Every name in `monitor.__all__` can be imported."""
    assert all(getattr(monitor, name) is not None for name in monitor.__all__)
