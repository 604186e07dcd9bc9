"""The monitor: calls in, verdicts out. Pure: time is an argument, nothing is read or sent.

`Monitor` is for who embeds it. What only a pipeline of spans needs stands on objects beside, over the same state
(`monitor.live`): `corrections`, `gaps`, `counters`, `kept` and `reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from monitor.aggregate.totals import SessionFinished
from monitor.alphabet.pattern_words import Show, as_it_is
from monitor.decision import Answer, CallDecision
from monitor.decision_message import decision_message
from monitor.judging.clocks.mistimed_calls import is_mistimed, without_rounding
from monitor.judging.deciding.decide_calls import Circumstances, Rehearsal, overlapping
from monitor.limits import Limits
from monitor.live.corrections import Corrections
from monitor.live.gaps import Gaps
from monitor.live.kept_parts import KeptParts
from monitor.live.lifecycle import GROUP_WINDOWS, Lifecycle
from monitor.live.monitor_counters import MonitorCounters
from monitor.live.monitor_reader import MonitorReader
from monitor.live.monitor_state import MonitorState
from monitor.live.rejudge import rejudge
from monitor.live.session_facts import SessionFacts
from monitor.live.specs_in_use import SpecsInUse
from monitor.records import AgentName, Proof, ReferenceAlarm, SessionKey, ToolCall, Verdict
from monitor.session.session import Session
from monitor.session.spec_binding import SpecBinder
from monitor.spec.spec import Acceptance, Spec
from monitor.visibility.cause import Cause
from monitor.visibility.gap import EVER

if TYPE_CHECKING:
    from monitor.live.handover import Handover

__all__ = ["AgentName", "Monitor"]


class Monitor:
    """All sessions under all specs.

    Args:
        specs: compiled specs; `load_specs` reads them from files.
        limits: bounds and times.
        started_ns: when this process began to see spans; a session with earlier spans was
            joined in the middle, unless the history is complete.
        show: gives what may be shown of an argument's value in a verdict's `detail`, such as the
            value without secrets. Values are shown only under `Limits.keep_arguments`.
        digest_key: of the digests of things (`each`) whose values are not shown.
    """

    def __init__(
        self,
        specs: Iterable[Spec] = (),
        limits: Limits | None = None,
        *,
        started_ns: int = 0,
        show: Show = as_it_is,
        digest_key: bytes = b"",
    ) -> None:
        self.limits = limits or Limits()
        state = self.state = MonitorState(specs, self.limits, started_ns, show, digest_key)
        """What this and the objects beside work over."""
        self.totals = state.totals
        facts = self._facts = SessionFacts(state)
        lifecycle = self._lifecycle = Lifecycle(state, facts)
        self._specs = SpecsInUse(state)
        self.gaps = Gaps(state, facts, lifecycle)
        """Gaps in what was seen."""
        self.corrections = Corrections(state, facts, lifecycle)
        """What becomes known late of calls and sessions."""
        self.counters = MonitorCounters(state)
        """What was counted, beside the sums by agent and spec (`totals`)."""
        self.kept = KeptParts(state, lifecycle, self.gaps)
        """What outlives the process, or leaves it."""
        self.reader = MonitorReader(state)
        """What views read."""
        self.reservations = state.judging_state.reservations
        """Calls that were decided and go ahead: on things of several sessions they count for the questions of the others."""
        # What never changes is bound once: this is the way of each call.
        self._table = state.table
        self._quiet = state.quiet
        self._names = state.names
        self._accounting = state.accounting
        self._deadline_timer = state.deadline_timer
        self._decider = state.decider
        self._judging = state.judging_state
        self._clocks = state.judging_state.clocks
        self._sights = state.judging.sights
        self._binder = state.judging.binder
        self._calls = state.judging.calls
        self._reviser = state.judging.reviser

    @property
    def binder(self) -> SpecBinder:
        """The specs in use, and what binds them."""
        return self._judging.binder

    @property
    def started_ns(self) -> int:
        """When this process began to see spans, Unix nanoseconds; it goes back where the clock does."""
        return self._judging.started_ns

    def use(self, specs: Iterable[Spec]) -> bool:
        """Judges sessions that begin from now on under these specs; all others go on as they are.

        Returns:
            False where the specs are those in use: nothing changes then.
        """
        return self._specs.use(specs)

    @property
    def expired(self) -> list[tuple[Spec, Acceptance]]:
        """Accepted calls that are harmful again, until somebody takes them out to report them."""
        return self._specs.expired

    # --- calls ------------------------------------------------------------------------------

    def observe(
        self,
        call: ToolCall,
        now: int,
        named: AgentName | None = None,
        *,
        quiet: bool = False,
        doubted: bool = False,
        proof: Proof | None = None,
    ) -> list[Verdict]:
        """Judges one call under every spec of its session.

        Args:
            call: the call.
            now: time of receipt, Unix nanoseconds.
            named: the earliest span of the call's trace that names an agent.
            quiet: give only what is news: harmful calls and revisions.
            doubted: calls before the session's first one may be missing, as `Corrections.doubt` says.
            proof: what the call's trace shows of the session's beginning, as `Corrections.prove` says.

        Returns:
            First the verdicts on earlier calls that what the call says of its session has changed: that it is
            new, or not, which specs it has, or that times of its calls are wrong. Then the call's verdict under each
            spec, and the revisions of earlier calls' verdicts, which a call that belongs before them can cause. Of
            several verdicts on one call, the last one holds. A call no spec judges gives none.

        Raises:
            Exception: an error of ours. The call is not judged then, and may be observed again.
        """
        clocks = self._clocks
        if call.end_ns < call.start_ns:
            call = without_rounding(call)
        if clocks.is_ahead(call, now):
            call = self._lifecycle.corrected(call, now)
            clocks.corrections += 1
        session = self._lifecycle.session(call, now)
        seen, judged = session.seen, session.judged
        try:
            if proof is not None or session.fresh or Cause.RESUMED in session.causes:
                self.state.news += self._sights.prove(session, proof)
            return self._observe(session, call, now, named, quiet=quiet, doubted=doubted)
        except Exception:
            if session.seen > seen:
                self._undo(session, call)
                session.seen, session.judged = seen, judged
            raise

    def _undo(self, session: Session, call: ToolCall) -> None:
        """Removes a call after an error while it was judged, as far as it was added.

        No verdict on it was returned, nor any revision, so none has to be taken back.
        """
        with suppress(Exception):
            self._reviser.retract(session, call, session.touched_ns)

    def _observe(
        self,
        session: Session,
        call: ToolCall,
        now: int,
        named: AgentName | None,
        *,
        quiet: bool,
        doubted: bool,
    ) -> list[Verdict]:
        if doubted:
            self.state.news += self._sights.doubt(session, Cause.EARLIER_TURN)
        if named is not None or call.agent:
            self._facts.name(session, call, named)
        if session.bound_on is call.attributes and session.bound_as == session.known_agent:
            verdicts = self._calls.take(session, call, now, quiet=quiet)
        else:
            verdicts = self._binder.bind(session, call.attributes, now)
            verdicts += self._calls.take(session, call, now, quiet=quiet)
        self._lifecycle.queue(session, now)
        if self._deadline_timer.busy:
            verdicts = [*verdicts, *self._deadline_timer.update(session, call, now)]
        verdicts = self.state.with_news(verdicts)
        if self._judging.shown_bytes:
            self._lifecycle.hold_arguments(session)
        return verdicts

    # --- before a call ----------------------------------------------------------------------

    def decide(
        self,
        call: ToolCall,
        now: int,
        *,
        named: AgentName | None = None,
        doubted: bool = False,
        proof: Proof | None = None,
        beside: Sequence[ToolCall] = (),
    ) -> CallDecision:
        """What `observe` with the same arguments would say next of a call. Changes nothing.

        The fields of each spec are those of the verdict to come. The answer is stricter: `deny` only
        if the least number of harms of all possible worlds rises, `allow` only if the call is harmless in every one.

        Args:
            call: the call. Its session is one of which nothing is known, where its id is "": any calls may have come before.
            now: as in `observe`.
            named: as in `observe`.
            doubted: as in `observe`.
            proof: as in `observe`.
            beside: calls of its session that go ahead and that nothing has told of yet, the earliest first. They
                may take effect at any time from their start on. They have the evidence `decided`.

        Raises:
            Exception: an error of ours.
        """
        clocks = self._clocks
        if call.end_ns < call.start_ns:
            call = without_rounding(call)
        lead_ns, end_ns = None, call.end_ns
        if clocks.is_ahead(call, now):
            call = clocks.as_corrected(call, now)
            lead_ns = end_ns - call.end_ns
        session = self._table.live(call.session)
        given = Circumstances(now, beside, named, proof, doubted)
        if session is not None and lead_ns is None and not is_mistimed(call):
            decided = self._decider.at_once(session, call, given)
            if decided is not None:
                return decided
        [decided] = self._rehearse([call], given, lead_ns)
        return decided

    def decide_together(
        self,
        calls: Sequence[ToolCall],
        now: int,
        *,
        proof: Proof | None = None,
        beside: Sequence[ToolCall] = (),
    ) -> list[CallDecision]:
        """What `observe` would say of calls that a model makes in parallel, in one session or several.

        They are judged as overlapping calls are: each is taken to end after the last one has begun. As many go
        ahead as fit, in their order: a call counts on those before it that no spec blocks, and on those behind it.

        Args:
            calls: the calls.
            now: time of the question.
            proof: as `observe` takes it, of calls of one session.
            beside: as in `decide`, of all sessions.

        Returns:
            A decision for each call, once all are observed.
        """
        clocks = self._clocks
        places: dict[SessionKey, list[int]] = {}
        for place, call in enumerate(calls):
            places.setdefault(call.session, []).append(place)
        found: dict[int, CallDecision] = {}
        reserved: list[bytes] = []
        try:
            for group in places.values():
                together = [
                    clocks.as_corrected(call, now) if clocks.is_ahead(call, now) else call
                    for call in overlapping([calls[place] for place in group])
                ]
                mine = [each for each in beside if each.session == together[0].session]
                decided = self._rehearse(together, Circumstances(now, mine, proof=proof))
                found |= zip(group, decided, strict=True)
                for call, each in zip(together, decided, strict=True):
                    if each.claims and each.enforced is not Answer.DENY:
                        self.reservations.reserve(call.session, each.claims, EVER)
                        reserved.append(call.span_id)
        finally:
            for span_id in reserved:
                self.reservations.release(span_id)
        return [found[place] for place in range(len(calls))]

    def matches(self, call: ToolCall) -> bool:
        """True if a spec judges the session of a call, once the call is made; a reference only if it enforces."""
        session = self._table.live(call.session)
        agent = (session.known_agent if session is not None else "") or call.agent
        judges = session.judges if session is not None else ()
        mention = self._quiet.get(call.session)
        attributes = (call.attributes, *(mention.attributes if mention is not None else ()))
        bound = (judges, *(self._judging.binder.bind(each, agent) for each in attributes))
        return any(
            judge.comparison is None or judge.spec.enforce != "off"
            for found in bound
            for judge in found
        )

    def explain(self, tool: str, decision: CallDecision) -> str:
        """A decision on a call of a tool in words that a model can act on; "" if nothing is wrong.

        What was wrong with the call, and which tools are allowed now.
        """
        found = decision.deciding
        if found is None or found.answer is Answer.ALLOW:
            return ""
        judge = self._judging.binder.judges.get(found.spec)
        if judge is None:  # the spec is gone
            return decision_message(tool, found, {})
        alphabet = judge.spec.alphabet
        tools = dict(zip(alphabet.symbols, alphabet.tools, strict=True))
        each = judge.spec.each
        of_things = {
            name for name, its in tools.items() if each is not None and its in each.tools
        }
        return decision_message(
            tool, found, tools, policy=judge.spec.kind == "policy", of_things=of_things
        )

    def beginning(self, key: SessionKey, now: int) -> Proof | None:
        """What it proves that a client says of a session: no call of it was made before `now`.

        Nothing, where calls of it were seen before, or where no proof is needed any more.
        """
        if not self.gaps.is_young(now):
            return None
        session = self._table.find(key)
        if session is None or not session.seen:
            return Proof.said(now)
        return session.proof if session.proof is not None and session.proof.is_said else None

    def _rehearse(
        self,
        calls: Sequence[ToolCall],
        given: Circumstances,
        lead_ns: int | None = None,
    ) -> list[CallDecision]:
        """Decides calls of one session on a copy of it, or on a new one.

        `lead_ns`: by so much they were moved back, as their sender's clock is ahead; None if they were not.
        """
        call, now, beside = calls[0], given.now, given.beside
        known, forgot = self._table.kept(call.session), self._table.was_known(call.session)
        if known is not None and known.ended == "operator":
            known, forgot = None, True  # what goes on under its id is another session
        session = Session(call.session, call, now) if known is None else known.copy(call)
        rehearsal = Rehearsal(session, self.state.judging, self._names)
        try:
            if lead_ns is not None:
                rehearsal.move_back(lead_ns)
            if known is None:
                if forgot or not call.session.id:  # a call of anybody
                    session.note_cause(Cause.FORGOTTEN)
                mention = self._quiet.get(call.session)
                if mention is not None:
                    start_ns, attributes = mention.start_ns, mention.attributes
                    rehearsal.mention(start_ns, mention.named, attributes, now)
                    session.hear(mention.texts)
            if len(calls) == 1:
                rehearsal.learn(call, given)
                opened = rehearsal.open(call, now)
                decided = self._decider.at_once(opened, call, given)
                if decided is not None:
                    return [decided]
            if len(calls) > 1 or beside:
                rehearsal.observe_all((*beside, *calls), given)
            else:
                rehearsal.take(call, now)
            return rehearsal.decide(calls, now)
        finally:
            rehearsal.restore()

    # --- time ------------------------------------------------------------------------------

    def on_final(self, deliver: Callable[[Verdict], None] | None) -> None:
        """Calls `deliver` with each harmful verdict that becomes final, once, `final` True.

        It is called in the middle of `tick`, `end`, `close` and (where a burst or the bound of
        sessions makes verdicts final early) `observe`: it must not call the monitor. The
        verdicts before come from `observe`: a first verdict, then its revisions.
        """
        self._accounting.on_final = deliver

    def on_alarm(self, deliver: Callable[[ReferenceAlarm], None] | None) -> None:
        """Calls `deliver` with each alarm that a session raises against a learnt reference.

        And with each that it takes back: `withdrawn` is True then. It is called in the middle of
        whatever makes it known, a call or the end of a session: it must not call the monitor.
        """
        self._accounting.alarms.on_alarm = deliver

    def tick(self, now: int) -> list[SessionFinished]:
        """What time brings: final verdicts, ends of idle sessions, means that forget.

        Returns:
            Sessions that have ended, with those evicted since the last tick.
        """
        if now >= self._specs.expires_ns:
            self._specs.expire(now)
        self.gaps.look_again()
        return self._lifecycle.tick(now)

    def clock_moved(self, by: int, now: int) -> None:
        """The clock that gives `now` was set: by so many nanoseconds, forward or backward.

        Sessions live on as long as if it had not been, and what was received before is final.
        Times of calls are their senders', and stay.
        """
        self._lifecycle.clock_moved(by, now)

    def news(self) -> list[Verdict]:
        """Verdicts that no call has brought: of time, and of what became known late."""
        return self.state.with_news([])

    def errors(self) -> list[Exception]:
        """Errors of ours that kept held calls from being judged under a spec that was bound late.

        They are judged at the next `saw` of their session, or else at its next `tick`. Each error is
        returned once.
        """
        found, self._judging.errors = self._judging.errors, []
        return found

    def end(self, key: SessionKey, now: int) -> list[SessionFinished]:
        """The session ended by an explicit sign."""
        session = self._table.live(key)
        return self._lifecycle.finish(session, "explicit", now) if session else []

    def close(self, now: int) -> list[SessionFinished]:
        """The input is over: every live session ends and every verdict is final."""
        live = [session for session in self._table if session.ended is None]
        return [
            event
            for session in live
            for event in self._lifecycle.finish(session, "input_end", now)
        ]

    def finalise(self, now: int) -> None:
        """No more calls are to come: every verdict is final. Sessions go on, as far as is known."""
        self._lifecycle.settle(now + (GROUP_WINDOWS + 1) * self.limits.window_ns)

    def rejudge(self, key: SessionKey, now: int) -> list[Verdict]:
        """Judges a live session again, under the specs in use; see `monitor.judging.rejudge`.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(key)
        if session is None:
            return []
        verdicts = rejudge(session, self.state.judging, self._accounting, self._names.text, now)
        verdicts = self.state.with_news(verdicts)
        self._facts.reconsider(session, now)
        self._lifecycle.queue(session, now)
        return verdicts

    # --- what is shown -----------------------------------------------------------------------

    def judgements(self) -> Iterator[dict[str, Any]]:
        """Judgement objects of all sessions, most recently active first, ended ones last.

        Each is built when it is asked for; sessions may come and go meanwhile.
        """
        for session in self._table.recent():
            yield from self.reader.objects(session)

    def find(self, id_: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """All judgement objects of the sessions with this id, in one namespace or in any."""
        return [
            judgement
            for session in self._table.named(id_, namespace)
            for judgement in self.reader.objects(session)
        ]

    def harm_rate(self, key: SessionKey, spec: str) -> float | None:
        """HarmRate of a session under a spec, as known now: the greatest of its parts.

        None if it is not scored: a policy, a reference, a session that is not exact or not known.
        """
        session = self._table.find(key)
        rates = [
            each.head.tally.harm_rate
            for each in (session.judgements if session is not None else ())
            if each.judge.spec.id == spec and each.judge.scored and each.head.exact
        ]
        return max(rates, default=None)

    @property
    def sessions(self) -> int:
        """How many sessions are live."""
        return len(self._table)

    # --- for one release: names of the release before ------------------------------------------

    def learn(
        self,
        key: SessionKey,
        now: int,
        *,
        attributes: Mapping[str, Any],
        start_ns: int,
        named: AgentName | None = None,
        session_from: str = "",
    ) -> list[Verdict]:
        """As `corrections.learn`."""
        return self.corrections.learn(
            key,
            now,
            attributes=attributes,
            start_ns=start_ns,
            named=named,
            session_from=session_from,
        )

    def rekey(self, old: SessionKey, new: SessionKey, session_from: str, now: int) -> bool:
        """As `corrections.rekey`."""
        return self.corrections.rekey(old, new, session_from, now)

    def retract(self, call: ToolCall) -> list[Verdict]:
        """As `corrections.retract`."""
        return self.corrections.retract(call)

    def handover(self, program: str) -> Handover:
        """As `kept.handover`."""
        return self.kept.handover(program)
