"""Builds the admin listener's application: the API and the session view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from collector.api.access import AccessRules
from collector.api.access_guard import AccessGuard, ProxyHeaders
from collector.api.actions.end_session import EndEndpoint
from collector.api.actions.reload import ReloadEndpoint
from collector.api.archive.label_endpoint import LabelEndpoint
from collector.api.argument_audit import ArgumentAudit
from collector.api.model_judgements import JudgedBy, ModelJudgements
from collector.api.session_query import Follow
from collector.api.session_view.about import ServiceInfo
from collector.api.session_view.routes import SessionView
from collector.api.sessions import Admin
from collector.api.streams.verdict_feed import VerdictFeed
from collector.api.streams.verdict_stream import VerdictStream
from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.calls.inventory.inventory import Inventory
from collector.config.settings.settings import Settings
from collector.config.spec_reload import Reloader
from collector.net.asgi import Application
from collector.net.health import Health
from collector.net.host_guard import HostGuard
from collector.net.path_prefix import PathPrefix
from collector.receive.bearer_tokens import Tokens
from collector.telemetry.clock import now_ns, steady_ns
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.records import SessionKey

if TYPE_CHECKING:
    from collector.api.archive.archive_feed import ArchiveFeed

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
    *,
    denied: PreventedCalls,
    scopes: Mapping[str, bool],
    follow: Follow,
    end: Callable[[Sequence[SessionKey]], int],
    feed_of_archive: ArchiveFeed | None = None,
    judged: JudgedBy | None = None,
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
        end: ends sessions, and returns how many were live.
        scopes: instrumentation scopes that spans came from -> whether they follow a convention of agents.
        follow: leads from a trace's id to the sessions of its calls.
        feed_of_archive: has sessions of before; None if none are kept.
        judged: has what models say of sessions; None if none are asked.
    """
    past = feed_of_archive.past if feed_of_archive is not None else None
    public = urlsplit(settings.public_url)
    guard = HostGuard(settings.admin, settings.admin_names, public=public.hostname or "")
    audit = ArgumentAudit(settings.show_arguments, steady_ns)
    judgements = (
        ModelJudgements(judged, past) if judged is not None or past is not None else None
    )
    admin = Admin(
        monitor, seen, health, redaction, denied, scopes, follow, audit, past, judgements
    )
    acting: Application = EndEndpoint(
        ReloadEndpoint(admin, reloader), monitor, end, redaction, follow
    )
    put = feed_of_archive.writer.put if feed_of_archive is not None else _no_room
    acting = LabelEndpoint(acting, past, put, now_ns)
    view = SessionView(
        VerdictStream(acting, feed),
        monitor,
        health,
        guard,
        ServiceInfo(
            settings.trace_url,
            addresses,
            tls=settings.receiver.tls.cert is not None,
            token=settings.receiver.auth.bearer.tokens_file is not None,
            show_arguments=settings.show_arguments,
            joined_until_ns=monitor.gaps.joined_until_ns,
        ),
        redaction=redaction,
        follow=follow,
        past=past,
        denied=denied,
        documents={"admin": _admin_document, "decide": _decide_document},
        written=feed_of_archive.written if feed_of_archive is not None else None,
    )
    return _below(public.path.rstrip("/"), _guarded(settings, view, guard))


def _below(prefix: str, inner: Application) -> Application:
    return PathPrefix(inner, prefix) if prefix else inner


def _guarded(settings: Settings, view: Application, guard: HostGuard) -> Application:
    """Behind tokens or a proxy's word, where the settings ask for them."""
    auth = settings.admin_auth
    if not auth.is_asked:
        return view
    tokens_file, proxy = auth.bearer.tokens_file, auth.proxy
    tokens = Tokens(tokens_file, TOKENS_SETTING) if tokens_file is not None else None
    if tokens is not None and not proxy.networks:
        _warn_of_unknown({*auth.roles, *auth.namespaces}, tokens)
    headers = ProxyHeaders(
        proxy.header.lower().encode(), proxy.roles_header.lower().encode(), proxy.networks
    )
    return AccessGuard(
        view,
        tokens,
        headers if proxy.networks else None,
        AccessRules(auth.roles, auth.namespaces),
        guard,
    )


def _admin_document() -> dict[str, Any]:
    from collector.api.openapi import admin_document

    return admin_document()


def _decide_document() -> dict[str, Any]:
    from collector.decide.openapi import decide_document

    return decide_document()


def _no_room(_label: object) -> int:
    return 0


def _warn_of_unknown(names: Iterable[str], tokens: Tokens) -> None:
    """A name that no token has limits nobody: the token that was meant may be an operator's."""
    unknown = sorted(set(names) - tokens.names)
    if unknown:
        log.warning("admin_names_without_token", names=unknown, tokens=sorted(tokens.names))
