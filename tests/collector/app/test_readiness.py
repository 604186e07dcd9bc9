"""When the service says that it is not ready, although it accepts spans."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from collector.app.readiness import Readiness
from collector.config.settings.ready import ReadySettings
from collector.net.health import Health
from collector.sinks.http_client import DeliveryError
from collector.sinks.queue import Backoff, SinkQueue
from collector.telemetry.counters import Stats

SECOND = 1_000_000_000


def answer(health: Health) -> tuple[int, bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(health.answer({"path": "/-/ready"}, send))
    return sent[0]["status"], sent[1]["body"]


@pytest.fixture
def health() -> Health:
    made = Health()
    made.ready = True
    return made


def test_full_and_nothing_judged_is_not_ready(health: Health) -> None:
    """Refusals beside spans that are taken are a busy service; refusals alone for 10 s are a full one."""
    stats = Stats()
    readiness = Readiness(ReadySettings(), health, stats, ())
    for second in range(15):
        stats.count("requests_refused", "bytes")
        stats.span("grpc", "accepted")
        readiness.tick(second * SECOND)
    assert answer(health) == (200, b"ready\n")

    for second in range(15, 26):
        assert health.faults == ""
        stats.count("requests_refused", "bytes")
        readiness.tick(second * SECOND)
    assert answer(health) == (503, b"not ready: full\n")

    stats.span("grpc", "accepted")
    readiness.tick(26 * SECOND)
    assert answer(health) == (200, b"ready\n")


def test_a_service_that_stays_full_is_not_alive(health: Health) -> None:
    """Two minutes of refusals alone: what fills the memory does not go by itself, so liveness is not green either."""
    stats = Stats()
    readiness = Readiness(ReadySettings(), health, stats, ())
    for second in range(125):
        stats.count("requests_refused", "memory")
        readiness.tick(second * SECOND)
        assert bool(health.stuck) is (second >= 120)
    stats.span("grpc", "accepted")
    readiness.tick(126 * SECOND)
    assert health.stuck == ""


def test_a_full_service_becomes_ready_without_a_request(health: Health) -> None:
    """A full service becomes ready without a request: Kubernetes sends none to a pod that is not ready."""
    stats = Stats()
    readiness = Readiness(ReadySettings(full_seconds=2), health, stats, ())
    for second in range(4):
        stats.count("requests_refused", "bytes")
        readiness.tick(second * SECOND)
    assert health.faults == "full"
    readiness.tick(5 * SECOND)
    assert health.faults == "full"
    readiness.tick(6 * SECOND)
    assert answer(health) == (200, b"ready\n")


def test_a_quiet_service_is_ready(health: Health) -> None:
    """A service is ready after an hour without spans or refusals, and where the setting says always."""
    stats = Stats()
    quiet = Readiness(ReadySettings(), health, stats, ())
    quiet.tick(0)
    quiet.tick(3_600 * SECOND)
    assert answer(health) == (200, b"ready\n")

    always = Readiness(ReadySettings(full_seconds=None), health, stats, ())
    stats.count("requests_refused", "requests")
    always.tick(0)
    always.tick(3_600 * SECOND)
    assert answer(health) == (200, b"ready\n")


@pytest.mark.parametrize("counts", [True, False])
def test_a_failing_sink_counts_by_choice(health: Health, counts: bool) -> None:
    """If the setting is on, a failed delivery makes the service unready until one succeeds."""

    class Sink:
        name = "webhook"
        up = False

        async def send(self, messages: Sequence[Any]) -> None:
            if not self.up:
                raise DeliveryError("refused", again=False)

    async def play() -> None:
        sink = Sink()
        queue = SinkQueue(sink, 8, Backoff())
        readiness = Readiness(ReadySettings(failing_sinks=counts), health, Stats(), [queue])
        queue.start()
        for up, faults in ((False, "webhook fails" if counts else ""), (True, "")):
            sink.up = up
            queue.put({})
            await queue.empty(30)
            readiness.tick(0)
            assert health.faults == faults
        await queue.stop(0)

    asyncio.run(play())
