"""The monitor: calls in, verdicts out. Pure: time is an argument, nothing is read or sent."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from monitor.aggregate.kept_counters import set_totals_counters, totals_counters
from monitor.aggregate.totals import SessionFinished, Totals
from monitor.alphabet.explanation import Show, as_it_is
from monitor.decision import Answer, CallDecision
from monitor.decision_message import decision_message
from monitor.judging.accounting import Accounting
from monitor.judging.deadline_timer import DeadlineTimer
from monitor.judging.decide_calls import CallDecider, Rehearsal, overlapping
from monitor.judging.due_queue import DueQueue
from monitor.judging.judge_calls import CallJudge
from monitor.judging.mistimed_calls import is_mistimed, without_rounding
from monitor.judging.rejudge import is_under_earlier, rejudge
from monitor.limits import SECOND, Limits
from monitor.records import AgentName, Proof, ReferenceAlarm, SessionKey, ToolCall, Verdict
from monitor.session.judgement.judgement import Judgement
from monitor.session.report.judgement_object import judgement_object
from monitor.session.session import ATTRIBUTES_MAX, Ended, Session
from monitor.session.spec_binding import SpecBinder
from monitor.session.table import Table
from monitor.session.tool_names import Names
from monitor.spec.acceptance import day_of, expires_ns, in_force
from monitor.spec.spec import Acceptance, Spec
from monitor.tenants import SharedValues
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

if TYPE_CHECKING:
    from monitor.judging.handover import Handover

__all__ = ["AgentName", "Monitor"]

NEVER: Final = 2**63


GROUP_WINDOWS: Final = 6
"""Most windows that a verdict also waits for calls that overlap its call."""

QUIET_MAX: Final = 10_000
"""Sessions without a call that are remembered; beyond it the oldest of who has too many is counted at once."""

SWEEP_NS: Final = 60 * SECOND
"""Time between two checks of which tool names the steps of all sessions still use, if names are
many."""

_LIFTED: Final = frozenset({Cause.SILENT_TOOL, Cause.UNPLACED})
"""Causes of gaps that a part of the process notes and lifts: model requests that wait, and orphans."""

STALE_AT_ONCE: Final = 2_000
"""Sessions that look at the ledger again in one tick."""

EVICTED_MAX: Final = 100_000
"""Ends of sessions that wait for `tick`; without ticks the oldest are dropped."""


class _Mention:
    """What spans that are no call say of a session without calls."""

    __slots__ = ("attributes", "named", "now", "start_ns")

    def __init__(
        self,
        now: int,
        start_ns: int,
        named: AgentName | None,
        attributes: tuple[Mapping[str, Any], ...],
    ) -> None:
        self.now = now
        self.start_ns = start_ns
        """When the earliest of them began."""
        self.named = named
        self.attributes = attributes

    def and_(self, other: _Mention) -> _Mention:
        """Both together."""
        named = self.named
        if named is None or (other.named is not None and other.named.counts_before(named)):
            named = other.named
        known = {id(each): each for each in (*self.attributes, *other.attributes)}
        return _Mention(
            max(self.now, other.now),
            min(self.start_ns, other.start_ns),
            named,
            tuple(known.values())[:ATTRIBUTES_MAX],
        )


class Monitor:
    """All sessions under all specs.

    Args:
        specs: compiled specs; `load_specs` reads them from files.
        limits: bounds and times.
        started_ns: when this process began to see spans; a session with earlier spans was
            joined in the middle, unless the history is complete.
        show: gives what may be shown of an argument's value in a verdict's `detail`, such as the
            value without secrets. Values are shown only under `Limits.keep_arguments`.
    """

    def __init__(
        self,
        specs: Iterable[Spec] = (),
        limits: Limits | None = None,
        *,
        started_ns: int = 0,
        show: Show = as_it_is,
    ) -> None:
        self.limits = limits or Limits()
        self.started_ns = started_ns
        self.binder = SpecBinder(specs)
        self._expires_ns = self._next_expiry()
        self.totals = Totals(
            self.limits.hold_ns,
            self.limits.pairs_max,
            self.limits.namespace_label,
            self.limits.agents_max,
        )
        self.without_spec = 0
        """Calls of ended sessions that no spec has judged."""
        self.ended: Counter[str] = Counter()
        self._names = Names(self.limits.names_bytes_max)
        self._sweep_ns = 0
        self._reserve()
        self.timed_verdicts = 0
        """Verdicts on sessions that no call has brought."""
        self.expired: list[tuple[Spec, Acceptance]] = []
        """Accepted calls that are harmful again, until somebody takes them out to report them."""
        self._table = Table(
            self.limits.sessions_max, self.limits.sessions_bytes_max, fold=self.limits.fold
        )
        self.resumed = 0
        """Sessions that went on when their state was gone: they are read as joined."""
        self._accounting = Accounting(self.totals, self._names)
        self._deadline_timer = DeadlineTimer(self._accounting, self.limits.window_ns)
        self._deadline_timer.use(self.binder.judges.values())
        self._call_judge = CallJudge(
            self.binder,
            self._accounting,
            self._names,
            self.limits,
            started_ns,
            show if self.limits.keep_arguments else None,
        )
        self._decider = CallDecider(self._call_judge, self._names)
        self._due = DueQueue()
        self._quiet: SharedValues[_Mention] = SharedValues(QUIET_MAX)
        """Sessions that were mentioned and have made no call."""
        self.without_calls = 0
        """Sessions that were idle for their time, or too many, and had made no call."""
        self.arguments_given_up = 0
        """Calls whose arguments are not shown any more: sessions were over their bound."""
        self._news: list[Verdict] = []
        """Verdicts that a late session id has revised; returned with the next ones."""
        self._evicted: deque[SessionFinished] = deque(maxlen=EVICTED_MAX)
        """Sessions that were evicted; returned by the next tick."""
        self._stale: list[SessionKey] = []
        """Sessions that are to look at the ledger again, since it has changed."""
        self._swept = self._call_judge.ledger.version
        """Version of the ledger when these were listed."""

    def use(self, specs: Iterable[Spec]) -> bool:
        """Judges sessions that begin from now on under these specs; all others go on as they are.

        Returns:
            False if the specs are those in use: nothing changes then.
        """
        binder = SpecBinder(specs, self.binder)
        if not binder.differs(self.binder):
            return False
        self.binder = binder
        self._reserve()
        self._call_judge.use(binder)
        self._deadline_timer.use(binder.judges.values())
        self._expires_ns = self._next_expiry()
        for pair in self.totals.pairs.values():
            judge = binder.judges.get(pair.spec)
            if judge is not None and judge.spec.kind != "reference":
                pair.severities = tuple(sorted({*pair.severities, *judge.severities}))
        return True

    def _reserve(self) -> None:
        """The names of tools that specs use have numbers, whatever agents invent."""
        for judge in self.binder.judges.values():
            self._names.reserve(judge.spec.alphabet.tools)
            if judge.spec.learnt is not None:
                self._names.reserve((*judge.spec.learnt.tools, *judge.spec.learnt.writes))

    def _next_expiry(self) -> int:
        """When the next accepted call of a spec is harmful again."""
        specs = (judge.spec for judge in self.binder.judges.values())
        return min(
            (expires_ns(each) for spec in specs for each in spec.accepted), default=NEVER
        )

    def _expire(self, now: int) -> None:
        """Accepted calls whose last day is over are harmful, in sessions that begin from now on."""
        day = day_of(now)
        specs = [judge.spec for judge in self.binder.judges.values()]
        self.expired += [
            (spec, each) for spec in specs for each in spec.accepted if each.until < day
        ]
        self.use([in_force(spec, day) for spec in specs])

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
            doubted: calls before the session's first one may be missing, as `doubt` says.
            proof: what the call's trace shows of the session's beginning, as `prove` says.

        Returns:
            First the verdicts on earlier calls that what the call says of its session has changed: that it is
            new, or not, which specs it has, or that times of its calls are wrong. Then the call's verdict under each
            spec, and the revisions of earlier calls' verdicts, which a call that belongs before them can cause. Of
            several verdicts on one call, the last one holds. A call no spec judges gives none.

        Raises:
            Exception: an error of ours. The call is not judged then, and may be observed again.
        """
        clocks = self._call_judge.clocks
        if call.end_ns < call.start_ns:
            call = without_rounding(call)
        if clocks.is_ahead(call, now):
            call = self._corrected(call, now)
            clocks.corrections += 1
        session = self._session(call, now)
        seen, judged = session.seen, session.judged
        try:
            if proof is not None or session.fresh:
                self._news += self._call_judge.prove(session, proof)
            return self._observe(session, call, now, named, quiet=quiet, doubted=doubted)
        except Exception:
            if session.seen > seen:
                self._undo(session, call)
                session.seen, session.judged = seen, judged
            raise

    def _corrected(self, call: ToolCall, now: int) -> ToolCall:
        """A call by our clock. If it is the first to show that its sender's is ahead, those before it are moved, too."""
        clocks = self._call_judge.clocks
        turned_out = clocks.lead_of(call.session) is None
        call = clocks.corrected(call, now)
        if turned_out:
            session = self._table.live(call.session) or self._wake(call.session, now)
            if session is not None:
                self._news += self._call_judge.move_back(session)
        return call

    def _undo(self, session: Session, call: ToolCall) -> None:
        """Removes a call after an error while it was judged, as far as it was added.

        No verdict on it was returned, nor any revision, so none has to be taken back.
        """
        with suppress(Exception):
            self._call_judge.retract(session, call, session.touched_ns)

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
            self._news += self._call_judge.doubt(session, Cause.EARLIER_TURN)
        if named is not None or call.agent:
            self._name(session, call, named)
        if session.bound_on is call.attributes and session.bound_as == session.known_agent:
            verdicts = self._call_judge.take(session, call, now, quiet=quiet)
        else:
            verdicts = self._call_judge.bind(session, call.attributes, now)
            verdicts += self._call_judge.take(session, call, now, quiet=quiet)
        if not session.queued:
            self._queue(session, now)
        if self._deadline_timer.busy:
            verdicts = [*verdicts, *self._deadline_timer.update(session, call, now)]
        if self._news:
            verdicts = self._with_news(verdicts)
        if self._call_judge.shown_bytes:
            self._hold_arguments(session)
        return verdicts

    def _hold_arguments(self, session: Session) -> None:
        """Arguments are weighed when they come. Where sessions are over their bound, the oldest ones go first."""
        size, self._call_judge.shown_bytes = self._call_judge.shown_bytes, 0
        self._table.hold_arguments(session, size)
        self._evict(session, session.touched_ns)

    def _shows_arguments(self, session: Session) -> None:
        """A live session may hold arguments that came by other ways than with its calls."""
        if self.limits.keep_arguments:
            self._table.weigh(session)
            self._table.hold_arguments(session, 0)

    def relieve(self) -> int:
        """Memory is scarce: half of the arguments that are kept to be shown go. Returns of how many calls."""
        given_up = self._table.give_up_arguments(self._table.bytes // 2)
        self.arguments_given_up += given_up
        return given_up

    def _with_news(self, verdicts: list[Verdict]) -> list[Verdict]:
        """The verdicts behind those that were given before them: of one call, the last one holds."""
        news, self._news = self._news, []
        return news + verdicts

    def _session(self, call: ToolCall, now: int) -> Session:
        """The call's session, opened or woken if need be."""
        session = self._table.touch(call.session)
        if session is None:
            session = self._wake(call.session, now) or self._open(call, now)
        self._news += self._call_judge.follow(session)
        if not call.start_ns or call.end_ns < call.start_ns:
            self._news += self._call_judge.doubt_times(session, call, now)
        session.see(call, now)
        if call.gaps or call.doubts or call.start_ns < self.started_ns:
            self._join(session, call)
        return session

    def _name(self, session: Session, call: ToolCall, named: AgentName | None) -> None:
        """The session's agent is the one that its earliest span names.

        A span above a call may name the call's agent, and it began earlier: `named` refers to that span. The
        call's own agent counts only without `named`.
        """
        if named is None:
            if not call.agent:
                return
            named = AgentName(call.start_ns, call.span_id, call.agent)
        if session.name(named):
            self._accounting.relabel(session)

    def _join(self, session: Session, call: ToolCall, known: tuple[Cause, ...] = ()) -> None:
        """The session was joined in the middle, where a call shows it; the call's own doubts are counted."""
        if call.gaps:
            self._news += self._call_judge.doubt(session, Cause.SAMPLED)
        if call.start_ns < self.started_ns:
            self._news += self._call_judge.doubt(session, Cause.SEEN_BEFORE)
        for cause in call.doubts:
            if cause not in known:
                self._call_judge.ledger.counts[cause] += 1
                session.miss(cause)

    def _open(self, call: ToolCall, now: int) -> Session:
        session = Session(call.session, call, now)
        if self._table.was_known(call.session):
            session.note_cause(Cause.FORGOTTEN)
            self.resumed += 1
        # Gaps of its service and agent are looked for when these are known: once its specs are bound.
        session.ledger_version = self._call_judge.ledger.version
        self._table.add(session)
        self._evict(session, now)
        mention = self._quiet.pop(call.session) if len(self._quiet) else None
        if mention is not None:
            self._news += self._apply_mention(session, mention, now)
        return session

    def _wake(self, key: SessionKey, now: int) -> Session | None:
        """An ended session that goes on, with all it knew."""
        session = self._revive(key, now)
        if session is not None:
            self._evict(session, now)
        return session

    def _revive(self, key: SessionKey, now: int) -> Session | None:
        """The same, and no other session has to go for it yet."""
        session = self._table.wake(key)
        if session is not None:
            session.touched_ns = max(now, session.touched_ns)
            self._accounting.reopen(session)
            self._shows_arguments(session)
        return session

    def _evict(self, new: Session, now: int) -> None:
        """Sessions end while there are more than may be live: of who holds more than a fair share.

        Where it is bytes that they are too many of, shown arguments go first.
        """
        self.arguments_given_up += self._table.give_up_arguments(self._table.bytes_max, new)
        while (old := self._table.excess(new)) is not None:
            self._evicted += self._finish(old, "evicted", now)

    def _queue(self, session: Session, now: int) -> None:
        """The session is looked at again when its verdicts may be final."""
        session.queued = True
        self._due.put(now + self.limits.window_ns, session.key)

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
            call: the call.
            now: as in `observe`.
            named: as in `observe`.
            doubted: as in `observe`.
            proof: as in `observe`.
            beside: calls of its session that go ahead and that nothing has told of yet, the earliest first. They
                may take effect at any time from their start on. They have the evidence `decided`.

        Raises:
            Exception: an error of ours.
        """
        clocks = self._call_judge.clocks
        if call.end_ns < call.start_ns:
            call = without_rounding(call)
        if clocks.is_ahead(call, now):
            call = clocks.as_corrected(call, now)
        session = self._table.live(call.session)
        if session is not None and not is_mistimed(call):
            decided = self._decider.at_once(
                session, call, beside, now, named, proof, doubted=doubted
            )
            if decided is not None:
                return decided
        [decided] = self._rehearse([call], beside, now, named, proof, doubted=doubted)
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
        clocks = self._call_judge.clocks
        places: dict[SessionKey, list[int]] = {}
        for place, call in enumerate(calls):
            places.setdefault(call.session, []).append(place)
        found: dict[int, CallDecision] = {}
        for group in places.values():
            together = [
                clocks.as_corrected(call, now) if clocks.is_ahead(call, now) else call
                for call in overlapping([calls[place] for place in group])
            ]
            mine = [each for each in beside if each.session == together[0].session]
            decided = self._rehearse(together, mine, now, None, proof, doubted=False)
            found |= zip(group, decided, strict=True)
        return [found[place] for place in range(len(calls))]

    def matches(self, call: ToolCall) -> bool:
        """True if a spec judges the session of a call, once the call is made. References do not judge."""
        session = self._table.live(call.session)
        agent = (session.known_agent if session is not None else "") or call.agent
        judges = session.judges if session is not None else ()
        mention = self._quiet.get(call.session)
        attributes = (call.attributes, *(mention.attributes if mention is not None else ()))
        bound = (judges, *(self.binder.bind(each, agent) for each in attributes))
        return any(judge.comparison is None for found in bound for judge in found)

    def explain(self, tool: str, decision: CallDecision) -> str:
        """A decision on a call of a tool in words that a model can act on; "" if nothing is wrong.

        What was wrong with the call, and which tools are allowed now.
        """
        found = decision.deciding
        if found is None or found.answer is Answer.ALLOW:
            return ""
        judge = self.binder.judges.get(found.spec)
        if judge is None:  # the spec is gone
            return decision_message(tool, found, {})
        alphabet = judge.spec.alphabet
        tools = dict(zip(alphabet.symbols, alphabet.tools, strict=True))
        return decision_message(tool, found, tools, policy=judge.spec.kind == "policy")

    def _rehearse(
        self,
        calls: Sequence[ToolCall],
        beside: Sequence[ToolCall],
        now: int,
        named: AgentName | None,
        proof: Proof | None,
        *,
        doubted: bool,
    ) -> list[CallDecision]:
        """Decides calls of one session on a copy of it, or on a new one."""
        call = calls[0]
        known, forgot = self._table.kept(call.session), self._table.was_known(call.session)
        if known is not None and known.ended == "operator":
            known, forgot = None, True  # what goes on under its id is another session
        session = Session(call.session, call, now) if known is None else known.copy(call)
        rehearsal = Rehearsal(session, self._call_judge, self._names)
        try:
            if known is None:
                if forgot:
                    session.note_cause(Cause.FORGOTTEN)
                mention = self._quiet.get(call.session)
                if mention is not None:
                    start_ns, attributes = mention.start_ns, mention.attributes
                    rehearsal.mention(start_ns, mention.named, attributes, now)
            if len(calls) == 1:
                rehearsal.learn(call, now, named, proof, doubted=doubted)
                opened = rehearsal.open(call)
                decided = self._decider.at_once(
                    opened, call, beside, now, named, proof, doubted=doubted
                )
                if decided is not None:
                    return [decided]
            if len(calls) > 1 or beside:
                rehearsal.observe_all((*beside, *calls), now, proof)
            else:
                rehearsal.take(call, now)
            return rehearsal.decide(calls, now)
        finally:
            rehearsal.restore()

    # --- what becomes known late ----------------------------------------------------------

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
        """Takes what a span that is no call says of a session: its agent, or attributes that specs match on.

        Returns:
            Verdicts of calls that had to wait for a spec.
        """
        session = self._table.live(key)
        if session is None:
            self._keep_mention(key, _Mention(now, start_ns, named, (attributes,)))
            return self._with_news([]) if self._news else []
        if session_from:
            session.note_source(session_from)
        self._learn(session, start_ns, named)
        verdicts = self._call_judge.bind(session, attributes, now)
        if not session.queued:
            self._queue(session, now)
        return self._with_news(verdicts) if self._news else verdicts

    def note_source(self, key: SessionKey, session_from: str) -> None:
        """An attribute names a session that only a client of decisions has named so far."""
        session = self._table.find(key)
        if session is not None:
            session.note_source(session_from)

    def _learn(self, session: Session, start_ns: int, named: AgentName | None) -> None:
        if start_ns < self.started_ns:
            self._news += self._call_judge.doubt(session, Cause.SEEN_BEFORE)
        if named is not None and session.name(named):
            self._accounting.relabel(session)

    def _apply_mention(self, session: Session, mention: _Mention, now: int) -> list[Verdict]:
        """Applies a mention to its session."""
        self._learn(session, mention.start_ns, mention.named)
        verdicts: list[Verdict] = []
        for attributes in mention.attributes:
            verdicts += self._call_judge.bind(session, attributes, now)
        return verdicts

    def _move_mention(self, key: SessionKey, mention: _Mention, now: int) -> None:
        """Moves a mention to the session that its session turns out to be."""
        session = self._table.live(key)
        if session is None:
            self._keep_mention(key, mention)
        else:
            self._news += self._apply_mention(session, mention, now)

    def _keep_mention(self, key: SessionKey, mention: _Mention) -> None:
        """A session that has made no call yet, if it is none that has ended."""
        quiet = self._quiet
        if self._table.knows(key):
            return
        known = quiet.get(key)
        if quiet.put(key, mention if known is None else known.and_(mention)):
            self.without_calls += 1

    def rekey(self, old: SessionKey, new: SessionKey, session_from: str, now: int) -> bool:
        """Calls filed under `old` (a trace id) turn out to belong to session `new`.

        Returns:
            False if they stay apart, because a part of them is folded already.
        """
        mention = self._quiet.pop(old)
        moved = self._table.live(old)
        if moved is None:
            if mention is not None:
                self._move_mention(new, mention, now)
            return True
        # The session that is moved may be the first that would have to go.
        target = self._table.live(new) or self._revive(new, now)
        if target is None:
            moved.touched_ns = max(moved.touched_ns, now)
            self._table.rename(old, new)
            self._shows_arguments(moved)
            self._call_judge.clocks.rename(old, new)
            moved.note_source(session_from)
            if self._table.was_known(new):
                self.resumed += 1
                self._news += self._call_judge.doubt(moved, Cause.FORGOTTEN)
            self._queue(moved, now)
            mention = self._quiet.pop(new)
            if mention is not None:
                self._news += self._apply_mention(moved, mention, now)
            self._reconsider(moved, now)
            return True
        if any(judgement.base is not None for judgement in moved.judgements):
            self._evict(target, now)
            return False
        before = moved.judgements
        self._news += self._call_judge.merge(moved, target)
        for judgement in before:
            into = target.judgement(judgement.judge, judgement.part)
            if into is not None:
                self._deadline_timer.absorb(judgement, into)
        self._reconsider(target, now)
        target.note_source(session_from)
        self._table.drop(old)
        self._call_judge.clocks.rename(old, new)
        target.touched_ns = max(target.touched_ns, now)
        self._table.touch(new)
        self._shows_arguments(target)
        self._evict(target, now)
        self._queue(target, now)
        return True

    def amend(
        self, old: ToolCall, call: ToolCall, now: int, named: AgentName | None = None
    ) -> list[Verdict]:
        """Reads the step of a judged call again, from a fuller span, in its new place.

        A step that is folded by now stays as it was judged, and is counted as late.

        Args:
            old: the call as it was observed, or last amended.
            call: the call as it is known now, in the same session.
            now: time of receipt.
            named: the earliest span of the call's trace that names an agent.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(old.session) or self._wake(old.session, now)
        if session is None:
            return []
        clocks = self._call_judge.clocks
        if call.end_ns < call.start_ns:
            call = without_rounding(call)
        if clocks.is_ahead(call, now):
            call = self._corrected(call, now)
        if clocks.is_ahead(old, now):
            old = clocks.corrected(old, now)
        if old.evidence is not call.evidence:
            self._news += self._call_judge.doubt_times(session, call, now)
        session.see_again(old, call)
        self._name(session, call, named)
        if call.gaps or call.doubts or call.start_ns < self.started_ns:
            self._join(session, call, old.doubts)
        verdicts = self._call_judge.amend(session, old, call, now)
        verdicts += self._call_judge.prove(session, None)
        verdicts += self._call_judge.rebind(session, now)
        if self._news:
            verdicts = self._with_news(verdicts)
        if not session.queued:
            self._queue(session, now)
        self._reconsider(session, now)
        if self._call_judge.shown_bytes:
            self._hold_arguments(session)
        return verdicts

    def retract(self, call: ToolCall) -> list[Verdict]:
        """Removes a judged call that turned out to be none; the steps behind it are judged again."""
        session = self._table.find(call.session)
        if session is None:
            return []
        verdicts = []
        if session.ended is None:  # what the call stood for may be missing from now on
            verdicts += self._call_judge.follow(session)
        verdicts += self._call_judge.retract(session, call, session.touched_ns)
        if session.ended is None:
            verdicts += self._call_judge.prove(session, None)
        if self._news:
            verdicts = self._with_news(verdicts)
        self._reconsider(session, session.touched_ns)
        return verdicts

    def doubt(self, key: SessionKey, *, doubted: bool) -> list[Verdict]:
        """Calls before a session's first one may be missing, or turn out not to be.

        While they may it is read both ways, and taken as joined where that needs fewer harms.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(key)
        if session is None:
            return []
        verdicts = self._call_judge.doubt(session, Cause.EARLIER_TURN, holds=doubted)
        if self._news:
            verdicts = self._with_news(verdicts)
        self._reconsider(session, session.touched_ns)
        return verdicts

    def prove(self, key: SessionKey, proof: Proof) -> list[Verdict]:
        """A trace shows that its session is new, or does no longer.

        A session that is proven to be new is judged from its first call, also shortly after our start.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(key)
        if session is None:
            return []
        verdicts = self._call_judge.prove(session, proof)
        if self._news:
            verdicts = self._with_news(verdicts)
        self._reconsider(session, session.touched_ns)
        return verdicts

    def is_young(self, now: int) -> bool:
        """True while calls of a session that is seen for the first time may be missing: it may have begun in a gap."""
        return self._call_judge.ledger.covers(now)

    def beginning(self, key: SessionKey, now: int) -> Proof | None:
        """What it proves that a client says of a session: no call of it was made before `now`.

        Nothing, where calls of it were seen before, or where no proof is needed any more.
        """
        if not self.is_young(now):
            return None
        session = self._table.find(key)
        if session is None or not session.seen:
            return Proof.said(now)
        return session.proof if session.proof is not None and session.proof.is_said else None

    def goes_on(self, key: SessionKey, trace_id: bytes, start_ns: int) -> bool:
        """True for a session that has made calls before `start_ns`, and began in another trace."""
        session = self._table.find(key)
        if session is None or not session.seen or session.started_ns >= start_ns:
            return False
        proof = session.proof
        return proof is None or proof.trace_id != trace_id

    def _reconsider(self, session: Session, now: int) -> None:
        """The calls of a session have changed otherwise than by one more."""
        if self._deadline_timer.busy and session.ended is None:
            self._news += self._deadline_timer.update(session, None, now)

    def miss(self, key: SessionKey, reason: str, count: int = 1) -> None:
        """Counts calls of a session that could not be judged, or not in full."""
        session = self._table.find(key)
        if session is not None:
            session.miss(reason, count)

    def is_compared(self, key: SessionKey) -> bool:
        """True for a live session that is in the sample of those compared with each other."""
        session = self._table.live(key)
        if session is not None:
            for judgement in session.judgements:
                if judgement.sampled:
                    return True
        return False

    def answered(self, key: SessionKey, answer: tuple[bool, int, int, int]) -> None:
        """The last output of a session's agent: whether it is a model's, its end and start, a hash.

        Of several the greatest counts, whatever the order they come in.
        """
        session = self._table.live(key)
        if session is not None and (session.answer is None or answer > session.answer):
            session.answer = answer

    def saw(self, key: SessionKey, spans: int, foreign: int) -> bool:
        """Counts what was seen of a session: spans in all, and those that speak no dialect.

        Returns:
            False if the session is not known, or not yet.
        """
        session = self._table.find(key)
        if session is None:
            return False
        session.spans += spans
        session.foreign += foreign
        if session.owed is not None:
            self._news += self._call_judge.pay(session, session.touched_ns)
            self._reconsider(session, session.touched_ns)
        return True

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
        if now >= self._expires_ns:
            self._expire(now)
        self._look_again()
        self._settle(now)
        self.arguments_given_up += self._table.give_up_arguments(self._table.bytes_max)
        while (heavy := self._table.excess()) is not None:  # they have been weighed
            self._evicted += self._finish(heavy, "evicted", now)
        verdicts = self._deadline_timer.tick(self._table.live, now)
        self.timed_verdicts += len(verdicts)
        self._news += verdicts
        finished = list(self._evicted)
        self._evicted.clear()
        before = now - self.limits.idle_ns
        while (session := self._table.idle(before)) is not None:
            finished += self._finish(session, "idle", now)
        while (first := self._quiet.first()) is not None and first[1].now <= before:
            self._quiet.pop(first[0])
            self.without_calls += 1
        self._table.forget(before - self.limits.idle_ns, before - self.limits.remember_ns)
        self.totals.expire(now)
        self._call_judge.ledger.forget(now)
        if self._names.crowded and now >= self._sweep_ns:
            self._forget_names(now)
        return finished

    def _forget_names(self, now: int) -> None:
        """Names that agents have invented, and that no step of a session has any more."""
        self._sweep_ns = now + SWEEP_NS
        used: set[int] = set()
        for session in self._table:
            used |= session.tools()
        self._names.forget(used)

    def clock_moved(self, by: int, now: int) -> None:
        """The clock that gives `now` was set: by so many nanoseconds, forward or backward.

        Sessions live on as long as if it had not been, and what was received before is final.
        Times of calls are their senders', and stay.
        """
        self._settle(max(now, now - by) + self.limits.window_ns)
        self._table.shift(by)
        if self._deadline_timer.busy:
            self._deadline_timer.clock_moved(self._table.latest(), by)
        for mention in self._quiet.values():
            mention.now += by
        self.totals.shift(by)
        self._call_judge.clock_moved(by)
        if by < 0 and self.started_ns:
            self.started_ns += by

    # --- what may be missing -----------------------------------------------------------------

    def note_gap(self, gap: Gap) -> None:
        """Calls may be missing in a time span. Sessions that it reaches allow for them from now on.

        The verdicts that change come with the sessions' next calls and ticks (`news`).
        """
        self._call_judge.note(gap)

    def lift_gap(self, gap: Gap) -> None:
        """Takes `note_gap` back: the calls have come after all, or were never made."""
        self._call_judge.ledger.lift(gap)

    def missed(self, since: int, until: int, cause: Cause = Cause.OUTAGE) -> None:
        """Nothing was received between two times, in Unix nanoseconds: calls of that time may be missing.

        What was on its way at `since` is missing, too: calls that began up to a window before. A verdict that was
        provisional then waited for these, so it may change; one that was final does not.
        """
        began = max(0, since - self.limits.window_ns)
        self.note_gap(Gap(cause, began, max(since, until), received_ns=began))

    def _look_again(self) -> None:
        """Has some of the sessions look at the ledger, after it has changed."""
        version = self._call_judge.ledger.version
        if not self._stale and self._swept != version:
            self._stale, self._swept = [each.key for each in self._table.latest()], version
        now, self._stale = self._stale[:STALE_AT_ONCE], self._stale[STALE_AT_ONCE:]
        for key in now:
            session = self._table.live(key)
            if session is not None and session.ledger_version != version:
                self._news += self._call_judge.follow(session)
                self._reconsider(session, session.touched_ns)

    # --- what outlives the process -----------------------------------------------------------

    def counters(self) -> dict[str, Any]:
        """The counters that belong to no pair of agent and spec, as plain data."""
        return {
            "started_ns": self.started_ns,
            "gaps": [list(gap) for gap in self._call_judge.ledger],
            "doubts": dict(self.doubts),
            "ended": dict(self.ended),
            "numbers": {
                "without_spec": self.without_spec,
                "without_calls": self.without_calls,
                "timed_verdicts": self.timed_verdicts,
                "resumed": self.resumed,
                "arguments_given_up": self.arguments_given_up,
                "sessions_lost": self._table.lost,
                "tools_overflowed": self._names.overflowed,
                "gaps_merged": self.gaps_merged,
                "corrections": self._call_judge.clocks.corrections,
                **self._call_judge.counters(),
            },
            "totals": totals_counters(self.totals),
        }

    def set_counters(self, found: Mapping[str, Any], *, forgot_ns: int | None = None) -> None:
        """Sets the counters that `counters` gives; what a later version has added or dropped stays as it is.

        Gaps that a part of the process lifts are that part's to note anew.

        Args:
            found: the counters.
            forgot_ns: these parts have forgotten all that came before this time, in Unix nanoseconds, and lift nothing
                of it: their gaps stand, and end then. None if they have forgotten nothing.
        """
        numbers: dict[str, int] = {**self.counters()["numbers"], **found.get("numbers", {})}
        for cause, count in found.get("ended", {}).items():
            self.ended[cause] = count
        known = frozenset(Cause)
        for cause, *fields in found.get("gaps", ()):
            if cause not in known:
                continue
            gap = Gap(Cause(cause), *fields)
            if gap.cause not in _LIFTED:
                self.note_gap(gap)
            elif forgot_ns is not None:
                self.note_gap(gap._replace(until_ns=min(gap.until_ns, forgot_ns)))
        for cause, count in found.get("doubts", {}).items():
            if cause in known:
                self._call_judge.ledger.counts[Cause(cause)] = count
        self.without_spec = numbers["without_spec"]
        self.without_calls = numbers["without_calls"]
        self.timed_verdicts = numbers["timed_verdicts"]
        self.resumed = numbers["resumed"]
        self.arguments_given_up = numbers["arguments_given_up"]
        self._table.lost = numbers["sessions_lost"]
        self._names.overflowed = numbers["tools_overflowed"]
        self._call_judge.ledger.merged = numbers["gaps_merged"]
        self._call_judge.clocks.corrections = numbers["corrections"]
        self._call_judge.set_counters(numbers)
        set_totals_counters(self.totals, found.get("totals", {}))

    def known_keys(self) -> list[SessionKey]:
        """The keys of all sessions whose state is kept."""
        return self._table.keys()

    def known_marks(self, keys: Iterable[SessionKey]) -> Iterator[int]:
        """Marks of 64 bits: of these sessions, then of those whose state was dropped."""
        return self._table.marks(keys)

    def drop_marks(self, marks: Iterable[int]) -> None:
        """Sessions with these marks were known to an earlier process: those that go on are read as joined."""
        self._table.drop_marks(marks)

    def finalise(self, now: int) -> None:
        """No more calls are to come: every verdict is final. Sessions go on, as far as is known."""
        self._settle(now + (GROUP_WINDOWS + 1) * self.limits.window_ns)

    def handover(self, program: str) -> Handover:
        """The door through which sessions go to another process and come from it; it is made anew after `use`.

        Args:
            program: its version; both processes have the same one.
        """
        # Loaded when used: most services never need it.
        from monitor.judging.handover import Handover
        from monitor.session.session_codec import SessionCodec

        codec = SessionCodec(program, self.binder, self._call_judge.unbound, self._names)
        return Handover(
            codec,
            self._table,
            self._call_judge,
            self._accounting,
            self._deadline_timer,
            self._due,
            self._evict,
        )

    @property
    def sessions_lost(self) -> int:
        """Ended sessions of which nothing is remembered: one that goes on passes as new."""
        return self._table.lost

    def errors(self) -> list[Exception]:
        """Errors of ours that kept held calls from being judged under a spec that was bound late.

        They are judged at the next `saw` of their session, or else at its next `tick`. Each error is
        returned once.
        """
        found, self._call_judge.errors = self._call_judge.errors, []
        return found

    def news(self) -> list[Verdict]:
        """Verdicts that no call has brought: of time, and of what became known late."""
        return self._with_news([])

    def _settle(self, now: int) -> None:
        """Counts verdicts that have become final, and folds what is old."""
        due = self._due.take(now)[::-1]
        try:
            while due:
                self._look_at(due.pop(), now - self.limits.window_ns)
        finally:
            for key in due:  # one that fails does not keep the others from becoming final
                self._due.put(now, key)

    def _look_at(self, key: SessionKey, before: int) -> None:
        session = self._table.live(key)
        if session is None or not session.queued:
            return
        session.queued = False
        self._news += self._call_judge.follow(session)
        if session.owed is not None:
            self._news += self._call_judge.pay(
                session, before + self.limits.window_ns, last=True
            )
        if session.judges and session.held is not None:
            # What binds specs comes within the window, or costs certainty.
            self._call_judge.release(session)
        waiting = [self._finalise(session, each, before) for each in session.judgements]
        receipts = [receipt for receipt in waiting if receipt is not None]
        if receipts:
            self._queue(session, min(receipts))
        self._table.weigh(session)

    def _finalise(self, session: Session, judgement: Judgement, before: int) -> int | None:
        """Final counters and folding of one judgement; the earliest receipt still open."""
        overdue = before - GROUP_WINDOWS * self.limits.window_ns
        final = judgement.finalise(before, overdue=overdue)
        self._accounting.finalise(session, judgement, final.reported)
        if self.limits.fold:
            judgement.fold(before)
        return final.open

    def end(self, key: SessionKey, now: int) -> list[SessionFinished]:
        """The session ended by an explicit sign."""
        session = self._table.live(key)
        return self._finish(session, "explicit", now) if session else []

    def dismiss(self, key: SessionKey, now: int) -> list[SessionFinished] | None:
        """An operator ends a live session: what goes on under its id is another one, under the specs in use.

        The first calls of that one are missing, so it is read as joined.

        Returns:
            None if no such session is live.
        """
        session = self._table.live(key)
        return self._finish(session, "operator", now) if session else None

    # --- sessions under earlier specs ---------------------------------------------------------

    def live_sessions(self) -> list[SessionKey]:
        """The keys of all live sessions, most recently active first."""
        return [session.key for session in self._table.latest()]

    def live_named(self, id_: str, namespace: str | None = None) -> list[SessionKey]:
        """The keys of live sessions of this id, in all namespaces or in that one."""
        named = self._table.named(id_, namespace)
        return [session.key for session in named if session.ended is None]

    def is_under_earlier_specs(self, key: SessionKey) -> bool:
        """True for a live session that is judged by a version of a spec that is no longer in use."""
        session = self._table.live(key)
        return session is not None and is_under_earlier(session, self._call_judge)

    def rejudge(self, key: SessionKey, now: int) -> list[Verdict]:
        """Judges a live session again, under the specs in use; see `monitor.judging.rejudge`.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(key)
        if session is None:
            return []
        verdicts = rejudge(session, self._call_judge, self._accounting, self._names.text, now)
        if self._news:
            verdicts = self._with_news(verdicts)
        self._reconsider(session, now)
        if not session.queued:
            self._queue(session, now)
        return verdicts

    def close(self, now: int) -> list[SessionFinished]:
        """The input is over: every live session ends and every verdict is final."""
        live = [session for session in self._table if session.ended is None]
        return [event for session in live for event in self._finish(session, "input_end", now)]

    def _finish(self, session: Session, ended: Ended, now: int) -> list[SessionFinished]:
        self._news += self._call_judge.follow(session)
        if session.owed is not None:
            self._news += self._call_judge.pay(session, now, last=True)
        session.ended = ended
        session.queued = False
        self.ended[ended] += 1
        self._call_judge.release(session)
        self._news += self._deadline_timer.finish(session, ended, now)
        judgements = session.judgements
        if not any(each.ending for each in judgements):
            self.without_spec += session.without_spec
        events = [self._accounting.finish(session, each, ended, now) for each in judgements]
        self._table.bury(session)
        return events

    # --- what is shown -----------------------------------------------------------------------

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

    @property
    def sessions_bytes(self) -> int:
        """What live sessions take, about; each is weighed when its verdicts become final."""
        return self._table.bytes

    def memory(self) -> dict[str, int]:
        """Bytes that are held, about, by what holds them."""
        return {
            "sessions": self._table.bytes,
            "ended_sessions": self._table.ended_bytes,
            "waiting_calls": self._call_judge.held_bytes,
        }

    @property
    def tools_overflowed(self) -> int:
        """Times that a call's tool got no name of its own, because agents had invented too many."""
        return self._names.overflowed

    @property
    def doubts(self) -> Mapping[Cause, int]:
        """By cause: gaps in what was seen, and calls that may not be what they seem."""
        return self._call_judge.ledger.counts

    @property
    def gaps_merged(self) -> int:
        """Times that two gaps in what was seen became one, because there were too many."""
        return self._call_judge.ledger.merged

    @property
    def skewed(self) -> int:
        """Calls that by their clocks began before the call they are a part of, or ended long after their receipt."""
        return self._call_judge.skewed + self._call_judge.clocks.corrections

    @property
    def orders_left_out(self) -> int:
        """Times that overlapping calls were judged by some of the orders they may have had."""
        return self._call_judge.orders_left_out

    @property
    def out_of_order(self) -> int:
        """Calls that arrived after one that began later, under each spec."""
        return self._call_judge.out_of_order

    @property
    def folded_young(self) -> int:
        """Steps folded before they were final, in a burst of one session."""
        return self._call_judge.folded_young

    def open_judgements(self) -> Iterator[tuple[Session, Judgement]]:
        """Sessions with each of their judgements, as they are kept: for lists that pick a few.

        Most recently active first, ended ones last; sessions may come and go meanwhile.
        """
        for session in self._table.recent():
            for judgement in session.judgements:
                yield session, judgement

    def ordered_judgements(self) -> Iterator[tuple[Session, Judgement]]:
        """The same; those of one session by spec and part."""
        for session in self._table.recent():
            for judgement in _in_order(session):
                yield session, judgement

    def tool_name(self, number: int) -> str:
        """The name of a tool, by the number that steps hold."""
        return self._names.text(number)

    def tools_named(self, fits: Callable[[str], bool]) -> frozenset[int]:
        """The numbers of the tools whose names fit."""
        return self._names.find(fits)

    def named(
        self, id_: str, namespace: str | None = None
    ) -> Iterator[tuple[Session, Judgement]]:
        """The same, of the sessions with this id in one namespace or in any."""
        for session in self._table.named(id_, namespace):
            for judgement in session.judgements:
                yield session, judgement

    def joined_until_ns(self) -> int:
        """Until when a session may have begun before the start, in Unix nanoseconds; 0 if none can."""
        return 0 if self.limits.history_complete else self.started_ns + self.limits.idle_ns

    @property
    def touched_ns(self) -> int:
        """When the latest call was received, of the sessions that are live."""
        return self._table.touched_ns

    def is_behind(self, call: ToolCall) -> bool:
        """True for a call that began after all that was received of its session so far: it is judged in one step."""
        session = self._table.find(call.session)
        return session is None or session.touched_ns < call.start_ns

    def touched_since(self, ns: int) -> Iterator[SessionKey]:
        """Live sessions with a call received after `ns`, the latest first."""
        for session in self._table.latest():
            if session.touched_ns <= ns:
                return
            yield session.key

    def judgements(self) -> Iterator[dict[str, Any]]:
        """Judgement objects of all sessions, most recently active first, ended ones last.

        Each is built when it is asked for; sessions may come and go meanwhile.
        """
        for session in self._table.recent():
            yield from self._objects(session)

    def find(self, id_: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """All judgement objects of the sessions with this id, in one namespace or in any."""
        return [
            judgement
            for session in self._table.named(id_, namespace)
            for judgement in self._objects(session)
        ]

    def as_object(self, session: Session, judgement: Judgement) -> dict[str, Any]:
        """The judgement object of one of the `open_judgements`."""
        return judgement_object(
            session,
            judgement,
            self._names,
            arguments=self.limits.keep_arguments,
            started_ns=self.started_ns,
        )

    def _objects(self, session: Session) -> Iterator[dict[str, Any]]:
        for judgement in _in_order(session):
            yield self.as_object(session, judgement)


def _in_order(session: Session) -> list[Judgement]:
    return sorted(session.judgements, key=lambda each: (each.judge.spec.id, each.part))
