"""Which calls may belong to another conversation than the one they are filed under: *orphans*.

Idea: the id of a conversation may be on a span above a call, and such a span ends after the call, so it arrives later. A
call is an orphan while no span names its conversation (on the best rung that its service is known to use), and

- a span above it has not arrived, which may name another one (spans beside the call may name a turn), or
- its trace is this call alone, without a span of an agent or a model: a tool that ran in a thread or a worker, to which the
  context of its agent was not handed on. Nobody knows its conversation; or
- it is of a later run of an agent in a trace without an id (`later_runs`).

Which spans name conversations is learnt of each service (`ConversationNaming`). Once a trace of it was there up to its root and
nothing named its conversation, the spans above its calls are no longer awaited, but for a call before any request to a model, in a
service whose models are asked first: an earlier trace may have asked for it. Nor are they awaited where spans beside the calls name it,
and those above named no other one. So it is once a trace has waited for `WAIT_NS`, since spans get lost; a trace whose spans we may not have
taken meanwhile says nothing of its service, and its calls stay orphans. But where a
span named a conversation on a better rung than the call's own spans did, or one above named another than those beside
it, they are awaited for as long as it takes. Nor is a call an orphan whose conversation provably begins in its trace: nothing came before.

Invariant: whether a call is an orphan follows from the spans that arrived, in whatever order. So when a trace or its
service shows more, the calls that this may concern (`SpanTree.unsettled`) are looked at again.

Example: Google's ADK writes the conversation's id on its agents' spans. The tool `refund` arrives: an orphan. The agent's span
follows, and its id: `refund` moves to that conversation, and is none any more.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.call.same_call import is_copy
from collector.calls.coverage import Coverage
from collector.calls.records import Requester
from collector.calls.sessions.later_runs import is_of_later_run, later_calls, note_run
from collector.calls.sessions.session_ids import (
    DECIDED_RUNG,
    RESOURCE_RUNG,
    UNNAMED_RUNG,
    SessionIds,
)
from collector.calls.sessions.unplaced_calls import UnplacedCalls
from collector.calls.tree.context import Context
from collector.calls.tree.span_tree import DEPTH_MAX, Parts, SpanNode, SpanTree
from collector.calls.tree.trace import NEVER, Trace
from monitor.engine import Monitor

__all__ = ["Orphans"]

SERVICES_MAX: Final = 1_000
"""Services remembered. At the bound, the one that was first seen is forgotten, and learnt anew."""

WAITING_MAX: Final = 16_384
"""Traces that wait; beyond it, the one that has waited longest is not looked at again when its service shows more."""

WAIT_NS: Final = 60 * 1_000_000_000
"""Wait for the spans above a call: longer than most runs of agents take."""


@mypyc_attr(acyclic=True)
class ConversationNaming:
    """How a service names its conversations."""

    __slots__ = ("agreed", "apart", "asks", "rung", "traces", "unplaced", "whole")

    def __init__(self) -> None:
        self.agreed = False
        """True once spans beside a call had named its conversation, and those above it, all there, no other one."""
        self.apart = False
        """True once a span above a call had named another conversation than those beside it, on one rung."""
        self.asks = False
        """True once a trace without a name had shown a request to a model before its call."""
        self.rung = UNNAMED_RUNG
        """The best rung on which a span named a conversation that the spans of the call itself did not."""
        self.whole = False
        """True once nothing in a trace had named one, though no span above its calls was missing any more."""
        self.traces: dict[Trace, None] = {}
        """Waiting traces."""
        self.unplaced = False
        """True once a call has waited for spans above it: it may be told again in another session (`repeated_call_ids`)."""


class Orphans:
    """Tells orphans from other calls.

    Args:
        ids: reads who sent a span, and knows the ladder of session ids.
        monitor: knows whether every session is promised to be seen whole.
        coverage: counts traces over the bound.
        batch: leads to the monitor.
    """

    def __init__(
        self, ids: SessionIds, monitor: Monitor, coverage: Coverage, batch: EventBatch
    ) -> None:
        self.unplaced = UnplacedCalls(batch, monitor.limits.idle_ns, monitor.limits.window_ns)
        self._ids = ids
        self._monitor = monitor
        self._coverage = coverage
        self._services: dict[Requester, ConversationNaming] = {}
        self._waiting: deque[tuple[int, Trace, ConversationNaming]] = deque()
        """Waiting traces with the start of their wait, the longest first."""
        self._changed: dict[ConversationNaming, None] = {}
        """Services that have shown more."""

    def is_orphan(self, context: Context, call: LogicalCall, node: SpanNode | None) -> bool:
        """True while the call may belong to another conversation. `node` is its outer span's, if remembered.

        While it is one, it may be missing in other conversations of its service.
        """
        found = self._is_orphan(context, call, node)
        if found:
            requester = self._ids.requester(context.trace.namespace, call.outer.attributes)
            self.unplaced.add(requester, call, context.now)
        else:
            self.unplaced.remove(call)
            if context.tree.runs is not None and node is not None:
                found = self._is_of_later_run(context, call, node)
        if self._services and (call.judged is None or call.unplaced) and call.service is None:
            self._note_service(context.trace, call)
        return found

    def _note_service(self, trace: Trace, call: LogicalCall) -> None:
        """Notes the service of a call if the conversations of its calls may be unknown."""
        requester = self._ids.requester(trace.namespace, call.outer.attributes)
        naming = self._services.get(requester)
        if naming is not None:
            naming.unplaced = naming.unplaced or call.unplaced
            if naming.unplaced:
                call.service = requester.service

    def note_run(self, context: Context, end_ns: int) -> None:
        """The span of an agent has ended, in a trace without an id: calls after it are looked at again."""
        tree = context.tree
        if not end_ns or self._monitor.limits.history_complete:
            return
        note_run(tree, context.node, end_ns)
        for call in later_calls(tree):
            self._wait(context, call, self._naming(context.trace, call), missing=False)
            context.trace.changed = True

    def _is_of_later_run(self, context: Context, call: LogicalCall, node: SpanNode) -> bool:
        """True if the call's conversation may be another one than that of the trace's first run.

        It may be missing in no other trace's conversation.
        """
        trace, tree = context.trace, context.tree
        if trace.first is not None or not is_of_later_run(tree, node, call.outer.start_ns):
            return False
        self._wait(context, call, self._naming(trace, call), missing=False)
        return True

    def forget(self, call: LogicalCall) -> None:
        """The monitor does not have the call: it is missing nowhere."""
        self.unplaced.remove(call)

    def _is_orphan(self, context: Context, call: LogicalCall, node: SpanNode | None) -> bool:
        tree = context.tree
        rung, own = _rung(context.trace, tree, call), self._ids.own_rung(call)
        if node is not None and rung != DECIDED_RUNG and not own == rung == 0:
            is_there = _is_there(tree, node)
            beside = rung < min(own, RESOURCE_RUNG)
            naming = self._naming(context.trace, call)
            if rung < own:
                self._note_named(naming, rung)
                if is_there and beside:
                    self._note_beside(tree, node, call, naming)
            if not is_there:
                if beside:  # where spans above are known to agree with it, it says nothing
                    is_open = naming.apart or not naming.agreed
                    beside = is_open and not _is_named_above(
                        context.trace, tree, node, call, rung
                    )
                return self._await(context, call, naming, rung, beside=beside)
            if rung == UNNAMED_RUNG and tree.parts is None:
                call.unplaced = False
                return self._is_unnamed(context, call, node, naming)
        if node is not None:
            call.unplaced = False
        return tree.unsettled is not None and _settle(tree, call)

    def _await(
        self,
        context: Context,
        call: LogicalCall,
        naming: ConversationNaming,
        rung: int,
        *,
        beside: bool,
    ) -> bool:
        """A span above the call is missing: True if it may name another conversation.

        `beside`: neither the call's own spans nor those above it name the one that it is filed under.
        """
        self._wait(context, call, naming, missing=True)
        if naming.rung < rung or (beside and naming.apart):
            call.unplaced = True
            return True
        is_nameless = rung == UNNAMED_RUNG and not beside
        awaited = not naming.agreed if beside else is_nameless and not naming.whole
        # Where the wait ends without them, its trace is its session, and nobody knows its conversation.
        call.unplaced = awaited or (call.unplaced and rung == UNNAMED_RUNG)
        if is_nameless and context.trace.modelled_ns <= call.outer.start_ns:
            naming.asks = True
        is_unasked = is_nameless and naming.asks and context.trace.modelled_ns == NEVER
        return (awaited or is_unasked) and not _is_new(context.trace)

    def _is_unnamed(
        self, context: Context, call: LogicalCall, node: SpanNode, naming: ConversationNaming
    ) -> bool:
        """All spans above the call are there, and none names its conversation: True if nobody ever will, or not yet."""
        tree = context.tree
        if not context.trace.has_agent and _is_alone(tree, call):
            tree.lone = True
            self._wait(context, call, naming, missing=False)
            return not self._monitor.limits.history_complete
        if _is_below_calls_alone(tree, node) and not _is_complete(tree):
            # The agent, whose span is missing above other calls, may be that of this one.
            return self._await(context, call, naming, UNNAMED_RUNG, beside=False)
        if not naming.whole and _is_complete(tree):
            self._note_whole(naming)
        return _settle(tree, call)

    def note_claim(self, trace: Trace, call: LogicalCall) -> None:
        """A span has named the conversation of a trace that a call is in."""
        first, tree, own = trace.first, trace.tree, self._ids.own_rung(call)
        if first is None or first.rung >= own:
            return
        naming = self._naming(trace, call)
        self._note_named(naming, first.rung)
        if tree is None or first.rung >= RESOURCE_RUNG:
            return
        node = tree.node(call.outer.span_id)
        if node is not None and _is_there(tree, node):
            self._note_beside(tree, node, call, naming)

    def _note_named(self, naming: ConversationNaming, rung: int) -> None:
        if rung < min(naming.rung, RESOURCE_RUNG):
            naming.rung = rung
            self._changed[naming] = None

    def _note_whole(self, naming: ConversationNaming) -> None:
        if not naming.whole:
            naming.whole = True
            self._changed[naming] = None

    def _note_beside(
        self, tree: SpanTree, node: SpanNode, call: LogicalCall, naming: ConversationNaming
    ) -> None:
        """Spans beside a call name a conversation, and all spans above it are there: do these name another one?"""
        if tree.parts is not None and _is_apart(tree, tree.parts, node, call):
            if not naming.apart:
                naming.apart = True
                self._changed[naming] = None
        else:
            self._note_agreed(naming)

    def _note_agreed(self, naming: ConversationNaming) -> None:
        if not naming.agreed:
            naming.agreed = True
            self._changed[naming] = None

    def _naming(self, trace: Trace, call: LogicalCall) -> ConversationNaming:
        requester = self._ids.requester(trace.namespace, call.outer.attributes)
        found = self._services.get(requester)
        if found is None:
            if len(self._services) >= SERVICES_MAX:
                del self._services[next(iter(self._services))]
            found = self._services[requester] = ConversationNaming()
        return found

    def _wait(
        self, context: Context, call: LogicalCall, naming: ConversationNaming, *, missing: bool
    ) -> None:
        """The call is looked at again when its trace or its service shows more."""
        tree, trace = context.tree, context.trace
        if tree.unsettled is None:
            tree.unsettled, tree.shared = {}, True
        tree.unsettled[call] = missing
        if trace not in naming.traces:
            naming.traces[trace] = None
            self._waiting.append((context.now, trace, naming))
            if len(self._waiting) > WAITING_MAX:
                _, oldest, its = self._waiting.popleft()
                its.traces.pop(oldest, None)
                if _is_doubted(oldest):
                    self._coverage.count("over_bound")

    # --- what is learnt -------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """True if services have shown more of how they name conversations."""
        return bool(self._changed)

    def take_news(self) -> list[Trace]:
        """The traces of these services with calls that are to be looked at again."""
        found = [trace for naming in self._changed for trace in naming.traces]
        self._changed.clear()
        return found

    def expire(self, now: int) -> list[Trace]:
        """Ends the wait of traces that have waited for `WAIT_NS`.

        Returns:
            Traces with calls that are to be looked at again.
        """
        if not self._changed and not (self._waiting and self._waiting[0][0] + WAIT_NS <= now):
            return []
        expired: list[tuple[Trace, ConversationNaming]] = []
        while self._waiting and self._waiting[0][0] + WAIT_NS <= now:
            since, trace, naming = self._waiting.popleft()
            if _is_missed(trace) and not self._monitor.gaps.may_lack(
                trace.namespace, since, now
            ):
                self._note_waited(naming)
            expired.append((trace, naming))
        found = self.take_news()
        for trace, naming in expired:
            naming.traces.pop(trace, None)
        return found

    def _note_waited(self, naming: ConversationNaming) -> None:
        """Spans above calls of a service have not come for long: they are taken for ones that name nothing new."""
        if naming.rung == UNNAMED_RUNG:
            self._note_whole(naming)
        else:
            self._note_agreed(naming)

    def review(self, now: int) -> None:
        """Time has passed, and calls are updated: narrows what may be missing elsewhere to what is left."""
        self.unplaced.expire(now)


def _rung(trace: Trace, tree: SpanTree, call: LogicalCall) -> int:
    """The rung on which a call's conversation is named as far as is known."""
    if trace.first is None or (tree.parts is not None and call in tree.parts.loose):
        return UNNAMED_RUNG
    return trace.first.rung


