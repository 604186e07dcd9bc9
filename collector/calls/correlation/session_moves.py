"""Keeps each call in the session it belongs to, as far as that is known by now.

Idea: a trace is a turn of a conversation, and any of its spans may tell the conversation's id, often after the
calls. Until then its calls are judged in a session of the trace's own. When the id arrives, they all move.

Invariant: a trace in which one session is claimed has one session, and its calls move together (`_move`). Once a
second one is claimed, the trace is *split*: each call looks for its own session, and calls whose session may
still change are *loose*. Whoever learns more of a split trace updates its loose calls.

Example: the calls A and B of trace t are judged in session t. The root span comes and tells `session.id` = s1: A
and B move to s1. A sub-agent's span then tells s2: the trace is split, and B, below that span, moves to s2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.coverage import Coverage
from collector.calls.decisions.confirmation import Confirmation
from collector.calls.inventory.inventory import Inventory
from collector.calls.sessions.beginnings import Beginnings
from collector.calls.sessions.orphans import Orphans
from collector.calls.sessions.session_ids import DECIDED_RUNG, RESOURCE_RUNG, SessionIds
from collector.calls.tree.context import Context
from collector.calls.tree.session_claim import Claim
from collector.calls.tree.span_tree import SpanNode
from collector.calls.tree.trace import NEVER, Trace
from collector.decode.sizes import kept
from collector.decode.span import Span
from collector.dialects.plan import ReadPlan
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.records import FROM_DECISION, AgentName, SessionKey

__all__ = ["LOOSE_MAX", "SessionMoves"]

LOOSE_MAX: Final = 512
"""Calls of a split trace that are looked at again when more is known; the oldest stays where it is."""


class SessionMoves:
    """Sessions of traces and calls; tells the monitor what changes.

    Args:
        ids: reads session ids, and chooses among several.
        batch: leads to the monitor.
        inventory: notes where the ids of an agent come from.
        coverage: counts calls over a bound.
        stats: counts traces that could not move, and attributes over a bound.
        monitor: asked when it started, which a clock that is set changes.
        span_keys: attributes that specs bind on, of which a span's own overrules its resource's.
        confirmation: decided calls of a session that a trace's calls move to.
    """

    def __init__(
        self,
        ids: SessionIds,
        batch: EventBatch,
        inventory: Inventory,
        coverage: Coverage,
        stats: Stats,
        monitor: Monitor,
        span_keys: Iterable[str],
        confirmation: Confirmation,
    ) -> None:
        self._ids = ids
        self._batch = batch
        self._inventory = inventory
        self._coverage = coverage
        self._stats = stats
        self._confirmation = confirmation
        self.span_keys = frozenset(span_keys)
        self._monitor = monitor
        self.beginnings = Beginnings(batch, monitor)
        self.orphans = Orphans(ids, monitor, coverage, batch)
        self.moved: list[tuple[Trace, list[SpanNode]]] = []
        """Traces whose calls went to another session; who looks for equal calls there empties the list."""

    # --- whose session --------------------------------------------------------------------------

    def key(self, context: Context, call: LogicalCall) -> tuple[SessionKey, str]:
        """The session of a call as far as it is known, and the attribute that named it."""
        trace, parts = context.trace, context.tree.parts
        if parts is None:
            own = call.own
            if own is not None and own.session is not None:
                return own.session, own.session_from
            return trace.key, trace.session_from
        key, source, certain = self._ids.resolve(trace, context.tree, parts, call) or (
            trace.key,
            trace.session_from,
            None,
        )
        if certain:
            parts.loose.pop(call, None)
        else:
            known = len(parts.loose)
            parts.loose[call] = certain
            if len(parts.loose) > max(known, LOOSE_MAX):
                del parts.loose[next(iter(parts.loose))]
                self._coverage.count("over_bound")
        return key, source

    def claim(
        self, context: Context, node: SpanNode, claim: Claim | None, start_ns: int
    ) -> bool:
        """A span has come that may claim a session: its trace's calls move if they all belong there.

        Returns:
            True if the trace is split and more is known of it: its loose calls are to be updated.
        """
        trace, tree = context.trace, context.tree
        known = trace.first
        if claim is not None:
            if trace.doubted:
                self._batch.doubt(trace.key, doubted=False)
                trace.doubted = False
            before = self._ids.learn(trace, tree, node, claim, start_ns)
            if known is not None and known.rung == DECIDED_RUNG and known.key == claim.key:
                trace.session_from = claim.name
                self._batch.monitor.corrections.note_source(claim.key, claim.name)
            elif known is not None and known is not trace.first:
                self.note_source(trace)
                trace.noted = False
            if before is not None:
                try:
                    self._move(trace, before, context.now)
                except Exception:
                    trace.unbelong(before)
                    raise
        parts = tree.parts
        if parts is not None and tree.up(node) is None:
            parts.note_root(node.span_id)
        is_another = known is not trace.first
        if is_another or trace.beginning is not None:
            self.beginnings.note_claim(trace, is_another=is_another)
        if parts is None:
            return False
        hint = parts.hints.get(node.span_id)
        if hint is not None:
            tree.hint(parts, hint, node)
        parts.loosen([each for each in tree.calls_below(parts, node) if each in parts.loose])
        return bool(parts.stale)

    def claim_whole(self, trace: Trace, key: SessionKey, now: int) -> None:
        """Has a trace belong to the session that a client of decisions names, as no span of it names any."""
        claim = Claim(DECIDED_RUNG, key, FROM_DECISION)
        trace.set_first(claim, b"", NEVER)
        before = trace.belong(claim)
        if before is not None and before != claim.key:
            try:
                self._move(trace, before, now)
            except Exception:
                trace.unbelong(before)
                raise

    def _move(self, trace: Trace, before: SessionKey, now: int) -> None:
        """Moves the trace's calls from its former session to the one just claimed."""
        nodes = trace.tree.calls() if trace.tree is not None else []
        decided = self._confirmation.table
        if decided.size:
            self._confirmation.moving(nodes, trace, before)
        if not self._batch.monitor.corrections.rekey(
            before, trace.key, trace.session_from, now
        ):
            self._stats.count("sessions_split")
            return
        self.moved.append((trace, nodes))
        if len(decided):
            self._confirmation.moved(before, trace)
        for node in nodes:
            call = node.call
            known = call.judged if call is not None else None
            if call is not None and known is not None and known.session == before:
                self._inventory.record_move(known, trace.session_from)
                self.orphans.note_claim(trace, call)
                call.judged = known._replace(session=trace.key, session_from=trace.session_from)

    def note_source(self, trace: Trace) -> None:
        """A trace with calls that name their session: it may be named by a better attribute, too, whatever came first."""
        first = trace.first
        if first is not None and not trace.split:
            trace.noted = True
            if first.rung < RESOURCE_RUNG:
                self._batch.monitor.corrections.note_source(first.key, first.name)

    def has_calls(self, trace: Trace, start_ns: int) -> bool:
        """True if calls of a trace's session that began before a moment are known."""
        return self._monitor.reader.goes_on(trace.key, b"", start_ns)

    def doubt(self, trace: Trace) -> None:
        """Tells the monitor if the first calls of a trace's session may be missing now, or no longer are."""
        doubted = trace.is_rest
        if doubted is not trace.doubted:
            self._batch.doubt(trace.key, doubted=doubted)
            trace.doubted = doubted

    # --- what spans tell of them ------------------------------------------------------------------

    def note(self, span: Span, plan: ReadPlan, context: Context) -> None:
        """Notes what a span tells of its whole trace: an agent's name, and attributes specs bind on."""
        trace = context.trace
        if context.agent:
            known = trace.named
            if known is None or span.start_ns <= known.start_ns:
                named = AgentName(span.start_ns, span.span_id, context.agent)
                if known is None or named.counts_before(known):
                    trace.named = named
        if plan.extras:
            extras = {key: span.attribute(index) for index, key in plan.extras}
            extras = kept(extras, self._count_oversized)
            trace.add(extras, span.start_ns, span.span_id)

    def _count_oversized(self) -> None:
        self._stats.count("attributes_over_bound")

    def learn(self, span: Span, context: Context) -> None:
        """Tells the monitor what is new in a span that is no call: a turn of its session is under way."""
        trace, agent = context.trace, context.agent
        if agent:
            self._inventory.record_agent(trace.namespace, span.resource.attributes, agent)
        attributes = trace.attributes(span.resource.attributes, self.span_keys)
        if trace.split:
            named = AgentName(span.start_ns, span.span_id, agent) if agent else None
        else:
            named = trace.named
            early = span.start_ns < self._monitor.started_ns
            if (
                named is trace.learnt_named
                and attributes is trace.learnt
                and (trace.learnt_early or not early)
            ):
                return
            trace.learnt_named = named
            trace.learnt_early = trace.learnt_early or early
        trace.learnt = attributes
        claim = context.claim
        key = claim.key if claim is not None else trace.key
        self._batch.learn(key, named, attributes, span.start_ns)
