"""Spans -> tool calls -> verdicts. No sockets, no clock: the time of receipt is an argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from collector.calls.batch import Batch
from collector.calls.call import SERVER, Call, Piece, is_another
from collector.calls.duplicates import DuplicateFilter
from collector.calls.inventory import Inventory
from collector.calls.mcp_echo import McpEcho
from collector.calls.merge import CallMerge
from collector.calls.model_requests import Mode, ModelRequests, RequestPiece
from collector.calls.near_misses import NearMisses
from collector.calls.records import Requester
from collector.calls.session_claim import Claim
from collector.calls.session_ids import NAMESPACE_KEYS, RESOURCE_RUNG, Owner, SessionIds
from collector.calls.span_tree import Node, Parts, Tree
from collector.calls.trace_store import ARGUMENTS_BYTES_MAX, NEVER, Trace, Traces
from collector.decode.sizes import kept
from collector.decode.span import Rejects, Span, Unjudged
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS, Plans
from collector.dialects.doubt import Doubt, doubt_of, is_in_doubt
from collector.dialects.names import PREFIX
from collector.dialects.outputs import Outputs, goes_on
from collector.dialects.plan import Plan
from collector.dialects.read import (
    NAME_MAX,
    TOO_LONG,
    Reading,
    agent_of,
    has_event,
    read,
    unpended,
    wrapped_by,
)
from collector.dialects.unclear import UNCLEAR
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.partial import Partial
from monitor.records import FROM_TRACE, Evidence, Named, SessionKey, ToolCall, Verdict

__all__ = ["COVERAGE", "Pipeline"]

SECOND: Final = 1_000_000_000

_UNCLEAR: Final = UNCLEAR.name

_EXECUTED: Final[tuple[str, ...]] = ("calls", Evidence.EXECUTED)

TOGETHER: Final = 64
"""Spans that go side by side through what is to be done with them."""

LOOSE_MAX: Final = 512
"""Calls of a split trace that are looked at again when it tells more."""

COVERAGE: Final = (
    "ambiguous_attribute",
    "ambiguous_tool",
    "arguments_given_up",
    "arguments_late",
    "arguments_missing",
    "arguments_unnamed",
    "arguments_unreadable",
    "control",
    "duplicate",
    "id_reused",
    "look_alike",
    "name_variant",
    "no_dialect",
    "no_session_id",
    "no_spec",
    "odd_number",
    "operation_conflict",
    "over_bound",
    "requested_only",
    "sampled_upstream",
    "span_missing",
    "truncated_attributes",
    "unnamed_tool",
)
"""Why a span or call was not judged, or not for certain: labels of the counter `coverage`.

