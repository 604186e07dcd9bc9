"""One structured log event per harmful call, verdict on a session, and alarm, and per revision of one.

Never with arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from collector.logs import Log
from collector.sinks.event import as_event
from monitor.records import ALARMING, Kind, Raised, Verdict

__all__ = ["LogSink"]


_EVENTS: Final[Mapping[Kind | None, str]] = {
    Kind.HARMFUL: "harmful_call",
    Kind.CANNOT_FINISH: "session_cannot_finish",
    Kind.STALLED: "session_stalled",
}


class LogSink:
    """Writes harmful verdicts, and verdicts on sessions, to the log."""

    def __init__(self, logger: Log) -> None:
        self._logger = logger

    def deliver(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.kind in ALARMING or verdict.revised_from in ALARMING:
                self._write(verdict)

    def _write(self, verdict: Verdict) -> None:
        event = _EVENTS.get(verdict.kind) or f"{_EVENTS[verdict.revised_from]}_withdrawn"
        fields = {
            "session": verdict.session.id,
            "namespace": verdict.session.namespace,
            "agent": verdict.agent,
            "spec": verdict.spec,
            "spec_version": verdict.spec_version,
            "mode": verdict.mode,
            "tool": verdict.tool,
            "symbol": verdict.symbol,
            "kind": str(verdict.kind),
            "reason": str(verdict.reason) if verdict.reason else None,
            "constraint": verdict.constraint,
            "severity": verdict.severity,
            "step": verdict.step,
            "state": verdict.state_before,
            "skipped": list(verdict.skipped),
            "allowed": list(verdict.allowed),
            "revised_from": str(verdict.revised_from) if verdict.revised_from else None,
            "trace_id": verdict.trace_id.hex(),
            "span_id": verdict.span_id.hex(),
        }
        if not verdict.certain_call:
            fields["certain_call"] = False
        self._logger.tell(logging.WARNING, event, fields)

    def alarm(self, raised: Raised) -> None:
        """An alarm of a reference that a session raises, or takes back."""
        event = "alarm_withdrawn" if raised.withdrawn else "alarm_raised"
        level = logging.WARNING if raised.level == "page" else logging.INFO
        fields = as_event(raised)
        fields["alarm_level"] = fields.pop("level")  # a line has one of its own
        self._logger.tell(level, event, fields)
