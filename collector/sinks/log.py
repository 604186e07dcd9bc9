"""Log events: harmful and denied calls, verdicts on sessions, alarms, revisions of them, ends of sessions, new agents.

Of arguments they hold what a verdict's `detail` says. Lines of one agent under one spec are limited (`line_limit`): what is left out
is counted, and logged by an event of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from collector.calls.decisions.prevented_calls import PreventedCall
from collector.calls.inventory.agent_changes import (
    INSTRUMENTATION,
    RESUMED,
    STOPPED,
    AgentChange,
)
from collector.calls.inventory.inventory import AgentRecord
from collector.config.settings.alerts import Joined
from collector.config.settings.telemetry import LogLineSettings
from collector.sinks.event import as_event, is_news, is_shown_possible, possibility
from collector.sinks.line_limit import LineLimit, OmittedLines
from collector.telemetry.clock import now_ns
from collector.telemetry.logs import Logger
from monitor.aggregate.totals import SessionFinished
from monitor.records import ALARMING, Kind, ReferenceAlarm, Verdict, thing_field
from monitor.spec.spec import Spec

__all__ = ["LogSink"]

SPECS_SHOWN_MAX: Final = 32
"""Specs of one line."""

_EVENTS: Final[Mapping[Kind | None, str]] = {
    Kind.HARMFUL: "harmful_call",
    Kind.CANNOT_FINISH: "session_cannot_finish",
    Kind.STALLED: "session_stalled",
}

_CHANGE_HINTS: Final[Mapping[str, str]] = {
    INSTRUMENTATION: "its tools may have other names and arguments: compare them with the spec's alphabet",
    STOPPED: "arguments are unknown from now on: conditions on them are not checked",
    RESUMED: "conditions on arguments are checked again",
}


class LogSink:
    """Writes to the log what people look for there.

    Args:
        logger: the log.
        lines: how many lines there may be.
        clock: Unix nanoseconds.
        joined: how possible harm is reported.
    """

    def __init__(
        self,
        logger: Logger,
        lines: LogLineSettings | None = None,
        clock: Callable[[], int] = now_ns,
        joined: Joined = "hint",
    ) -> None:
        self._logger = logger
        self._joined = joined
        self._clock = clock
        given = lines or LogLineSettings()
        self._verdicts = _limit(given.verdict_lines_per_second, given)
        self._alarms = _limit(given.verdict_lines_per_second, given)
        self._sessions = _limit(given.session_lines_per_second, given)
        self._agents = _limit(given.session_lines_per_second, given)
        self._limits: Final[Mapping[str, LineLimit]] = {
            "harmful_calls_suppressed": self._verdicts,
            "alarms_suppressed": self._alarms,
            "sessions_finished_suppressed": self._sessions,
            "agents_seen_suppressed": self._agents,
        }

    def deliver(self, verdicts: Sequence[Verdict]) -> None:
        now = self._clock()
        for verdict in verdicts:
            if is_news(verdict, self._joined):
                namespace = verdict.session.namespace
                if self._verdicts.allows(namespace, verdict.agent, verdict.spec, now):
                    self._write(verdict)

    def tick(self, now: int) -> None:
        """Logs how many lines were left out, where there is room for a line again."""
        for event, limit in self._limits.items():
            self._log_left_out(event, limit.left_out(now))

    def close(self) -> None:
        """Logs what was left out and not logged yet."""
        for event, limit in self._limits.items():
            self._log_left_out(event, limit.rest())

    def _log_left_out(self, event: str, found: Iterable[OmittedLines]) -> None:
        for each in found:
            fields = {
                "namespace": each.namespace,
                "agent": each.agent,
                "spec": each.spec,
                "count": each.lines,
            }
            self._logger.log_fields(logging.WARNING, event, fields)

    def _write(self, verdict: Verdict) -> None:
        possible = is_shown_possible(verdict, self._joined)
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
            "detail": verdict.detail or None,
            **thing_field(verdict.thing),
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
        if possible:
            fields |= possibility(verdict)
        hint = possible and self._joined == "hint" and verdict.revised_from not in ALARMING
        level = logging.INFO if hint else logging.WARNING
        self._logger.log_fields(level, _event(verdict, possible=possible), fields)

    def alarm(self, raised: ReferenceAlarm) -> None:
        """An alarm of a reference that a session raises, or takes back."""
        namespace = raised.session.namespace
        if not self._alarms.allows(namespace, raised.agent, raised.spec, self._clock()):
            return
        event = "alarm_withdrawn" if raised.withdrawn else "alarm_raised"
        level = logging.WARNING if raised.level == "page" else logging.INFO
        fields = as_event(raised)
        fields["alarm_level"] = fields.pop("level")  # a line has one of its own
        self._logger.log_fields(level, event, fields)

    def denied(self, denied: PreventedCall) -> None:
        """A call that was denied before it was made; or that was made anyway."""
        namespace = denied.session.namespace
        if self._verdicts.allows(namespace, denied.agent, denied.found.spec, self._clock()):
            fields = as_event(denied)
            event = f"call_{fields.pop('kind')}"
            level = logging.WARNING if denied.is_overruled else logging.INFO
            self._logger.log_fields(level, event, fields)

    def finished(self, events: Iterable[SessionFinished]) -> None:
        """Sessions that have ended."""
        now = self._clock()
        for event in events:
            namespace = event.session.namespace
            if self._sessions.allows(namespace, event.agent, event.spec, now):
                fields = {
                    "session": event.session.id,
                    "namespace": namespace,
                    "agent": event.agent,
                    "spec": event.spec or None,
                    "ended": event.ended,
                    "unsatisfied": list(event.unsatisfied),
                    "missed": list(event.missed),
                    **event.scores._asdict(),
                }
                self._logger.log_fields(logging.INFO, "session_finished", fields)

    def introduce(self, agent: AgentRecord, specs: Sequence[str]) -> None:
        """An agent that is seen for the first time. Each has another name: its namespace is limited.

        Args:
            agent: what was seen of it.
            specs: ids of those that judge its sessions.
        """
        if self._agents.allows(agent.namespace, "", "", self._clock()):
            fields = {
                "service": agent.service,
                "namespace": agent.namespace,
                "agents": list(agent.agents),
                "dialects": list(agent.dialects),
                "tools": sorted(agent.tools),
                "session_from": list(agent.session_sources()),
                "specs": list(specs),
                "arguments": bool(agent.arguments),
                "to_see_arguments": [] if agent.arguments else list(agent.switches),
            }
            if not specs:
                fields["hint"] = "no spec matches: `offrails init` writes a starter spec"
            self._logger.log_fields(logging.INFO, "agent_seen", fields)

    def agent_changed(self, agent: AgentRecord, change: AgentChange) -> None:
        """An agent that was seen before speaks through another instrumentation, or without arguments."""
        if self._agents.allows(agent.namespace, "", "", self._clock()):
            fields = {
                "service": agent.service,
                "namespace": agent.namespace,
                **change.as_json(),
                "hint": _CHANGE_HINTS[change.kind],
            }
            if change.kind == STOPPED:
                fields["to_see_arguments"] = list(agent.switches)
            level = logging.WARNING if change.kind == STOPPED else logging.INFO
            self._logger.log_fields(level, "agent_changed", fields)

    def specs_match(self, specs: Iterable[Spec]) -> None:
        """Which sessions the specs judge: what clients of decisions must name as their service."""
        fields = {"specs": _matching(specs)}
        self._logger.log_fields(logging.INFO, "specs_match", fields)

    def question_without_spec(self, service: str, agent: str, specs: Iterable[Spec]) -> None:
        """A client asks before its calls, and no spec judges them: each is allowed."""
        fields = {
            "service": service,
            "agent": agent,
            "specs": _matching(specs),
            "hint": "no spec matches: the `service` of a question is to be the service.name that a spec matches on",
        }
        self._logger.log_fields(logging.WARNING, "question_without_spec", fields)

    def unmatched(self, spec: Spec, seconds: float) -> None:
        """A spec that no session has matched since it was loaded, though there were sessions."""
        fields = {
            "spec": spec.id,
            "file": spec.file,
            "match": list(spec.match.keys),
            "seconds": round(seconds),
            "hint": "no session has its attributes: compare `match` with the events `agent_seen`",
        }
        self._logger.log_fields(logging.WARNING, "spec_without_sessions", fields)


def _matching(specs: Iterable[Spec]) -> list[dict[str, Any]]:
    """What each spec matches on, of the first ones."""
    return [
        {
            "spec": spec.id,
            "enforce": spec.enforce,
            "match": dict(spec.match.written) or "every session",
        }
        for spec in islice(specs, SPECS_SHOWN_MAX)
        if spec.match.rules or spec.match.without_rules
    ]


def _event(verdict: Verdict, *, possible: bool) -> str:
    """The name of a verdict's line."""
    if possible:
        return "possible_harm" if verdict.possible else "possible_harm_withdrawn"
    return _EVENTS.get(verdict.kind) or f"{_EVENTS[verdict.revised_from]}_withdrawn"


def _limit(per_second: float, given: LogLineSettings) -> LineLimit:
    return LineLimit(per_second, given.namespace_lines_per_second, given.burst_seconds)