`arguments_given_up` counts calls that were judged, and whose arguments were then let go, since too many
were held for further spans of the same calls: one that comes without them changes nothing.
`arguments_late` takes back one of the three before it: a later span of the call had them.
`no_session_id` counts calls that were judged under their trace's id, which may still change.
`no_dialect` counts spans that speak no dialect: of a web server, a database, or a framework that
is not known. `no_spec` counts calls of ended sessions that no spec matched, and `span_missing`
spans above a call that never came.
"""

Deliver = Callable[[Sequence[Verdict]], None]


class Pipeline:
    """Reads spans as calls and has them judged.

    Args:
        monitor: who judges.
        stats: where what is not judged is counted.
        deliver: told of the verdicts of each request, while they are new.
        session_keys: the ladder of session ids, best first.
        namespace_keys: resource attributes that keep tenants apart.
        agent_keys: where agents are named, best first.
        requested: whether requests of models are judged (`auto`: where tools leave no spans).
        span_keys: attributes that specs bind on, of which a span's own overrules its resource's.
        arguments_bytes_max: of the arguments that are held for further spans of the same calls.
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
    ) -> None:
        self.monitor = monitor
        self.inventory = Inventory()
        self.quiet = True
        """False words every verdict, for whoever looks on; else only what is news."""
        self._stats = stats
        self._deliver = deliver
        self._plans = Plans(session_keys, monitor.binder.keys(), agent_keys)
        self._span_keys = frozenset(span_keys)
        self._sessions = SessionIds(session_keys, namespace_keys)
        self._traces = Traces(bytes_max=arguments_bytes_max)
        self._duplicates = DuplicateFilter()
        self._requests = ModelRequests(requested)
        self._mcp_echo = McpEcho()
        self._foreign = 0
        self._executed = 0
        """Executed calls of this request."""
        self._heard: list[Trace] = []
        """Traces with spans that their session was not told of."""
        self._call_merge = CallMerge(self._retract, stats)
        self._batch = Batch(monitor)
        self._near = NearMisses(monitor)
        self._rejects: Rejects | None = None
        self._remembered = b""
        """What was remembered last of a span that came for the first time."""
        self._failed_spans = 0
        """Spans of this request that an error of ours kept from being judged, and the errors."""
        self._errors: list[Exception] = []

    def consume(self, spans: Sequence[Span], now: int, _transport: str) -> Rejects | None:
        """Takes the spans of one request, received at `now` (Unix nanoseconds).

        An error in the middle keeps nothing else from being judged and delivered.

        Returns:
            those it did not take, for what only their dialect tells; None where it took all.

        Raises:
            Unjudged: errors of ours kept spans from being judged; the first is its cause.
        """
        verdicts: list[Verdict] = []
        count = len(spans)
        self._batch.open(now, verdicts, quiet=self.quiet, at_once=count == 1)
        for first in range(0, count, TOGETHER):
            part = spans if count <= TOGETHER else spans[first : first + TOGETHER]
            self._take_together(part, now, verdicts)
        try:
            self._tell_seen(now)
        except Exception as error:  # noqa: BLE001 - it is counted, and what was judged is delivered
            self._leave(error, 0)
        rejects, self._rejects = self._rejects, None
        try:
            if verdicts:
                self._deliver(verdicts)
        finally:
            if self._errors:
                self._raise_unjudged()
        return rejects

    def _take_together(self, spans: Sequence[Span], now: int, verdicts: list[Verdict]) -> None:
        """Some spans, in three steps: see `batch`."""
        plans: list[Plan | None] = []
        readings: list[Reading | None] = []
        doubts: dict[int, Doubt] | None = None
        for place, span in enumerate(spans):
            plan: Plan | None = None
            reading: Reading | None = None
            try:
                plan = self._plans.of(span)
                reading = read(span, plan) if plan.calls else None
                if (
                    plan.doubtful
                    or (reading is None and (plan.unclear is not None or "tool" in span.name))
                ) and is_in_doubt(span, plan, reading):
                    doubt = doubt_of(span, plan, reading)
                    reading = doubt.readings[0] if doubt.readings else None
                    if doubts is None:
                        doubts = {}
                    doubts[place] = doubt
            except Exception as error:  # noqa: BLE001
                plan = None
                self._leave(error)
            plans.append(plan)
            readings.append(reading)
        for place, span in enumerate(spans):
            plan = plans[place]
            if plan is not None:
                try:
                    evidence, real = Evidence.EXECUTED, None
                    if plan.pending:
                        real = unpended(span, plan)
                    if real is None:
                        real = span
                    else:
                        evidence = Evidence.PENDING
                    self._take(real, plan, readings[place], evidence, now, verdicts)
                    if doubts is not None and place in doubts:
                        self._take_doubtful(real, plan, doubts[place], evidence, now, verdicts)
                except Exception as error:  # noqa: BLE001
                    self._leave(error)
                    self._forget(span, judged=True)
        self._batch.flush()
        if self._batch.failed:
            self._fail_calls(spans)

    # --- errors of ours -----------------------------------------------------------------------
    # A span is remembered as judged only if it was. What an error kept from being judged is forgotten,
    # so that it is judged if it is sent again; all that came before and after it is judged.

    def _leave(self, error: Exception, spans: int = 1) -> None:
        """Spans could not be read, joined or judged."""
        self._failed_spans += spans
        self._errors.append(error)

    def _fail_calls(self, spans: Sequence[Span]) -> None:
        """The monitor could not take some calls of these spans, or what they tell of sessions."""
        failed, self._batch.failed = self._batch.failed, []
        for each in failed:
            call, new = each.of, each.call
            pieces: Mapping[bytes, Piece] = {}
            if call is not None and new is not None:
                trace = self._traces.of(new.session.namespace, new.trace_id)
                self._count_first(call, new, trace.sampled, -1)
                pieces = call.pieces
            mine = [span for span in spans if span.span_id in pieces]
            self._leave(each.error, max(1, len(mine)))
            for span in mine or spans:
                self._forget(span, judged=not mine)

    def _forget(self, span: Span, *, judged: bool) -> None:
        """Forgets a span, and what the session of its trace was told.

        One that may have been judged before is forgotten if it was remembered just now.
        """
        try:
            owner = self._sessions.owner(span.resource)
        except Exception:  # noqa: BLE001 - then there is nothing to forget
            return
        trace = self._traces.of(owner.namespace, span.trace_id)
        trace.learnt = trace.learnt_named = None
        key = self._seen_key(owner, span)
        for each in (key, key + b"p"):
            if not judged or each == self._remembered:
                self._duplicates.forget(each)

    def _raise_unjudged(self) -> None:
        """Raises what kept spans of the request from being judged, and begins anew."""
        count, errors = self._failed_spans, self._errors
        self._failed_spans, self._errors = 0, []
        names: dict[str, int] = {}
        for error in errors:
            name = type(error).__name__
            names[name] = names.get(name, 0) + 1
        raise Unjudged(count, names) from errors[0]

    def may_be_call(self, span: Span) -> bool:
        """True for a span whose shape may be that of a tool call."""
        return bool(self._plans.of(span).calls)

    def specs_changed(self) -> None:
        """The monitor has other specs: they may bind on other attributes."""
        self._plans.bind_on(self.monitor.binder.keys())
        self._near.specs_changed()

    def tick(self, now: int) -> None:
        """Time has passed: what was held for spans that do not come is let go."""
        self._traces.expire(now)
        self._tell_seen(now)

    def finish(self) -> None:
        """The input is over: what never came is counted."""
        self._count_missing("requested_only", self._requests.rest())
        self._traces.close()
        self._count_missing("span_missing", self._traces.broken())

    # --- one span ---------------------------------------------------------------------------
    # What follows runs for each span: what is new is added to `verdicts`, and nothing is asked
    # that the plan of the span's shape has settled.

    def _take(
        self,
        span: Span,
        plan: Plan,
        reading: Reading | None,
        evidence: Evidence,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        owner = self._sessions.owner(span.resource)
        if reading is not None:
            if reading is TOO_LONG:
                self._reject(span)
                return
            if not span.end_ns:
                evidence = Evidence.PENDING
            if self._is_old(owner, span, evidence, now):
                self._take_again(owner, span, plan, reading, evidence, now, verdicts)
                return
        trace = self._traces.of(owner.namespace, span.trace_id)
        self._hear(trace)
        tree = self._traces.grow(trace, now)
        node = tree.put(span.span_id, span.parent_span_id)
        if plan.foreign:
            trace.foreign += 1
            self._foreign += 1
        if span.sampled:
            trace.sampled = True
        agent = agent_of(span, plan) if plan.agents else ""
        if agent:
            node.agent = agent
        told = None
        if plan.entry:
            node.entry = True
        if plan.session or owner.session is not None:
            told = self._sessions.claim_of(span, plan, owner, tree)
            if plan.plain and told is not None and told.rung != RESOURCE_RUNG:
                tree.hold(told.by(span.span_id, span.start_ns))
                told = owner.session
        if told is not None or trace.split:
            self._told(trace, tree, node, told, span.start_ns, now, verdicts)
        if agent or plan.extras:
            self._note(span, plan, trace, agent)
        if reading is not None:
            known = node.call
            if known is not None and self._is_another(known, span, reading, evidence):
                self._take_another(span, plan, reading, evidence, known, now, verdicts)
                return
            self._call(span, reading, told, agent, evidence, trace, tree, node, now, verdicts)
            if reading.dialect != _UNCLEAR:
                return
        if not plan.silent or owner.session is not None:
            self._listen(span, plan, owner, told, agent, trace, tree, node, now, verdicts)
        if node.waiting is not None:
            self._rise_all(trace, tree, tree.awaited(node), now, verdicts)

    def _call(
        self,
        span: Span,
        reading: Reading,
        told: Claim | None,
        agent: str,
        evidence: Evidence,
        trace: Trace,
        tree: Tree,
        node: Node,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        """A span that is a call, or a piece of one."""
        own = told is not None and told.rung != RESOURCE_RUNG
        piece = Piece.of(
            span,
            reading,
            agent,
            evidence,
            told.key if told is not None and own else None,
            told.name if told is not None and own else "",
        )
        self._call_merge.place(tree, node, piece, verdicts)
        if reading.dialect == SERVER or reading.tool.startswith(PREFIX):
            self._match_served(trace, node, piece, verdicts)
        if node.waiting is None:
            self._rise(trace, tree, node, now, verdicts, reading.switch)
        else:
            nodes = [node, *tree.awaited(node)]
            self._rise_all(trace, tree, nodes, now, verdicts, reading.switch)
        if evidence is Evidence.EXECUTED:
            self._stats.span_lag.observe(max(0, now - span.end_ns) / SECOND)
        self._traces.hold(tree, reading.arguments)
        if reading.unreadable or span.dropped or reading.control:
            self._count(span, reading, node.call)

    def _listen(
        self,
        span: Span,
        plan: Plan,
        owner: Owner,
        told: Claim | None,
        agent: str,
        trace: Trace,
        tree: Tree,
        node: Node,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        """A span that is no call: it may tell of an agent, of calls below it, or of requests."""
        if plan.stop:
            node.stops = True
        failing = plan.fails
        if failing is not None and has_event(span, failing):
            self._fail(trace, tree, node, now, verdicts)
        if plan.wrappers:
            wrapped = wrapped_by(span, plan)
            if wrapped is not None:
                tree.wrap(span.span_id, wrapped)
                for each in wrapped:
                    self._traces.hold(tree, each.arguments)
        self._learn(span, trace, told, agent)
        if plan.stop or plan.outputs is not None or not span.parent_span_id:
            self._batch.answer(told.key if told is not None else trace.key, span)
        if plan.outputs is not None:
            if span.dropped:
                self._cover("truncated_attributes")
            if trace.first is None:
                self._note_answers(span, plan.outputs, trace)
            self._ask(span, plan.outputs, owner.requester, trace, agent, now, verdicts)

    def _fail(
        self, trace: Trace, tree: Tree, node: Node, now: int, verdicts: list[Verdict]
    ) -> None:
        """The call above this span failed, whether it has come or not."""
        above = tree.up(node)
        if above is None:
            return
        above.failed = True
        call = above.call
        if call is not None:
            call.fail(above.span_id)
            outer = above if call.is_one else tree.node(call.outer.span_id)
            self._settle(trace, tree, call, outer, now, verdicts)

    def _note_answers(self, span: Span, outputs: Outputs, trace: Trace) -> None:
        """A model may have been given answers of tools that were called in other traces."""
        start_ns = span.start_ns
        known = start_ns >= trace.called_ns or start_ns >= trace.answered_ns
        if not known and goes_on(span, outputs):
            trace.answered_ns = start_ns

    def _doubt(self, trace: Trace, verdicts: list[Verdict]) -> None:
        """The first calls of a trace's session may be missing, or are not: tells what has changed."""
        doubted = trace.is_rest
        if doubted is not trace.doubted:
            verdicts += self._batch.monitor.doubt(trace.key, doubted=doubted)
            trace.doubted = doubted

    def _tell_seen(self, now: int) -> None:
        """Tells the sessions how many spans were seen of them; one with no call yet waits."""
        if self._foreign:
            self._cover("no_dialect", self._foreign)
            self._foreign = 0
        if self._executed:
            self._stats.add(_EXECUTED, self._executed)
            self._executed = 0
        heard, self._heard = self._heard, []
        for trace in heard:
            trace.touched = False
        for trace in heard:
            if self.monitor.saw(trace.key, trace.spans, trace.foreign):
                trace.spans = trace.foreign = 0
                if trace.missed is not None:
                    for reason, count in trace.missed.items():
                        self.monitor.miss(trace.key, reason, count)
                    trace.missed = None
        expired, broken = self._requests.expired(now), self._traces.broken()
        given_up = self._traces.given_up()
        if given_up:
            self._cover("arguments_given_up", given_up)
        if expired:
            self._count_missing("requested_only", expired)
        if broken:
            self._count_missing("span_missing", broken)

    def _hear(self, trace: Trace) -> None:
        """A span more, of which the trace's session is told at the end of the request."""
        trace.spans += 1
        if not trace.touched:
            trace.touched = True
            self._heard.append(trace)

    def _reject(self, span: Span) -> None:
        """Leaves a span out, as if it had not come; its sender is told."""
        if self._rejects is None:
            self._rejects = Rejects()
        fault = f"the tool's name has more than {NAME_MAX} characters"
        self._rejects.add(f"span {span.span_id.hex()}", fault, "over_bound")

    def _is_old(self, owner: Owner, span: Span, evidence: Evidence, now: int) -> bool:
        """True for a span that was judged before; the end of a pending one is news.

        Others may know its ids before it ends: they are told to whoever is called in it.
        """
        key = self._seen_key(owner, span)
        if evidence is Evidence.PENDING:
            if key in self._duplicates:
                return True
            key += b"p"
        if self._duplicates.is_repeat(key, now):
            return True
        self._remembered = key
        return False

    def _seen_key(self, owner: Owner, span: Span) -> bytes:
        """The ids of a span, which are its namespace's alone."""
        key = span.trace_id + span.span_id
        return key + owner.mark if owner.mark else key

    # --- what is odd, and rare ----------------------------------------------------------------

    def _take_doubtful(
        self,
        span: Span,
        plan: Plan,
        doubt: Doubt,
        evidence: Evidence,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        """A span that may be read otherwise, too: each reading is judged, and the doubt is counted."""
        for reading in doubt.readings[1:]:
            own = span.but(span_id=_own_id(span, reading))
            self._take(own, plan, reading, evidence, now, verdicts)
        if doubt.reasons:
            owner = self._sessions.owner(span.resource)
            trace = self._traces.of(owner.namespace, span.trace_id)
            for reason in doubt.reasons:
                self._cover(reason)
                trace.miss(reason)

    def _take_again(
        self,
        owner: Owner,
        span: Span,
        plan: Plan,
        reading: Reading,
        evidence: Evidence,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        """A span whose ids were judged before: a copy, a fuller one, or another call under them."""
        trace = self._traces.of(owner.namespace, span.trace_id)
        tree = trace.tree
        node = tree.node(span.span_id) if tree is not None else None
        call = node.call if node is not None else None
        if tree is not None and node is not None and call is not None:
            if self._is_another(call, span, reading, evidence):
                self._take_another(span, plan, reading, evidence, call, now, verdicts)
                return
            if not call.piece(span.span_id).is_given and (reading.arguments or reading.bare):
                self._hear(trace)
                self._call(span, reading, None, "", evidence, trace, tree, node, now, verdicts)
                return
        self._stats.drop("duplicate")
        self._hear(trace)
        self._miss("duplicate", call)

    def _is_another(self, call: Call, span: Span, reading: Reading, evidence: Evidence) -> bool:
        """True where the span tells another call than the one that is known by its id."""
        piece = Piece.of(span, reading, "", evidence, None, "")
        return is_another(call.piece(span.span_id), piece)

    def _take_another(
        self,
        span: Span,
        plan: Plan,
        reading: Reading,
        evidence: Evidence,
        call: Call,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        """Another call under ids that were seen: it is judged as one of its own, and counted."""
        own = span.but(span_id=_own_id(span, reading))
        key = own.trace_id + own.span_id
        if key not in self._duplicates:
            self._miss("id_reused", call)
        self._take(own, plan, reading, evidence, now, verdicts)

    def _count(self, span: Span, reading: Reading, call: Call | None) -> None:
        """What of this span's call is not judged, or not for certain."""
        if reading.unreadable == "arguments_unreadable":
            self._stats.count("arguments_unreadable", reading.dialect)
        if span.dropped:
            self._miss("truncated_attributes", call)
        if reading.control:
            self._miss("control", call)

    def _miss(self, reason: str, call: Call | None) -> None:
        """Counts a reason in all, and in the session it concerns."""
        self._cover(reason)
        if call is not None and call.judged is not None:
            self._batch.monitor.miss(call.judged.session, reason)

    def _cover(self, reason: str, count: int = 1) -> None:
        self._stats.add(("coverage", reason), count)

    # --- sessions and agents ------------------------------------------------------------------

    def _told(
        self,
        trace: Trace,
        tree: Tree,
        node: Node,
        told: Claim | None,
        start_ns: int,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        """A span tells its session: calls move to it, all of the trace or the ones it concerns."""
        if told is not None:
            if trace.doubted:
                verdicts += self._batch.monitor.doubt(trace.key, doubted=False)
                trace.doubted = False
            before = self._sessions.learn(trace, tree, node, told, start_ns)
            if before is not None:
                try:
                    self._move(trace, tree, before, now)
                except Exception:
                    trace.unbelong(before)
                    raise
        parts = tree.parts
        if parts is None:
            return
        hint = parts.hints.get(node.span_id)
        if hint is not None:
            tree.hint(parts, hint, node)
        elif told is None:
            return
        self._settle_loose(trace, tree, parts, now, verdicts)

    def _believe(
        self, trace: Trace, tree: Tree, node: Node, now: int, verdicts: list[Verdict]
    ) -> None:
        """Spans above a call tell its session under plain names."""
        for told in tree.believed(node):
            above = tree.node(told.span_id)
            if above is not None:
                self._told(trace, tree, above, told.claim, told.start_ns, now, verdicts)

    def _settle_loose(
        self, trace: Trace, tree: Tree, parts: Parts, now: int, verdicts: list[Verdict]
    ) -> None:
        """More is known of a split trace: its calls whose session may change are looked at."""
        parts.loosened = False
        for call in list(parts.loose.values()):
            node = tree.node(call.outer.span_id)
            self._settle(trace, tree, call, node, now, verdicts)

    def _move(self, trace: Trace, tree: Tree, before: SessionKey, now: int) -> None:
        """The trace's calls get the session id that has just been told."""
        if not self._batch.monitor.rekey(before, trace.key, trace.session_from, now):
            self._stats.count("sessions_split")
            return
        for node in tree.calls():
            call = node.call
            known = call.judged if call is not None else None
            if call is not None and known is not None and known.session == before:
                self.inventory.record_move(known, trace.session_from)
                call.judged = known._replace(session=trace.key, session_from=trace.session_from)

    def _note(self, span: Span, plan: Plan, trace: Trace, agent: str) -> None:
        """What a span tells of its whole trace: an agent's name, attributes specs bind on."""
        if agent:
            known = trace.named
            if known is None or span.start_ns <= known.start_ns:
                named = Named(span.start_ns, span.span_id, agent)
                if known is None or named.counts_before(known):
                    trace.named = named
        if plan.extras:
            extras = {key: span.attribute(index) for index, key in plan.extras}
            extras = kept(extras, self._oversized)
            trace.add(extras, span.start_ns, span.span_id)

    def _oversized(self) -> None:
        self._stats.count("attributes_over_bound")

    def _learn(
        self,
        span: Span,
        trace: Trace,
        told: Claim | None,
        agent: str,
    ) -> None:
        """A span that is no call still tells whose turn it is; the monitor hears what is new."""
        if agent:
            self.inventory.record_agent(trace.namespace, span.resource.attributes, agent)
        attributes = trace.attributes(span.resource.attributes, self._span_keys)
        if trace.split:
            named = Named(span.start_ns, span.span_id, agent) if agent else None
        else:
            named = trace.named
            early = span.start_ns < self.monitor.started_ns
            if (
                named is trace.learnt_named
                and attributes is trace.learnt
                and (trace.learnt_early or not early)
            ):
                return
            trace.learnt_named = named
            trace.learnt_early = trace.learnt_early or early
        trace.learnt = attributes
        key = told.key if told is not None else trace.key
        self._batch.learn(key, named, attributes, span.start_ns)

    # --- calls --------------------------------------------------------------------------------

    def _rise(
        self,
        trace: Trace,
        tree: Tree,
        node: Node,
        now: int,
        verdicts: list[Verdict],
        switch: str = "",
    ) -> None:
        """A call looks at what is above it by now; what is new of it is told."""
        self._call_merge.rise(tree, node, verdicts)
        if tree.plain is not None:
            self._believe(trace, tree, node, now, verdicts)
        call = node.call
        if call is not None:
            outer = node if call.is_one else tree.node(call.outer.span_id)
            self._settle(trace, tree, call, outer, now, verdicts, switch)
        if self._call_merge.released:
            self._settle_released(trace, tree, now, verdicts)
        if tree.parts is not None and tree.parts.loosened:
            self._settle_loose(trace, tree, tree.parts, now, verdicts)

    def _settle_released(
        self, trace: Trace, tree: Tree, now: int, verdicts: list[Verdict]
    ) -> None:
        """Spans that were taken for pieces of a call turned out to be calls of their own."""
        released, self._call_merge.released = self._call_merge.released, []
        for node in released:
            call = node.call
            if call is not None:
                self._settle(trace, tree, call, node, now, verdicts)

    def _rise_all(
        self,
        trace: Trace,
        tree: Tree,
        nodes: list[Node],
        now: int,
        verdicts: list[Verdict],
        switch: str = "",
    ) -> None:
        """The same for several, which all look before one is told of."""
        for node in nodes:
            self._call_merge.rise(tree, node, verdicts)
            if tree.plain is not None:
                self._believe(trace, tree, node, now, verdicts)
        told: list[Call] | None = None
        for node in nodes:
            call = node.call
            if call is None:  # it is forgotten
                continue
            outer: Node | None = node
            if not call.is_one:  # its other spans may be among them
                if told is None:
                    told = []
                elif call in told:
                    continue
                told.append(call)
                outer = tree.node(call.outer.span_id)
            self._settle(trace, tree, call, outer, now, verdicts, switch)
        if self._call_merge.released:
            self._settle_released(trace, tree, now, verdicts)
        if tree.parts is not None and tree.parts.loosened:
            self._settle_loose(trace, tree, tree.parts, now, verdicts)

    def _settle(
        self,
        trace: Trace,
        tree: Tree,
        call: Call,
        outer: Node | None,
        now: int,
        verdicts: list[Verdict],
        switch: str = "",
    ) -> None:
        """Tells the monitor what is new of a call, whose outer span is remembered or not."""
        if call.given_up and call.judged is not None:
            return
        tree.above(call, outer)
        key, source = self._key(trace, tree, call)
        attributes = trace.attributes(call.outer.attributes, self._span_keys)
        old = call.judged
        new = call.tool_call(trace.trace_id, key, source, attributes, gaps=trace.sampled)
        if new is old or call.doubled:
            return
        if call.withdrawn and new.evidence is Evidence.REQUESTED:
            return
        if new.start_ns < trace.called_ns:
            trace.called_ns = new.start_ns
            if trace.answered_ns < NEVER:
                self._doubt(trace, verdicts)
        if old is None:
            self._first(trace, call, new, now, verdicts, switch)
        elif old.session != key:
            verdicts += self._retract(old)
            named = None if trace.split else trace.named
            call.judged = new
            self._batch.observe(call, new, named, doubted=False)
        elif not self._differs(old, new):
            call.judged = new
        else:
            self._amend(trace, old, new, now, verdicts)
            call.judged = new
            if old.evidence is Evidence.REQUESTED:
                self._take_back(trace, new, now, verdicts, judged=True)
            elif old.tool != new.tool:  # what it was asked for by is known now
                self._take_back(trace, new, now, verdicts, judged=False)

    def _first(
        self,
        trace: Trace,
        call: Call,
        new: ToolCall,
        now: int,
        verdicts: list[Verdict],
        switch: str,
    ) -> None:
        """A call the monitor has not heard of."""
        self.inventory.record(new, switch, now)
        self._count_first(call, new, trace.sampled, 1)
        named = None if trace.split else trace.named
        call.judged = new
        self._batch.observe(call, new, named, doubted=trace.doubted)
        near = self._near.reason(new)
        if near:
            self._miss(near, call)
        if new.evidence is not Evidence.REQUESTED:
            self._take_back(trace, new, now, verdicts, judged=False)

    def _count_first(self, call: Call, new: ToolCall, sampled: bool, by: int) -> None:
        """Counts a call; -1 takes back one that could not be judged."""
        if new.evidence is Evidence.EXECUTED:
            self._executed += by
        else:
            self._stats.count("calls", new.evidence, by=by)
        if new.arguments is None:
            self._cover(call.outer.why or "arguments_missing", by)
        elif type(new.arguments) is Partial:
            self._cover("arguments_unreadable", by)
        if new.session_from == FROM_TRACE:
            self._cover("no_session_id", by)
        if sampled:
            self._cover("sampled_upstream", by)

    def _amend(
        self, trace: Trace, old: ToolCall, new: ToolCall, now: int, verdicts: list[Verdict]
    ) -> None:
        """More is known of a call than the monitor was told."""
        if (old.arguments is None and new.arguments is not None) or (
            type(old.arguments) is Partial and type(new.arguments) is not Partial
        ):
            self._cover("arguments_late")
            near = self._near.reason(new)
            if near:
                self._cover(near)
                self._batch.monitor.miss(new.session, near)
        named = None if trace.split else trace.named
        verdicts += self._batch.monitor.amend(old, new, now, named)
        if old.attributes is not new.attributes:
            self._batch.learn(new.session, None, new.attributes, new.start_ns)

    def _differs(self, old: ToolCall, new: ToolCall) -> bool:
        """True where the difference may change a verdict, or what is shown of it."""
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
        ):
            return True
        if old.agent == new.agent:
            return False
        judges = self.monitor.binder.judges.values()
        return any(judge.spec.scope == "agent" for judge in judges)

    def _key(self, trace: Trace, tree: Tree, call: Call) -> tuple[SessionKey, str]:
        """The session of a call, as far as it is known."""
        parts = tree.parts
        if parts is None:
            own = call.own
            if own is not None and own.session is not None:
                return own.session, own.session_from
            return trace.key, trace.session_from
        key, source, certain = self._sessions.resolve(trace, tree, parts, call) or (
            trace.key,
            trace.session_from,
            False,
        )
        if certain:
            parts.loose.pop(id(call), None)
        elif id(call) not in parts.loose:
            parts.loose[id(call)] = call
            if len(parts.loose) > LOOSE_MAX:
                del parts.loose[next(iter(parts.loose))]
                self._cover("over_bound")
        return key, source

    def _retract(self, call: ToolCall) -> list[Verdict]:
        return self._batch.monitor.retract(call)

    # --- servers in the agent's process ---------------------------------------------------------

    def _match_served(
        self, trace: Trace, node: Node, piece: Piece, verdicts: list[Verdict]
    ) -> None:
        """A call to an MCP server, told by it or by its agent: told by both, it is the agent's."""
        call = node.call
        if call is None or piece.evidence is not Evidence.EXECUTED:
            return
        requester = self._sessions.requester(trace.namespace, piece.attributes)
        if piece.source == SERVER:
            if call.is_one:
                if self._mcp_echo.of_server(requester, call):
                    self._double(call, verdicts)
                elif trace.tree is not None:
                    trace.tree.shared = True
            return
        for other in self._mcp_echo.of_agent(requester, piece):
            if not other.doubled and other is not call:
                self._double(other, verdicts)

    def _double(self, call: Call, verdicts: list[Verdict]) -> None:
        known = call.judged
        if known is not None:
            verdicts += self._retract(known)
            call.judged = None
        call.doubled = True
        self._stats.count("spans_merged")

    # --- requests -----------------------------------------------------------------------------

    def _ask(
        self,
        span: Span,
        outputs: Outputs,
        requester: Requester,
        trace: Trace,
        agent: str,
        now: int,
        verdicts: list[Verdict],
    ) -> None:
        """An LLM span: tool calls it asks for, judged where nothing else tells of them."""
        found = self._requests.read(requester, trace, span, outputs, agent, now)
        if trace.answered_ns < NEVER:
            self._doubt(trace, verdicts)
        for asked in found:
            try:
                self._judge_request(requester, asked, now, verdicts)
            except Exception as error:  # noqa: BLE001
                self._leave(error)
                self._requests.keep(requester, asked)
        if self._requests.oversized:
            self._count_missing("over_bound", [(trace, self._requests.oversized)])
            self._requests.oversized = 0

    def _judge_request(
        self, requester: Requester, asked: RequestPiece, now: int, verdicts: list[Verdict]
    ) -> None:
        trace, piece = asked
        tree = trace.tree
        if tree is None:
            tree = self._traces.grow(trace, now)
            tree.put(piece.parent, b"")
        node = tree.node(piece.span_id)
        if node is None or not node.came:
            node = tree.put(piece.span_id, piece.parent)
        self._call_merge.place(tree, node, piece, verdicts)
        call = node.call
        if call is not None and call.judged is None:
            self._requests.judged(requester, trace, call)
            tree.shared = True
        self._rise(trace, tree, node, now, verdicts)
        self._traces.hold(tree, piece.arguments)

    def _take_back(
        self, trace: Trace, new: ToolCall, now: int, verdicts: list[Verdict], *, judged: bool
    ) -> None:
        """A tool span shows that the agent's tools have spans: its judged requests were doubles."""
        requester = self._sessions.requester(trace.namespace, new.attributes)
        for other in self._requests.executed(
            requester, trace, new.tool, new.source, judged=judged
        ):
            call = other.call
            known = call.judged
            if known is not None and known.evidence is Evidence.REQUESTED:
                verdicts += self._retract(known)
                call.judged, call.withdrawn = None, True
                self._requests.back(other, now)

    def _count_missing(self, reason: str, found: Iterable[tuple[Trace, int]]) -> None:
        """What was announced, by a model or by a call's parent id, and never came."""
        for trace, count in found:
            self._cover(reason, count)
            self._batch.monitor.miss(trace.key, reason, count)


def _own_id(span: Span, reading: Reading) -> bytes:
    """An id for a call whose span has the id of another's: the same for each copy of the span."""
    told = f"{reading.tool}\0{reading.arguments!r}\0{span.start_ns}"
    text = told.encode("utf-8", "surrogatepass")
    return blake2b(span.span_id + text, digest_size=8).digest()
