"""Calls that were made, and of which no span tells, though their tools leave spans.

Idea: a model is given the result of each call that it asked for. So a request whose result was given, while no span has told
of its execution, was executed: its span was lost, or this way of running the tool leaves none (parallel calls). Calls of the
tool may then be missing in that time (`Cause.SILENT_TOOL`), until the span comes after all.

Requests of tools that leave spans are *watched* until the next request to a model of their trace. Mostly their spans have come by
then, and nothing is read.

Example: an answer asks for `check` and `pay`. The model's next request holds both results; a span has come of `pay` alone.
So `pay` without `check` is possible harm.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collector.calls.records import Requester
from collector.calls.tree.span_tree import SpanTree, WatchedRequest
from collector.calls.tree.trace import Trace
from monitor.records import Evidence
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["GAPS_MAX", "WATCHED_MAX", "Change", "UnseenCalls", "is_unseen", "note_id", "watch"]

WATCHED_MAX: Final = 256
"""Requests of one trace that are watched. Further ones are not."""

GAPS_MAX: Final = 1_024
"""Gaps that can still be lifted. At the bound, the oldest stays until it is over."""

Change = tuple[Gap, bool]
"""A gap that is new, or one that has ended (False)."""


class _Key(NamedTuple):
    namespace: str
    trace_id: bytes
    tool: str


def watch(tree: SpanTree, request: WatchedRequest) -> None:
    """Watches a request, unless a span has told of its execution."""
    if _has_come(tree, request.call_id, request.tool):
        _match(tree, request.tool)
        return
    if tree.watched is None:
        tree.watched = []
    if len(tree.watched) < WATCHED_MAX:
        tree.watched.append(request)


def note_id(tree: SpanTree, call_id: str, tool: str) -> None:
    """A span has told of a call: notes whether its ids are those of the models' requests."""
    if not call_id:
        tree.nameless = True
    elif tree.matched is None or tool not in tree.matched:
        like = tree.known(call_id, tool)
        if like is not None and like.asked:
            _match(tree, tool)


def _match(tree: SpanTree, tool: str) -> None:
    if tree.matched is None:
        tree.matched = set()
    tree.matched.add(tool)


def is_unseen(tree: SpanTree, request: WatchedRequest, *, is_open: bool) -> bool:
    """True if no span has told of a request's execution, as far as ids tell, else as their numbers do.

    `is_open`: fewer calls of the tool were executed than asked for, in this trace.
    """
    if _has_come(tree, request.call_id, request.tool):
        return False
    return is_open or (tree.matched is not None and request.tool in tree.matched)


def _has_come(tree: SpanTree, call_id: str, tool: str) -> bool:
    like = tree.known(call_id, tool)
    if like is None or like.first is None:
        return False
    for node in like.nodes():
        call = node.call
        if call is not None and (
            call.outer.evidence is not Evidence.REQUESTED or call.is_executed
        ):
            return True
    return False


class UnseenCalls:
    """The gaps of calls that no span tells of, by trace and tool."""

    def __init__(self) -> None:
        self._gaps: dict[_Key, Gap] = {}

    def miss(
        self, requester: Requester, trace: Trace, tool: str, since_ns: int, until_ns: int
    ) -> list[Change]:
        """Calls of a tool were made in a time span, and no span has told of them."""
        key = _Key(trace.namespace, trace.trace_id, tool)
        known = self._gaps.pop(key, None)
        if known is not None:
            since_ns, until_ns = min(known.since_ns, since_ns), max(known.until_ns, until_ns)
        namespace, service = requester
        gap = Gap(Cause.SILENT_TOOL, since_ns, until_ns, tool, namespace, service)
        self._gaps[key] = gap
        if len(self._gaps) > GAPS_MAX:
            del self._gaps[next(iter(self._gaps))]
        if known == gap:
            return []
        return [(gap, True)] if known is None else [(gap, True), (known, False)]

    def came(self, trace: Trace, tool: str) -> list[Change]:
        """Spans have told of all calls of a tool that models of a trace asked for."""
        if not self._gaps:
            return []
        gap = self._gaps.pop(_Key(trace.namespace, trace.trace_id, tool), None)
        return [] if gap is None else [(gap, False)]
