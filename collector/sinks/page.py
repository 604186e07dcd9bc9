"""A page: one kind of harm in one session, while it lasts. What it says, for people and programs.

What an agent says (its name, the session, tools) is hostile text: it is cut, and everything that
is not printable is escaped, so that it stays on its line wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from monitor.records import SESSION_KINDS, Kind, SessionKey, Verdict

__all__ = ["Links", "Page", "PageKey", "as_alert", "printable", "stamp"]

TEXT_MAX = 256
LISTED_MAX = 12


class PageKey(NamedTuple):
    """What makes two harmful calls one page."""

    session: SessionKey
    spec: str
    reason: str


class Links(NamedTuple):
    """Templates of links; "" leaves one out."""

    trace: str = ""
    """With {trace_id}, {span_id} and {session}."""
    session: str = ""
    """With {session} and {namespace}."""
    runbook: str = ""
    """With {alert}."""


@dataclass(slots=True, eq=False)
class Page:
    """A page that is firing, or has been.

    Args:
        key: session, spec and reason.
        verdict: the first harmful call.
        since_ns: when it was seen, Unix nanoseconds.
    """

    key: PageKey
    verdict: Verdict
    since_ns: int
    last_ns: int
    """When the latest such call was seen."""
    told_ns: int
    """When the receivers heard of it last."""
    calls: set[bytes] = field(default_factory=set)
    """Trace and span ids of the harmful calls; revised ones are taken out."""
    count: int = 1
    ended_ns: int = 0
    """0 while it fires."""


def printable(text: str, most: int = TEXT_MAX) -> str:
    """Text with everything escaped that is not printable, and cut."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut
    )


def stamp(at_ns: int) -> str:
    """A time as RFC 3339, in UTC."""
    moment = datetime.fromtimestamp(at_ns / 1e9, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _link(template: str, **values: str) -> str:
    """The template filled in; what is put in is quoted, so that it stays one part of the link."""
    for name, value in values.items():
        template = template.replace("{" + name + "}", quote(value, safe=""))
    return template


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(printable(name, 64) for name in names[:LISTED_MAX])
    return shown + (", …" if len(names) > LISTED_MAX else "")


def as_alert(page: Page, links: Links, ends_ns: int) -> dict[str, Any]:
    """The page as an alert of Alertmanager's API.

    Args:
        page: the page.
        links: templates.
        ends_ns: when the receiver may take it as over, without hearing of it again.
    """
    verdict = page.verdict
    labels = _labels(page)
    return {
        "labels": labels,
        "annotations": _annotations(page, links, labels),
        "startsAt": stamp(page.since_ns),
        "endsAt": stamp(page.ended_ns or ends_ns),
        "generatorURL": _trace_link(verdict, links) or _session_link(verdict, links),
    }


def _labels(page: Page) -> dict[str, str]:
    verdict = page.verdict
    found = {
        "alertname": _alert(verdict),
        "agent": printable(verdict.agent, 128),
        "spec": verdict.spec,
        "reason": page.key.reason,
        "severity": verdict.severity,
        "session": printable(verdict.session.id),
        "namespace": printable(verdict.session.namespace),
        "source": "monitor",
    }
    # Alertmanager takes an empty label as one that is not there.
    return {name: value for name, value in found.items() if value}


def _alert(verdict: Verdict) -> str:
    if verdict.kind in SESSION_KINDS:
        return "AgentSessionStuck"
    return "AgentCriticalHarmfulCall" if verdict.severity == "critical" else "AgentHarmfulCall"


def _told(page: Page) -> tuple[str, str]:
    """What has happened, in short and in full."""
    verdict = page.verdict
    tool, reason = printable(verdict.tool), page.key.reason.replace("_", " ")
    session = f"session {printable(verdict.session.id)}"
    under = f"under {verdict.spec} {verdict.spec_version}"
    at = f"call {verdict.step} ({tool})"
    if verdict.kind is Kind.CANNOT_FINISH:
        said = f"can no longer finish: {reason}"
        return f"session {said}", f"The {session} {said} {under}, since {at}."
    if verdict.kind is Kind.STALLED:
        return "session stands still", f"The {session} stands still {under}, since {at}."
    full = f"Call {verdict.step} ({tool}) of {session} is harmful {under}: {reason}."
    return f"called {tool}: {reason}", full


def _annotations(page: Page, links: Links, labels: Mapping[str, str]) -> dict[str, str]:
    verdict = page.verdict
    tool = printable(verdict.tool)
    short, full = _told(page)
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
    lines.append(f"Since {stamp(page.since_ns)}, {page.count} such call(s).")
    found = {
        "summary": f"{labels['agent']} {short}.",
        "description": " ".join(lines),
        "tool": tool,
        "step": str(verdict.step),
        "calls": str(page.count),
        "allowed": _listed(verdict.allowed),
        "skipped": _listed(verdict.skipped),
        "trace_id": verdict.trace_id.hex(),
        "span_id": verdict.span_id.hex(),
        "trace_url": _trace_link(verdict, links),
        "session_url": _session_link(verdict, links),
        "runbook_url": _link(links.runbook, alert=labels["alertname"]),
    }
    return {name: value for name, value in found.items() if value}


def _trace_link(verdict: Verdict, links: Links) -> str:
    return _link(
        links.trace,
        trace_id=verdict.trace_id.hex(),
        span_id=verdict.span_id.hex(),
        session=verdict.session.id,
    )


def _session_link(verdict: Verdict, links: Links) -> str:
    key = verdict.session
    return _link(links.session, session=key.id, namespace=key.namespace)
