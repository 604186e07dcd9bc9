"""The metrics listener: renders all families in OpenMetrics or the text format.

The library renders the families of agents and specs as lines. All others come from a registry of
prometheus_client (`collector.metrics.registry`), which reads the service's plain counters at each scrape.
"""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final, Protocol

from collector import __version__
from collector.calls.coverage import COVERAGE
from collector.calls.inventory.agent_changes import CHANGES
from collector.config.spec_reload import Reloads
from collector.decode.span import REJECTED
from collector.metrics.created import with_created
from collector.metrics.gzip_parts import GZIP_HEADERS, accepts_gzip, gzipped
from collector.metrics.text_format import OPEN_METRICS, PLAIN, is_open_metrics, lines
from collector.net.asgi import Receive, Scope, Send, begin_stream, end_stream, send_status
from collector.net.health import Health
from collector.net.host_guard import HostGuard
from collector.net.long_responses import LongResponses
from collector.receive.admission import REFUSED
from collector.receive.listener.connections import FAILURES
from collector.telemetry.build import BUILD
from collector.telemetry.counters import TRANSPORTS, MetricReading, Stats
from collector.telemetry.redaction import Redaction
from collector.telemetry.tracing import Tracer, traced
from monitor.engine import Monitor
from monitor.exposition.family import Family, labels_text
from monitor.exposition.metric_samples import families_of
from monitor.records import Evidence

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["COUNTED", "Families", "MetricSource", "MetricsApp"]

SLICE_CHARACTERS = 64 * 1024
"""Characters rendered before other tasks get their turn: half a millisecond."""

RESULTS: Final = ("accepted", "rejected")
"""Results of spans, counted from 0 on."""

CLOSED: Final = ("crowded", "no_descriptor", "refused", "slow", "stalled")
"""Why connections are closed by us."""

TOLD: Final = (Evidence.EXECUTED, Evidence.PENDING, Evidence.REQUESTED)
"""Evidence from spans. A decided call counts once it has such evidence."""

FAULTS: Final = (
    *("AssertionError", "AttributeError", "IndexError", "KeyError", "MemoryError", "OSError"),
    *("OverflowError", "RecursionError", "RuntimeError", "TypeError", "UnicodeError"),
    *("ValueError", "ZeroDivisionError"),
)
OTHER: Final = "other"
"""Types of errors with counters of their own, which begin at 0, and all others. The log has the name of each."""

COUNTED: Mapping[str, tuple[str, Sequence[tuple[str, ...]]]] = {
    "client_disconnects": ("client_disconnects", [(name,) for name in TRANSPORTS]),
    "connections_closed": ("connections_closed", [(cause,) for cause in CLOSED]),
    "tls_handshakes_failed": ("tls_handshakes_failed", [(reason,) for reason in FAILURES]),
    "requests_refused": ("requests_refused", [(reason,) for reason in REFUSED]),
    "reads_deferred": ("reads_deferred", [()]),
    "foreign_protocol": ("foreign_protocol", []),
    "http2_errors": ("http2_errors", []),
    "attributes_over_bound": ("attributes_over_bound", [()]),
    "requests_throttled": ("requests_throttled", []),
    "spans_rejected": ("spans_rejected", [(reason,) for reason in REJECTED]),
    "unread_messages": ("unread_messages", [("grpc",)]),
    "spans_merged": ("spans_merged", [()]),
    "sessions_split": ("sessions_split", [()]),
    "calls": ("tool_calls", [(evidence.value,) for evidence in TOLD]),
    "decisions_unconfirmed": ("decisions_unconfirmed", [()]),
    "decisions_overruled": ("decisions_overruled", [()]),
    "agent_changes": ("agent_changes", [(kind,) for kind in CHANGES]),
    "coverage": ("coverage", [(reason,) for reason in COVERAGE]),
    "arguments_unreadable": ("arguments_unreadable", []),
    "internal_errors": ("internal_errors", [(name,) for name in (*FAULTS, OTHER)]),
    "clock_jumps": ("clock_jumps", [()]),
}
"""Name in `Stats.counts` -> the family that shows it, and the labels that are there from 0 on."""

LABEL: Final = re.compile(r'\b(agent|tool|namespace)="((?:[^"\\]|\\.)*)"')
ESCAPED: Final = re.compile(r"\\(.)")
"""Labels with what agents say, as `labels_text` writes them."""


