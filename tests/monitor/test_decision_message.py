"""A decision in words: what is wrong with a call, and what is allowed now, as a model knows it."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import Answer, Limits, Monitor, Reason, SpecDecision
from monitor.decision_message import decision_message
from monitor.records import Kind
from tests.monitor.test_engine import NOW, call, specs

SHOP = """
id: shop
enforce: block
match: {service.name: rover}
alphabet:
  approve_large: {tool: approve, arguments: {amount: {min: 100}}}
  pay: {tool: pay}
golden: [[approve_large, pay]]
"""


def said(answer: Answer, enforce: str = "block", **fields: Any) -> SpecDecision:
    """What one spec says of `pay`."""
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


def message(found: SpecDecision, **tools: str) -> str:
    return decision_message("pay", found, tools)


WORDS = [
    (
        said(Answer.DENY, skipped=(), reason=Reason.REPEATED, until="calls_in_flight"),
        "refused: `pay` was done already. It may be allowed once a call in flight has failed. "
        "Allowed now: `approve`, `cancel`.",
    ),
    (
        said(Answer.DENY),
        "refused: `pay` needs `approve` first. Allowed now: `approve`, `cancel`.",
    ),
    (
        said(Answer.DENY, skipped=("check", "approve")),
        "refused: `pay` needs `check`, then `approve` first. Allowed now: `approve`, `cancel`.",
    ),
    (
        said(Answer.DENY, "advise"),
        "against the rules: `pay` needs `approve` first. Allowed now: `approve`, `cancel`.",
    ),
    (
        said(Answer.DENY, reason=Reason.FORBIDDEN, skipped=(), constraint="forbid pay"),
        "refused: `pay` is forbidden here (forbid pay). Allowed now: `approve`, `cancel`.",
    ),
    (
        said(Answer.DENY, reason=Reason.UNKNOWN_TOOL, skipped=(), allowed=()),
        "refused: `pay` is not a tool of this task. Nothing is allowed now.",
    ),
    (
        said(Answer.UNKNOWN, missing=("arguments",)),
        "not certain: whether `pay` is allowed here depends on the arguments of the call. "
        "Allowed now: `approve`, `cancel`.",
    ),
    (said(Answer.ALLOW), ""),
]


@pytest.mark.parametrize(("found", "words"), WORDS)
def test_the_message_says_what_is_wrong_and_what_is_allowed(
    found: SpecDecision, words: str
) -> None:
    """Each reason has its words; an allowed call has none."""
    assert message(found) == words


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_words(reason: Reason) -> None:
    """No reason leaves a placeholder or an empty sentence."""
    words = message(said(Answer.DENY, reason=reason, skipped=()))

    assert "`pay`" in words
    assert "{" not in words


def test_a_policy_allows_what_it_does_not_name() -> None:
    """Where nothing that it names is allowed, the model does not read that it may do nothing."""
    found = said(
        Answer.DENY, reason=Reason.FORBIDDEN, skipped=(), allowed=(), constraint="forbid pay"
    )
    words = decision_message("pay", found, {}, policy=True)

    assert words == (
        "refused: `pay` is forbidden here (forbid pay). Calls that the rules do not name are allowed."
    )


def test_a_long_list_of_tools_is_cut() -> None:
    """The message stays short."""
    allowed = tuple(f"t{number}" for number in range(30))

    assert message(said(Answer.DENY, allowed=allowed)).endswith("`t19`, and 10 more.")


def test_a_monitor_names_symbols_by_their_tools() -> None:
    """A model knows tools, not the symbols of a spec; where the spec is gone, the symbols have to do."""
    monitor = Monitor(specs(SHOP), Limits(history_complete=True))
    pay = call(1, "pay")
    denied = monitor.decide(pay, NOW)

    assert monitor.explain("pay", denied) == (
        "refused: `pay` needs `approve` (approve_large) first. Allowed now: `approve` (approve_large)."
    )
    monitor.use([])
    assert monitor.explain("pay", denied) == (
        "refused: `pay` needs `approve_large` first. Allowed now: `approve_large`."
    )


def test_nothing_wrong_is_no_message() -> None:
    """A call that no spec judges, and one that is allowed, have no words."""
    monitor = Monitor(specs(SHOP), Limits(history_complete=True))
    approve = call(1, "approve", arguments={"amount": 100})

    assert monitor.explain("approve", monitor.decide(approve, NOW)) == ""
    monitor.use([])
    assert monitor.explain("pay", monitor.decide(call(1, "pay"), NOW)) == ""