def _settle(tree: SpanTree, call: LogicalCall) -> bool:
    """The call's conversation is known: it is no orphan."""
    if tree.unsettled is not None:
        tree.unsettled.pop(call, None)
    return False


def _is_there(tree: SpanTree, node: SpanNode) -> bool:
    """True if all spans above have arrived."""
    above = node.above if tree.looped is None else tree.up(node)
    for _depth in range(DEPTH_MAX):
        if above is None:
            return True
        if not above.place:
            return False
        above = above.above if tree.looped is None else tree.up(above)
    return True


def _is_below_calls_alone(tree: SpanTree, node: SpanNode) -> bool:
    """True if all that is above a call ends with a call, or with its own span: no span of an agent is there."""
    top = node
    for above in tree.ancestors(node):
        top = above
    return top.call is not None


def _is_complete(tree: SpanTree) -> bool:
    """True if every span has arrived that a span of the trace names as its parent: none of them can name a conversation."""
    for node in tree.nodes.values():  # noqa: SIM110 - `all` makes a generator
        if not node.came:
            return False
    return True


def _is_named_above(
    trace: Trace, tree: SpanTree, node: SpanNode, call: LogicalCall, rung: int
) -> bool:
    """True if the trace's root, or a span above with none missing between, names the conversation of a rung.

    The span of the model that asks for a call is beside it, though the call may have its node, or one below it.
    """
    first = tree.node(trace.first_by)
    if first is not None and first.place and tree.up(first) is None:
        return True
    beside = (tree.asker(node, call), None if call.is_executed else node)
    for above in (node, *tree.ancestors(node)):
        claim = above.claim
        if claim is not None and claim.rung <= rung and above not in beside:
            return True
    return False


