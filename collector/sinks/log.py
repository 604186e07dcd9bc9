"""One structured log event per harmful call or verdict on a session, and per revision of one.

Never with arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor.records import ALARMING, Kind, Verdict

__all__ = ["LogSink"]


_EVENTS: Final[Mapping[Kind | None, str]] = {
    Kind.HARMFUL: "harmful_call",
    Kind.CANNOT_FINISH: "session_cannot_finish",
    Kind.STALLED: "session_stalled",
}


class LogSink:
    """Writes harmful verdicts, and verdicts on sessions, to a structlog logger."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def deliver(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.kind in ALARMING or verdict.revised_from in ALARMING:
                self._write(verdict)

    def _write(self, verdict: Verdict) -> None:
        event = _EVENTS.get(verdict.kind) or f"{_EVENTS[verdict.revised_from]}_withdrawn"
        self._logger.warning(
            event,
            session=verdict.session.id,
            namespace=verdict.session.namespace,
            agent=verdict.agent,
            spec=verdict.spec,
            spec_version=verdict.spec_version,
            mode=verdict.mode,
            tool=verdict.tool,
            symbol=verdict.symbol,
            kind=verdict.kind.value,
            reason=verdict.reason.value if verdict.reason else None,
            constraint=verdict.constraint,
            severity=verdict.severity,
            step=verdict.step,
            state=verdict.state_before,
            skipped=list(verdict.skipped),
            allowed=list(verdict.allowed),
            revised_from=verdict.revised_from.value if verdict.revised_from else None,
            trace_id=verdict.trace_id.hex(),
            span_id=verdict.span_id.hex(),
        )
