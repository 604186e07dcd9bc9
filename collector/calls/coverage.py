"""Counts spans and calls that were not judged, or not for certain, by reason.

Each reason is counted in all (the counter `coverage`) and in the session it concerns, as soon as that is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.tree.trace import Trace
from collector.telemetry.counters import Stats
from monitor.records import ToolCall

__all__ = ["COVERAGE", "Coverage"]

COVERAGE: Final = (
    "ambiguous_attribute",
    "ambiguous_tool",
    "arguments_given_up",
    "arguments_late",
    "arguments_missing",
    "arguments_unnamed",
    "arguments_unreadable",
    "call_in_event",
    "chained",
    "contradicted",
    "control",
    "duplicate",
    "id_reused",
    "look_alike",
    "name_prefixed",
    "name_variant",
    "no_dialect",
    "no_session_id",
    "no_spec",
    "odd_number",
    "operation_conflict",
    "orphan",
    "over_bound",
    "repeated_within",
    "replayed",
    "requested_only",
    "result_only",
    "round_trip",
    "sampled_upstream",
    "span_missing",
    "told_twice",
    "truncated_attributes",
    "unnamed_tool",
)
"""The reasons: labels of the counter `coverage`.

- `arguments_given_up`: calls that were judged, and whose arguments were then freed, because too many were held
  for further spans of the same calls. A later span without arguments changes nothing.
- `arguments_late`: calls that were counted as `arguments_missing`, `_unnamed` or `_unreadable` before a later
  span had their arguments.
- `call_in_event`: spans with an event that tells of a tool call. Only spans are judged.
- `chained`: calls that the call above them may have made, or not: see `same_call.are_chained`.
- `contradicted`, `replayed`, `round_trip`, `told_twice`: calls with this doubt (`monitor.visibility.cause`).
- `no_session_id`: calls that were judged under the id of their trace. Their session may still become known.
- `no_dialect`: spans of a web server, a database, or a framework that is not known.
- `no_spec`: calls of ended sessions that no spec matched.
- `orphan`: calls with this doubt.
- `repeated_within`: executions within a call of the same tool, one after the other, beyond the first: parts of it.
- `result_only`: results that a model was given of calls that its session lacks. They were made before our start, or in another
  session, or are examples in a prompt.
- `span_missing`: spans that calls name as ancestors, and that never came.
"""


class Coverage:
    """Counts reasons.

    Args:
        batch: leads to the monitor, which counts by session.
        stats: counts in all.
    """

    def __init__(self, batch: EventBatch, stats: Stats) -> None:
        self._batch = batch
        self._stats = stats

    def count(self, reason: str, by: int = 1) -> None:
        """Counts a reason in all."""
        self._stats.add(("coverage", reason), by)

    def count_call(self, reason: str, call: LogicalCall | None) -> None:
        """Counts a reason in all, and in the session of the call if that was judged."""
        self._stats.add(("coverage", reason), 1)
        if call is not None and call.judged is not None:
            monitor = self._batch.monitor
            judged: ToolCall | None = (
                call.judged
            )  # None by now where the monitor could not take it
            if judged is not None:
                monitor.corrections.miss(judged.session, reason)

    def count_traces(self, reason: str, found: Iterable[tuple[Trace, int]]) -> None:
        """Counts a reason so many times in all, and in the session of each trace."""
        for trace, count in found:
            self._stats.add(("coverage", reason), count)
            self._batch.monitor.corrections.miss(trace.key, reason, count)