class MetricSource(Protocol):
    """Another part of this process with metrics."""

    def readings(self) -> Iterable[MetricReading]: ...


class Families:
    """All families of this process, collected at each scrape.

    Args:
        monitor: has the families of agents and specs.
        stats: counters of the receiver and the pipeline.
        reloads: counters of reloads of specs.
        more: other parts with metrics.
        standby: True if the service could not start.
    """

    def __init__(
        self,
        monitor: Monitor,
        stats: Stats,
        reloads: Reloads | None = None,
        more: Sequence[MetricSource] = (),
        *,
        standby: bool = False,
    ) -> None:
        self._monitor = monitor
        self._stats = stats
        self._reloads = reloads or Reloads()
        self._more = list(more)
        self._standby = standby
        self.since: Callable[[], int] | None = None
        """Start of the counters, Unix nanoseconds; None: they count since the monitor sees spans."""
        self._registry: CollectorRegistry | None = None

    @property
    def started_ns(self) -> int:
        """When the process began to count, Unix nanoseconds."""
        return self._monitor.started_ns if self.since is None else self.since()

    def add(self, source: MetricSource) -> None:
        """Adds one more part of the process."""
        self._more.append(source)

    async def prepare(self) -> None:
        """Loads prometheus_client in a thread before the first scrape, so that the event loop goes on."""
        if self._registry is None:
            await asyncio.to_thread(self.registry)

    def registry(self) -> CollectorRegistry:
        """The process's own metrics: all but those of the library."""
        if self._registry is None:
            from collector.metrics.registry import registry_of

            self._registry = registry_of(self._readings, self._failed)
        return self._registry

    def collect(self) -> Iterator[Family]:
        registry = self.registry()
        from collector.metrics.registry import family_of

        yield from families_of(self._monitor)
        yield from map(family_of, registry.collect())

    def _failed(self, error: Exception) -> None:
        self._stats.count("internal_errors", type(error).__name__)

    def _readings(self) -> Iterator[MetricReading]:
        built = (__version__, platform.python_version(), BUILD)
        yield MetricReading("build_info", [(built, 1)])
        yield MetricReading("standby", [((), int(self._standby))])
        yield from _of_reloads(self._reloads)
        yield from _of_stats(self._monitor, self._stats)
        for source in self._more:
            yield from source.readings()


def _of_reloads(reloads: Reloads) -> Iterator[MetricReading]:
    found = {"success": reloads.succeeded, "failure": reloads.failed}
    yield MetricReading("spec_reloads", _single(found))
    yield MetricReading("spec_load_errors", [((), reloads.errors)])
    yield MetricReading("spec_last_reload_successful", [((), int(reloads.last_succeeded))])
    when = [((), reloads.success_ns / 1e9)] if reloads.success_ns else []
    yield MetricReading("spec_last_reload_success_timestamp_seconds", when)


def _of_stats(monitor: Monitor, stats: Stats) -> Iterator[MetricReading]:
    yield MetricReading("ingest_requests", stats.requests.items())
    spans = dict.fromkeys(product(TRANSPORTS, RESULTS), 0) | stats.spans
    yield MetricReading("ingest_spans", spans.items())
    yield MetricReading("ingest_bytes", _single(stats.bytes))
    yield MetricReading("spans_dropped", _single(stats.dropped))
    yield MetricReading("record_requests", _single(stats.recorded))
    yield MetricReading("log_lines_dropped", _single(stats.log_lines_dropped))
    for counted, (name, labels) in COUNTED.items():
        found = dict.fromkeys(labels, 0)
        found |= {key[1:]: n for key, n in stats.counts.items() if key[0] == counted}
        if counted == "internal_errors":
            found = _folded(found)
        if counted == "coverage":
            found["no_spec",] = monitor.counters.without_spec
        yield MetricReading(name, sorted(found.items()))
    latency = stats.verdict_latency.items()
    yield MetricReading(
        "verdict_latency_seconds", (((name,), found) for name, found in latency)
    )
    yield MetricReading("span_lag_seconds", [((), stats.span_lag)])


