"""A page: an alert that wakes somebody. It stands for one kind of harm in one session, while it lasts.

What an agent says (its name, the session, tools) is hostile text: it is cut, and everything that
is not printable is escaped, so that it stays on its line wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from collector.sinks.alert.alert_links import (
    AlertLinks,
    filled,
    generator_link,
    session_link,
    trace_link,
)
from collector.sinks.printable_text import clock_time, printable, stamp
from monitor.records import SESSION_KINDS, Kind, ReferenceAlarm, SessionKey, Verdict
from monitor.visibility.words import unless_words

__all__ = [
    "DETAIL_MAX",
    "RANKS",
    "PageAlert",
    "PageKey",
    "alert_name",
    "as_alert",
    "call_annotations",
    "own_labels",
    "rank",
]

DETAIL_MAX = 300
"""Characters of a verdict's `detail`."""
LISTED_MAX = 12
TOOLS_MAX = 64
"""Tools that are remembered of one page."""


class PageKey(NamedTuple):
    """What makes two harmful calls one page; the reason of an alarm is its name."""

    session: SessionKey
    spec: str
    reason: str


@dataclass(slots=True, eq=False)
class PageAlert:
    """A page that is firing, or has been.

    Args:
        key: session, spec and reason.
        verdict: the call, or the alarm, as which it is delivered: the worst one, as far as it was delivered.
        since_ns: when it was seen, Unix nanoseconds.
    """

    key: PageKey
    verdict: Verdict | ReferenceAlarm
    since_ns: int
    last_ns: int
    """When the latest such call was seen."""
    delivered_ns: int
    """When it was last delivered to the receivers."""
    calls: dict[bytes, Verdict | ReferenceAlarm] = field(default_factory=dict)
    """The harmful calls by trace and span ids, oldest first; revised ones are taken out."""
    tools: dict[str, None] = field(default_factory=dict)
    """Tools of all its calls, at most `TOOLS_MAX`."""
    count: int = 1
    beyond: int = 0
    """Rank of the worst call that was not remembered one by one; 0 without any."""
    ended_ns: int = 0
    """0 while it fires."""
    taken_back: bool = False
    """True if the alert is over because its calls are no such harm, or belong to another severity."""

    def name_tool(self, tool: str) -> None:
        """A call of a tool is one of its calls."""
        if len(self.tools) < TOOLS_MAX:
            self.tools[tool] = None

    def worst(self) -> Verdict | ReferenceAlarm:
        """The call as which to deliver it; of several that are as bad, the one it is delivered as already."""
        if len(self.calls) == 1 and not self.beyond:
            return next(iter(self.calls.values()))
        delivered_as = (self.verdict.trace_id, self.verdict.span_id)
        found = max(
            self.calls.values(),
            key=lambda news: (rank(news), (news.trace_id, news.span_id) == delivered_as),
            default=self.verdict,
        )
        # One that was forgotten may still hold: then it is no less than that.
        return found if rank(found) >= min(self.beyond, rank(self.verdict)) else self.verdict


RANKS: Mapping[str, int] = {"warning": 1, "critical": 2}
"""Severities that page, from the least."""


def rank(news: Verdict | ReferenceAlarm) -> int:
    """How bad it is; 0 pages nobody."""
    return RANKS.get(news.severity, 0)


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(printable(name, 64) for name in names[:LISTED_MAX])
    return shown + (", …" if len(names) > LISTED_MAX else "")


