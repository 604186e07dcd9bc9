"""Finds which spans are one call, and tells the monitor what is new of each call.

Idea: a call is often told by several spans (the framework's, the MCP client's, the server's), which arrive in any
order. Each span that comes may join a call, split one, show what is above one, or tell the session of one. So
after each span the calls it concerns are *updated*: made anew from what is known, and compared with what the
monitor knows. An update observes a new call, amends a known one, or moves it to another session.

Invariant: after `add` and `arrived`, `call.judged` is what the monitor knows of a call (or will know after the
batch is flushed), and equals what the spans so far tell of it. None means that the monitor does not know the call.

Example: the client's span (no arguments) comes first: its call is observed. The framework's span above it
comes, with arguments: the two are merged (`merge`), the call is retracted where both had been observed, and
amended where one had.
"""

from __future__ import annotations

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import SERVER, Piece
from collector.calls.call.same_call import are_chained, is_told_again
from collector.calls.correlation.clock_contradictions import note_contradiction
from collector.calls.correlation.in_process_mcp import McpEcho
from collector.calls.correlation.lone_echoes import Echoes
from collector.calls.correlation.merge import CallMerge
from collector.calls.correlation.repeated_call_ids import (
    RepeatedCallIds,
    Review,
    doubts_of_span,
    is_known,
)
from collector.calls.correlation.session_moves import SessionMoves
from collector.calls.coverage import Coverage
from collector.calls.decisions.confirmation import Confirmation
from collector.calls.inventory.inventory import Inventory
from collector.calls.inventory.near_misses import NearMisses
from collector.calls.model_requests import ModelRequests
from collector.calls.records import Requester
from collector.calls.sessions.session_ids import SessionIds
from collector.calls.tree.context import Context
from collector.calls.tree.span_tree import AlikeSpans, SpanNode, SpanTree
from collector.calls.tree.trace import NEVER, Trace
from collector.calls.tree.trace_store import Traces
from collector.dialects.names.session_and_agent_keys import PREFIX
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.partial import PartialArguments
from monitor.records import FROM_TRACE, Evidence, SessionKey, ToolCall
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["Correlation"]