def _folded(errors: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    """Internal errors by the types that have counters."""
    found: dict[tuple[str, ...], int] = {}
    for (name, *_), count in errors.items():
        key = (name if name in FAULTS else OTHER,)
        found[key] = found.get(key, 0) + count
    return found


def _single(counts: Mapping[str, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((label,), count) for label, count in sorted(counts.items()))


class MetricsApp:
    """An ASGI application: `GET /metrics` and the health paths.

    Args:
        families: what is shown.
        health: of the service.
        redaction: hides parts of labels.
        guard: the names accepted as Host; the health paths accept any.
        tracer: makes a span of each scrape; None if own traces are off.
    """

    def __init__(
        self,
        families: Families,
        health: Health,
        redaction: Redaction | None = None,
        guard: HostGuard | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._guard = guard or HostGuard("")
        self._redaction = redaction or Redaction()
        self._families = families
        self._health = health
        self._long = LongResponses()
        self.is_scraped = False
        """True once a scrape was sent."""
        self.count: Callable[[], int] | None = None
        """Returns the number of calls so far; called when a scrape begins."""
        self.counted = 0
        """Calls that the last scrape has which was sent."""
        self._sent = asyncio.Event()
        """Set once a scrape is sent that began after the event was made."""

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if await self._health.answer(scope, send):
            return
        refused = self._guard.refuses(scope)
        if refused is not None:
            await send_status(send, 403, f"{refused}\n".encode(), b"text/plain; charset=utf-8")
        elif scope["path"] != "/metrics":
            await send_status(send, 404, b"see /metrics\n", b"text/plain; charset=utf-8")
        elif self._health.is_early:
            # Counters of a part of the journal would look like a reset.
            await send_status(send, 503, b"recovering\n", b"text/plain; charset=utf-8")
        elif scope["method"] not in ("GET", "HEAD"):
            allow = (b"allow", b"GET, HEAD")
            await send_status(send, 405, b"use GET\n", b"text/plain; charset=utf-8", allow)
        elif scope["method"] == "HEAD":  # no scrape: nothing is rendered
            kind, gzip = _asked_for(scope)
            await begin_stream(send, kind, *(GZIP_HEADERS if gzip else ()))
            await end_stream(send)
        else:
            await self._scrape(scope, send)

    async def next_scrape(self) -> None:
        """Waits until a scrape is sent that begins from now on, and so has all that was counted so far."""
        self._sent = asyncio.Event()
        await self._sent.wait()

    async def _scrape(self, scope: Scope, send: Send) -> None:
        sent, counted = self._sent, self.count() if self.count is not None else 0
        kind, gzip = _asked_for(scope)
        render = self._traced_parts if self._tracer is not None else self._parts
        parts = render(open_metrics=kind == OPEN_METRICS)
        if gzip:
            is_sent = await self._long.send(scope, send, kind, gzipped(parts), *GZIP_HEADERS)
        else:
            is_sent = await self._long.send(scope, send, kind, parts)
        if is_sent:
            self.is_scraped, self.counted = True, counted
            sent.set()

    async def _traced_parts(self, *, open_metrics: bool) -> AsyncIterator[bytes]:
        with traced(self._tracer, "scrape", open_metrics=open_metrics) as span:
            size = 0
            async for part in self._parts(open_metrics=open_metrics):
                size += len(part)
                yield part
            span.set(bytes=size)

    async def _parts(self, *, open_metrics: bool) -> AsyncIterator[bytes]:
        await self._families.prepare()
        lump: list[str] = []
        room = SLICE_CHARACTERS
        found = self._families.collect()
        if open_metrics and self._families.started_ns:
            found = with_created(found, self._families.started_ns)
        for text in lines(found, open_metrics=open_metrics):
            lump.append(self._hidden(text) if self._redaction else text)
            room -= len(text)
            if room <= 0:
                yield _encoded(lump)
                lump.clear()
                room = SLICE_CHARACTERS
        yield _encoded(lump)

    def _hidden(self, text: str) -> str:
        name = self._redaction.name
        return LABEL.sub(lambda part: _label(part, name), text)


def _asked_for(scope: Scope) -> tuple[bytes, bool]:
    """The content type that a request asks for, and whether it takes gzip."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    open_metrics = is_open_metrics(headers.get(b"accept", ""))
    gzip = accepts_gzip(headers.get(b"accept-encoding", ""))
    return OPEN_METRICS if open_metrics else PLAIN, gzip


def _label(part: re.Match[str], name: Callable[[str], str]) -> str:
    """One label; the redaction rules apply to its value."""
    value = ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], part[2])
    return labels_text([part[1]], [name(value)])


def _encoded(texts: list[str]) -> bytes:
    # An agent's name may contain a lone surrogate: it becomes a question mark.
    return "".join(texts).encode(errors="replace")
