"""Links in an alert: to the trace, the session, the runbook and the dashboard. Their templates, and how they are filled in."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from collector.config.settings.settings import Settings
from monitor.records import ReferenceAlarm, Verdict

__all__ = ["AlertLinks", "filled", "generator_link", "links_of", "session_link", "trace_link"]


class AlertLinks(NamedTuple):
    """Templates of links; "" leaves one out: `links_of` makes them of the settings."""

    trace: str = ""
    """Link template with {trace_id}, {span_id} and {session}."""
    session: str = ""
    """Link template with {session} and {namespace}."""
    runbook: str = ""
    """Link template with {alert}."""
    dashboard: str = ""
    """Link template with {agent} and {spec}."""


def links_of(settings: Settings) -> AlertLinks:
    """The links of alerts: what the settings say, or else the service's own pages where its address is known."""
    alerts, base = settings.alerts, settings.public_url.rstrip("/")
    session = alerts.session_url or (base and f"{base}/#/{{namespace}}/{{session}}")
    runbook = alerts.runbook_url or (base and f"{base}/runbooks/{{alert}}")
    return AlertLinks(settings.trace_url, session, runbook, alerts.dashboard_url)


def filled(template: str, **values: str) -> str:
    """The template filled in; what is put in is quoted, so that it stays one part of the link."""
    for name, value in values.items():
        template = template.replace("{" + name + "}", quote(value, safe=""))
    return template


def generator_link(news: Verdict | ReferenceAlarm, links: AlertLinks) -> str:
    """Where the alert comes from: its trace, or its session."""
    return trace_link(news, links) or session_link(news, links)


def trace_link(verdict: Verdict | ReferenceAlarm, links: AlertLinks) -> str:
    """Where the trace of the call is shown; "" without a template."""
    return filled(
        links.trace,
        trace_id=verdict.trace_id.hex(),
        span_id=verdict.span_id.hex(),
        session=verdict.session.id,
    )


def session_link(verdict: Verdict | ReferenceAlarm, links: AlertLinks) -> str:
    """Where the session is shown; "" without a template."""
    key = verdict.session
    return filled(links.session, session=key.id, namespace=key.namespace)
