"""Builds the listener that answers before calls are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from collector.app.listening.listeners import certificates_of, http_bounds, rate_limits_of
from collector.calls.decisions.decided_calls import DecidedCalls
from collector.config.field_types import OFF
from collector.config.settings.settings import Settings
from collector.decide.endpoint import DecideApp
from collector.decide.service import DecideService, new_seed
from collector.net.host_guard import HostGuard
from collector.receive.admission import Admission
from collector.receive.bearer_tokens import Tokens
from collector.receive.listener.listener import Listener
from collector.receive.memory_guard import MemoryGuard
from collector.receive.status_codes import Refusal
from collector.telemetry.counters import Stats

__all__ = ["build_decide", "decided_calls"]

TOKENS_SETTING: Final = "decide.auth.bearer.tokens_file"

INFLIGHT_REQUESTS: Final = 64
"""Largest questions whose bodies may be read at once; of small ones there may be more."""

SOCKET_MODE: Final = 0o600
"""A Unix socket of decisions is its user's alone: who can write to it can have calls judged."""


def decided_calls(settings: Settings) -> DecidedCalls:
    """The table of decided calls."""
    decide = settings.decide
    return DecidedCalls(
        int(decide.confirm_seconds * 1e9), new_seed(), bytes_max=decide.max_call_bytes
    )


def build_decide(
    settings: Settings,
    decisions: DecideService,
    stats: Stats,
    fault: Callable[[Exception], Refusal],
    connections: int,
    memory: MemoryGuard | None,
) -> Listener:
    """The listener, with the protection that the receivers have.

    Args:
        settings: all of them; `decide.listen` is not off.
        decisions: answers.
        stats: counts refusals and connections that are not served.
        fault: counts and logs an error of ours.
        connections: how many it may have.
        memory: what refuses requests before the limit; None for no limit.

    Raises:
        OSError: a sentence; the tokens or the certificates cannot be used.
    """
    decide, receiver = settings.decide, settings.receiver
    assert decide.listen != OFF
    bearer = decide.auth.bearer
    own, theirs = bearer.tokens_file, receiver.auth.bearer.tokens_file
    tokens = None
    if own is not None:
        tokens = Tokens(own, TOKENS_SETTING)
    elif theirs is not None:
        tokens = Tokens(theirs)
    admission = Admission(
        INFLIGHT_REQUESTS * decide.max_request_bytes,
        receiver.max_inflight_requests,
        tokens,
        receiver.body_seconds,
        rate_limits_of(bearer.limits, decide.max_request_bytes, stats),
        stats.count,
        memory,
    )
    app = DecideApp(
        decisions,
        stats,
        fault,
        decide.max_request_bytes,
        admission,
        HostGuard(decide.listen, decide.names, setting="decide.names", addresses=True),
    )
    return Listener(
        app,
        decide.listen,
        certificates=certificates_of(decide.tls, "decide.tls"),
        bounds=http_bounds(receiver, connections),
        stats=stats,
        name="decide",
        socket_mode=SOCKET_MODE,
    )
