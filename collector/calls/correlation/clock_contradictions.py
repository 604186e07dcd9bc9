"""Finds calls that began, by the times, before what has caused them: the clocks of two hosts differ.

Idea: a span begins after its parent, and a call after the model's answer that asks for it. Times of one host cannot contradict
that but by a fault of its instrumentation, which says nothing of clocks. So only spans of different hosts are compared, and
traces of one host are not looked at.

A model's span that is above the call is open while the tool works: only its start counts. Streaming clients run a call while
the answer goes on. On the model's host that is no contradiction; on another host by more than a second, it is taken for one.

Example: a tool's span on one host began at 12:00:01. Its parent, the agent's span on another host, began at 12:00:41. The clock
of the tool's host is at least 40 s behind that of the agent's.
"""

from __future__ import annotations

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.correlation.session_moves import SessionMoves
from collector.calls.tree.context import Context
from collector.calls.tree.span_tree import SpanNode, SpanTree
from monitor.judging.clocks.leading_calls import LEAD_NS
from monitor.records import ToolCall

__all__ = ["note_contradiction"]


def note_contradiction(
    context: Context,
    call: LogicalCall,
    node: SpanNode,
    known: ToolCall,
    sessions: SessionMoves,
    batch: EventBatch,
) -> None:
    """Tells the monitor of a call of a trace of several hosts that has begun before what has caused it.

    Args:
        context: of a span of the trace.
        call: the call.
        node: of its outer span.
        known: the call, as it is observed next, or was.
        sessions: doubts that a trace goes on with a conversation, which is told by times.
        batch: receives what is found.
    """
    early_ns = _behind_ns(context.tree, call, node)
    if not early_ns:
        return
    trace, tree = context.trace, context.tree
    if not tree.mistimed:
        tree.mistimed = True
        # Times do not tell whether its first model was given results of its own calls.
        if trace.given:
            sessions.doubt(trace)
            sessions.beginnings.review(trace)
    batch.doubt_clock(known, early_ns)


def _behind_ns(tree: SpanTree, call: LogicalCall, node: SpanNode) -> int:
    """By how much the clock of a call is behind that of another span, at least, in nanoseconds; 0 for nearly all.

    Args:
        tree: of its trace, with spans of several hosts.
        call: the call.
        node: of its outer span.
    """
    start_ns, clock = call.outer.start_ns, node.clock
    if not start_ns or not clock:
        return 0
    latest_ns = 0
    asker = tree.node(call.asked_by) if call.asked_by else None
    for above in tree.ancestors(node):
        if above is asker:
            asker = None
        if above.start_ns > latest_ns and above.clock not in (b"", clock):
            latest_ns = above.start_ns
    if asker is not None and asker.asked_ns > latest_ns and asker.clock != clock:
        latest_ns = asker.asked_ns
    early_ns = latest_ns - start_ns
    return early_ns if early_ns > LEAD_NS else 0
