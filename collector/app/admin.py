"""Builds the admin listener's application: the API and the session view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collector.api.reload import ReloadEndpoint
from collector.api.session_query import Follow
from collector.api.session_view.about import About
from collector.api.session_view.routes import SessionView
from collector.api.sessions import Admin
from collector.api.token_guard import TokenGuard
from collector.api.verdict_feed import VerdictFeed
from collector.api.verdict_stream import VerdictStream
from collector.calls.decision_records import DecisionRecords
from collector.calls.seen_agents import Inventory
from collector.config.settings import Settings
from collector.config.spec_reload import Reloader
from collector.net.asgi import Application
from collector.net.health import Health
from collector.net.host_guard import Guard
from collector.receive.bearer_tokens import Tokens
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor

__all__ = ["build_admin"]

TOKENS_SETTING: Final = "admin_auth.bearer.tokens_file"


def build_admin(
    settings: Settings,
    monitor: Monitor,
    seen: Inventory,
    health: Health,
    redaction: Redaction,
    reloader: Reloader,
    feed: VerdictFeed,
    addresses: Mapping[str, str],
    denied: DecisionRecords,
    scopes: Mapping[str, bool],
    follow: Follow,
) -> Application:
    """The API and the session view, behind tokens where the settings ask for them.

    Args:
        settings: all of them.
        monitor: its sessions are shown.
        seen: the agents that were seen.
        health: of the service.
        redaction: what is taken out of all that is shown.
        reloader: reads the specs again.
        feed: the verdicts as they come.
        addresses: of all listeners, by name; filled when they are bound.
        denied: calls that were denied before they were made.
        scopes: instrumentation scopes that spans came from -> whether they follow a convention of agents.
        follow: leads from a trace's id to the sessions of its calls.
    """
    guard = Guard(settings.admin, settings.admin_names)
    admin = Admin(monitor, seen, health, redaction, denied, scopes, follow)
    view = SessionView(
        VerdictStream(ReloadEndpoint(admin, reloader), feed),
        monitor,
        health,
        guard,
        About(
            settings.trace_url,
            addresses,
            tls=settings.receiver.tls.cert is not None,
            token=settings.receiver.auth.bearer.tokens_file is not None,
            show_arguments=settings.show_arguments,
            joined_until_ns=monitor.joined_until_ns,
        ),
        redaction=redaction,
        follow=follow,
    )
    tokens_file = settings.admin_auth.bearer.tokens_file
    if tokens_file is None:
        return view
    return TokenGuard(view, Tokens(tokens_file, TOKENS_SETTING), guard)