class Correlation:
    """Joins spans to calls and keeps the monitor's view of them true.

    Args:
        ids: reads who sent a span.
        sessions: whose session a call is.
        requests: requests of models, which executed calls may show to be doubles.
        batch: receives what is new of each call.
        inventory: notes new calls by agent.
        coverage: counts calls that are not judged for certain.
        stats: counts calls, and spans that were merged.
        monitor: whose specs tell which differences matter.
        confirmation: decided calls, which spans may tell of.
        traces: where the spans of calls are found.
    """

    def __init__(
        self,
        ids: SessionIds,
        sessions: SessionMoves,
        requests: ModelRequests,
        batch: EventBatch,
        inventory: Inventory,
        coverage: Coverage,
        stats: Stats,
        monitor: Monitor,
        confirmation: Confirmation,
        traces: Traces,
    ) -> None:
        self._ids = ids
        self._confirmation = confirmation
        self._decided = confirmation.table
        self._sessions = sessions
        self._requests = requests
        self._batch = batch
        self._inventory = inventory
        self._coverage = coverage
        self._stats = stats
        self._monitor = monitor
        self.call_merge = CallMerge(self._retract, stats)
        self._mcp_echo = McpEcho()
        self._near_misses = NearMisses(monitor)
        requests.is_named = self._near_misses.is_named
        self.repeated_ids = RepeatedCallIds(traces)
        self.echoes = Echoes(traces)
        self._reviews: list[Review] = []
        """Calls whose doubts have changed, and that are not updated yet."""
        self._failed: list[tuple[Context, LogicalCall]] = []
        """Known calls whose update raised an error: their spans may not come again."""
        self.executed = 0
        """Executed calls that are not in the statistics yet: they are added once a request."""

    def specs_changed(self) -> None:
        """The monitor has other specs."""
        self._near_misses.specs_changed()

    # --- spans that arrive ----------------------------------------------------------------------

    def add(self, context: Context, piece: Piece, switch: str) -> None:
        """Joins a span that is a piece of a call to its call, and updates the calls it concerns.

        `switch` is the setting that turns its arguments on, where they are missing.
        """
        node = context.node
        self.place(context, piece)
        if context.tree.lone:
            context.tree.lone, context.trace.changed = False, True
        if piece.source == SERVER or piece.tool.startswith(PREFIX):
            self._match_mcp(context, piece)
        if node.waiting is None:
            self.rise(context, switch)
        else:
            self._requests.above_came(context.trace, node.span_id, piece.tool)
            self.tell_gaps()
            self._rise_all(context, [node, *context.tree.awaited(node)], switch)

    def place(self, context: Context, piece: Piece) -> None:
        """Joins a piece to the calls it is known to be part of, or makes it one."""
        self.call_merge.place(context.tree, context.node, piece)

    def arrived(self, context: Context) -> None:
        """A span that is no call has come: calls that waited for it look at what is above them."""
        if context.node.waiting is not None:
            self._requests.above_came(context.trace, context.node.span_id)
            self.tell_gaps()
            self._rise_all(context, context.tree.awaited(context.node), "")

    def fail(self, context: Context) -> None:
        """The call above this span failed, whether its span has come or not."""
        tree = context.tree
        above = tree.up(context.node)
        if above is None:
            return
        above.failed = True
        call = above.call
        if call is not None:
            call.fail(above.span_id)
            outer = above if call.is_one else tree.node(call.outer.span_id)
            self.update(context, call, outer, "")

    def rise(self, context: Context, switch: str = "") -> None:
        """The call of this span looks at what is above it by now, and is updated."""
        tree, node = context.tree, context.node
        self.call_merge.rise(tree, node)
        if self.call_merge.again:
            self._count_again(context.trace)
        if tree.plain is not None:
            self._believe(context, node)
        call = node.call
        if call is not None:
            outer = node if call.is_one else tree.node(call.outer.span_id)
            self.update(context, call, outer, switch)
        if tree.released is not None:
            self._update_released(context, tree.released)
        if tree.parts is not None and tree.parts.stale:
            self.update_loose(context)

    def _rise_all(self, context: Context, nodes: list[SpanNode], switch: str) -> None:
        """The same for several calls. All look before one is updated: they may be one call."""
        tree = context.tree
        for node in nodes:
            self.call_merge.rise(tree, node)
            if tree.plain is not None:
                self._believe(context, node)
        if self.call_merge.again:
            self._count_again(context.trace)
        updated: list[LogicalCall] | None = None
        for node in nodes:
            call = node.call
            if call is None:  # its node was forgotten meanwhile
                continue
            outer: SpanNode | None = node
            if not call.is_one:  # its other spans may be among the nodes
                if updated is None:
                    updated = []
                elif call in updated:
                    continue
                updated.append(call)
                outer = tree.node(call.outer.span_id)
            self.update(context, call, outer, switch)
        if tree.released is not None:
            self._update_released(context, tree.released)
        if tree.parts is not None and tree.parts.stale:
            self.update_loose(context)

    def _believe(self, context: Context, node: SpanNode) -> None:
        """Spans above a call claim its session under plain names, which are believed now."""
        tree = context.tree
        for found in tree.believed(node):
            above = tree.node(found.span_id)
            if above is not None and self._sessions.claim(
                context, above, found.claim, found.start_ns
            ):
                self.update_loose(context)
        if self._sessions.moved:
            self.moved(context.now)

    # --- calls that are updated -------------------------------------------------------------------

    def update_loose(self, context: Context) -> None:
        """More is known of a split trace: updates the calls whose session this may change."""
        tree = context.tree
        parts = tree.parts
        if parts is None:
            return
        found = [each for each in parts.loose if each in parts.stale]
        parts.stale = dict.fromkeys(found)
        for call in found:
            parts.stale.pop(call, None)
            self.update(context, call, tree.node(call.outer.span_id), "")

    def update_unsettled(self, context: Context) -> None:
        """More is known of a trace's session: updates the calls that may belong to another one."""
        tree = context.tree
        for call in list(tree.unsettled or ()):
            node = tree.node(call.outer.span_id)
            if node is not None and node.call is call:
                self.update(context, call, node, "")
            elif tree.unsettled is not None:  # it is part of another call by now
                tree.unsettled.pop(call, None)

    def update_failed(self) -> None:
        """Updates the calls that an error kept from it; each once, so that no error stays for ever.

        Raises:
            Exception: the first error, after all others were updated.
        """
        failed, self._failed = self._failed, []
        first: Exception | None = None
        for context, call in failed:
            try:
                self.update(context, call, context.tree.node(call.outer.span_id), "")
            except Exception as error:  # noqa: BLE001
                first = first or error
        self._failed.clear()
        if first is not None:
            raise first

    def expire_orphans(self, now: int) -> None:
        """Time has passed: spans that have not come are awaited no more."""
        self._update_traces(self._sessions.orphans.expire(now), now)
        self._sessions.orphans.review(now)

    def review_orphans(self, now: int) -> None:
        """Services may have shown more of how they name conversations: updates their calls."""
        self._update_traces(self._sessions.orphans.take_news(), now)

    def _update_traces(self, traces: list[Trace], now: int) -> None:
        for trace in traces:
            tree = trace.tree
            if tree is not None and tree.unsettled:
                first = next(iter(tree.unsettled)).outer.span_id
                context = Context(trace, tree, tree.node(first) or SpanNode(first), now)
                self.update_unsettled(context)

    def _update_released(self, context: Context, released: list[SpanNode]) -> None:
        """Spans that were taken for pieces of one call turned out to be calls of their own."""
        while released:  # after an error, the trace's next span updates the others
            node = released.pop(0)
            call = node.call
            if call is not None:
                outer = node if call.is_one else context.tree.node(call.outer.span_id)
                self.update(context, call, outer, "")
        context.tree.released = None

    def update(
        self, context: Context, call: LogicalCall, outer: SpanNode | None, switch: str
    ) -> None:
        """Tells the monitor what is new of a call. `outer` is its outer span's node, if remembered."""
        trace = context.trace
        if call.given_up and call.judged is not None:
            if trace.split:
                self._move(context, call, outer, call.judged)
            return
        context.tree.above(call, outer)
        request = call.request
        if not call.asked_by:
            _guess(context, call)
        above = outer.above if outer is not None else None
        if (
            outer is not None
            and above is not None
            and (
                above.call is not None
                or call.beside is not None
                or call.twinned
                or context.tree.uprooted
            )
        ):
            self._place(context, call, outer)
        key, source = self._sessions.key(context, call)
        attributes = trace.attributes(call.outer.attributes, self._sessions.span_keys)
        old = call.judged
        if call.refused:
            self._retract(call)
        if call.doubled or call.refused:
            return
        was_lone = context.tree.lone
        orphan = self._sessions.orphans.is_orphan(context, call, outer)
        if call.echo or (orphan and context.tree.lone):
            if not was_lone and old is not None:  # the spans above it came after it
                self._reviews += self.echoes.note_alone(
                    self._requester(trace, call), trace, call
                )
            call.echoes(
                echo=orphan
                and context.tree.lone
                and self.echoes.is_echo(self._requester(trace, call), trace, call)
            )
        new = call.tool_call(
            trace.trace_id,
            key,
            source,
            attributes,
            gaps=trace.sampled,
            orphan=orphan,
            now=context.now,
        )
        if context.tree.of_clocks and outer is not None:
            note_contradiction(context, call, outer, new, self._sessions, self._batch)
        if new is old and not call.shared and call.request == request and not self._reviews:
            return
        if call.withdrawn and new.evidence is Evidence.REQUESTED:
            self._sessions.orphans.forget(call)
            return
        if call.request != request or _is_known_otherwise(old, new):
            session = key if old is None else old.session
            self._reviews += self.repeated_ids.note_anew(call, new, session, context.now)
        if call.shared and self._review(call, new, key):
            if outer is not None:
                self._place(context, call, outer)
            new = call.tool_call(
                trace.trace_id,
                key,
                source,
                attributes,
                gaps=trace.sampled,
                orphan=orphan,
                now=context.now,
            )
        if new is not old:
            try:
                self._tell(context, call, new, switch)
            except Exception:
                if old is not None:
                    self._failed.append((context, call))
                raise
            if self.echoes.awaits:
                self._reviews += self.echoes.concerned(
                    self._requester(context.trace, call), context.trace, call
                )
        if self._reviews:
            self._update_doubtful(context.now)

    def _requester(self, trace: Trace, call: LogicalCall) -> Requester:
        return self._ids.requester(trace.namespace, call.outer.attributes)

    def _tell(self, context: Context, call: LogicalCall, new: ToolCall, switch: str) -> None:
        """Tells the monitor what is new of a call: `new` is not what it knows."""
        trace, old = context.trace, call.judged
        is_first = new.start_ns < trace.called_ns
        if is_first:
            trace.called_ns = new.start_ns
        if is_first or (trace.given and new.start_ns < trace.modelled_ns):
            if trace.answered_ns < NEVER or trace.given:
                self._sessions.doubt(trace)
            if trace.beginning is not None:
                self._sessions.beginnings.review(trace)
        if old is None:
            self._observe(context, call, new, switch)
        elif old.session != new.session:
            self._batch.retract(old)
            self._inventory.record_move(old, new.session_from)
            named = None if trace.split else trace.named
            call.judged = None
            if call.shared:
                self._review(call, new, old.session)
            if self._is_decided(call, new, trace):
                self._sessions.orphans.forget(call)
                return
            call.judged = new
            begun = trace.beginning if new.session == trace.key else None
            proof = begun.proof if begun is not None else None
            self._batch.observe(call, new, named, doubted=False, proof=proof)
        elif not self._differs(old, new):
            call.judged = new
        else:
            self._amend(trace, old, new)
            call.judged = new
            has_span = new.evidence is not Evidence.REQUESTED
            if has_span and old.evidence is Evidence.REQUESTED:
                self._withdraw(context, call, new, counts=False)
            elif has_span and (
                old.tool != new.tool
                or (Cause.ROUND_TRIP in old.doubts and Cause.ROUND_TRIP not in new.doubts)
            ):  # now it is known which request it executes
                self._withdraw(context, call, new, counts=True)
            if self._decided.size and not call.decided:
                self._confirmation.again(call, trace)

    def settled(self, trace: Trace, call: LogicalCall, now: int) -> None:
        """A model was given the result of a call: it has failed, or has not."""
        tree, known = trace.tree, call.judged
        node = tree.node(call.outer.span_id) if tree is not None else None
        if tree is not None and node is not None and node.call is call and not call.given_up:
            self.update(Context(trace, tree, node, now), call, node, "")
        elif known is not None:  # its trace, or its arguments, are forgotten
            doubts: list[Cause] = [c for c in known.doubts if c is not Cause.CONTRADICTED]
            if call.outer.disputed:
                doubts.append(Cause.CONTRADICTED)
            new = known._replace(error=call.outer.error, doubts=tuple(doubts))
            self._amend(trace, known, new)
            call.judged = new

    # --- calls that one answer asks for -------------------------------------------------------------

    def answered(self, context: Context, found: list[AlikeSpans]) -> None:
        """A model's span has come that asks for calls which came before."""
        for like in found:
            for node in like.nodes():
                if node.call is not None:
                    node.call.ask(like.answer, several=like.several)
        for like in found:
            for node in like.nodes():
                call = node.call
                if call is None:
                    continue
                outer = node if call.is_one else context.tree.node(call.outer.span_id)
                self.update(context, call, outer, "")

    def overtook(self, context: Context, start_ns: int) -> None:
        """A model's span has come that may ask for calls without ids which came before: those that began after it."""
        tree = context.tree
        found: list[LogicalCall] = []
        for node in tree.calls():
            call = node.call
            if call is None or call.asked_by or _begin(context, call) < start_ns:
                continue
            known, request = call.guessed, call.request
            _guess(context, call)
            if call.request != request and call.judged is not None:
                known_as, now = call.judged, context.now
                self._reviews += self.repeated_ids.note_anew(
                    call, known_as, known_as.session, now
                )
            if call.guessed != known or call.shared:
                found.append(call)
        # Equal ones are looked for once all are noted as that answer's.
        for call in found:
            self.update(context, call, tree.node(call.outer.span_id), "")

    def _place(self, context: Context, call: LogicalCall, outer: SpanNode) -> None:
        """Decides below which span a call stands: that of another call may not have made it."""
        head = outer.above
        if head is None:
            return
        above = head.call
        if above is None:
            # Two workers may have executed one request: what is above both has asked for it. And a call may have been below
            # another one, as long as it was a model's request alone.
            is_uprooted = context.tree.is_uprooted(outer)
            call.stand_beside(b"" if is_uprooted else call.twinned or None)
            return
        if above is call or not self._requests.by_answer:
            return
        if call.asked_by or above.asked_by:
            siblings = call.together and call.asked_by == above.asked_by
            call.stand_beside(above.parent if siblings else None)
            return
        if not are_chained(above.outer, call.outer):
            return
        if not call.chained:
            self._coverage.count_call("chained", call)
        call.chain(above.chained or above.outer.span_id)
        if above.chained != call.chained:
            above.chain(call.chained)
            self._reviews.append(Review(context.trace, context.tree, head, above))

    # --- calls that may be told again ---------------------------------------------------------------

    def _review(self, call: LogicalCall, new: ToolCall, session: SessionKey) -> bool:
        """Decides anew which calls of a session are in doubt; True if this one's doubts have changed."""
        if not is_known(call):
            call.shared, doubts = False, doubts_of_span(call)
            is_other = call.doubts != doubts
            if is_other:
                call.doubt(doubts)
            return is_other
        changed = self.repeated_ids.review(call, new, session)
        self._reviews += [each for each in changed if each.call is not call]
        return any(each.call is call for each in changed)

    def _update_doubtful(self, now: int) -> None:
        """Updates the calls whose doubts have changed."""
        while self._reviews:
            trace, tree, node, call = self._reviews.pop()
            if call.judged is not None:
                self.update(Context(trace, tree, node, now), call, node, "")

    def doubt_again(
        self, trace: Trace, tree: SpanTree, first_id: bytes, again_id: bytes, now: int
    ) -> None:
        """Two spans came under the same ids, with other starts: the later one may be the same call, told again.

        Calls with ids of their own are compared by these (`repeated_call_ids`).
        """
        first, again = tree.node(first_id), tree.node(again_id)
        one = first.call if first is not None else None
        other = again.call if again is not None else None
        if one is None or other is None or one is other:
            return
        earlier, later = one.piece(first_id), other.piece(again_id)
        if not is_told_again(earlier, later):
            return
        call, node = (other, again) if earlier.start_ns < later.start_ns else (one, first)
        if node is None or call.retold:
            return
        call.retold = True
        (one if call is other else other).begun_anew = True
        if not call.call_id:
            known = (*call.doubts, Cause.REPLAYED)
            call.doubt(tuple([each for each in Cause if each in known]))
        if call.shared or not call.call_id:
            self.update(Context(trace, tree, node, now), call, node, "")

    def moved(self, now: int) -> None:
        """Traces went to sessions, in which equal calls may be."""
        moved, self._sessions.moved = self._sessions.moved, []
        for trace, nodes in moved:
            for node in nodes:
                call = node.call
                known = call.judged if call is not None else None
                if call is None or known is None or known.span_id != node.span_id:
                    continue
                if self.repeated_ids.note(call, known, now):
                    call.shared = True
                if call.shared and trace.tree is not None:
                    self.update(Context(trace, trace.tree, node, now), call, node, "")

    def _is_decided(self, call: LogicalCall, new: ToolCall, trace: Trace) -> bool:
        """True if the call takes the place of one that was decided, or was decided and not made.

        The monitor has it then, or is not to have it.
        """
        if not self._decided.size or call.decided:
            return False
        return self._confirmation.first(call, new, trace)

    def _move(
        self, context: Context, call: LogicalCall, outer: SpanNode | None, old: ToolCall
    ) -> None:
        """A call without its arguments goes to its session, unless its verdict may need them."""
        context.tree.above(call, outer)
        key, source = self._sessions.key(context, call)
        if old.session == key or self._near_misses.has_arguments(old.tool):
            return
        new = old._replace(session=key, session_from=source)
        self._batch.retract(old)
        call.judged = new
        self._batch.observe(call, new, None, doubted=False)

    def _observe(self, context: Context, call: LogicalCall, new: ToolCall, switch: str) -> None:
        """The monitor does not know the call yet."""
        trace = context.trace
        is_decided = self._is_decided(call, new, trace)
        if is_decided and call.judged is None:
            self._sessions.orphans.forget(call)
            return
        self._inventory.record(new, switch, call.outer.scope, context.now)
        self._count(call, new, trace.sampled, 1)
        if not is_decided:
            named = None if trace.split else trace.named
            call.judged = new
            begun = trace.beginning
            proof = begun.proof if begun is not None else None
            if self._decided.beginnings:
                proof = self._decided.beginning(new.session, take=True) or proof
            self._batch.observe(call, new, named, doubted=trace.doubted, proof=proof)
            first = trace.first
            if first is not None and not trace.noted and first.name != new.session_from:
                self._sessions.note_source(trace)
        near = self._near_misses.reason(new)
        if near:
            self._coverage.count_call(near, call)
        for cause in new.doubts:
            self._coverage.count(cause)  # in its session the monitor does
        self.echoes.note(self._requester(trace, call), trace, call)
        if new.evidence is not Evidence.REQUESTED:
            is_round = Cause.ROUND_TRIP in new.doubts or (
                bool(self._reviews) and _leaves_a_round(self._reviews, new.tool)
            )
            self._withdraw(context, call, new, counts=not is_round)

    def _amend(self, trace: Trace, old: ToolCall, new: ToolCall) -> None:
        """More is known of a call than the monitor knows."""
        if (old.arguments is None and new.arguments is not None) or (
            type(old.arguments) is PartialArguments
            and type(new.arguments) is not PartialArguments
        ):
            self._coverage.count("arguments_late")
            if old.arguments is None:
                self._inventory.record_arguments(new)
            near = self._near_misses.reason(new)
            if near:
                self._coverage.count(near)
                self._batch.monitor.corrections.miss(new.session, near)
        self._batch.amend(old, new, None if trace.split else trace.named)
        for cause in new.doubts:
            if cause not in old.doubts:
                self._coverage.count(cause)  # as where it is observed
        if old.attributes is not new.attributes:
            self._batch.learn(new.session, None, new.attributes, new.start_ns)

    def _differs(self, old: ToolCall, new: ToolCall) -> bool:
        """True if the difference may change a verdict, or what is shown of the call."""
        if (
            old.arguments != new.arguments
            or old.tool != new.tool
            or old.start_ns != new.start_ns
            or old.end_ns != new.end_ns
            or old.span_id != new.span_id
            or old.parent_span_id != new.parent_span_id
            or old.call_id != new.call_id
            or old.evidence is not new.evidence
            or old.source != new.source
            or (old.error, old.control, old.gaps) != (new.error, new.control, new.gaps)
            or old.doubts != new.doubts
            or old.answer != new.answer
            or not old.returns_as(new)
        ):
            return True
        if old.agent == new.agent:
            return False
        judges = self._monitor.binder.judges.values()
        return any(judge.spec.scope == "agent" for judge in judges)

    # --- counts -----------------------------------------------------------------------------------

    def uncount(self, call: LogicalCall, new: ToolCall, sampled: bool) -> None:
        """Takes a call back from the statistics: the monitor failed to judge it."""
        self._count(call, new, sampled, -1)
        near = self._near_misses.reason(new)
        if near:
            self._coverage.count(near, -1)
        for cause in new.doubts:
            self._coverage.count(cause, -1)

    def _count_again(self, trace: Trace) -> None:
        """Counts executions within a call that are judged as parts of it: they may be calls, which are missing then."""
        again, self.call_merge.again = self.call_merge.again, []
        for call in again:
            self._coverage.count_call("repeated_within", call)
        for call in dict.fromkeys(again):
            outer = call.outer
            namespace, service = self._requester(trace, call)
            self._batch.note_gap(
                Gap(
                    Cause.REPEATED_WITHIN,
                    outer.start_ns,
                    outer.end_ns,
                    outer.tool,
                    namespace,
                    service,
                )
            )

    def _count(self, call: LogicalCall, new: ToolCall, sampled: bool, by: int) -> None:
        if new.evidence is Evidence.EXECUTED:
            self.executed += by
        else:
            self._stats.count("calls", new.evidence, by=by)
        if new.arguments is None:
            self._coverage.count(call.outer.why or "arguments_missing", by)
        elif type(new.arguments) is not dict and type(new.arguments) is PartialArguments:
            self._coverage.count("arguments_unreadable", by)
        if new.session_from == FROM_TRACE:
            self._coverage.count("no_session_id", by)
        if sampled:
            self._coverage.count("sampled_upstream", by)

    def tell_gaps(self) -> None:
        """Tells the monitor of tools that may be silent, and of those that are known by now."""
        gaps, self._requests.gaps = self._requests.gaps, []
        for gap, stands in gaps:
            if stands:
                self._batch.note_gap(gap)
            else:
                self._batch.lift_gap(gap)

    # --- doubles ------------------------------------------------------------------------------------

    def _match_mcp(self, context: Context, piece: Piece) -> None:
        """A call of an MCP server, told by the server or by its agent: told by both, it is the agent's."""
        call = context.node.call
        if call is None or piece.evidence is not Evidence.EXECUTED:
            return
        requester = self._ids.requester(context.trace.namespace, piece.attributes)
        if piece.source == SERVER:
            if call.is_one:
                if self._mcp_echo.of_server(requester, call):
                    self._drop_double(call)
                elif context.trace.tree is not None:
                    context.trace.tree.shared = True
            return
        for other in self._mcp_echo.of_agent(requester, piece):
            if not other.doubled and other is not call:
                self._drop_double(other)

    def _retract(self, call: LogicalCall) -> None:
        """The monitor forgets a call: it is no call, or none of its own."""
        known = call.judged
        self._sessions.orphans.forget(call)
        if known is not None:
            self._batch.retract(known)
            call.judged = None

    def _drop_double(self, call: LogicalCall) -> None:
        """Another call's spans tell of this one: the monitor forgets it."""
        self._retract(call)
        call.doubled = True
        self._stats.count("spans_merged")

    def _withdraw(
        self, context: Context, call: LogicalCall, new: ToolCall, *, counts: bool
    ) -> None:
        """A tool span shows that its agent's tools have spans: requests that were judged were doubles."""
        requester = self._ids.requester(context.trace.namespace, new.attributes)
        back = self._requests.executed(
            requester,
            context.trace,
            new.tool,
            new.source,
            counts=counts,
            start_ns=new.start_ns,
            call_id=new.call_id,
        )
        doubles = [
            each
            for each in back
            if each.call.judged is not None and each.call.judged.evidence is Evidence.REQUESTED
        ]
        self._requests.back(doubles, context.now)
        if self._requests.gaps:  # before the calls go that they stand for
            self.tell_gaps()
        for each in doubles:
            self._retract(each.call)
            each.call.withdrawn = True
        if doubles and call.shared:  # it may have been one of them, told again
            self._reviews += self.repeated_ids.review(call, new, new.session)


def _is_known_otherwise(old: ToolCall | None, new: ToolCall) -> bool:
    """True if a call is new, or known under another session, id or tool."""
    if old is None:
        return True
    return (old.session, old.call_id, old.tool) != (new.session, new.call_id, new.tool)


def _leaves_a_round(reviews: list[Review], tool: str) -> bool:
    """True if a known request to a server may be one call with a new one, which began earlier: that has counted."""
    for each in reviews:
        if Cause.ROUND_TRIP in each.call.doubts and each.call.outer.tool == tool:
            return True
    return False


def _begin(context: Context, call: LogicalCall) -> int:
    """When a call began; one without a start stands at its receipt."""
    return call.outer.start_ns or call.received(context.now)


def _guess(context: Context, call: LogicalCall) -> None:
    """Finds the answer that asks for a call without an id of it."""
    tree, outer, begin_ns = context.tree, call.outer, _begin(context, call)
    if begin_ns > tree.latest_ns:
        tree.latest_ns = begin_ns
    if tree.answers is not None:
        found = tree.answers.before(outer.tool, call.call_id, begin_ns, outer.parent)
        call.guess(found)
