"""Spans of live sessions, kept for the transcripts of those that will be judged.

Idea: whether a session is judged is known at its end. So the spans of each trace are kept while one of its sessions may
still be judged. A trace goes at once when none of its sessions will be. Keeping comes after judging: the verdicts of a
request have left before.

Invariants:

- All that is kept is within `keep_bytes`; one trace has a quarter of it at most. What goes for it is counted.
- A trace is of one namespace: whoever sends spans under the trace id of another tenant adds nothing to its transcripts.
- Without rules of redaction a span is kept as it came. With rules, a task goes through what came: one span between two
  turns of others. What is read before it has had its turn is redacted by its reader.

Example: a session of two traces ends and is chosen. Its spans are read, and stay for `keep_seconds`, since it may go on. A
second session ends without harm: its trace goes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from collector.calls.pipeline import Pipeline
from collector.config.settings.judges import JudgesSettings
from collector.decode.span import Rejects, Span
from collector.online_judges.kept_span import SpanPacker, redacted_span
from collector.receive.export import Consume
from collector.telemetry.counters import MetricReading
from collector.telemetry.redaction import Redaction
from monitor.limits import SECOND
from monitor.records import SessionKey

__all__ = ["DROPPED_SPANS", "PackedSpan", "SpanKeeper", "TraceKey"]

TraceKey = tuple[str, bytes]
"""Namespace and id of a trace."""

DROPPED_SPANS: Final = ("age", "bytes", "too_large", "error")
"""Why spans are in no transcript, as the label `reason`."""

TRACE_SHARE: Final = 4
"""One trace may take this part of the bytes."""
RAW_MAX: Final = 100_000
OVERHEAD: Final = 200
"""Bytes that a kept span takes beside its text, about."""


class PackedSpan(NamedTuple):
    """A span as it is kept."""

    text: bytes
    is_redacted: bool


class _TraceSpans:
    """The spans of one trace, by their ids."""

    __slots__ = ("size", "spans", "touched_ns")

    def __init__(self) -> None:
        self.spans: dict[bytes, PackedSpan] = {}
        self.size = 0
        self.touched_ns = 0


class SpanKeeper:
    """Keeps spans by trace.

    Args:
        settings: bounds on what is kept.
        pipeline: knows whose a trace is.
        redaction: what is taken out of what is kept.
        may_be_judged: whether a session may be chosen at its end.
    """

    def __init__(
        self,
        settings: JudgesSettings,
        pipeline: Pipeline,
        redaction: Redaction,
        may_be_judged: Callable[[SessionKey], bool],
    ) -> None:
        self.dropped: Counter[str] = Counter(dict.fromkeys(DROPPED_SPANS, 0))
        self.size = 0
        """Bytes of all that is kept."""
        self._bytes_max = settings.keep_bytes
        self._keep_ns = int(settings.keep_seconds * SECOND)
        self._pipeline = pipeline
        self._redaction = redaction
        self._may_be_judged = may_be_judged
        self._traces: OrderedDict[TraceKey, _TraceSpans] = OrderedDict()
        self._packer = SpanPacker()
        self._raw: deque[tuple[TraceKey, bytes]] = deque(maxlen=RAW_MAX)
        """Spans that are still to be redacted. One that falls out is redacted by its reader."""
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return sum(len(each.spans) for each in self._traces.values())

    def after(self, consume: Consume) -> Consume:
        """Judges spans as `consume` does, and keeps them then."""

        def both(spans: list[Span], now: int, transport: str) -> Rejects | None:
            try:
                return consume(spans, now, transport)
            finally:
                self.take(spans, now)

        return both

    def take(self, spans: Iterable[Span], now: int) -> None:
        """Keeps the spans of traces with sessions that may be judged, received at `now`."""
        wanted: dict[TraceKey, bool] = {}
        for span in spans:
            key = self._pipeline.namespace_of(span.resource), span.trace_id
            is_wanted = wanted.get(key)
            if is_wanted is None:
                is_wanted = wanted[key] = self._is_wanted(key)
            if is_wanted:
                self._put(key, span, now)
        if self._raw:
            self._news.set()

    def _is_wanted(self, key: TraceKey) -> bool:
        """Whether a session of the trace may be judged; yes while none is known."""
        sessions = self._pipeline.sessions_of(key[1].hex(), key[0])
        if not sessions or any(map(self._may_be_judged, sessions)):
            return True
        self._drop(key)
        return False

    def _put(self, key: TraceKey, span: Span, now: int) -> None:
        try:
            text = self._packer.pack(span)
        except Exception:  # noqa: BLE001 - a span that cannot be written is in no transcript
            self.dropped["error"] += 1
            return
        if text is None:
            self.dropped["too_large"] += 1
            return
        trace = self._traces.pop(key, None) or _TraceSpans()
        trace.touched_ns = now
        size = len(text) + OVERHEAD
        fits = trace.size + size <= self._bytes_max // TRACE_SHARE
        if fits or trace.spans:
            self._traces[key] = trace  # behind those that were quiet for longer
        if not fits:
            self.dropped["bytes"] += 1
            return
        self._replace(trace, span.span_id, PackedSpan(text, not self._redaction))
        if self._redaction:
            self._raw.append((key, span.span_id))
        while self.size > self._bytes_max:
            _, oldest = self._traces.popitem(last=False)
            self.size -= oldest.size
            self.dropped["bytes"] += len(oldest.spans)

    def _replace(self, trace: _TraceSpans, span_id: bytes, packed: PackedSpan) -> None:
        before = trace.spans.get(span_id)
        grown = len(packed.text) - (len(before.text) if before else -OVERHEAD)
        trace.spans[span_id] = packed
        trace.size += grown
        self.size += grown

    # --- what is read, and what goes -----------------------------------------------------------

    def spans_of(self, keys: Iterable[TraceKey]) -> list[PackedSpan]:
        """The spans of some traces."""
        found = (self._traces.get(key) for key in keys)
        return [span for trace in found if trace is not None for span in trace.spans.values()]

    def release(self, keys: Iterable[TraceKey]) -> None:
        """No session of these traces will be judged any more."""
        for key in keys:
            self._drop(key)

    def _drop(self, key: TraceKey) -> None:
        trace = self._traces.pop(key, None)
        if trace is not None:
            self.size -= trace.size

    def tick(self, now: int) -> None:
        """Drops the traces that were quiet for too long."""
        before = now - self._keep_ns
        while self._traces:
            key, oldest = next(iter(self._traces.items()))
            if oldest.touched_ns > before:
                return
            self.dropped["age"] += len(oldest.spans)
            self._drop(key)

    # --- redaction -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Redacts what comes, a span at a time."""
        while True:
            await self._news.wait()
            while self._raw:
                self._redact(*self._raw.popleft())
                await asyncio.sleep(0)
            self._news.clear()

    def _redact(self, key: TraceKey, span_id: bytes) -> None:
        trace = self._traces.get(key)
        packed = trace.spans.get(span_id) if trace is not None else None
        if trace is None or packed is None or packed.is_redacted:
            return
        try:
            shown = redacted_span(packed.text, self._redaction)
        except Exception:  # noqa: BLE001 - what cannot be redacted is not kept
            self.dropped["error"] += 1
            size = len(packed.text) + OVERHEAD
            del trace.spans[span_id]
            trace.size -= size
            self.size -= size
            return
        self._replace(trace, span_id, PackedSpan(shown, is_redacted=True))

    def readings(self) -> Iterator[MetricReading]:
        """The metrics of kept spans."""
        yield MetricReading("judge_spans_bytes", [((), self.size)])
        found = [((why,), self.dropped[why]) for why in DROPPED_SPANS]
        yield MetricReading("judge_spans_dropped", found)
