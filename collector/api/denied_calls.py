"""What the API says of a session's denied calls: those that were prevented, and steps that were made anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.calls.decisions.prevented_calls import PreventedCall, PreventedCalls
from monitor.records import SessionKey, thing_field

__all__ = ["mark_overruled", "prevented", "prevented_of"]


def prevented(
    records: PreventedCalls, session: str, namespace: str | None
) -> list[dict[str, Any]]:
    """The calls of a session that were denied and, as far as is known, not made; the earliest first."""
    return [
        _as_json(each) for each in records.named(session, namespace) if not each.is_overruled
    ]


def prevented_of(records: PreventedCalls, key: SessionKey) -> list[PreventedCall]:
    """The calls of one session that were denied and, as far as is known, not made."""
    return [each for each in records.of(key) if not each.is_overruled]


def mark_overruled(
    judgements: Sequence[dict[str, Any]], records: PreventedCalls, session: str
) -> None:
    """Marks the steps of judgements whose calls were denied before they were made."""
    made = {
        (each.session.namespace, each.span_id.hex()): each.decision_id
        for each in records.named(session, None)
        if each.is_overruled
    }
    if not made:
        return
    for judgement in judgements:
        namespace = judgement["namespace"]
        for step in judgement["steps"]:
            if (namespace, step["span_id"]) in made:
                step["overruled"] = True


def _as_json(denied: PreventedCall) -> dict[str, Any]:
    found = denied.found
    return {
        "decision_id": denied.decision_id,
        "namespace": denied.session.namespace,
        "agent": denied.agent,
        "at_ns": denied.at_ns,
        "tool": denied.tool,
        "call_id": denied.call_id or None,
        "trace_id": denied.trace_id.hex(),
        "spec": found.spec,
        "spec_version": found.spec_version,
        "kind": found.kind.value,
        "reason": found.reason.value if found.reason else None,
        "severity": found.severity,
        "symbol": found.symbol,
        "skipped": list(found.skipped),
        "allowed": list(found.allowed),
        "constraint": found.constraint,
        "state": found.state,
        **thing_field(found.thing),
        "hidden_spans": [each.hex() for each in denied.hidden],
    }
