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
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from collector import __version__
from collector.config.settings import Telemetry
from collector.metrics.families import TABLE
from collector.metrics.service import SLICE_CHARACTERS, Families
from collector.net.http_client import proxy_of, without_user
from collector.telemetry.counters import Reading
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction
from monitor.exposition.families import PAIR, Family, Marked, Sample

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.resources import Resource

__all__ = ["OtlpPush"]

EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"

TIMEOUT_SECONDS: Final = 10.0
"""Time for one request and its retries."""

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
        settings: Telemetry,
        families: Families,
        redaction: Redaction,
        clock: Callable[[], int],
    ) -> None:
        if not _is_installed():
            raise OSError(
                "telemetry.otlp_endpoint needs opentelemetry-exporter-otlp: pip install 'offrails[otlp]'"
            )
        # What fails is counted, and logged by us.
        logger = logging.getLogger("opentelemetry.exporter")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        url = settings.otlp_endpoint.rstrip("/") + "/v1/metrics"
        self._sender = _Sender(url, redaction, clock())
        self._families = families
        self._interval_seconds = settings.interval_seconds
        self._with_pairs = settings.pairs
        self._clock = clock
        self._results = {"ok": 0, "failed": 0}
        self._failing = False
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def readings(self) -> Iterator[Reading]:
        yield Reading(
            "telemetry_pushes", [((result,), count) for result, count in self._results.items()]
        )

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self, grace_seconds: float) -> None:
        """Pushes the last values, within the given time."""
        if self._task is None:
            return
        self._ended.set()
        await asyncio.wait({self._task}, timeout=grace_seconds)
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
            sent = await _in_thread(lambda: self._sender.send(families, now))
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
            samples: list[Sample | Marked | str] = []
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


def _is_installed() -> bool:
    try:
        return find_spec(EXPORTER) is not None
    except ModuleNotFoundError:
        return False


def _is_of_pairs(family: Family) -> bool:
    row = TABLE.get(family.name.removeprefix("offrails_"))
    return row is not None and row.labels[:2] == PAIR


def _characters(sample: Sample | Marked | str) -> int:
    if isinstance(sample, str):
        return len(sample)
    return len(sample.text) if isinstance(sample, Marked) else _LINE_CHARACTERS


async def _in_thread(work: Callable[[], bool]) -> bool:
    """The result of `work` in a daemon thread: the process does not wait for it at its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def settle(result: bool, error: Exception | None) -> None:
        if done.done():  # the waiter was cancelled
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def run() -> None:
        result, failure = False, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="otlp-metrics", daemon=True).start()
    return await done


class _Sender:
    """Sends families from a thread.

    Args:
        url: of the receiver, with user and password.
        redaction: hides parts of labels.
        started_ns: start of the counters, Unix nanoseconds.
    """

    def __init__(self, url: str, redaction: Redaction, started_ns: int) -> None:
        self._url, self._authorization = without_user(url)
        self._redaction = redaction
        self._started_ns = started_ns
        self._instance = str(uuid.uuid4())
        self._exporter: OTLPMetricExporter | None = None
        self._resource: Resource | None = None

    def send(self, families: Sequence[Family], now: int) -> bool:
        """Sends the families, in several requests if they are many; False if a request failed."""
        from collector.metrics.otlp_points import metrics_data

        exporter, resource = self._loaded()
        return all(
            exporter.export(
                metrics_data(lump, resource, self._redaction, self._started_ns, now)
            ).name
            == "SUCCESS"
            for lump in _lumps(families)
        )

    def _loaded(self) -> tuple[OTLPMetricExporter, Resource]:
        if self._exporter is None or self._resource is None:
            import requests
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
                OTLPMetricExporter,
            )
            from opentelemetry.sdk.resources import Resource

            session = requests.Session()
            session.trust_env = False  # `proxy_of` chooses the proxy, as for sinks
            proxy = proxy_of(self._url)
            if proxy is not None:
                session.proxies = {"http": proxy, "https": proxy}
            headers = {"authorization": self._authorization} if self._authorization else None
            self._exporter = OTLPMetricExporter(
                endpoint=self._url, headers=headers, timeout=TIMEOUT_SECONDS, session=session
            )
            self._resource = Resource.create(
                {
                    "service.name": "offrails",
                    "service.version": __version__,
                    "service.instance.id": self._instance,
                }
            )
        return self._exporter, self._resource


def _lumps(families: Sequence[Family]) -> Iterator[list[Family]]:
    """The families, or parts of them, for each request."""
    lump: list[Family] = []
    room = POINTS_MAX
    for family in families:
        part: list[Sample | Marked | str] = []
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


def _points(sample: Sample | Marked | str) -> int:
    if isinstance(sample, str):
        return sample.count("\n")
    return sample.text.count("\n") if isinstance(sample, Marked) else 1
