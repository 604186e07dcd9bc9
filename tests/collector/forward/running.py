"""The service with next hops, in the process of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from collector.app.service import App
from collector.config.settings.decide import DecideSettings
from collector.config.settings.forward import NextHopSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.settings import Settings
from monitor.spec.read import load_specs
from monitor.spec.spec import Spec
from tests.collector.app.test_service import FREE, http

__all__ = ["LISTENERS", "SPECS", "app_of", "metrics", "post", "service"]

SPECS = load_specs([Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"]).specs
LISTENERS = [("grpc", "builtin"), ("grpc", "grpcio"), ("http", "builtin")]
"""Protocols of a sender, and the servers that take them."""


@asynccontextmanager
async def service(*hops: NextHopSettings | str, **given: Any) -> AsyncIterator[App]:
    """A running service with these next hops; see `app_of`."""
    app = app_of(*hops, **given)
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


def app_of(
    *hops: NextHopSettings | str,
    drain_seconds: float = 5.0,
    specs: Sequence[Spec] = SPECS,
    more: dict[str, Any] | None = None,
    **receiver: Any,
) -> App:
    """A service with these next hops, not started yet.

    Args:
        hops: the setting `forward`.
        drain_seconds: for the queues at the end.
        specs: under which it judges.
        more: other settings.
        receiver: settings of its listeners.
    """
    given: dict[str, Any] = {
        "receiver": ReceiverSettings(**{"grpc": FREE, "http": FREE, **receiver}),
        "metrics": FREE,
        "admin": "off",
        "decide": DecideSettings(listen="off"),
        "history": "complete",
        "forward": cast("Any", list(hops)),
        "drain_seconds": drain_seconds,
        **(more or {}),
    }
    return App(Settings(**given), specs)


async def metrics(app: App) -> dict[str, float]:
    """The samples of next hops on /metrics."""
    _, page = await http(app.addresses["metrics"], "GET", "/metrics")
    lines = (line.rpartition(" ") for line in page.decode().splitlines())
    return {name: float(value) for name, _, value in lines if name.startswith("offrails_f")}


async def post(app: App, sent: bytes, path: str = "/v1/traces") -> int:
    """The status of a request in JSON."""
    status, _ = await http(app.addresses["http"], "POST", path, sent)
    return status
