"""Whose a span is, where several sessions have calls in one trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from collector.decode.span import Span

__all__ = ["SessionId", "span_shares"]

SpanKey = tuple[bytes, bytes]
SessionId = tuple[str, str]
"""Namespace and id of a session."""


def span_shares(
    groups: Mapping[SessionId, Sequence[Mapping[str, Any]]],
    spans: Sequence[Span],
    quiet: Mapping[bytes, SessionId] = MappingProxyType({}),
) -> Mapping[SessionId, list[Span]]:
    """The spans of each session.

    A trace with calls of one session is that session's. In a trace with several, a span belongs to the session of
    the calls below it, or of those below the nearest span above it; a span above calls of several sessions is nobody's.

    Args:
        groups: session -> its judgement objects.
        spans: of all traces.
        quiet: trace without calls -> the session that it belongs to.
    """
    owners: dict[SpanKey, SessionId] = {}
    traces: dict[bytes, set[SessionId]] = defaultdict(set)
    for key, judged in groups.items():
        for judgement in judged:
            for step in judgement["steps"]:
                trace = bytes.fromhex(step["trace_id"])
                owners[trace, bytes.fromhex(step["span_id"])] = key
                traces[trace].add(key)
    found: dict[SessionId, list[Span]] = defaultdict(list)
    parents = {(span.trace_id, span.span_id): span.parent_span_id for span in spans}
    below = _below(owners, parents)
    for span in spans:
        keys = traces[span.trace_id]
        if span.trace_id in quiet:
            keys = {quiet[span.trace_id]}
        if len(keys) > 1:
            keys = _nearest((span.trace_id, span.span_id), below, parents)
        if len(keys) == 1:
            found[next(iter(keys))].append(span)
    return found


def _below(
    owners: Mapping[SpanKey, SessionId], parents: Mapping[SpanKey, bytes]
) -> Mapping[SpanKey, set[SessionId]]:
    """Span -> sessions of the calls at it and below it."""
    found: dict[SpanKey, set[SessionId]] = defaultdict(set)
    for (trace, span), key in owners.items():
        while span and key not in found[trace, span]:
            found[trace, span].add(key)
            span = parents.get((trace, span), b"")  # noqa: PLW2901
    return found


def _nearest(
    span: SpanKey, below: Mapping[SpanKey, set[SessionId]], parents: Mapping[SpanKey, bytes]
) -> set[SessionId]:
    seen = set[SpanKey]()
    while span[1] and span not in seen:
        if below.get(span):
            return below[span]
        seen.add(span)
        span = (span[0], parents.get(span, b""))
    return set()
