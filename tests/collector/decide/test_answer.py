"""Answers have the fields of their specs."""

from __future__ import annotations

from typing import Any

import pytest

from collector.calls.question_handler import DecisionResult
from collector.decide.answer import as_json_object
from monitor.decision import Answer, CallDecision, SpecDecision
from tests.monitor.test_decision_message import said as spec


def answered(*specs: SpecDecision) -> dict[str, Any]:
    """The JSON of a decision on `pay`."""
    rank = {Answer.DENY: 0, Answer.UNKNOWN: 1, Answer.ALLOW: 2}
    ordered = tuple(sorted(specs, key=lambda each: (rank[each.answer], each.spec)))
    decision = CallDecision(ordered[0].answer if ordered else Answer.ALLOW, ordered)
    committed = decision.enforced is not Answer.DENY
    made = DecisionResult(1, decision, committed, "s1", "pay", bool(specs))
    return as_json_object(made, "d1", "why")


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
    """No spec judges it."""
    found = answered()

    assert (found["decision"], found["spec"]) == ("allow", None)
    assert found["specs"] == []