def _is_apart(tree: SpanTree, parts: Parts, node: SpanNode, call: LogicalCall) -> bool:
    """True if a span above a call names a conversation, and another one is named beside the call on the same rung."""
    asker = tree.asker(node, call)
    for above in tree.ancestors(node):
        claim, hint = above.claim, parts.hints.get(above.span_id)
        if claim is not None and above is not asker:
            return (
                hint is not None
                and hint.claim.rung == claim.rung
                and hint.claim.key != claim.key
            )
    return False


def _is_alone(tree: SpanTree, call: LogicalCall) -> bool:
    """True if the tree has no other call, but for what may be the same one, told again."""
    for node in tree.nodes.values():
        other = node.call
        if other is None or other is call:
            continue
        if other.outer.tool != call.outer.tool:
            return False
        if call.against(other) and not is_copy(call.outer, other.outer):
            return False
    return True


def _is_new(trace: Trace) -> bool:
    """True if a conversation provably begins in the trace."""
    begun = trace.beginning
    return begun is not None and begun.proof is not None and begun.proof.holds


def _is_doubted(trace: Trace) -> bool:
    """True if a call of the trace is an orphan, as far as the monitor knows."""
    calls = trace.tree.unsettled if trace.tree is not None else None
    return calls is not None and any(each.judged and each.judged.doubts for each in calls)


def _is_missed(trace: Trace) -> bool:
    """True if a span above a call of the trace is still missing."""
    tree = trace.tree
    return tree is None or (tree.unsettled is not None and any(tree.unsettled.values()))
