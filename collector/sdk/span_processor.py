"""A span processor that has an agent's own spans judged in its process.

No socket and no service: the verdict is known when the span ends, in the thread that ended it.
Whatever goes wrong here is counted and logged once; the agent never sees it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from collector.calls.pipeline import Pipeline
from collector.sdk.readable_span import SpanReader
from collector.telemetry.clock import now_ns
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.records import Verdict

__all__ = ["MonitorSpanProcessor"]

TICK_NS: Final = 250_000_000
"""How late a final verdict or the end of a session may be noticed while spans come."""

Deliver = Callable[[Sequence[Verdict]], None]

_log: Final = logging.getLogger("offrails.sdk")


class MonitorSpanProcessor(SpanProcessor):
    """Feeds a `Monitor` with the spans of this process.

    A call is pending from its start, and judged with all that its span says at its end. Add it to a
    tracer provider beside the exporter:

        monitor = Monitor(load_specs(["dfa_specs"]), Limits(history_complete=True))
        provider.add_span_processor(MonitorSpanProcessor(monitor, deliver))

    Args:
        monitor: who judges. It is not safe for threads: leave it to this processor, or hold `lock`.
        deliver: takes the verdicts of a span, in the thread of the span, while `lock` is held. It
            must not start or end spans.
        every: deliver all verdicts; else only harmful calls and revisions.
        clock: Unix time in nanoseconds.
    """

    def __init__(
        self,
        monitor: Monitor,
        deliver: Deliver | None = None,
        *,
        every: bool = False,
        clock: Callable[[], int] = now_ns,
    ) -> None:
        self.monitor = monitor
        self.lock = threading.RLock()
        """Held while the monitor works."""
        self.errors = 0
        """Spans that could not be judged, for a fault of ours or of `deliver`."""
        self._deliver = deliver
        self._clock = clock
        self._reader = SpanReader()
        self._pipeline = Pipeline(monitor, Stats(), self._pass_on)
        self._pipeline.quiet = not every
        self._ticked_ns = 0
        self._busy = threading.local()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """A call is pending: what it has of name and arguments is known."""
        self._consume(span, pending=True)

    def on_end(self, span: ReadableSpan) -> None:
        """The call ran: it is judged."""
        self._consume(span, pending=False)

    def shutdown(self) -> None:
        """Every session ends and every verdict is final."""
        with self.lock:
            self._pipeline.finish()
            self.monitor.close(self._clock())
            self._pass_on(self.monitor.news())

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002
        """Nothing waits but time: what is due by now is told."""
        with self.lock:
            self._tick(self._clock())
        return True

    def _consume(self, span: ReadableSpan, *, pending: bool) -> None:
        if getattr(self._busy, "here", False):
            return  # a span of whoever takes the verdicts
        self._busy.here = True
        try:
            with self.lock:
                now, read = self._clock(), self._reader.read(span)
                if not pending or self._pipeline.may_be_call(read):
                    self._pipeline.consume((read,), now, "sdk")
                if now - self._ticked_ns >= TICK_NS:
                    self._tick(now)
        except Exception as error:  # noqa: BLE001 - an agent does not fail for its monitor
            self._report(error)
        finally:
            self._busy.here = False

    def _tick(self, now: int) -> None:
        self._ticked_ns = now
        self.monitor.tick(now)
        self._pass_on(self.monitor.news())

    def _pass_on(self, verdicts: Sequence[Verdict]) -> None:
        if self._deliver is not None and verdicts:
            self._deliver(verdicts)

    def _report(self, error: Exception) -> None:
        self.errors += 1
        if self.errors == 1:
            _log.warning("a span could not be judged; more are counted only", exc_info=error)
