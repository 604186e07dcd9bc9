"""The service's own metrics, pushed to an OTLP/HTTP receiver at intervals.

A push sends the families of a scrape. They are collected on the event loop, in slices, because the
counters have no locks. A thread does the rest, one push at a time: parsing the lines, encoding and the
request (opentelemetry-exporter-otlp). The first push loads the exporter, which reads
`OTEL_EXPORTER_OTLP_*` for headers, certificates and compression. A failed push is counted and not
repeated: values are cumulative, so the next push contains them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from collector.config.settings.telemetry import TelemetrySettings
from collector.metrics.otlp_client import exporter_arguments, resource
from collector.metrics.service import SLICE_CHARACTERS, Families
from collector.metrics.service_table import TABLE
from collector.net.otlp_exporter import require_exporter
from collector.net.threads import in_thread
from collector.telemetry.counters import MetricReading
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction
from monitor.exposition.family import ExemplarLines, Family, Sample
from monitor.exposition.metric_table import PAIR

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.resources import Resource

__all__ = ["OtlpPush"]

POINTS_MAX: Final = 5_000
"""Approximate samples in one request. They are encoded together, so this bounds memory."""

_LINE_CHARACTERS: Final = 100


class OtlpPush:
    """Pushes the families of this process.

    Args:
        settings: the section `telemetry`, with an endpoint.
        families: what is pushed.
        redaction: hides parts of labels.
        clock: Unix nanoseconds.

    Raises:
        OSError: the exporter is not installed.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        families: Families,
        redaction: Redaction,
        clock: Callable[[], int],
    ) -> None:
        require_exporter("telemetry.otlp_endpoint")
        self._sender = _Sender(settings.otlp_endpoint, redaction, clock())
        self._families = families
        self._interval_seconds = settings.interval_seconds
        self._with_pairs = settings.pairs
        self._clock = clock
        self._results = {"ok": 0, "failed": 0}
        self._failing = False
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def readings(self) -> Iterator[MetricReading]:
        yield MetricReading(
            "telemetry_pushes", [((result,), count) for result, count in self._results.items()]
        )

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self, grace_seconds: float) -> None:
        """Pushes the last values, within the given time."""
        if self._task is None:
            return
        self._ended.set()
        _, late = await asyncio.wait({self._task}, timeout=grace_seconds)
        if late:
            self._sender.give_up()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        is_last = False
        while not is_last:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_seconds):
                    await self._ended.wait()
            is_last = self._ended.is_set()
            self._count(await self._push())

    async def _push(self) -> str:
        """Returns why the push failed, "" if it did not."""
        try:
            families, now = await self._snapshot(), self._clock()
            if self._families.since is not None:
                self._sender.started_ns = self._families.since()
            sent = await in_thread(lambda: self._sender.send(families, now))
        except Exception as error:  # noqa: BLE001 - any error costs this push alone
            return f"{type(error).__name__}: {error}"
        return "" if sent else "the receiver refused it, or gave no answer in time"

    async def _snapshot(self) -> list[Family]:
        """The present families; their samples are collected in slices."""
        await self._families.prepare()
        taken: list[Family] = []
        room = SLICE_CHARACTERS
        for family in self._families.collect():
            if _is_of_pairs(family) and not self._with_pairs:
                continue
            samples: list[Sample | ExemplarLines | str] = []
            for sample in family.samples:
                samples.append(sample)
                room -= _characters(sample)
                if room <= 0:
                    room = SLICE_CHARACTERS
                    await asyncio.sleep(0)
            taken.append(family._replace(samples=samples))
        return taken

    def _count(self, failure: str) -> None:
        self._results["failed" if failure else "ok"] += 1
        if failure and not self._failing:
            log.warning("telemetry_push_failed", reason=failure)
        elif self._failing and not failure:
            log.info("telemetry_push_recovered")
        self._failing = bool(failure)


def _is_of_pairs(family: Family) -> bool:
    row = TABLE.get(family.name.removeprefix("offrails_"))
    return row is not None and row.labels[:2] == PAIR


def _characters(sample: Sample | ExemplarLines | str) -> int:
    if isinstance(sample, str):
        return len(sample)
    return len(sample.text) if isinstance(sample, ExemplarLines) else _LINE_CHARACTERS


class _Sender:
    """Sends families from a thread.

    Args:
        endpoint: the receiver, user and password included.
        redaction: what is taken out of labels.
        started_ns: since when counters count.
    """

    def __init__(self, endpoint: str, redaction: Redaction, started_ns: int) -> None:
        self._endpoint = endpoint
        self._redaction = redaction
        self.started_ns = started_ns
        self._exporter: OTLPMetricExporter | None = None
        self._resource: Resource | None = None

    def send(self, families: Sequence[Family], now: int) -> bool:
        """Sends the families, in several requests if they are many; False if a request failed."""
        from collector.metrics.otlp_points import metrics_data

        exporter, owner = self._loaded()
        return all(
            exporter.export(
                metrics_data(lump, owner, self._redaction, self.started_ns, now)
            ).name
            == "SUCCESS"
            for lump in _lumps(families)
        )

    def give_up(self) -> None:
        """Tries nothing again: the thread ends with the request that is under way."""
        if self._exporter is not None:
            self._exporter.shutdown()

    def _loaded(self) -> tuple[OTLPMetricExporter, Resource]:
        if self._exporter is None or self._resource is None:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
                OTLPMetricExporter,
            )

            arguments = exporter_arguments(self._endpoint, "/v1/metrics")
            self._exporter = OTLPMetricExporter(**arguments)
            self._resource = resource()
        return self._exporter, self._resource


def _lumps(families: Sequence[Family]) -> Iterator[list[Family]]:
    """The families, or parts of them, for each request."""
    lump: list[Family] = []
    room = POINTS_MAX
    for family in families:
        part: list[Sample | ExemplarLines | str] = []
        for sample in family.samples:
            part.append(sample)
            room -= _points(sample)
            if room <= 0 and not isinstance(
                sample, Sample
            ):  # a histogram's samples stay together
                yield [*lump, family._replace(samples=part)]
                lump, part, room = [], [], POINTS_MAX
        if part:
            lump.append(family._replace(samples=part))
    if lump:
        yield lump


def _points(sample: Sample | ExemplarLines | str) -> int:
    if isinstance(sample, str):
        return sample.count("\n")
    return sample.text.count("\n") if isinstance(sample, ExemplarLines) else 1
