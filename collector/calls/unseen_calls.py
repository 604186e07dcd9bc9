"""Calls that were made, and of which no span tells, though their tools leave spans.

Idea: a model is given the result of each call that it asked for. So a request whose result was given, while no span has told
of its execution, was executed: its span was lost, or this way of running the tool leaves none (parallel calls). Calls of the
tool may then be missing in that time (`Cause.SILENT_TOOL`), until the span comes after all.

Requests of tools that leave spans are *watched* until the next request to a model of their trace. Mostly their spans have come by
then, and nothing is read.

Where no ids tell, executions are counted. One below a span that has not come may be a call within the lost one: it does not count
until that span comes.

Example: an answer asks for `check` and `pay`. The model's next request holds both results; a span has come of `pay` alone.
So `pay` without `check` is possible harm.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from collector.calls.records import Requester
from collector.calls.tree.span_tree import SpanTree, WatchedRequest
from collector.calls.tree.trace import Trace
from monitor.records import Evidence
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = [
    "GAPS_MAX",
    "IDS_MAX",
    "WATCHED_MAX",
    "Change",
    "UnseenCalls",
    "has_come",
    "is_unseen",
    "note_id",
    "spans_between",
    "watch",
]

WATCHED_MAX: Final = 256
"""Requests of one trace that are watched. Further ones are not."""

GAPS_MAX: Final = 1_024
"""Gaps that can still be lifted. At the bound, the oldest stays until it is over."""

IDS_MAX: Final = 256
"""Requests of one trace and tool that are told apart. Beyond it, the gap stays until it is over."""

_FURTHER: Final = "\0"
"""What stands in place of the ids of further ones: no call has it."""

Change = tuple[Gap, bool]
"""A gap that is new, or one that has ended (False)."""


class _Key(NamedTuple):
    namespace: str
    trace_id: bytes
    tool: str


def watch(tree: SpanTree, request: WatchedRequest) -> None:
    """Watches a request, unless a span has told of its execution."""
    if has_come(tree, request):
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
    if has_come(tree, request):
        return False
    return is_open or _do_ids_tell(tree, request.tool)


def _do_ids_tell(tree: SpanTree, tool: str) -> bool:
    """True if spans of a tool would have the ids of the models' requests: its own have, or others, and none has no id."""
    matched = tree.matched
    return matched is not None and (tool in matched or not tree.nameless)


def has_come(tree: SpanTree, request: WatchedRequest) -> bool:
    """True if a span has told of a request's execution, by its id."""
    like = tree.known(request.call_id, request.tool)
    if like is None or like.first is None:
        return False
    for node in like.nodes():
        call = node.call
        if call is not None and (
            call.outer.evidence is not Evidence.REQUESTED or call.is_executed
        ):
            return True
    return False


def spans_between(tree: SpanTree, request: WatchedRequest, beside: bytes) -> set[bytes]:
    """Missing spans above all executions of a tool since a request for it: they may be calls within the one that was asked for.

    `beside`: the span above the models' own, which mostly comes last. A call whose id a model has asked for is its execution.
    """
    expected = tree.node(beside)
    if tree.missing <= (expected is not None and expected.waiting is not None):
        return set()
    found = set[bytes]()
    for node in tree.calls():
        call, above = node.call, node.above
        if call is None or not call.is_executed or call.outer.tool != request.tool:
            continue
        if call.outer.start_ns < request.start_ns:
            continue
        if above is None or above.came or above.span_id == beside or call.asked_by:
            return set()
        found.add(above.span_id)
    return found


class UnseenCalls:
    """The gaps of calls that no span tells of, by trace and tool."""

    def __init__(self) -> None:
        self._gaps: dict[_Key, Gap] = {}
        self._ids: dict[tuple[str, bytes], dict[str, dict[str, set[bytes]]]] = {}
        """Ids of the requests of whose executions no span has told, by trace and tool. Each has the missing spans that may show it
        (`spans_between`).
        """

    def miss(
        self,
        requester: Requester,
        trace: Trace,
        request: WatchedRequest,
        since_ns: int,
        until_ns: int,
        between: Collection[bytes] = (),
    ) -> list[Change]:
        """A call was made in a time span, and no span has told of it."""
        key = _Key(trace.namespace, trace.trace_id, request.tool)
        known = self._gaps.pop(key, None)
        ids = self._ids.setdefault(key[:2], {}).setdefault(key.tool, {})
        if len(ids) < IDS_MAX or request.call_id in ids:
            ids[request.call_id] = set(between)
        else:
            ids[_FURTHER] = set()
        if known is not None:
            since_ns = min(known.since_ns, since_ns)
            until_ns = max(known.until_ns, until_ns)
        namespace, service = requester
        gap = Gap(Cause.SILENT_TOOL, since_ns, until_ns, request.tool, namespace, service)
        self._gaps[key] = gap
        if len(self._gaps) > GAPS_MAX:
            self._end(next(iter(self._gaps)))
        if known is None:
            return [(gap, True)]
        return [] if known == gap else [(gap, True), (known, False)]

    def _end(self, key: _Key) -> Change:
        """Forgets a gap."""
        tools = self._ids.get(key[:2], {})
        tools.pop(key.tool, None)
        if not tools:
            self._ids.pop(key[:2], None)
        return self._gaps.pop(key), False

    def came(self, trace: Trace, tool: str, call_id: str, *, is_open: bool) -> list[Change]:
        """A span has told of a call of a tool.

        `is_open`: fewer calls of the tool were executed than asked for, in this trace. That counts where no ids tell.
        """
        if not self._gaps:
            return []
        key = _Key(trace.namespace, trace.trace_id, tool)
        if key not in self._gaps:
            return []
        ids = self._ids.get(key[:2], {}).get(tool, {})
        ids.pop(call_id, None)
        tree = trace.tree
        if tree is not None and _do_ids_tell(tree, tool):
            is_open = bool(ids)
        return [] if is_open or any(ids.values()) else [self._end(key)]

    def above_came(self, trace: Trace, span_id: bytes, tool: str) -> list[Change]:
        """A span has come that calls waited for: those below it are no calls within a lost one, unless it is another tool's.

        `tool`: that it is a call of; "" if it is none.
        """
        found: list[Change] = []
        tools = self._ids.get((trace.namespace, trace.trace_id), {})
        for name, ids in list(tools.items()):
            if tool and tool != name:
                continue
            for call_id, between in list(ids.items()):
                if span_id in between:
                    between.remove(span_id)
                    if not between:
                        del ids[call_id]
            if not ids:
                found.append(self._end(_Key(trace.namespace, trace.trace_id, name)))
        return found