def as_alert(
    page: PageAlert,
    links: AlertLinks,
    ends_ns: int,
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The page as an alert of Alertmanager's API.

    Args:
        page: the page.
        links: templates.
        ends_ns: when the receiver may take it as over, without hearing of it again.
        more: labels of every alert of this process.
    """
    verdict = page.verdict
    labels = {**_labels(page), **more}
    return {
        "labels": labels,
        "annotations": _annotations(page, links, labels),
        "startsAt": stamp(page.since_ns),
        "endsAt": stamp(page.ended_ns or ends_ns),
        "generatorURL": generator_link(verdict, links),
    }


ALARMS: Mapping[str, str] = {
    "new_write_tool": "AgentUnexpectedWrite",
    "new_arguments": "AgentUnexpectedWrite",
    "missing_write": "AgentMissingWrite",
}
"""Alarms of references that page, with the names of their alerts."""


def alert_name(news: Verdict | ReferenceAlarm) -> str:
    """As which alert it pages."""
    if isinstance(news, ReferenceAlarm):
        return ALARMS[news.alarm]
    if news.kind in SESSION_KINDS:
        return "AgentSessionStuck"
    critical = news.severity == "critical"
    return "AgentCriticalHarmfulCall" if critical else "AgentHarmfulCall"


def _labels(page: PageAlert) -> dict[str, str]:
    verdict = page.verdict
    found = {
        "alertname": alert_name(verdict),
        "agent": printable(verdict.agent, 128),
        "spec": verdict.spec,
        "reason": page.key.reason,
        "severity": verdict.severity,
        "session": printable(verdict.session.id),
        "namespace": printable(verdict.session.namespace),
    }
    return own_labels(found)


def own_labels(found: Mapping[str, str]) -> dict[str, str]:
    """The labels of an alert of ours. Alertmanager takes an empty label as one that is not there."""
    return {name: value for name, value in {**found, "source": "monitor"}.items() if value}


def _annotations(
    page: PageAlert, links: AlertLinks, labels: Mapping[str, str]
) -> dict[str, str]:
    since = f"Since {stamp(page.since_ns)}, {page.count} such call(s)."
    return call_annotations(page, links, labels, since)


def call_annotations(
    page: PageAlert, links: AlertLinks, labels: Mapping[str, str], since: str
) -> dict[str, str]:
    """What is said of the call as which a page is delivered, and where to look.

    Args:
        page: the page.
        links: templates.
        labels: of the alert.
        since: how long it lasts, and how much it is: the last sentence of the description.
    """
    news = page.verdict
    texts = _of_alarm(news) if isinstance(news, ReferenceAlarm) else _of_verdict(news)
    found = {
        **texts,
        "summary": f"{labels.get('agent', 'unknown')} {texts['summary']}",
        "description": f"{texts['description']} {since}",
        "tool": printable(news.tool),
        "step": str(news.step),
        "calls": str(page.count),
        "trace_id": news.trace_id.hex(),
        "span_id": news.span_id.hex(),
        "trace_url": trace_link(news, links),
        "session_url": session_link(news, links),
        "dashboard_url": filled(
            links.dashboard, agent=labels.get("agent", ""), spec=labels.get("spec", "")
        ),
        "runbook_url": filled(links.runbook, alert=labels["alertname"]),
    }
    return {name: value for name, value in found.items() if value}


def _short_and_full(verdict: Verdict) -> tuple[str, str]:
    """What has happened, in a few words and in a sentence."""
    tool = printable(verdict.tool)
    reason = verdict.reason.value.replace("_", " ") if verdict.reason else ""
    session = f"session {printable(verdict.session.id)}"
    under = f"under {verdict.spec} {verdict.spec_version}"
    at = f"call {verdict.step} ({tool})"
    why = f": {_detail(verdict)}" if verdict.detail else ""
    if verdict.kind is Kind.CANNOT_FINISH:
        outcome = f"can no longer finish: {reason}"
        return f"session {outcome}", f"The {session} {outcome} {under}, since {at}{why}."
    if verdict.kind is Kind.STALLED:
        full = f"The {session} stands still {under}, since {at}{why}."
        return "session stands still", full
    if verdict.possible:
        unless = unless_words(verdict.unless, clock_time(verdict.unless_before_ns))
        full = (
            f"Call {verdict.step} ({tool}) of {session} is harmful {under}, {unless}: "
            f"{reason}{why}."
        )
        return f"called {tool}: {reason}, {unless}", full
    full = f"Call {verdict.step} ({tool}) of {session} is harmful {under}: {reason}{why}."
    of_thing = f" of {printable(str(verdict.thing))}" if verdict.thing is not None else ""
    return f"called {tool}{of_thing}: {reason}", full


def _detail(verdict: Verdict) -> str:
    """Why, in a sentence; values in it are an agent's."""
    return printable(verdict.detail, DETAIL_MAX)


def _of_verdict(verdict: Verdict) -> dict[str, str]:
    """What a verdict says, and what would have been right."""
    short, full = _short_and_full(verdict)
    lines = [full]
    if verdict.state_before:
        lines.append(f"State: {verdict.state_before}.")
    if verdict.allowed:
        lines.append(f"Allowed here: {_listed(verdict.allowed)}.")
    if verdict.skipped:
        lines.append(f"Skipped: {_listed(verdict.skipped)}.")
    if verdict.constraint:
        what = "Limit" if verdict.kind in SESSION_KINDS else "Constraint"
        lines.append(f"{what}: {verdict.constraint}.")
    if not verdict.certain_call:
        lines.append(
            "Some arguments or earlier calls are unknown: the harmful call may be an earlier one."
        )
    return {
        "summary": f"{short}.",
        "description": " ".join(lines),
        "detail": _detail(verdict),
        "allowed": _listed(verdict.allowed),
        "skipped": _listed(verdict.skipped),
    }


def _of_alarm(alarm: ReferenceAlarm) -> dict[str, str]:
    """What a session did or left out, and how far the alarm can be trusted."""
    tool, session = printable(alarm.tool), printable(alarm.session.id)
    seen = f"none of {alarm.support} runs of {alarm.spec} {alarm.spec_version}"
    if alarm.alarm == "missing_write":
        wanted = _listed(alarm.expected)
        text = f"Session {session} ended without {wanted}, by which every seen run wrote."
        summary = f"did not call {wanted}."
    else:
        how = "arguments" if alarm.kind == "wrong_arguments" else "a tool"
        text = f"Call {alarm.step} ({tool}) of session {session} wrote with {how} that {seen} used."
        summary = f"wrote by {tool} as no seen run did."
    if alarm.precision is not None:
        text += (
            f" Of such alarms {alarm.precision:.0%} were right on the runs it was learnt from."
        )
    return {
        "summary": summary,
        "description": text,
        "expected": _listed(alarm.expected),
    }
