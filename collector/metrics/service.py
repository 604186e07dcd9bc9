"""The metrics listener: renders what is summed, in OpenMetrics or the text format."""

from __future__ import annotations

import platform
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, Protocol

from collector import __version__
from collector.calls.coverage import COVERAGE
from collector.config.spec_reload import Reloads
from collector.decode.span import REJECTED
from collector.metrics.process import Process
from collector.metrics.text_format import OPEN_METRICS, PLAIN, is_open_metrics, lines
from collector.net.asgi import Receive, Scope, Send, send_status
from collector.net.health import Health
from collector.net.host_guard import Guard
from collector.net.long_responses import LongResponses
from collector.receive.admission import REFUSED
from collector.receive.connections import FAILURES
from collector.telemetry.counters import TRANSPORTS, Histogram, Stats
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.exposition.families import Family, family, histogram, labels_text, monitor_families
from monitor.records import Evidence

__all__ = ["COUNTED", "Families", "MetricsApp", "Source"]

SLICE_CHARACTERS = 64 * 1024
"""So much text is rendered before other tasks get their turn: half a millisecond."""

CLOSED: Final = ("crowded", "no_descriptor", "refused", "slow", "stalled")
"""Why connections are closed by us."""

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
    "calls": ("tool_calls", [(evidence.value,) for evidence in Evidence]),
    "coverage": ("coverage", [(reason,) for reason in COVERAGE]),
    "arguments_unreadable": ("arguments_unreadable", []),
    "internal_errors": ("internal_errors", []),
    "clock_jumps": ("clock_jumps", [()]),
}
"""Name in `Stats.counts` -> the family that shows it, and the labels that are there from 0 on."""

LABEL: Final = re.compile(r'\b(agent|tool|namespace)="((?:[^"\\]|\\.)*)"')
ESCAPED: Final = re.compile(r"\\(.)")
"""Labels with what agents say, as `labels_text` writes them."""


class Source(Protocol):
    """Something else of this process that has metrics."""

    def families(self) -> Iterable[Family]: ...


class Families:
    """All families of this process, made at scrape.

    Args:
        monitor: what is judged.
        stats: what is received.
        reloads: how often the specs were read anew.
        more: other parts that have metrics of their own.
    """

    def __init__(
        self,
        monitor: Monitor,
        stats: Stats,
        reloads: Reloads | None = None,
        more: Sequence[Source] = (),
    ) -> None:
        self._monitor = monitor
        self._stats = stats
        self._reloads = reloads or Reloads()
        self._more = tuple(more)
        self._process = Process()

    def collect(self) -> Iterator[Family]:
        monitor, stats = self._monitor, self._stats
        yield from monitor_families(
            monitor.totals, monitor.binder, monitor.ended, monitor.tools_overflowed
        )
        yield family("sessions_without_calls", [((), monitor.without_calls)])
        yield family("calls_out_of_order", [((), monitor.out_of_order)])
        yield family("spans_skewed", [((), monitor.skewed)])
        yield family("sessions_resumed", [((), monitor.resumed)])
        yield family("sessions_unremembered", [((), monitor.sessions_lost)])
        yield family("orders_left_out", [((), monitor.orders_left_out)])
        yield family("sessions_read_in_parts", [((), monitor.totals.read_in_parts)])
        yield family("steps_folded_young", [((), monitor.folded_young)])
        built = (__version__, platform.python_version())
        yield family("build_info", [(built, 1)])
        yield from _reload_families(self._reloads)
        yield from _pipeline_families(monitor, stats)
        for source in self._more:
            yield from source.families()
        yield from self._process.families()


def _reload_families(reloads: Reloads) -> Iterator[Family]:
    found = {"success": reloads.succeeded, "failure": reloads.failed}
    yield family("spec_reloads", _single(found))
    yield family("spec_load_errors", [((), reloads.errors)])
    yield family("spec_last_reload_successful", [((), int(reloads.last_succeeded))])
    when = [((), reloads.success_ns / 1e9)] if reloads.success_ns else []
    yield family("spec_last_reload_success_timestamp_seconds", when)


def _pipeline_families(monitor: Monitor, stats: Stats) -> Iterator[Family]:
    """Families of the receiver and the pipeline."""
    yield family("ingest_requests", stats.requests.items())
    yield family("ingest_spans", stats.spans.items())
    yield family("ingest_bytes", _single(stats.bytes))
    yield family("spans_dropped", _single(stats.dropped))
    yield family("record_requests", _single(stats.recorded))
    yield family("log_lines_dropped", _single(stats.log_lines_dropped))
    for counted, (name, labels) in COUNTED.items():
        found = dict.fromkeys(labels, 0)
        found |= {key[1:]: n for key, n in stats.counts.items() if key[0] == counted}
        if counted == "coverage":
            found["no_spec",] = monitor.without_spec
        yield family(name, sorted(found.items()))
    yield histogram(
        "verdict_latency_seconds",
        (_sample((transport,), found) for transport, found in stats.verdict_latency.items()),
    )
    yield histogram("span_lag_seconds", [_sample((), stats.span_lag)])


def _single(counts: Mapping[str, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((label,), count) for label, count in sorted(counts.items()))


def _sample(
    labels: tuple[str, ...], found: Histogram
) -> tuple[tuple[str, ...], list[tuple[str, float]], float]:
    # Prometheus' own spelling of the bounds: "0.005", "1.0", "+Inf".
    rows = ((repr(bound) if bound != inf else "+Inf", n) for bound, n in found.cumulative())
    buckets: list[tuple[str, float]] = list(rows)
    return labels, buckets, found.sum_seconds


class MetricsApp:
    """An ASGI application: `GET /metrics` and the health paths.

    Args:
        families: what is shown.
        health: of the service.
        redaction: what is taken out of labels.
        guard: by which names it is reached; the health paths by any.
    """

    def __init__(
        self,
        families: Families,
        health: Health,
        redaction: Redaction | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard or Guard("")
        self._redaction = redaction or Redaction()
        self._families = families
        self._health = health
        self._long = LongResponses()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if await self._health.answer(scope, send):
            return
        refused = self._guard.refuses(scope)
        if refused is not None:
            await send_status(send, 403, f"{refused}\n".encode(), b"text/plain; charset=utf-8")
        elif scope["path"] != "/metrics":
            await send_status(send, 404, b"see /metrics\n", b"text/plain; charset=utf-8")
        elif scope["method"] not in ("GET", "HEAD"):
            allow = (b"allow", b"GET, HEAD")
            await send_status(send, 405, b"use GET\n", b"text/plain; charset=utf-8", allow)
        else:
            accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
            open_metrics = is_open_metrics(accept)
            kind = OPEN_METRICS if open_metrics else PLAIN
            await self._long.send(scope, send, kind, self._parts(open_metrics=open_metrics))

    async def _parts(self, *, open_metrics: bool) -> AsyncIterator[bytes]:
        lump: list[str] = []
        room = SLICE_CHARACTERS
        for text in lines(self._families.collect(), open_metrics=open_metrics):
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


def _label(part: re.Match[str], name: Callable[[str], str]) -> str:
    """One label, its value hidden as far as the rules say."""
    value = ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], part[2])
    return labels_text([part[1]], [name(value)])


def _encoded(texts: list[str]) -> bytes:
    # An agent may well say half a surrogate pair; it becomes a question mark.
    return "".join(texts).encode(errors="replace")
