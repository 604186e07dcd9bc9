"""Decides calls before they are made, and takes what becomes of them.

Idea: the calls of a question become tool calls as spans would tell them, in their trace and session, at the time of the
question. The monitor says what they would be (`Monitor.decide`), beside those of the session that are on their way. Those
that are not denied wait in the table of decided calls for a span, or for what their client tells of them.

Invariant: asking changes no session. A call enters its session when a span tells of it, or when its client says that it
was made.

Example: `pay` is asked about while `approve` is missing. The spec says `enforce: block`: the answer is deny, the call
is remembered as prevented, and no session has it. Under `advise` it goes ahead, and is judged as harmful once a span, or
its client, tells that it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from collector.calls.batch import EventBatch
from collector.calls.correlation.session_moves import SessionMoves
from collector.calls.decisions.confirmation import Confirmation
from collector.calls.decisions.decided_calls import (
    SOURCE,
    DecidedCall,
    DecisionState,
    Outcome,
    QuestionCall,
)
from collector.calls.sessions.session_ids import SessionIds, id_of
from collector.calls.tree.trace import NEVER, Trace
from collector.calls.tree.trace_store import Traces
from collector.decode.span import Resource
from collector.telemetry.counters import Stats
from monitor.decision import Answer, CallDecision
from monitor.engine import Monitor
from monitor.records import (
    FROM_DECISION,
    FROM_TRACE,
    NO_TRACE,
    AgentName,
    Evidence,
    Proof,
    SessionKey,
    ToolCall,
)

__all__ = ["DecisionResult", "OutcomeResult", "QuestionHandler"]

TOGETHER_NS: Final = 1
"""Parallel calls begin at once, and end so much later: they overlap."""

CLOCK_BACK_NS: Final = 1_000_000_000
"""A clock that is set back by less is waited for: later questions get later times."""


class DecisionResult(NamedTuple):
    """One decision."""

    number: int
    """0 for a question that commits nothing."""
    decision: CallDecision
    committed: bool
    session: str
    tool: str
    matched: bool
    """False if no spec judges the session."""


class OutcomeResult(NamedTuple):
    """What becomes of what a client tells."""

    entry: DecidedCall | None
    """None if the decision is not known."""
    agrees: bool = True
    """False if the call was settled otherwise before."""


class QuestionHandler:
    """Decides calls and settles them.

    Args:
        ids: reads the namespace of a client.
        sessions: whose session a trace is.
        traces: what is known of the calls' traces.
        batch: leads to the monitor.
        confirmation: the table of decided calls, and the spans that they meet.
        stats: counts calls that nothing confirmed.
        monitor: decides.
        prevented: is handed each call that is denied.
    """

    def __init__(
        self,
        ids: SessionIds,
        sessions: SessionMoves,
        traces: Traces,
        batch: EventBatch,
        confirmation: Confirmation,
        stats: Stats,
        monitor: Monitor,
        prevented: Callable[[DecidedCall], None],
    ) -> None:
        self._ids = ids
        self._sessions = sessions
        self._traces = traces
        self._batch = batch
        self._confirmation = confirmation
        self._table = confirmation.table
        self._table.reservations = monitor.reservations
        self._stats = stats
        self._monitor = monitor
        self._prevented = prevented
        self._last_ns = 0

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
        """Decides the calls of one question.

        Args:
            asked: at least one; of one session and one trace.
            resource: of the client: what specs bind on, and what its namespace is read from.
            sender: the name of the client's token; None if no token is required.
            now: time of the question, Unix nanoseconds.
            commit: whether the calls that are not denied go ahead.
            new_session: the client says that no call of the session was made before.
        """
        namespace = self._ids.owner(resource).namespace
        first = asked[0]
        trace = self._traces.find(namespace, first.trace_id) if first.trace_id else None
        if trace is None and first.trace_id and commit:
            trace = self._traces.of(namespace, first.trace_id)
        key, source = self._session(first, namespace, trace)
        start_ns = self._time(now, commit=commit)
        before = [
            self._table.asked_before(each, key, sender) if commit else None for each in asked
        ]
        new = [each for each, known in zip(asked, before, strict=True) if known is None]
        calls = [
            self._call(each, place, key, source, resource, trace, start_ns, len(new))
            for place, each in enumerate(new)
        ]
        beginning = self._monitor.beginning(key, start_ns) if new_session else None
        if beginning is not None and commit:
            self._table.begin(key, beginning, now)
        proof = beginning or self._proof(key, trace)
        decisions = self._decisions(calls, trace, now, proof)
        made = [
            self._made(each, call, decision, trace, sender, now, commit=commit)
            for each, call, decision in zip(new, calls, decisions, strict=True)
        ]
        made.reverse()
        return [made.pop() if known is None else self._again(known) for known in before]

    def settle(
        self,
        decision_id: str,
        outcome: Outcome,
        sender: str | None,
        now: int,
        result: tuple[Any, ...] = (),
    ) -> OutcomeResult:
        """Takes what a client tells of a decided call; `result` is what it returned, as in `ToolCall`."""
        entry = self._table.named(decision_id)
        if entry is None or entry.sender != sender:
            return OutcomeResult(None)
        state = entry.state
        if state is DecisionState.CONFIRMED:
            agrees = outcome != "skipped" or self._confirmation.skipped(entry)
            return OutcomeResult(entry, agrees)
        if state in (DecisionState.RAN, DecisionState.FAILED, DecisionState.SKIPPED):
            return OutcomeResult(entry, state.value == outcome)
        if outcome == "skipped":
            self._table.settled(entry, DecisionState.SKIPPED)
            return OutcomeResult(entry)
        self._ran(entry, now, result, failed=outcome == "failed")
        return OutcomeResult(entry)

    def expire(self, now: int) -> None:
        """Forgets the calls that nothing has confirmed in time.

        One whose span may have been taken for that of a refused call counts as made: a model that has a tool return the
        words of a refusal must not make its call vanish.
        """
        for entry in self._table.expired(now):
            if self._table.is_passed_over(entry):
                self._ran(entry, now, (), failed=False)
            else:
                self._stats.count("decisions_unconfirmed")

    # --- the calls of a question ----------------------------------------------------------------

    def _session(
        self, asked: QuestionCall, namespace: str, trace: Trace | None
    ) -> tuple[SessionKey, str]:
        """The session of a question's calls, and where its id comes from."""
        name = id_of(asked.session)
        if name:
            return SessionKey(namespace, name), FROM_DECISION
        if trace is not None:
            return trace.key, trace.session_from
        return SessionKey(namespace, asked.trace_id.hex()), FROM_TRACE

    def _time(self, now: int, *, commit: bool) -> int:
        """The time of a question: later than that of the committed one before."""
        if now <= self._last_ns and self._last_ns - now < CLOCK_BACK_NS:
            now = self._last_ns + 1
        if commit:
            self._last_ns = now
        return now

    def _call(
        self,
        asked: QuestionCall,
        place: int,
        key: SessionKey,
        source: str,
        resource: Resource,
        trace: Trace | None,
        start_ns: int,
        count: int,
    ) -> ToolCall:
        """A call as its span will tell it. It has no end yet; parallel calls overlap."""
        attributes = resource.attributes
        if trace is not None:
            attributes = trace.attributes(attributes, self._sessions.span_keys)
        return ToolCall(
            key,
            asked.agent,
            asked.tool,
            asked.arguments,
            False,
            start_ns,
            start_ns + (TOGETHER_NS if count > 1 else 0),
            asked.trace_id or NO_TRACE,
            self._span_id(place),
            asked.parent_span_id,
            asked.call_id,
            Evidence.DECIDED,
            attributes=attributes,
            control=False,
            source=SOURCE,
            session_from=source,
            gaps=trace is not None and trace.sampled,
        )

    def _span_id(self, place: int) -> bytes:
        """The id of a call that will be committed as one of the next.

        Never that of its span, even if the client gives it: two calls of a session must not have one id.
        """
        number = (self._table.last_number + 1 + place).to_bytes(8)
        return blake2b(self._table.seed + number, digest_size=8).digest()

    def _decisions(
        self, calls: list[ToolCall], trace: Trace | None, now: int, proof: Proof | None
    ) -> list[CallDecision]:
        if not calls:
            return []
        monitor, beside = self._monitor, self._table.beside(calls[0].session)
        if len(calls) > 1:
            found = monitor.decide_together(calls, now, proof=proof, beside=beside)
        else:
            named, doubted = _named(calls[0], trace), trace is not None and trace.doubted
            found = [
                monitor.decide(
                    calls[0], now, named=named, doubted=doubted, proof=proof, beside=beside
                )
            ]
        return [
            self._table.reservations.lost.weigh(calls[0].session, each, now) for each in found
        ]

    def _made(
        self,
        asked: QuestionCall,
        call: ToolCall,
        decision: CallDecision,
        trace: Trace | None,
        sender: str | None,
        now: int,
        *,
        commit: bool,
    ) -> DecisionResult:
        if not commit:
            return self._result(0, call, decision, committed=False)
        is_denied = decision.enforced is Answer.DENY
        self._table.last_number += 1
        entry = DecidedCall(
            self._table.last_number,
            asked,
            call,
            decision,
            sender,
            is_denied=is_denied,
            expires_ns=now + self._table.confirm_ns,
        )
        claims = trace is not None and call.session_from == FROM_DECISION
        if trace is not None and claims and trace.first is None and not is_denied:
            self._sessions.claim_whole(trace, call.session, now)
        for _ in self._table.add(entry):
            self._stats.count("decisions_unconfirmed")
        if is_denied:
            self._prevented(entry)
        return self._again(entry)

    def _observe(self, call: ToolCall, trace: Trace | None, proof: Proof | None) -> None:
        batch = self._batch
        doubted = trace is not None and trace.doubted
        batch.observe(None, call, _named(call, trace), doubted=doubted, proof=proof)
        batch.flush()
        if batch.failed:
            failed, batch.failed = batch.failed, []
            raise failed[0].error

    def _again(self, entry: DecidedCall) -> DecisionResult:
        """The decision on a call of the table, also where its client asks about it once more."""
        committed = not entry.is_denied
        return self._result(entry.number, entry.call, entry.decision, committed=committed)

    def _result(
        self, number: int, call: ToolCall, decision: CallDecision, *, committed: bool
    ) -> DecisionResult:
        matched = bool(decision.specs) or self._monitor.matches(call)
        return DecisionResult(number, decision, committed, call.session.id, call.tool, matched)

    # --- what becomes of them -------------------------------------------------------------------

    def _ran(
        self, entry: DecidedCall, now: int, result: tuple[Any, ...], *, failed: bool
    ) -> None:
        """The client made the call: it has ended by now."""
        old = entry.call
        new = old._replace(
            evidence=Evidence.EXECUTED,
            end_ns=max(now, old.start_ns),
            error=failed,
            result=result,
        )
        if entry.known:
            self._batch.amend(old, new, None)
        else:
            trace_id = entry.asked.trace_id
            trace = self._traces.find(old.session.namespace, trace_id) if trace_id else None
            self._observe(new, trace, self._proof(old.session, trace))
            if entry.is_denied:
                self._confirmation.made_anyway(entry, new)
        entry.call, entry.known = new, True
        self._table.settled(entry, DecisionState.FAILED if failed else DecisionState.RAN)

    def _proof(self, key: SessionKey, trace: Trace | None) -> Proof | None:
        """What is known of the beginning of a session: from a client, or else from a trace."""
        said = self._table.beginning(key, take=False)
        if said is not None or trace is None:
            return said
        begun = trace.beginning
        return begun.proof if begun is not None else None


def _named(call: ToolCall, trace: Trace | None) -> AgentName | None:
    """Who names the session's agent: a span of the trace; else the client, over which any span counts."""
    named = trace.named if trace is not None and not trace.split else None
    if named is None and call.agent:
        return AgentName(NEVER, call.span_id, call.agent)
    return named
