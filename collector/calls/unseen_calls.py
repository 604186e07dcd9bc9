"""Calls that were made, and of which no span tells, though their tools leave spans.

Idea: a model is given the result of each call that it asked for. So a request whose result was given, while no span has told
of its execution, was executed: its span was lost, or this way of running the tool leaves none (parallel calls). Calls of the
tool may then be missing in that time (`Cause.SILENT_TOOL`), until the span comes after all.

Requests of tools that leave spans are *watched* until the next request to a model of their trace. Mostly their spans have come by
then, and nothing is read.

Where it is not on the wire what models are given, each later request to a model of the trace counts as one that holds the result.

Where no ids tell, executions are counted. One below a span that has not come may be a call within the lost one: it does not count
until that span comes. One that began after the result was given does not count, nor does the second of two that may be one.

Example: an answer asks for `check` and `pay`. The model's next request holds both results; a span has come of `pay` alone.
So `pay` without `check` is possible harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from collector.calls.records import Requester
from collector.calls.tree.span_tree import AlikeSpans, SpanTree, WatchedRequest
from collector.calls.tree.trace import Trace
from collector.decode.span import Span
from monitor.records import Evidence
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = [
    "GAPS_MAX",
    "IDS_MAX",
    "WATCHED_MAX",
    "Change",
    "UnseenCalls",
    "do_ids_tell",
    "has_come",
    "is_asked_after",
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


def watch(tree: SpanTree, request: WatchedRequest) -> Sequence[WatchedRequest]:
    """Watches a request, unless a span has told of its execution. Returns what `note_id` does."""
    if has_come(tree, request):
        return _match(tree, request.tool)
    if tree.watched is None:
        tree.watched = []
    if len(tree.watched) < WATCHED_MAX:
        tree.watched.append(request)
    return ()


def note_id(tree: SpanTree, call_id: str, tool: str) -> Sequence[WatchedRequest]:
    """A span has told of a call: notes whether its ids are those of the models' requests.

    Returns:
        Requests for the tool that may have been taken for executed by their numbers, if ids tell from now on that they were not.
    """
    if not call_id:
        tree.nameless = True
    elif tree.matched is None or tool not in tree.matched:
        like = tree.known(call_id, tool)
        if like is not None and like.asked:
            return _match(tree, tool)
    return ()


def _match(tree: SpanTree, tool: str) -> Sequence[WatchedRequest]:
    if tree.matched is None:
        tree.matched = set()
    elif tool in tree.matched:
        return ()
    tree.matched.add(tool)
    found = list[AlikeSpans]()
    like = tree.alike
    while like is not None:  # `alikes` is a generator
        if like.tool == tool and like.asked and like.first is None:
            found.append(like)
        like = like.older
    return _requests(tree, found) if found else ()


def _requests(tree: SpanTree, found: list[AlikeSpans]) -> list[WatchedRequest]:
    """The requests for some calls, as far as the answers that ask for them are remembered."""
    if tree.answers is None:
        return []
    starts = [(each, tree.answers.start_of(each.answer)) for each in found]
    return [WatchedRequest(each.call_id, each.tool, start) for each, start in starts if start]


def is_asked_after(tree: SpanTree, request: WatchedRequest, span: Span) -> bool:
    """True if a model's span began after that of a request, and not within it, as a client's span does."""
    if span.start_ns <= request.start_ns:
        return False
    like, node = tree.known(request.call_id, request.tool), tree.node(span.span_id)
    if like is None or node is None or not like.answer:
        return True
    if like.answer == span.span_id:  # both have the request
        return False
    for above in tree.ancestors(node):  # noqa: SIM110 - `any` makes a generator
        if above.span_id == like.answer:
            return False
    return True


def is_unseen(tree: SpanTree, request: WatchedRequest, heard_ns: int, *, is_open: bool) -> bool:
    """True if no span has told of a request's execution, as far as ids tell, else as their numbers do.

    Args:
        tree: of its trace.
        request: the request.
        heard_ns: when a model was given its result.
        is_open: fewer calls of the tool were executed than asked for, in this trace.
    """
    if has_come(tree, request):
        return False
    if is_open or do_ids_tell(tree, request.tool):
        return True
    return tree.latest_ns > heard_ns and _is_short(tree, request, heard_ns)


def _is_short(tree: SpanTree, request: WatchedRequest, heard_ns: int) -> bool:
    """True if fewer calls of an answer had begun by a moment than the answer asks for, of one tool.

    Those that began later have come before their own request: they were counted as executions of this one. A call of which no
    answer is known may be this one's.
    """
    tool, like = request.tool, tree.known(request.call_id, request.tool)
    if like is None or not like.answer:
        return False
    asked = [each for each in tree.alikes() if each.tool == tool and each.answer == like.answer]
    begun = {
        node.call
        for node in tree.calls()
        if node.call is not None
        and node.call.is_executed
        and node.call.outer.tool == tool
        and node.call.request_span in (b"", like.answer)
        and node.call.outer.start_ns <= heard_ns
    }
    return len(begun) < len(asked)


def _are_short(tree: SpanTree, tool: str, ids: Iterable[str], heard_ns: int) -> bool:
    """True if calls of some requests for a tool may still be missing, as the calls are numbered that had begun by a moment."""
    for call_id in ids:
        request = WatchedRequest(call_id, tool, 0)
        if tree.known(call_id, tool) is None or _is_short(tree, request, heard_ns):
            return True
    return False


def do_ids_tell(tree: SpanTree, tool: str) -> bool:
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

    def came(
        self, trace: Trace, tool: str, call_id: str, start_ns: int, *, is_open: bool
    ) -> list[Change]:
        """A span has told of a call of a tool, which began at `start_ns`.

        `is_open`: fewer calls of the tool were executed than asked for, in this trace. That counts where no ids tell.
        """
        if (trace.namespace, trace.trace_id) not in self._ids:
            return []
        key = _Key(trace.namespace, trace.trace_id, tool)
        if key not in self._gaps:
            return []
        ids = self._ids.get(key[:2], {}).get(tool, {})
        ids.pop(call_id, None)
        tree = trace.tree
        if tree is not None and do_ids_tell(tree, tool):
            is_open = bool(ids)
        elif is_open or start_ns > self._gaps[key].until_ns:
            # It may be another request that is open, or this call's own: the results had been given by then.
            is_open = tree is None or _are_short(tree, tool, ids, self._gaps[key].until_ns)
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
