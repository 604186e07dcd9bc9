"""A verdict as one flat object, for lines and logs. Never with arguments."""

from __future__ import annotations

from typing import Any

from monitor.records import Verdict

__all__ = ["as_event"]


def as_event(verdict: Verdict) -> dict[str, Any]:
    """All that a verdict says; ids in hexadecimal digits."""
    return {
        "session": verdict.session.id,
        "namespace": verdict.session.namespace,
        "agent": verdict.agent,
        "spec": verdict.spec,
        "spec_version": verdict.spec_version,
        "mode": verdict.mode,
        "step": verdict.step,
        "tool": verdict.tool,
        "symbol": verdict.symbol,
        "kind": verdict.kind.value,
        "reason": verdict.reason.value if verdict.reason else None,
        "constraint": verdict.constraint,
        "severity": verdict.severity,
        "state_before": verdict.state_before,
        "state": verdict.state,
        "skipped": list(verdict.skipped),
        "allowed": list(verdict.allowed),
        "final": verdict.final,
        "revised_from": verdict.revised_from.value if verdict.revised_from else None,
        "trace_id": verdict.trace_id.hex(),
        "span_id": verdict.span_id.hex(),
    }
