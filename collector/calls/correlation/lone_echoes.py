"""Finds calls that stand alone in a trace, without any id, and may be the call of another trace, told once more.

Idea: a tool may have a span of its own beside the framework's. If the context is not handed on to it, its span is a root
without any id: an orphan (`orphans`), and nothing links it to the framework's span but its service, its tool, its arguments
and its time. So an orphan that stands alone, and that such a call overlaps, may be no call of its own (`TOLD_TWICE`).

Invariant: whether a call is an echo follows from the calls that are remembered, whatever the order of their arrival. Of
two that stand alone, the later one is the echo, by its start.

Example: the framework's span of `pay` lies in the trace of its agent, from 10 to 12 s. A span of `pay` with the same
arguments, from 10.1 to 11.9 s, is the only one of its trace. The latter is possible harm at most.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from collector.calls.call.call import LogicalCall
from collector.calls.call.same_call import overlaps
from collector.calls.correlation.repeated_call_ids import Review
from collector.calls.records import Requester
from collector.calls.tree.trace import Trace
from collector.calls.tree.trace_store import Traces
from monitor.records import Evidence, built
from monitor.visibility.gap import EVER

__all__ = ["CALLS_MAX", "SERVICES_MAX", "Echoes"]

SERVICES_MAX: Final = 1_000
"""Services remembered. At the bound, the least recently active one is forgotten."""

CALLS_MAX: Final = 64
"""Calls remembered of one service, the latest that arrived, and as many that stand alone."""


class _Row(NamedTuple):
    """A call that may be told once more."""

    tool: str
    start_ns: int
    end_ns: int
    """`EVER` of one that had not ended when it came."""
    trace_id: bytes
    span_id: bytes


class _Service:
    """The latest calls of one service."""

    __slots__ = ("alone", "calls")

    def __init__(self) -> None:
        self.calls: deque[_Row] = deque(maxlen=CALLS_MAX)
        self.alone: deque[_Row] | None = None
        """Calls that are alone in their traces; None until there is one."""


class Echoes:
    """Decides which calls that stand alone may be other traces' calls.

    Args:
        traces: where the spans of remembered calls are found.
    """

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._services: OrderedDict[Requester, _Service] = OrderedDict()
        self.awaits = False
        """True once a call stood alone."""

    def _service(self, requester: Requester) -> _Service:
        found = self._services.get(requester)
        if found is None:
            found = self._services[requester] = _Service()
            if len(self._services) > SERVICES_MAX:
                self._services.popitem(last=False)
        else:
            self._services.move_to_end(requester)
        return found

    def note(self, requester: Requester, trace: Trace, call: LogicalCall) -> None:
        """Remembers a call that the monitor is told of."""
        service, row = self._service(requester), _row(trace, call)
        service.calls.append(row)
        if trace.tree is not None and trace.tree.lone:
            self._keep_alone(service, row)

    def note_alone(self, requester: Requester, trace: Trace, call: LogicalCall) -> list[Review]:
        """A call that the monitor knows turns out to stand alone: remembers that.

        Returns:
            Others that stand alone, and that may be this one told once more.
        """
        others = self.concerned(requester, trace, call)
        self._keep_alone(self._service(requester), _row(trace, call))
        return others

    def _keep_alone(self, service: _Service, row: _Row) -> None:
        if service.alone is None:
            service.alone = deque(maxlen=CALLS_MAX)
            self.awaits = True
        if row not in service.alone:
            service.alone.append(row)

    def is_echo(self, requester: Requester, trace: Trace, call: LogicalCall) -> bool:
        """True for a call alone in its trace that may be told by another trace, too."""
        for row in _beside(self._service(requester).calls, trace, call):
            found = self._find(requester, row)
            if found is None or (
                found.tree.lone and _place(trace, call) < _place(found.trace, found.call)
            ):
                continue
            if _may_echo(call, found.call):
                return True
        return False

    def concerned(self, requester: Requester, trace: Trace, call: LogicalCall) -> list[Review]:
        """The calls that stand alone, and that may be this one told once more."""
        rows = self._service(requester).alone
        if rows is None:
            return []
        found = [self._find(requester, row) for row in _beside(rows, trace, call)]
        return [each for each in found if each is not None]

    def _find(self, requester: Requester, row: _Row) -> Review | None:
        trace = self._traces.find(requester.namespace, row.trace_id)
        tree = trace.tree if trace is not None else None
        node = tree.node(row.span_id) if tree is not None else None
        call = node.call if node is not None else None
        if trace is None or tree is None or node is None or call is None or call.judged is None:
            return None
        return Review(trace, tree, node, call)


def _row(trace: Trace, call: LogicalCall) -> _Row:
    outer = call.outer
    end_ns = EVER if outer.evidence is Evidence.PENDING else outer.end_ns
    row: _Row = built(_Row, (outer.tool, outer.start_ns, end_ns, trace.trace_id, outer.span_id))
    return row


def _beside(rows: Iterable[_Row], trace: Trace, call: LogicalCall) -> list[_Row]:
    """The calls of the same tool in other traces that a call may overlap."""
    outer = call.outer
    tool, start_ns = outer.tool, outer.start_ns
    end_ns = EVER if outer.evidence is Evidence.PENDING else max(outer.end_ns, start_ns + 1)
    return [
        row
        for row in rows
        if row.tool == tool
        and row.start_ns < end_ns
        and start_ns <= row.end_ns
        and row.trace_id != trace.trace_id
    ]


def _place(trace: Trace, call: LogicalCall) -> tuple[int, bytes, bytes]:
    """Of two calls that stand alone, the first by this is no echo."""
    return call.outer.start_ns, call.outer.span_id, trace.trace_id


def _may_echo(call: LogicalCall, other: LogicalCall) -> bool:
    """True if a call may be another one, told once more."""
    one, two = call.outer, other.outer
    if one.evidence is Evidence.REQUESTED or two.evidence is Evidence.REQUESTED:
        return False
    ids = {call.call_id, other.call_id} - {""}
    return len(ids) < 2 and overlaps(one, two) and not call.against(other)
