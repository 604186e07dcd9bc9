"""The way of a request: spans -> tool calls -> verdicts. No sockets, no clock: the time of receipt is an argument.

Three steps, which the spans of a request take side by side (at most `TOGETHER` at a time):

1. *read*: the plan of a span's shape says what to look for; `read` gives the tool call that a span may be.
2. *join*: each span goes to its place in its trace's tree. What it tells is handed to three collaborators:
   `SessionMoves` (whose session a call belongs to), `Correlation` (which spans are one call, and what is new of it)
   and `RequestedCalls` (calls that models asked for, where tools leave no spans).
3. *judge*: the `EventBatch` applies to the monitor, in order, what the others put into it. It holds the verdicts.

Invariants: a span is judged once, however often it is sent. An error of ours in one span keeps no other span from
being judged and delivered, and what it kept from being judged is judged when it is sent again.

Example: a request has a root span with `session.id`, a tool span below it, and a copy of a tool span that was
judged before. The copy is dropped by the duplicate filter. The root claims the session for its trace; the tool
span becomes a call, which the batch has judged in that session. The verdicts are delivered at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import Piece
from collector.calls.call.same_call import is_another
from collector.calls.correlation.correlation import Correlation
from collector.calls.correlation.session_moves import SessionMoves
from collector.calls.coverage import Coverage
from collector.calls.decisions.confirmation import Confirmation
from collector.calls.decisions.decided_calls import (
    DecidedCall,
    DecidedCalls,
    Outcome,
    QuestionCall,
)
from collector.calls.decisions.prevented_calls import PreventedCall, PreventedCalls
from collector.calls.duplicate_spans import DuplicateFilter
from collector.calls.inventory.inventory import Inventory
from collector.calls.model_requests import Mode, ModelRequests
from collector.calls.question_handler import DecisionResult, OutcomeResult, QuestionHandler
from collector.calls.requested_calls import RequestedCalls
from collector.calls.sessions.session_ids import (
    NAMESPACE_KEYS,
    RESOURCE_RUNG,
    RESOURCES_BYTES_MAX,
    ResourceIdentity,
    SessionIds,
)
from collector.calls.set_clocks import STEP_NS, set_back
from collector.calls.tree.context import Context
from collector.calls.tree.trace import Trace
from collector.calls.tree.trace_store import (
    ARGUMENTS_BYTES_MAX,
    SPANS_BYTES_MAX,
    TREES_SHARE,
    Traces,
)
from collector.decode.span import Rejects, Resource, Span, UnjudgedSpansError
from collector.dialects.ambiguous_spans import SpanAmbiguity, ambiguity_of, may_be_ambiguous
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS, Plans
from collector.dialects.names.name_bound import CUT, NAME_MAX
from collector.dialects.plan import ReadPlan
from collector.dialects.read import (
    STATUS_OK,
    TOO_LONG,
    SpanReading,
    agent_of,
    has_event,
    read,
    result_of,
    unpended,
    unread_result,
    wrapped_by,
)
from collector.dialects.unknown_dialect import UNCLEAR
from collector.dialects.values.returned import returned
from collector.telemetry.counters import Stats
from monitor.alphabet.data_conditions import ANY_TOOL
from monitor.engine import Monitor
from monitor.records import ALSO_ATTRIBUTE, Evidence, SessionKey, Verdict
from monitor.session.spec_binding import AGENT_ATTRIBUTE, SpecBinder
from monitor.value_paths import ValuePath, pruned

__all__ = ["Pipeline"]

SECOND: Final = 1_000_000_000

_UNCLEAR: Final = UNCLEAR.name

_EXECUTED: Final[tuple[str, ...]] = ("calls", Evidence.EXECUTED)

TOGETHER: Final = 64
"""Spans that take the three steps side by side."""

Deliver = Callable[[Sequence[Verdict]], None]
Denied = Callable[[PreventedCall], None]


class Pipeline:
    """Reads spans as calls and has them judged.

    Args:
        monitor: who judges.
        stats: counts what is not judged.
        deliver: receives the verdicts of each request, at its end.
        session_keys: the ladder of session ids, best first.
        namespace_keys: resource attributes that keep tenants apart.
        agent_keys: where agents are named, best first.
        requested: whether requests of models are judged (`auto`: where tools leave no spans).
        span_keys: attributes that specs bind on, of which a span's own overrules its resource's.
        arguments_bytes_max: bound on the arguments that are held for further spans of the same calls.
        spans_bytes_max: bound on what is remembered of spans beside these: trees, and ids of judged spans.
        by_answer: True if calls that one model answer asks for are a group, whether they overlap or not.
        decided: the table of calls that are decided before they are made; None: one of the usual bounds.
        denied: receives each call that was denied, and again if it was made anyway.
    """

    def __init__(
        self,
        monitor: Monitor,
        stats: Stats,
        deliver: Deliver,
        *,
        session_keys: Sequence[str] = SESSION_KEYS,
        namespace_keys: Sequence[str] = NAMESPACE_KEYS,
        agent_keys: Sequence[str] = AGENT_KEYS,
        requested: Mode = "auto",
        span_keys: Sequence[str] = (),
        arguments_bytes_max: int = ARGUMENTS_BYTES_MAX,
        spans_bytes_max: int = SPANS_BYTES_MAX,
        resources_bytes_max: int = RESOURCES_BYTES_MAX,
        by_answer: bool = True,
        decided: DecidedCalls | None = None,
        denied: Denied | None = None,
    ) -> None:
        CUT.taken()  # names that were cut before are another pipeline's
        self.monitor = monitor
        self.inventory = Inventory()
        self.quiet = True
        """True if only news is worded; False words every verdict, for a session view that is open."""
        self._stats = stats
        self._deliver = deliver
        self._plans = Plans(session_keys, monitor.binder.keys(), agent_keys)
        trees_bytes_max = spans_bytes_max // TREES_SHARE
        self.traces = Traces(bytes_max=arguments_bytes_max, trees_bytes_max=trees_bytes_max)
        self._duplicates = DuplicateFilter(bytes_max=spans_bytes_max - trees_bytes_max)
        self.batch = EventBatch(monitor)
        self._coverage = Coverage(self.batch, stats)
        self._session_ids = SessionIds(session_keys, namespace_keys, resources_bytes_max)
        self.decided = DecidedCalls() if decided is None else decided
        self._resource_keys: tuple[SpecBinder, frozenset[str]] | None = None
        """The binder that they were found for, and the keys."""
        self.decision_records = PreventedCalls(self.decided.bytes_max // 4)
        self._denied = denied
        self._confirmation = Confirmation(
            self.decided, self.decision_records, self.batch, stats
        )
        self.sessions = SessionMoves(
            self._session_ids,
            self.batch,
            self.inventory,
            self._coverage,
            stats,
            monitor,
            span_keys,
            self._confirmation,
        )
        self._requests = ModelRequests(requested, by_answer=by_answer)
        self.correlation = Correlation(
            self._session_ids,
            self.sessions,
            self._requests,
            self.batch,
            self.inventory,
            self._coverage,
            stats,
            monitor,
            self._confirmation,
            self.traces,
        )
        self._deciding = QuestionHandler(
            self._session_ids,
            self.sessions,
            self.traces,
            self.batch,
            self._confirmation,
            stats,
            monitor,
            self._prevent,
        )
        self._requested_calls = RequestedCalls(
            self._requests, self.correlation, self.sessions, self.traces, self._coverage
        )
        self._hears = monitor.binder.hears
        """True if a spec asks what users said, or one did that sessions may still have."""
        self._asked = monitor.binder.asked_results()
        """Paths of results that specs ask for, by tool: of those in use, and of those that sessions may still have."""
        self._asked_of_any = self._asked.get(ANY_TOOL)
        """Paths that they ask for of any tool: the whole result; None if there are none."""
        self._foreign = 0
        """Spans of this request that speak no dialect."""
        self._touched: list[Trace] = []
        """Traces with spans that their sessions do not count yet."""
        self._rejects: Rejects | None = None
        self._remembered = b""
        """The last key of this span that the duplicate filter did not know."""
        self._derived: list[tuple[bytes, bytes]] = []
        """Span ids of this request, each with an id that was derived from it."""
        self._counted: list[bytes] = []
        """Spans of this request that a reason of `coverage` was counted for: their keys, each with the reason."""
        self._failed_spans = 0
        """Spans of this request that an error of ours kept from being judged."""
        self._errors: list[Exception] = []

    def consume(self, spans: Sequence[Span], now: int, _transport: str) -> Rejects | None:
        """Judges the spans of one request, received at `now` (Unix nanoseconds), and delivers the verdicts.

        Returns:
            The spans that were left out for what only their dialect tells; None if there are none.

        Raises:
            UnjudgedSpansError: errors of ours kept spans from being judged; the first is its cause.
        """
        count = len(spans)
        self._derived.clear()
        self._counted.clear()
        self.batch.open(now, quiet=self.quiet, at_once=count == 1)
        if count > 1:
            spans = sorted(spans, key=_start)
        for first in range(0, count, TOGETHER):
            self._take_together(list(spans[first : first + TOGETHER]), now)
        try:
            if self._errors:
                self.correlation.update_failed()
            self.correlation.expire_orphans(now)
            self._end_request(now)
            for each in self.monitor.errors():
                self._leave(each, 0)
        except Exception as error:  # noqa: BLE001 - it is counted, and what was judged is delivered
            self._leave(error, 0)
        rejects, self._rejects = self._rejects, None
        try:
            self._close()
        finally:
            if self._errors:
                self._raise_unjudged(now)
        return rejects

    def _close(self) -> None:
        """Delivers the verdicts of a request, at its end."""
        verdicts = self.batch.close()
        try:
            if verdicts:
                self._deliver(verdicts)
        finally:
            if self._confirmation.has_news:
                for each in self._confirmation.overruled(verdicts):
                    self._tell_denied(each)

    # --- calls that are decided before they are made --------------------------------------------

    def decide(
        self,
        asked: Sequence[QuestionCall],
        resource: Resource,
        sender: str | None,
        now: int,
        *,
        commit: bool,
        new_session: bool = False,
    ) -> list[DecisionResult]:
        """Decides the calls of a question, received at `now`: see `QuestionHandler.decide`."""
        self.batch.open(now, quiet=self.quiet, at_once=True)
        try:
            return self._deciding.decide(
                asked, resource, sender, now, commit=commit, new_session=new_session
            )
        finally:
            self._close()

    def settle(
        self,
        decision_id: str,
        outcome: Outcome,
        sender: str | None,
        now: int,
        result: tuple[Any, ...] = (),
    ) -> OutcomeResult:
        """Takes what a client tells of a decided call, received at `now`: see `QuestionHandler.settle`."""
        self.batch.open(now, quiet=self.quiet, at_once=True)
        try:
            entry = self.decided.named(decision_id) if result else None
            kept = () if entry is None else self._kept(entry.call.tool, _read(result))
            return self._deciding.settle(decision_id, outcome, sender, now, kept)
        finally:
            self._close()

    def _prevent(self, entry: DecidedCall) -> None:
        """A call was denied."""
        denied = PreventedCall.of(entry, self.decided.name(entry.number))
        self.decision_records.add(denied)
        self._tell_denied(denied)

    def _tell_denied(self, denied: PreventedCall) -> None:
        if self._denied is not None:
            self._denied(denied)

    # --- the spans of a request -------------------------------------------------------------------

    def _take_together(self, spans: list[Span], now: int) -> None:
        """Reads, joins and judges some spans, one step after the other: see `batch`."""
        plans: list[ReadPlan | None] = [None] * len(spans)
        readings: list[SpanReading | None] = [None] * len(spans)
        doubts: dict[int, SpanAmbiguity] | None = None
        for place, span in enumerate(spans):
            try:
                plan = self._plans.of(span)
                reading = read(span, plan) if plan.calls else None
                if (
                    plan.doubtful
                    or span.events
                    or (reading is None and span.name != plan.untold)
                ) and may_be_ambiguous(span, plan, reading):
                    doubt = ambiguity_of(span, plan, reading)
                    reading = doubt.readings[0] if doubt.readings else None
                    if doubts is None:
                        doubts = {}
                    doubts[place] = doubt
                plans[place], readings[place] = plan, reading
            except Exception as error:  # noqa: BLE001
                self._leave(error)
        for place, span in enumerate(spans):
            known = plans[place]
            if known is not None:
                try:
                    self._remembered = b""
                    evidence, real = Evidence.EXECUTED, None
                    if known.pending:
                        real = unpended(span, known)
                    if real is None:
                        real = span
                    else:
                        evidence = Evidence.PENDING
                    self._take(real, known, readings[place], evidence, now)
                    if doubts is not None and place in doubts:
                        self._take_doubtful(real, known, doubts[place], evidence, now)
                except Exception as error:  # noqa: BLE001
                    self._leave(error)
                    self._forget(span, judged=True)
                    if self._remembered:  # it may be of a derived id
                        self._duplicates.forget(self._remembered)
        self.batch.flush()
        if self.batch.failed:
            self._fail_calls(spans)

    @property
    def scopes(self) -> Mapping[str, bool]:
        """Instrumentation scopes that spans came from -> whether any of these follows a convention of agents."""
        return self._plans.scopes

    def may_be_call(self, span: Span) -> bool:
        """True for a span whose shape may be that of a tool call."""
        return bool(self._plans.of(span).calls)

    def sessions_of(self, trace_id: str, namespace: str | None = None) -> list[SessionKey]:
        """The sessions that the calls of a trace are in now, in one namespace or in any; none where it is no trace.

        A call may have been told under its trace's id before its session was known.
        """
        try:
            return self.traces.sessions(bytes.fromhex(trace_id), namespace)
        except ValueError:
            return []

    def namespace_of(self, resource: Resource) -> str:
        """The namespace of a resource's spans."""
        return self._session_ids.owner(resource).namespace

    def relieve(self) -> None:
        """Memory is scarce: what resources say is forgotten. It is read again."""
        self._session_ids.forget()

    def memory(self) -> dict[str, int]:
        """Bytes that are held, about, by what holds them."""
        return {
            "span_trees": self.traces.trees_bytes,
            "arguments": self.traces.held,
            "traces": self.traces.traces_bytes,
            "span_ids": self._duplicates.size(),
            "model_requests": self._requests.held_bytes,
            "repeats": self.correlation.repeated_ids.size,
            "decided_calls": self.decided.held_bytes,
            "denied_calls": self.decision_records.held_bytes,
        }

    def resource_keys(self) -> frozenset[str]:
        """The attributes of a client of decisions that its namespace, its session or a spec may depend on."""
        binder = self.monitor.binder
        known = self._resource_keys
        if known is None or known[0] is not binder:
            keys = self._session_ids.resource_keys | binder.keys()
            named = (AGENT_ATTRIBUTE, ALSO_ATTRIBUTE)
            known = self._resource_keys = (binder, keys.union(named))
        return known[1]

    def specs_changed(self) -> None:
        """The monitor has other specs: they may bind on other attributes."""
        self._plans.bind_on(self.monitor.binder.keys())
        self._asked = _with(self._asked, self.monitor.binder.asked_results())
        self._asked_of_any = self._asked.get(ANY_TOOL)
        self._hears = self._hears or self.monitor.binder.hears
        self.correlation.specs_changed()

    def tick(self, now: int) -> None:
        """Time has passed: frees what was held for spans that do not come."""
        self.traces.expire(now)
        self.decision_records.expire(now)
        self.batch.open(now, quiet=self.quiet, at_once=True)
        try:
            self._deciding.expire(now)
            self.correlation.expire_orphans(now)
            self._end_request(now)
        finally:
            self._close()

    def finish(self) -> None:
        """The input is over: counts the spans and executions that never came."""
        self._requested_calls.finish()
        self.traces.close()
        self._coverage.count_traces("span_missing", self.traces.broken())
        self._requested_calls.count_continued()

    # --- errors of ours -----------------------------------------------------------------------
    # The duplicate filter knows a span only if the span was judged. A span that an error kept from being
    # judged is forgotten, so that it is judged if it is sent again.

    def _leave(self, error: Exception, spans: int = 1) -> None:
        """Notes that so many spans could not be read, joined or judged."""
        self._failed_spans += spans
        self._errors.append(error)

    def _fail_calls(self, spans: Sequence[Span]) -> None:
        """The monitor could not take some calls of these spans, or what they tell of sessions."""
        failed, self.batch.failed = self.batch.failed, []
        for each in failed:
            call, new = each.of, each.call
            pieces: Mapping[bytes, Piece] = {}
            if call is not None and new is not None:
                trace = self.traces.of(new.session.namespace, new.trace_id)
                self.correlation.uncount(call, new, trace.sampled)
                pieces = call.pieces
            ids = {old for old, own in self._derived if own in pieces}
            mine = [span for span in spans if span.span_id in pieces or span.span_id in ids]
            self._leave(each.error, max(1, len(mine)))
            for span in mine or spans:
                self._forget(span, judged=not mine)
                for old, own in self._derived:
                    if old == span.span_id and (not mine or own in pieces):
                        self._forget(span.but(span_id=own), judged=not mine)

    def _forget(self, span: Span, *, judged: bool) -> None:
        """Forgets a span, and what the monitor learnt of its trace.

        Where the span may have been judged before (`judged`), only a key that was added just now is forgotten.
        """
        try:
            owner = self._session_ids.owner(span.resource)
        except Exception:  # noqa: BLE001 - then there is nothing to forget
            return
        trace = self.traces.of(owner.namespace, span.trace_id)
        trace.learnt = trace.learnt_named = None
        key = self._duplicate_key(owner, span)
        for each in (key, key + b"p"):
            if not judged or each == self._remembered:
                self._duplicates.forget(each)

    def _raise_unjudged(self, now: int) -> None:
        """Raises the errors that kept spans of the request from being judged.

        What was counted of the request's spans is remembered: it is not counted again when they are sent again.
        """
        for mark in self._counted:
            self._duplicates.is_repeat(mark, now)
        count, errors = self._failed_spans, self._errors
        self._failed_spans, self._errors = 0, []
        names: dict[str, int] = {}
        for error in errors:
            name = type(error).__name__
            names[name] = names.get(name, 0) + 1
        raise UnjudgedSpansError(count, names) from errors[0]

    # --- one span: the hot path -----------------------------------------------------------------
    # Whatever depends on the shape of a span alone is settled in its plan, and not looked at here.

    def _take(
        self,
        span: Span,
        plan: ReadPlan,
        reading: SpanReading | None,
        evidence: Evidence,
        now: int,
    ) -> None:
        """Puts a span into its trace's tree, and hands on what it tells."""
        owner = self._session_ids.owner(span.resource)
        if reading is not None:
            if reading is TOO_LONG:
                self._reject(span)
                return
            if not span.end_ns:
                evidence = Evidence.PENDING
            if self._is_duplicate(owner, span, evidence, now):
                self._take_again(owner, span, plan, reading, evidence, now)
                return
        trace = self.traces.of(owner.namespace, span.trace_id)
        self._touch(trace)
        tree = self.traces.grow(trace, now)
        node = tree.put(span.span_id, span.parent_span_id)
        node.start_ns, node.clock = span.start_ns, owner.clock
        if tree.clock is not owner.clock and not tree.of_clocks:
            tree.note_clock(owner.clock)
        context = Context(trace, tree, node, now)
        if plan.foreign:
            node.foreign = True
            trace.foreign += 1
            self._foreign += 1
        if span.sampled:
            trace.sampled = True
        if 0 < span.end_ns < span.start_ns - STEP_NS:
            gap = set_back(owner.requester, span.end_ns, span.start_ns, now)
            self.batch.note_gap(gap)
        agent = agent_of(span, plan) if plan.agents else ""
        if agent:
            node.agent = context.agent = agent
        claim = None
        if plan.entry:
            node.entry = True
        if reading is None or reading.dialect == _UNCLEAR:
            if plan.stop:
                node.stops = True
            if plan.model:
                node.model = owner.requester
        if plan.session or owner.session is not None:
            claim = self._session_ids.claim_of(span, plan, owner, tree)
            if plan.plain and claim is not None and claim.rung != RESOURCE_RUNG:
                tree.hold(claim.by(span.span_id, span.start_ns))
                claim = owner.session
            context.claim = claim
        if (claim is not None or trace.split) and self.sessions.claim(
            context, node, claim, span.start_ns
        ):
            self.correlation.update_loose(context)
        if self.sessions.moved:
            self.correlation.moved(now)
        if agent or plan.extras:
            self.sessions.note(span, plan, context)
        if reading is not None:
            known = node.call
            if known is not None and self._is_another(known, span, reading, evidence):
                self._take_another(span, plan, reading, evidence, known, now)
                return
            self._take_call(span, reading, evidence, context)
            if reading.dialect != _UNCLEAR:
                self._settle(context)
                return
        elif not span.parent_span_id:
            self.sessions.beginnings.note_root(trace, span, now)
            for each in tree.note_root(node):
                if each.call is not None:
                    outer = tree.node(each.call.outer.span_id)
                    self.correlation.update(context, each.call, outer, "")
        if not plan.silent or owner.session is not None:
            self._take_other(span, plan, owner, context)
        if node.waiting is not None:
            self.correlation.arrived(context)
        self._settle(context)

    def _settle(self, context: Context) -> None:
        """More may be known of a trace's session: calls that may belong to another one are looked at again."""
        trace = context.trace
        if trace.changed:
            trace.changed = False
            if context.tree.unsettled:
                self.correlation.update_unsettled(context)
        if self.sessions.orphans.has_news:
            self.correlation.review_orphans(context.now)

    def _take_call(
        self, span: Span, reading: SpanReading, evidence: Evidence, context: Context
    ) -> None:
        """A span that is a call, or a piece of one."""
        claim = context.claim
        own = claim if claim is not None and claim.rung != RESOURCE_RUNG else None
        piece = Piece.of(
            span,
            reading,
            context.agent,
            evidence,
            own.key if own is not None else None,
            own.name if own is not None else "",
        )
        if self.decided.size:
            piece.says_ok = span.status == STATUS_OK
            piece.result = result_of(span, reading)
        if self._asked and reading.handed and evidence is Evidence.EXECUTED:
            paths = self._asked_of_any or self._asked.get(reading.tool)
            if paths:
                piece.returns = unread_result(span, reading, paths) or ()
        self.correlation.add(context, piece, reading.switch)
        if evidence is Evidence.EXECUTED:
            self._stats.span_lag.observe(max(0, context.now - span.end_ns) / SECOND)
        self.traces.hold(context.tree, reading.arguments, piece.returns)
        if reading.unreadable or span.dropped or reading.control:
            self._count(span, reading, evidence, context.node.call)

    def _kept(self, tool: str, result: tuple[Any, ...]) -> tuple[Any, ...]:
        """The parts of a tool's result that specs ask for."""
        paths = self._asked_of_any or self._asked.get(tool)
        return (pruned(result[0], paths),) if paths and result else ()

    def _take_other(
        self, span: Span, plan: ReadPlan, owner: ResourceIdentity, context: Context
    ) -> None:
        """A span that is no call: it may tell of an agent, of calls below it, or of requests."""
        if not context.trace.has_agent and (plan.stop or plan.outputs is not None):
            self.sessions.beginnings.note_agent(context.trace)
        if plan.stop and not plan.model and context.trace.first is None:
            self.sessions.orphans.note_run(context, span.end_ns)
        failing = plan.fails
        if failing is not None and has_event(span, failing):
            self.correlation.fail(context)
        if plan.wrappers:
            wrapped = wrapped_by(span, plan)
            if wrapped is not None:
                context.tree.wrap(span.span_id, wrapped)
                for each in wrapped:
                    self.traces.hold(context.tree, each.arguments)
        self.sessions.learn(span, context)
        if plan.stop or plan.outputs is not None or not span.parent_span_id:
            claim = context.claim
            key = claim.key if claim is not None else context.trace.key
            self.batch.answer(key, span)
            if self._hears:
                self.batch.hear(key, span)
        if plan.outputs is not None:
            context.node.asked_ns = span.end_ns
            if span.dropped:
                self._coverage.count("truncated_attributes")
            for error in self._requested_calls.read(
                span, plan.outputs, owner.requester, context
            ):
                self._leave(error)
        elif plan.wordless and context.tree.asked:
            self._requested_calls.hear(span, owner.requester, context)

    def _touch(self, trace: Trace) -> None:
        """One span more, which the trace's session counts at the end of the request."""
        trace.spans += 1
        if not trace.touched:
            trace.touched = True
            self._touched.append(trace)

    def _is_duplicate(
        self, owner: ResourceIdentity, span: Span, evidence: Evidence, now: int
    ) -> bool:
        """True for a span that was judged before; the end of a span that was pending is news.

        A pending span's key ends in "p". Its ids are known before it ends (they are sent to whoever is called in
        it), so it must not use up the key of its end.
        """
        key = self._duplicate_key(owner, span)
        if evidence is Evidence.PENDING:
            if key in self._duplicates:
                return True
            key += b"p"
        if self._duplicates.is_repeat(key, now):
            return True
        self._remembered = key
        return False

    def _duplicate_key(self, owner: ResourceIdentity, span: Span) -> bytes:
        """The ids of a span, with its namespace: tenants may use the same ids."""
        key = span.trace_id + span.span_id
        return key + owner.mark if owner.mark else key

    # --- the end of a request ---------------------------------------------------------------------

    def _end_request(self, now: int) -> None:
        """Has the sessions count their spans, and counts what expired. A trace without calls yet waits."""
        if self._foreign:
            self._coverage.count("no_dialect", self._foreign)
            self._foreign = 0
        if self.correlation.executed:
            self._stats.add(_EXECUTED, self.correlation.executed)
            self.correlation.executed = 0
        touched, self._touched = self._touched, []
        for trace in touched:
            trace.touched = False
        for trace in touched:
            if self.monitor.corrections.saw(trace.key, trace.spans, trace.foreign):
                trace.spans = trace.foreign = 0
                if trace.missed is not None:
                    for reason, count in trace.missed.items():
                        self.monitor.corrections.miss(trace.key, reason, count)
                    trace.missed = None
        if CUT.count:
            self._coverage.count("over_bound", CUT.taken())
        given_up = self.traces.given_up()
        if given_up:
            self._coverage.count("arguments_given_up", given_up)
        self._requested_calls.expire(now)
        broken = self.traces.broken()
        if broken:
            self._coverage.count_traces("span_missing", broken)
        if self.traces.continued:
            self._requested_calls.count_continued()

    # --- what is odd, and rare ----------------------------------------------------------------

    def _reject(self, span: Span) -> None:
        """Leaves a span out, as if it had not come; the answer to its sender says so."""
        if self._rejects is None:
            self._rejects = Rejects()
        fault = f"the tool's name has more than {NAME_MAX} characters"
        self._rejects.add(f"span {span.span_id.hex()}", fault, "over_bound", span.resource)

    def _take_doubtful(
        self, span: Span, plan: ReadPlan, doubt: SpanAmbiguity, evidence: Evidence, now: int
    ) -> None:
        """A span that has further readings: each one is judged, and the doubt is counted once."""
        if doubt.reasons and (self._remembered or not doubt.readings):
            owner = self._session_ids.owner(span.resource)
            trace = self.traces.of(owner.namespace, span.trace_id)
            key = self._duplicate_key(owner, span) + evidence.encode()
            for reason in doubt.reasons:
                if not self._is_counted(key, reason):
                    self._coverage.count(reason)
                    trace.miss(reason)
        for reading in doubt.readings[1:]:
            own = self._apart(span, reading, evidence)
            self._take(own, plan, reading, evidence, now)

    def _take_again(
        self,
        owner: ResourceIdentity,
        span: Span,
        plan: ReadPlan,
        reading: SpanReading,
        evidence: Evidence,
        now: int,
    ) -> None:
        """A span whose ids were judged before: a copy, a fuller copy, or another call under these ids."""
        trace = self.traces.of(owner.namespace, span.trace_id)
        tree = trace.tree
        node = tree.node(span.span_id) if tree is not None else None
        call = node.call if node is not None else None
        if tree is not None and node is not None and call is not None:
            if self._is_another(call, span, reading, evidence):
                self._take_another(span, plan, reading, evidence, call, now)
                return
            # An error kept the call from being judged, and then another call came under its ids.
            unjudged = call.judged is None and not call.doubled and not call.withdrawn
            known = call.piece(span.span_id)
            fuller = not known.is_given and (reading.arguments or reading.bare)
            ended = evidence is Evidence.EXECUTED and known.is_news(
                span.end_ns, error=reading.error or node.failed
            )
            if unjudged or fuller or ended:
                self._touch(trace)
                self._take_call(span, reading, evidence, Context(trace, tree, node, now))
                return
        self._stats.drop("duplicate")
        self._touch(trace)
        self._coverage.count_call("duplicate", call)

    def _is_another(
        self, call: LogicalCall, span: Span, reading: SpanReading, evidence: Evidence
    ) -> bool:
        """True if the span tells another call than the one that is known by its id."""
        piece = Piece.of(span, reading, "", evidence, None, "")
        return is_another(call.piece(span.span_id), piece)

    def _take_another(
        self,
        span: Span,
        plan: ReadPlan,
        reading: SpanReading,
        evidence: Evidence,
        call: LogicalCall,
        now: int,
    ) -> None:
        """Another call under ids that are known: it is judged under an id of its own, and counted."""
        own = self._apart(span, reading, evidence)
        owner = self._session_ids.owner(span.resource)
        key = self._duplicate_key(owner, own)
        known = key in self._duplicates or key + b"p" in self._duplicates
        if not known and not self._is_counted(key, "id_reused"):
            self._coverage.count_call("id_reused", call)
        self._take(own, plan, reading, evidence, now)
        trace = self.traces.of(owner.namespace, own.trace_id)
        if trace.tree is not None:
            self.correlation.doubt_again(trace, trace.tree, span.span_id, own.span_id, now)

    def _apart(self, span: Span, reading: SpanReading, evidence: Evidence) -> Span:
        """The span under an id of its own: the same for its copies, and for its end if it is pending."""
        owner = self._session_ids.owner(span.resource)
        tree = self.traces.of(owner.namespace, span.trace_id).tree
        own = span.but(span_id=_own_id(span, reading.tool))
        node = tree.node(own.span_id) if tree is not None else None
        call = node.call if node is not None else None
        if call is not None and self._is_another(call, own, reading, evidence):
            own = span.but(span_id=_own_id(span, reading.tool, repr(reading.arguments)))
        self._derived.append((span.span_id, own.span_id))
        return own

    def _count(
        self, span: Span, reading: SpanReading, evidence: Evidence, call: LogicalCall | None
    ) -> None:
        """Counts why this span's call is not judged, or not for certain."""
        owner = self._session_ids.owner(span.resource)
        key = self._duplicate_key(owner, span) + evidence.encode()
        if reading.unreadable == "arguments_unreadable" and not self._is_counted(
            key, reading.unreadable
        ):
            self._stats.count("arguments_unreadable", reading.dialect)
        if span.dropped and not self._is_counted(key, "truncated_attributes"):
            self._coverage.count_call("truncated_attributes", call)
        if reading.control and not self._is_counted(key, "control"):
            self._coverage.count_call("control", call)

    def _is_counted(self, key: bytes, reason: str) -> bool:
        """True if a reason was counted for a span when an error refused its request; else it is counted now."""
        mark = key + reason.encode()
        if mark in self._duplicates:
            return True
        self._counted.append(mark)
        return False


def _start(span: Span) -> int:
    return span.start_ns


def _own_id(span: Span, tool: str, arguments: str = "") -> bytes:
    """An id for a call whose span has the id of another call: the same for each copy of the span."""
    text = f"{tool}\0{arguments}\0{span.start_ns}".encode("utf-8", "surrogatepass")
    return blake2b(span.span_id + text, digest_size=8).digest()


def _read(told: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a client says that a tool returned, read as what spans say."""
    return returned(told[0], quoted=False) if told else ()


def _with(
    known: Mapping[str, tuple[ValuePath, ...]], more: Mapping[str, tuple[ValuePath, ...]]
) -> dict[str, tuple[ValuePath, ...]]:
    """The paths of results that either asks for."""
    found = {tool: {path.text: path for path in paths} for tool, paths in known.items()}
    for tool, paths in more.items():
        found.setdefault(tool, {}).update({path.text: path for path in paths})
    return {tool: tuple(paths.values()) for tool, paths in found.items()}
