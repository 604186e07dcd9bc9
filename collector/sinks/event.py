"""A verdict or an alarm as one flat object, for lines and logs.

Of arguments it holds what `detail` says: values only where they are shown.
"""

from __future__ import annotations

from typing import Any

from collector.calls.decisions.prevented_calls import PreventedCall
from collector.config.settings.alerts import Joined
from collector.sinks.printable_text import stamp
from monitor.records import ALARMING, ReferenceAlarm, Verdict, thing_field

__all__ = ["as_event", "is_news", "is_shown_possible", "possibility"]


def as_event(news: Verdict | ReferenceAlarm | PreventedCall) -> dict[str, Any]:
    """All that a verdict, an alarm or a denied call says; ids in hexadecimal digits."""
    if isinstance(news, PreventedCall):
        return _denied(news)
    return _alarm(news) if isinstance(news, ReferenceAlarm) else _verdict(news)


def _denied(denied: PreventedCall) -> dict[str, Any]:
    found = denied.found
    return {
        "session": denied.session.id,
        "namespace": denied.session.namespace,
        "agent": denied.agent,
        "spec": found.spec,
        "spec_version": found.spec_version,
        "mode": found.mode,
        "tool": denied.tool,
        "symbol": found.symbol,
        "kind": "overruled" if denied.is_overruled else "prevented",
        "reason": found.reason.value if found.reason else None,
        "constraint": found.constraint,
        "severity": found.severity,
        "state_before": found.state,
        "skipped": list(found.skipped),
        "allowed": list(found.allowed),
        "decision_id": denied.decision_id,
        "denied_at": stamp(denied.at_ns),
        "call_id": denied.call_id,
        "trace_id": denied.trace_id.hex(),
        "span_id": denied.span_id.hex(),
        **thing_field(found.thing),
    }


def _alarm(alarm: ReferenceAlarm) -> dict[str, Any]:
    return {
        "session": alarm.session.id,
        "namespace": alarm.session.namespace,
        "agent": alarm.agent,
        "spec": alarm.spec,
        "spec_version": alarm.spec_version,
        "mode": alarm.mode,
        "step": alarm.step,
        "tool": alarm.tool or None,
        "kind": "divergence",
        "alarm": alarm.alarm,
        "level": alarm.level,
        "severity": alarm.severity,
        "withdrawn": alarm.withdrawn,
        "departure": alarm.kind,
        "phase": alarm.phase,
        "write": alarm.write,
        "expected": list(alarm.expected),
        "support": alarm.support,
        "precision": alarm.precision,
        "false_per_1000": alarm.false_per_1000,
        "risk": alarm.risk,
        "trace_id": alarm.trace_id.hex(),
        "span_id": alarm.span_id.hex(),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    found = {
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
        "detail": verdict.detail or None,
        "severity": verdict.severity,
        "state_before": verdict.state_before,
        "state": verdict.state,
        "skipped": list(verdict.skipped),
        "allowed": list(verdict.allowed),
        "final": verdict.final,
        "revised_from": verdict.revised_from.value if verdict.revised_from else None,
        "trace_id": verdict.trace_id.hex(),
        "span_id": verdict.span_id.hex(),
        **thing_field(verdict.thing),
    }
    if not verdict.certain_call:
        found["certain_call"] = False
    return found | possibility(verdict)


def possibility(verdict: Verdict) -> dict[str, Any]:
    """What a verdict says of a call that is harmful unless something was missed."""
    if verdict.possible:
        before = verdict.unless_before_ns
        began = {"unless_began_before": stamp(before)} if before else {}
        return {"possible": True, "unless": list(verdict.unless), **began}
    return {"possible": False, "was_possible": True} if verdict.was_possible else {}


def is_news(verdict: Verdict, joined: Joined) -> bool:
    """True if a sink tells of the verdict: it is harm, or was, or it is possible harm that is not silent."""
    harm = verdict.kind in ALARMING or verdict.revised_from in ALARMING
    return harm or is_shown_possible(verdict, joined)


def is_shown_possible(verdict: Verdict, joined: Joined) -> bool:
    """True if a sink tells that harm is possible, or that it was and is no longer."""
    return joined != "silent" and (verdict.possible or verdict.was_possible)
