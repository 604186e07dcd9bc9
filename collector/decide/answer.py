"""Decisions as JSON."""

from __future__ import annotations

from typing import Any, Final

from collector.calls.question_handler import DecisionResult
from monitor.decision import SpecDecision
from monitor.records import thing_field

__all__ = ["as_json_object"]


def as_json_object(made: DecisionResult, decision_id: str, message: str) -> dict[str, Any]:
    """One decision. At the top stands what the spec says that decides; `specs` has each.

    Args:
        made: the decision.
        decision_id: names it in an outcome; "" if nothing is committed.
        message: for the model.
    """
    top = made.decision.deciding
    found: dict[str, Any] = {
        "decision_id": decision_id,
        "decision": made.decision.enforced.value,
        "would_deny": made.decision.would_deny,
        "answer": made.decision.answer.value,
        "message": message,
        **(_spec(top) if top is not None else _NO_SPEC),
        "matched": made.matched,
        "committed": made.committed,
        "session": made.session,
        "specs": [_of_spec(each) for each in made.decision.specs],
    }
    return found


def _spec(found: SpecDecision) -> dict[str, Any]:
    return {
        "enforce": found.enforce,
        "spec": found.spec,
        "spec_version": found.spec_version,
        "mode": found.mode,
        "kind": found.kind.value,
        "reason": found.reason.value if found.reason is not None else None,
        "severity": found.severity,
        "symbol": found.symbol,
        "skipped": found.skipped,
        "allowed": found.allowed,
        "constraint": found.constraint,
        "state": found.state,
        "certain": found.certain,
        "missing": found.missing,
        "until": found.until,
        **thing_field(found.thing),
    }


def _of_spec(found: SpecDecision) -> dict[str, Any]:
    return {
        "answer": found.answer.value,
        "decision": found.enforced.value,
        **_spec(found),
    }


_NO_SPEC: Final[dict[str, Any]] = {
    "enforce": None,
    "spec": None,
    "spec_version": None,
    "mode": None,
    "kind": None,
    "reason": None,
    "severity": None,
    "symbol": None,
    "skipped": (),
    "allowed": (),
    "constraint": None,
    "state": None,
    "certain": True,
    "missing": (),
    "until": None,
}
"""Fields of an answer if no spec judges the call."""
