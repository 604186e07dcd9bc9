"""Spans that came in time: they show that their sender's clock is right.

Idea: a call that is received long after its end is late, or its sender's clock was set back since (`Cause.SET_BACK`). A span
that ended after the call did, by the same clock, and was received at its end, decides it. It is known to have ended after the
call if it is above the call, or if it ended after the call was received. And a root span that ended before it began shows that
the clock was set back.

Example: `look_up` is received 20 s after its end, behind `pay`. Its agent's span had come in time: the request with `look_up` was
sent again. Without that span, `pay` would be possible harm until the next span of this sender comes in time.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.calls.batch import EventBatch
from collector.calls.sessions.session_ids import SessionIds
from collector.calls.tree.trace import Trace
from collector.calls.tree.trace_store import Traces
from collector.decode.span import Span
from monitor.engine import Monitor
from monitor.judging.sender_clocks import is_of
from monitor.records import ToolCall

__all__ = ["TimelySpans", "is_timed"]


class TimelySpans:
    """Notes spans that came in time, and tells the monitor where it waits for them.

    Args:
        monitor: knows which sessions have calls that may be late.
        ids: tells whose spans they are.
        traces: lead to the sessions of spans.
        batch: leads to the monitor.
    """

    def __init__(
        self, monitor: Monitor, ids: SessionIds, traces: Traces, batch: EventBatch
    ) -> None:
        self._monitor = monitor
        self._ids = ids
        self._traces = traces
        self._batch = batch
        self._window_ns = monitor.limits.window_ns
        self._set_back: list[tuple[Trace, Span]] = []
        """Roots of this request that ended before they began."""

    def note_root(self, trace: Trace, span: Span, now: int) -> None:
        """The root of a trace has come, and is no call."""
        if self._is_in_time(span, now):
            trace.timed_by, trace.timed_root = span.resource, span.span_id
        if 0 < span.end_ns < span.start_ns - self._window_ns:
            self._set_back.append((trace, span))

    def end(self, spans: Sequence[Span], now: int) -> None:
        """The spans of a request are in their traces, with their calls.

        Calls of their senders that ended before came late. If a root ended before it began, its sender's clock was set
        back: that is seen, so no span ends this doubt.
        """
        if self._set_back:
            found, self._set_back = self._set_back, []
            for trace, root in found:
                self._batch.set_back(trace.key, root.start_ns, root.end_ns)
        late = self._monitor.gaps.late
        for span in spans if late else ():
            if self._is_in_time(span, now):
                owner = self._ids.owner(span.resource)
                key = self._traces.of(owner.namespace, span.trace_id).known_key
                if key is not None and key in late:
                    self._batch.vouch(key, span.resource.attributes, span.end_ns)

    def _is_in_time(self, span: Span, now: int) -> bool:
        """True if a span ended about when it was received, by its sender's clock."""
        return -self._window_ns <= now - span.end_ns <= self._window_ns


def is_timed(trace: Trace, call: ToolCall) -> bool:
    """True if the root above a call came in time, from the same sender."""
    root, tree = trace.timed_by, trace.tree
    if root is None or tree is None or not is_of(call.attributes, root.attributes):
        return False
    node = tree.node(call.span_id)
    above = [] if node is None else list(tree.ancestors(node))
    return bool(above) and above[-1].span_id == trace.timed_root
