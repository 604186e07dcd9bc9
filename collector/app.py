"""The composition root: builds the service from its settings, starts it, stops it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from collector.admin import Admin
from collector.clock import now_ns
from collector.decode.span import Span
from collector.health import Health
from collector.metrics import Families, MetricsApp
from collector.pipeline import Pipeline
from collector.receivers.export import Consume, Export
from collector.receivers.export import Limits as ExportLimits
from collector.receivers.http import HttpApp
from collector.receivers.listener import Listener
from collector.receivers.status import Outcome, Refusal
from collector.settings import OFF, Settings
from collector.sinks.log import LogSink
from collector.stats import Stats
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.spec.spec import Spec
from monitor.totals import SessionFinished

__all__ = ["App", "limits_of"]

SECOND = 1_000_000_000
TICK_SECONDS = 0.25
"""How late a final verdict or the end of a session may be noticed."""
QUIET_SECONDS = 0.05
"""No request for so long: the senders have heard that we are going."""


class _Server(Protocol):
    async def start(self) -> str: ...
    async def stop(self, grace_seconds: float) -> None: ...


def limits_of(settings: Settings) -> Limits:
    """The monitor's bounds, in its own units."""
    sessions = settings.sessions
    return Limits(
        window_ns=int(sessions.window_seconds * SECOND),
        idle_ns=int(sessions.idle_seconds * SECOND),
        hold_ns=int(sessions.hold_seconds * SECOND),
        sessions_max=sessions.max,
        history_complete=settings.history == "complete",
        keep_arguments=settings.show_arguments,
    )


class _Gate:
    """Before the pipeline: once it closes, gRPC requests are refused as retryable.

    A gRPC server that stops cancels requests it has not begun. Senders that are refused first
    step back, and nothing is left to be cancelled.
    """

    def __init__(self, consume: Consume) -> None:
        self._consume = consume
        self._closed = False
        self._refused = 0

    def consume(self, spans: list[Span], now: int, transport: str) -> None:
        if self._closed and transport == "grpc":
            self._refused += 1
            raise Refusal(Outcome.UNAVAILABLE, "shutting down")
        self._consume(spans, now, transport)

    async def close(self, grace_seconds: float) -> None:
        """Refuses from now on; returns when nobody asks any more, or after the grace."""
        self._closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                seen = -1
                while seen != self._refused:
                    seen = self._refused
                    await asyncio.sleep(QUIET_SECONDS)


class App:
    """The running service. Everything happens on one event loop, so nothing needs a lock."""

    def __init__(
        self, settings: Settings, specs: Iterable[Spec], clock: Callable[[], int] = now_ns
    ) -> None:
        self.settings = settings
        self.addresses: dict[str, str] = {}
        self._clock = clock
        self._log = structlog.get_logger("offrails")
        self._health = Health()
        stats = self._stats = Stats()
        self.monitor = Monitor(specs, limits_of(settings), started_ns=clock())
        pipeline = Pipeline(
            self.monitor,
            stats,
            LogSink(self._log).deliver,
            session_keys=settings.sessions.id_attributes,
            namespace_keys=settings.sessions.namespace_attributes,
        )
        bounds = ExportLimits(body_bytes=settings.receiver.max_request_bytes)
        self._gate = _Gate(pipeline.consume)
        export = Export(self._gate.consume, stats, clock, bounds)
        self._receivers = self._build_receivers(export)
        families = Families(self.monitor, stats)
        self._observers: dict[str, _Server] = {}
        if settings.metrics != OFF:
            app = MetricsApp(families, self._health)
            self._observers["metrics"] = Listener(app, settings.metrics)
        if settings.admin != OFF:
            self._observers["admin"] = Listener(
                Admin(self.monitor, self._health), settings.admin
            )
        self._ticker: asyncio.Task[None] | None = None

    def _build_receivers(self, export: Export) -> dict[str, _Server]:
        receiver = self.settings.receiver
        receivers: dict[str, _Server] = {}
        if receiver.grpc != OFF:
            # grpc costs 20 MB of memory: it is imported only where it is wanted.
            from collector.receivers.grpc import GrpcReceiver

            receivers["grpc"] = GrpcReceiver(export, receiver.grpc, receiver.max_request_bytes)
        if receiver.http != OFF:
            app = HttpApp(export, receiver.max_request_bytes)
            receivers["http"] = Listener(app, receiver.http)
        return receivers

    async def start(self) -> dict[str, str]:
        """Binds all listeners and returns their addresses by name.

        Raises:
            AddressInUse: nothing stays open then.
        """
        try:
            for name, server in (self._receivers | self._observers).items():
                self.addresses[name] = await server.start()
        except BaseException:
            await self.stop()
            raise
        self._ticker = asyncio.create_task(self._tick())
        self._health.ready = True
        return self.addresses

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self._note(self.monitor.tick(self._clock()))
            except Exception as error:  # noqa: BLE001
                # Time must go on: final verdicts and ends of sessions depend on it.
                self._report(error)

    def _note(self, finished: Iterable[SessionFinished]) -> None:
        for event in finished:
            self._log.info(
                "session_finished",
                session=event.session.id,
                namespace=event.session.namespace,
                agent=event.agent,
                spec=event.spec or None,
                ended=event.ended,
                **event.scores._asdict(),
            )

    def _report(self, error: Exception) -> None:
        """Counts a fault of ours; the first of its type is logged."""
        name = type(error).__name__
        if ("internal_errors", name) not in self._stats.counts:
            self._log.error("time could not go on", error=name, exc_info=error)
        self._stats.count("internal_errors", name)

    async def stop(self) -> None:
        """Refuses new requests, answers the open ones, then closes the rest."""
        self._health.ready = False
        grace = self.settings.drain_seconds
        if "grpc" in self.addresses:
            await self._gate.close(grace)
        open_ones = [
            self._receivers[name] for name in self.addresses if name in self._receivers
        ]
        await asyncio.gather(*(server.stop(grace) for server in open_ones))
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        watched = [self._observers[name] for name in self.addresses if name in self._observers]
        await asyncio.gather(*(server.stop(grace) for server in watched))
