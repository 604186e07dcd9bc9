"""Answers have the fields of their specs, and words that a model can act on."""

from __future__ import annotations

from typing import Any

import pytest

from collector.calls.deciding import Made, worst_of
from collector.decide.answer import as_json_object
from monitor.decision import Answer, Decision, SpecDecision
from monitor.records import Kind, Reason


def spec(answer: Answer, enforce: str = "block", **fields: Any) -> SpecDecision:
    """What one spec says."""
    harmful = answer is Answer.DENY
    usual: dict[str, Any] = {
        "spec": "shop",
        "spec_version": "1",
        "mode": "shadow",
        "enforce": enforce,
        "answer": answer,
        "kind": Kind.HARMFUL if harmful else Kind.PROGRESS,
        "reason": Reason.OUT_OF_ORDER if harmful else None,
        "severity": "critical" if harmful else "info",
        "symbol": "pay",
        "skipped": ("approve",) if harmful else (),
        "allowed": ("approve", "cancel"),
        "constraint": None,
        "state": "start",
        "certain": True,
        "missing": (),
    }
    return SpecDecision(**usual | fields)


def answered(*specs: SpecDecision, tools: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON of a decision on `pay`."""
    rank = {Answer.DENY: 0, Answer.UNKNOWN: 1, Answer.ALLOW: 2}
    ordered = tuple(sorted(specs, key=lambda each: (rank[each.answer], each.spec)))
    decision = Decision(ordered[0].answer if ordered else Answer.ALLOW, ordered)
    answer, would_deny = worst_of(decision)
    made = Made(1, decision, answer, would_deny, answer is not Answer.DENY, "s1", "pay")
    return as_json_object(made, "d1", lambda _, symbol: (tools or {}).get(symbol, symbol))


ENFORCED = [
    ("block", Answer.DENY, "deny", False),
    ("block", Answer.UNKNOWN, "unknown", False),
    ("block", Answer.ALLOW, "allow", False),
    ("advise", Answer.DENY, "allow", True),
    ("advise", Answer.UNKNOWN, "unknown", False),
    ("advise", Answer.ALLOW, "allow", False),
    ("off", Answer.DENY, "allow", False),
    ("off", Answer.UNKNOWN, "unknown", False),
    ("off", Answer.ALLOW, "allow", False),
]


@pytest.mark.parametrize(("enforce", "answer", "decision", "would_deny"), ENFORCED)
def test_a_spec_denies_only_where_it_blocks(
    enforce: str, answer: Answer, decision: str, would_deny: bool
) -> None:
    """The answer is the spec's; the decision is what it enforces; `advise` says that it would deny."""
    found = answered(spec(answer, enforce))

    assert (found["answer"], found["decision"], found["would_deny"]) == (
        answer.value,
        decision,
        would_deny,
    )
    assert found["specs"][0]["decision"] == decision


def test_the_worst_enforced_spec_decides() -> None:
    """A spec that blocks decides over one that only advises; both are listed."""
    found = answered(
        spec(Answer.DENY, "advise", spec="a"), spec(Answer.UNKNOWN, "block", spec="b")
    )

    assert (found["decision"], found["answer"], found["would_deny"]) == (
        "unknown",
        "deny",
        True,
    )
    assert (found["spec"], [each["spec"] for each in found["specs"]]) == ("b", ["a", "b"])


def test_without_a_spec_a_call_is_allowed() -> None:
    """No spec judges it: allowed, without words."""
    found = answered()

    assert (found["decision"], found["message"], found["spec"]) == ("allow", "", None)
    assert found["specs"] == []


WORDS = [
    (
        spec(Answer.DENY),
        "refused: `pay` needs `approve` first. Allowed now: `approve`, `cancel`.",
    ),
    (
        spec(Answer.DENY, skipped=("check", "approve")),
        "refused: `pay` needs `check`, then `approve` first. Allowed now: `approve`, `cancel`.",
    ),
    (
        spec(Answer.DENY, "advise"),
        "against the rules: `pay` needs `approve` first. Allowed now: `approve`, `cancel`.",
    ),
    (
        spec(Answer.DENY, reason=Reason.FORBIDDEN, skipped=(), constraint="forbid pay"),
        "refused: `pay` is forbidden here (forbid pay). Allowed now: `approve`, `cancel`.",
    ),
    (
        spec(Answer.DENY, reason=Reason.UNKNOWN_TOOL, skipped=(), allowed=()),
        "refused: `pay` is not a tool of this task. Nothing is allowed now.",
    ),
    (
        spec(Answer.UNKNOWN, missing=("arguments",)),
        "not certain: whether `pay` is allowed here depends on the arguments of the call. "
        "Allowed now: `approve`, `cancel`.",
    ),
    (spec(Answer.ALLOW), ""),
]


@pytest.mark.parametrize(("said", "words"), WORDS)
def test_the_message_says_what_is_wrong_and_what_is_allowed(
    said: SpecDecision, words: str
) -> None:
    """Each reason has its words; an allowed call has none."""
    assert answered(said)["message"] == words


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_words(reason: Reason) -> None:
    """No reason leaves a placeholder or an empty sentence."""
    message = answered(spec(Answer.DENY, reason=reason, skipped=()))["message"]

    assert "`pay`" in message
    assert "{" not in message


def test_symbols_are_named_by_their_tools() -> None:
    """A model knows tools, not the symbols of a spec."""
    found = answered(
        spec(Answer.DENY, skipped=("approve_large",), allowed=("approve_large",)),
        tools={"approve_large": "approve"},
    )

    assert found["message"] == (
        "refused: `pay` needs `approve` (approve_large) first. Allowed now: `approve` (approve_large)."
    )


def test_a_long_list_of_tools_is_cut() -> None:
    """The message stays short; `allowed` has all."""
    allowed = tuple(f"t{number}" for number in range(30))
    found = answered(spec(Answer.DENY, allowed=allowed))

    assert found["message"].endswith("`t19`, and 10 more.")
    assert found["allowed"] == allowed
