"""What runs in place of the service where it cannot start (`specs_on_error: start`).

The process lives, so that a container beside it is neither kept from starting nor taken out of its
Service. It receives nothing, `/-/ready` says no, and `offrails_standby` is 1, for an alert. It ends after
a while, so that its caller tries to start the service again.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Final

from collector.app.listening.listeners import build_observer, metrics_guard
from collector.config.field_types import OFF
from collector.config.settings.settings import Settings
from collector.metrics.service import Families, MetricsApp
from collector.net.health import Health
from collector.receive.listener.listener import Listener
from collector.telemetry import logs
from collector.telemetry.counters import Stats
from monitor.engine import Monitor

__all__ = ["AGAIN_SECONDS", "stand_by"]

AGAIN_SECONDS: Final = 10.0
"""Time until the start is tried again."""
CONNECTIONS: Final = 16


def stand_by(settings: Settings, why: str) -> bool:
    """Shows `/metrics` and health until it is time to try again, after `AGAIN_SECONDS` or at SIGHUP.

    Args:
        settings: as `collector.config.sources.standby` gives them.
        why: the service could not start.

    Returns:
        True if SIGTERM or SIGINT asked for the end.
    """
    with logs.writing(settings.log_level, None, sys.stderr):
        logs.log.error("standing_by", reason=why, again_seconds=AGAIN_SECONDS)
        return asyncio.run(_stand_by(settings))


async def _stand_by(settings: Settings) -> bool:
    loop = asyncio.get_running_loop()
    over: asyncio.Future[bool] = loop.create_future()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, _end, over, True)
    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, _end, over, False)
    loop.call_later(AGAIN_SECONDS, _end, over, False)
    listener = None if settings.metrics == OFF else _listener(settings)
    try:
        if listener is not None:
            await listener.start()
    except OSError as problem:
        # Nobody can ask then, but the process lives, which is what it is for.
        logs.log.error("standby_not_shown", reason=str(problem.strerror or problem))
    stopped = await over
    if listener is not None:
        await listener.stop(0.0)
    return stopped


def _end(over: asyncio.Future[bool], stopped: bool) -> None:
    if not over.done():
        over.set_result(stopped)


def _listener(settings: Settings) -> Listener:
    health = Health()
    health.reason = "the service could not start"
    families = Families(Monitor(()), Stats(), standby=True)
    app = MetricsApp(families, health, guard=metrics_guard(settings))
    return build_observer("metrics", app, settings, CONNECTIONS)
