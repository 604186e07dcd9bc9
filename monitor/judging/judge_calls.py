"""Judges the calls of sessions: binds specs, finds the judgement, and adds the call to it.

Idea: a session has one judgement for each bound spec (and for each agent or turn, by the spec's
scope). A call becomes a token of the spec's alphabet and steps the judgement. Specs bind on the
attributes of spans, so a spec may bind after the first calls. While another spec may match, the
session *holds* its calls, and a late binding judges them under the new spec.

Invariants:

- The verdicts do not depend on whether a spec was bound before or after a held call arrived.
- Calls that were dropped before a binding are lost for that spec. The session is then read as joined
  under it, so only certain harms are claimed.
- A session without specs is logged under an observer, which judges nothing. The observer's
  judgement is removed when a spec binds.

Example: `open` arrives, and no spec matches: it is held. The next span names the agent, and the task
`door` binds. `open` is judged under `door` first, then the next call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from monitor.aggregate.consistency_sample import CALLS_MAX, hashed
from monitor.aggregate.histogram import Exemplar
from monitor.alphabet.explanation import Show, explain_mismatch
from monitor.judging.accounting import Accounting
from monitor.judging.mistimed_calls import latest_ns, mistimed
from monitor.judging.sender_clocks import SenderClocks, moved_back
from monitor.limits import Limits
from monitor.records import NO_TRACE, Evidence, Proof, ToolCall, Verdict, built
from monitor.session.judge.judge import CONTROL_TOKEN, HARMFUL, Judge
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import VerdictChange
from monitor.session.log.log import is_led
from monitor.session.log.rows import Texts, origin_of
from monitor.session.session import Session
from monitor.session.spec_binding import SpecBinder
from monitor.session.tool_names import Names
from monitor.spec.spec import Spec
from monitor.tenants import Holdings
from monitor.visibility.cause import FACTS, OF_ONE_SESSION, Cause, Effect, effect_of
from monitor.visibility.gap import EVER, Gap
from monitor.visibility.ledger import Ledger
from monitor.visibility.sight import CLEAR, Sight, sight_of
from monitor.weights import arguments_bytes, call_bytes

__all__ = ["HELD_ALL_MAX", "HELD_MAX", "CallJudge", "part_of", "wanted_of"]

HELD_MAX: Final = 256
"""Limit of the calls that one session holds, with their arguments, for a late binding."""

HELD_ALL_MAX: Final = 50_000
"""Limit of the calls that all sessions hold together."""

SIGHTS_MAX: Final = 4_096
"""Bound of the cache of sights."""

_NO_TURN: Final = NO_TRACE.hex()
"""The part of the calls whose trace is not known, under a spec whose scope is the turn."""

ERRORS_MAX: Final = 16
"""Limit of the errors that are kept until they are read."""


class CallJudge:
    """Judges the calls of one session at a time; it keeps no sessions itself."""

    def __init__(
        self,
        binder: SpecBinder,
        accounting: Accounting,
        names: Names,
        limits: Limits,
        started_ns: int,
        show: Show | None,
        unbound: Judge | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Judges under the specs of `binder`.

        Args:
            binder: the loaded specs.
            accounting: takes the changes.
            names: of tools.
            limits: bounds and times.
            started_ns: start of the process, Unix nanoseconds.
            show: gives what may be shown of an argument's value; None shows no values.
            unbound: judges sessions without specs; None makes one.
            ledger: where calls may be missing; None makes one.
        """
        self.binder = binder
        self.folded_young = 0
        """Steps folded before they were final, in a burst of one session."""
        self.out_of_order = 0
        """Calls that could not be appended in order, counted once per spec."""
        self._skewed_before = 0
        self._left_out_before = 0
        """`skewed` and `orders_left_out` of specs that are no longer in use."""
        self._accounting = accounting
        self._names = names
        self._limits = limits
        self._show = show
        self._started_ns = started_ns
        self._sights: dict[tuple[Gap, ...], Sight] = {}
        if ledger is None:
            ledger = Ledger(limits.idle_ns)
            if not limits.history_complete:
                ledger.note(Gap(Cause.STARTED, 0, started_ns))
        self.ledger = ledger
        self.clocks = SenderClocks()
        self.unbound = unbound or Judge(Spec.observer())
        self._held = 0
        self._held_bytes = Holdings()
        """Tenant -> bytes of the calls that its sessions hold."""
        self._holders: dict[str, OrderedDict[Session, int]] = {}
        """Tenant -> its sessions that hold calls, the earliest first, with their bytes."""
        self._held_under: dict[Session, str] = {}
        """Session -> tenant that its bytes are counted for, even if it would be another by now."""
        self.shown_bytes = 0
        """Bytes of arguments kept to be shown, since the number was last taken out."""
        self.held_given_up = 0
        """Sessions whose held calls were dropped to make room."""
        self.errors: list[Exception] = []
        """The first internal errors that kept held calls from being judged."""

    @property
    def skewed(self) -> int:
        """Calls placed behind their parent call, counted once per spec."""
        judges = (*self.binder.judges.values(), self.unbound)
        return self._skewed_before + sum(judge.skewed for judge in judges)

    @property
    def orders_left_out(self) -> int:
        """How often overlapping calls were judged by only some of their possible orders."""
        judges = self.binder.judges.values()
        return self._left_out_before + sum(judge.left_out for judge in judges)

    def twin(self, accounting: Accounting, names: Names) -> CallJudge:
        """A judge of calls that judges alike. It never folds, and counts for itself but in `Judge`s."""
        limits = replace(self._limits, fold=False)
        twin = CallJudge(
            self.binder,
            accounting,
            names,
            limits,
            self._started_ns,
            self._show,
            self.unbound,
            self.ledger,
        )
        twin._held, twin._sights = self._held, self._sights
        twin.clocks.ahead_max_ns = self.clocks.ahead_max_ns
        return twin

    def judges(self, session: Session) -> set[Judge]:
        """The judges that judging calls of a session may step."""
        bound = (session.binder or self.binder).judges.values()
        return {self.unbound, *bound, *self.binder.judges.values(), *session.judges}

    @property
    def started_ns(self) -> int:
        """Start of the process, corrected for jumps of the clock back; as `Monitor.started_ns`."""
        return self._started_ns

    def use(self, binder: SpecBinder) -> None:
        """Sets the binder of sessions that begin from now on."""
        kept = set(map(id, binder.judges.values()))
        gone = [judge for judge in self.binder.judges.values() if id(judge) not in kept]
        self._skewed_before += sum(judge.skewed for judge in gone)
        self._left_out_before += sum(judge.left_out for judge in gone)
        self.binder = binder

    def counters(self) -> dict[str, int]:
        """What was counted so far."""
        return {
            "folded_young": self.folded_young,
            "out_of_order": self.out_of_order,
            "held_given_up": self.held_given_up,
            "skewed": self.skewed,
            "orders_left_out": self.orders_left_out,
        }

    def set_counters(self, found: Mapping[str, int]) -> None:
        """Sets what was counted so far."""
        self.folded_young = found["folded_young"]
        self.out_of_order = found["out_of_order"]
        self.held_given_up = found["held_given_up"]
        self._skewed_before += found["skewed"] - self.skewed
        self._left_out_before += found["orders_left_out"] - self.orders_left_out

    def clock_moved(self, by: int) -> None:
        """Adapts to a jump of the clock of receipts, in nanoseconds."""
        self.clocks.clock_moved(by)
        self.ledger.shift(by)
        if by < 0 and self._started_ns:
            self._started_ns += by

    # --- which specs -------------------------------------------------------------------------

    def bind(self, session: Session, attributes: Mapping[str, Any], now: int) -> list[Verdict]:
        """Binds the specs that match the known attributes, and judges held calls under them."""
        agent = session.known_agent
        renamed = session.bound_as != agent
        if session.bound_on is attributes and not renamed:
            return []
        first, binder = session.binder is None, session.binder or self.binder
        before, gaps = session.binding, session.gaps
        is_new = renamed or not session.is_bound_on(attributes)
        session.bind_on(attributes, agent)
        if is_new:  # gaps of this service or agent may reach it from now on
            self._reach(session)
        try:
            verdicts = self._bind(
                session, binder, attributes, agent, now, first=first, renamed=renamed
            )
        except Exception:
            session.binding = before  # the next span of these attributes binds again
            session.ledger_version = -1
            raise
        return verdicts if session.gaps == gaps else verdicts + self.look_again(session)

    def _bind(
        self,
        session: Session,
        binder: SpecBinder,
        attributes: Mapping[str, Any],
        agent: str,
        now: int,
        *,
        first: bool,
        renamed: bool,
    ) -> list[Verdict]:
        bound = binder.bound(attributes, agent)
        found = bound.judges
        if renamed and len(session.attributes) > 1:
            # The new name may match together with attributes that were known before.
            found = wanted_of(session.attributes, agent, binder)
        session.binder = binder
        if first and (bound.more or not found):
            session.held = []
        verdicts: list[Verdict] = []
        if renamed and session.judges:
            verdicts = self._unbind(session, set(found))
        verdicts += self.bind_more(session, found, now)
        if not session.judges and session.seen and not session.judgements:
            self._observe(session, now)
        return verdicts

    def bind_more(self, session: Session, found: tuple[Judge, ...], now: int) -> list[Verdict]:
        """Binds the specs that the session does not have yet, and judges its calls so far under them.

        Calls that are not held are missing for them.
        """
        new = tuple(judge for judge in found if judge not in session.judges)
        if not new:
            return []
        before = session.judges
        session.judges = before + new if before else found
        try:
            return self._catch_up(session, new, now)
        except Exception:
            session.judges = before  # no held call is judged under the new specs yet
            raise

    def _observe(self, session: Session, now: int) -> None:
        """Logs the calls of a session without specs under the observer, which judges nothing."""
        for call in session.held or ():
            self._judge(session, self.unbound, call, now, quiet=True)

    def rebind(self, session: Session, now: int) -> list[Verdict]:
        """Binds again after the session's agent name may have changed."""
        if session.bound_on is None or session.bound_as == session.known_agent:
            return []
        return self.bind(session, session.bound_on, now)

    def _unbind(self, session: Session, wanted: Collection[Judge]) -> list[Verdict]:
        """Removes specs that were bound for an agent name that is no longer the session's.

        A spec with a final verdict stays, because final counters never change.

        Args:
            session: the session.
            wanted: the specs that match its present name.
        """
        verdicts: list[Verdict] = []
        for judge in session.judges:
            found = session.under(judge)
            if judge in wanted or any(each.counted for each in found):
                continue
            session.judges = tuple(each for each in session.judges if each is not judge)
            for judgement in found:
                verdicts += self.let_go(session, judgement)
        if not session.judges:
            session.judged = 0
        return verdicts

    def let_go(self, session: Session, judgement: Judgement) -> list[Verdict]:
        """Removes a judgement whose spec is the session's no more, and withdraws what was reported of it.

        The times of its calls stay the session's, unless these are judged again.
        """
        if (span := judgement.span()) is not None and session.held is None:
            session.leave_behind(span)
        verdicts = self._accounting.withdrawn_limits(session, judgement)
        for place in range(len(judgement.log)):
            verdicts += self._accounting.withdrawn(session, judgement, place)
        session.remove(judgement)
        self._accounting.leave(judgement)
        return verdicts

    def _catch_up(self, session: Session, new: Sequence[Judge], now: int) -> list[Verdict]:
        """Judges the calls that came before their specs were bound."""
        held = session.held or []
        lost = session.seen - len(held)
        unbound = session.judgement(self.unbound, "")
        if unbound is not None:
            if lost and (span := unbound.span()) is not None:
                session.leave_behind(span)
            session.bound_late = session.bound_late or unbound.counted
            session.remove(unbound)
            self._accounting.leave(unbound)
        if lost:
            session.miss("no_spec", lost)
            session.bind_late(new, now)
        return self._judge_held(session, [(call, tuple(new)) for call in held], now)

    def _judge_held(
        self, session: Session, held: Iterable[tuple[ToolCall, tuple[Judge, ...]]], now: int
    ) -> list[Verdict]:
        """Judges held calls. If an error keeps one from being judged, the session owes it; the rest go on."""
        verdicts: list[Verdict] = []
        for call, judges in held:
            failed = self._under(session, judges, call, now, verdicts)
            if failed:
                session.owe(call, failed)
        return verdicts

    def pay(self, session: Session, now: int, *, last: bool = False) -> list[Verdict]:
        """Judges the calls that the session owes: an error kept them from being judged.

        With `last`, calls that fail again are lost. The session is read as joined under their specs.
        """
        owed, session.owed = session.owed or [], None
        live = [
            (call, tuple(judge for judge in judges if judge in session.judges))
            for call, judges in owed
        ]
        verdicts = self._judge_held(session, live, now)
        if last and session.owed:
            owed, session.owed = session.owed, None
            session.miss("no_spec", len(owed))
            for judge in {judge for _, judges in owed for judge in judges}:
                session.bind_late((judge,), now)
            verdicts += self.look_again(session)
        return verdicts

    def release(self, session: Session) -> list[ToolCall]:
        """Removes and returns the calls that a session holds."""
        held, session.held = session.held or [], None
        self._held -= len(held)
        if self._holders:
            self._let_go(session)
        return held

    def take_over(self, session: Session) -> None:
        """A session of another process comes with the calls that it holds."""
        for call in session.held or ():
            self._held += 1
            self._weigh_held(session, call_bytes(call))

    @property
    def held_bytes(self) -> int:
        """Approximate bytes of all held calls."""
        return self._held_bytes.total

    def _hold(self, session: Session, call: ToolCall) -> None:
        held = session.held
        if held is None or len(held) >= HELD_MAX or self._held >= HELD_ALL_MAX:
            return
        held.append(call)
        self._held += 1
        self._weigh_held(session, call_bytes(call))

    def _weigh_held(self, session: Session, size: int) -> None:
        holdings = self._held_bytes
        name = self._held_under.get(session)
        if name is None:
            name = self._held_under[session] = holdings.name(session.key.namespace)
        holders = self._holders.setdefault(name, OrderedDict())
        holders[session] = holders.get(session, 0) + size
        holdings.add(name, size)
        if holdings.total > self._limits.held_bytes_max:
            self._make_room(name)

    def _let_go(self, session: Session) -> None:
        name = self._held_under.pop(session, None)
        if name is None:
            return
        holders = self._holders[name]
        self._held_bytes.add(name, -holders.pop(session))
        if not holders:
            del self._holders[name]

    def _make_room(self, name: str) -> None:
        """Drops held calls until the rest fits: those of the tenant above its share, earliest session first.

        A spec that binds later does not see the dropped calls.
        """
        while self._held_bytes.total > self._limits.held_bytes_max:
            holders = self._holders[self._held_bytes.gives_way(name)]
            self.held_given_up += 1
            self.release(next(iter(holders)))
            if name not in self._holders:
                name = self._held_bytes.most()

    # --- what may be missing -------------------------------------------------------------------

    def doubt(self, session: Session, cause: Cause, *, holds: bool = True) -> list[Verdict]:
        """Sets whether a cause of gaps holds for one session, and revises its verdicts."""
        if holds is (cause in session.causes):
            return []
        if holds:
            session.note_cause(cause)
            self.ledger.counts[cause] += 1
        else:
            session.drop_cause(cause)
        return self.look_again(session)

    def doubt_times(self, session: Session, call: ToolCall, now: int) -> list[Verdict]:
        """Before a call is seen: its times may be wrong. Then its place is not certain, and verdicts are revised."""
        gap = mistimed(call, now, self._limits.window_ns)
        if gap is None:
            return []
        self.clocks.corrections += 1
        if gap in session.gaps:
            return []
        self.ledger.counts[gap.cause] += 1
        session.note_gap(gap)
        return self.look_again(session)

    def prove(self, session: Session, proof: Proof | None) -> list[Verdict]:
        """Takes what a trace shows of the beginning of a session, and revises its verdicts.

        Without a proof, the known one is checked again: the session's first call may be another one by now.
        """
        if proof is None and session.proof is None:
            return []
        known, dated = session.fresh, bool(session.gaps) and session.is_dated_by(proof)
        session.fresh = session.take_proof(proof)
        return self.look_again(session) if dated or session.fresh is not known else []

    def move_back(self, session: Session) -> list[Verdict]:
        """The clock of a sender has turned out to be ahead: its earlier calls are moved, as the others are."""
        lead = self.clocks.lead_of(session.key)
        verdicts: list[Verdict] = []
        if lead is None or not session.judgements:
            return verdicts
        for judgement in session.judgements:
            verdicts += self.report(session, judgement, judgement.move_back(lead))
        for place, held in enumerate(session.held or ()):
            excess = held.end_ns - _receipt(session, held)
            if session.held is not None and is_led(excess, lead):
                session.held[place] = moved_back(held, lead)
        session.set_times_anew()
        return verdicts

    def follow(self, session: Session) -> list[Verdict]:
        """Takes up what the ledger has learnt since the session looked last; revises its verdicts."""
        if session.ledger_version == self.ledger.version:
            return []
        known = session.gaps if session.ledger_version >= 0 else None
        self._reach(session)
        # Its own causes reach as far as our start, which moves with the clock.
        return self.look_again(session) if session.gaps != known or session.causes else []

    def look_again(self, session: Session) -> list[Verdict]:
        """Has the session's judgements allow for what is known to be missing by now; revises its verdicts."""
        if session.ledger_version != self.ledger.version:
            self._reach(session)
        verdicts: list[Verdict] = []
        for judgement in session.judgements:
            sight = self.sight(session, judgement.judge, judgement.part)
            if sight != judgement.sight:
                verdicts += self.report(session, judgement, judgement.see(sight))
        return verdicts

    def _reach(self, session: Session) -> None:
        """Sets which gaps of the ledger reach a session. Those that are over go on reaching it."""
        ledger = self.ledger
        session.ledger_version = ledger.version
        if not (len(ledger) or session.gaps):
            return
        known = [
            each for each in session.gaps if each.cause in OF_ONE_SESSION or ledger.stands(each)
        ]
        found = ledger.reaching(
            session.key.namespace, session.is_of, session.agent, session.opened_ns
        )
        session.gaps = tuple(known if found == known else dict.fromkeys((*known, *found)))

    def sight(self, session: Session, judge: Judge, part: str = "") -> Sight:
        """What a judgement of a part of the session is to allow for."""
        late = session.late.get(judge, 0) if session.late else 0
        nowhere = judge.parted and is_turn_unknown(judge, part)
        if not (session.gaps or session.causes or late or nowhere):
            return CLEAR
        gaps = session.gaps
        if session.fresh and session.proof is not None and gaps:
            gaps = tuple(_since(gaps, session.proof.start_ns))
        own = [
            self._own_gap(cause)
            for cause in session.causes
            if not (self._limits.history_complete and FACTS[cause].promised)
        ]
        if late:
            own.append(Gap(Cause.BOUND_LATE, 0, late))
        if nowhere:
            own.append(Gap(Cause.TURN_UNKNOWN, 0, EVER))
        return self._sight_of((*gaps, *own))

    def _sight_of(self, gaps: tuple[Gap, ...]) -> Sight:
        """`sight_of`, cached: most sessions share their gaps."""
        found = self._sights.get(gaps)
        if found is None:
            if len(self._sights) >= SIGHTS_MAX:
                self._sights.clear()
            found = self._sights[gaps] = sight_of(gaps)
        return found

    def _own_gap(self, cause: Cause) -> Gap:
        """The gap of a cause that holds for this session alone."""
        if cause is Cause.SAMPLED:
            return Gap(cause, 0, EVER)
        # The others allow for calls before the first one that was seen, whichever that is.
        return Gap(cause, 0, self._started_ns if cause is Cause.SEEN_BEFORE else 0)

    def note(self, gap: Gap) -> bool:
        """Takes a gap into the ledger; returns False if it was known, or is promised not to be."""
        promised = self._limits.history_complete and FACTS[gap.cause].promised
        return not promised and self.ledger.note(gap)

    # --- one call ------------------------------------------------------------------------------

    def take(
        self, session: Session, call: ToolCall, now: int, *, quiet: bool = False
    ) -> list[Verdict]:
        """Judges a call under each of the session's specs; without specs, the call is held."""
        if session.held is not None:
            self._hold(session, call)
        session.seen += 1
        if not session.judges:
            self._judge(session, self.unbound, call, now, quiet=True)
            return []
        verdicts: list[Verdict] = []
        judged = False
        for judge in session.judges:
            found = self._judge(session, judge, call, now, quiet=quiet)
            if found is not None:
                judged = True
                if found:
                    verdicts += found
        session.judged += judged
        if not judged:
            session.set_aside(call)
        return verdicts

    def _under(
        self,
        session: Session,
        judges: Sequence[Judge],
        call: ToolCall,
        now: int,
        verdicts: list[Verdict],
    ) -> tuple[Judge, ...]:
        """Judges a held call under specs that were bound after it.

        Returns:
            The specs under which an error kept it from being judged.
        """
        failed: list[Judge] = []
        known = any(self._find(session, judge, call) for judge in session.judges)
        judged = False
        for judge in judges:
            try:
                found = self._judge(session, judge, call, now, quiet=False)
            except Exception as error:  # noqa: BLE001 - it keeps no other call from being judged
                self._fail(session, judge, call, error)
                failed.append(judge)
            else:
                judged = judged or found is not None
                verdicts += found or ()
        session.judged += judged and not known
        if not (judged or known or failed):
            session.set_aside(call)
        return tuple(failed)

    def _fail(self, session: Session, judge: Judge, call: ToolCall, error: Exception) -> None:
        """Records an error and removes the call from the log of that spec, if it was added."""
        if len(self.errors) < ERRORS_MAX:
            self.errors.append(error)
        with suppress(Exception):
            found = self._find(session, judge, call)
            if found is not None:
                self._take_out(session, *found)

    def _judge(
        self, session: Session, judge: Judge, call: ToolCall, now: int, *, quiet: bool
    ) -> Sequence[Verdict] | None:
        """The verdicts under one spec; None if it is a policy that does not name the call."""
        token = self.token(judge, call)
        if token is None:
            return None
        part = part_of(judge, call) if judge.parted else ""
        judgement = session.judgement(judge, part)
        if judgement is None:
            judgement = self.open(session, judge, part)
        tool = self._tool(judge, call, token)
        at = self.at(judge, call, now)
        if self._limits.keep_arguments or judgement.sampled:
            self._keep(judgement, call)
        before, origin = judgement.before(token), None
        # A call that was decided is final once something has confirmed it.
        is_decided = call.evidence is Evidence.DECIDED
        receipt = now + self._limits.confirm_ns if is_decided else now
        code = judgement.append(call, tool, token, at, receipt)
        if code is None:
            origin = origin_of(call, now)
            changes = self._insert(judgement, call, tool, token, at, receipt, origin)
        elif quiet and code < HARMFUL:
            self._accounting.count_plain(judgement, code)
            changes = ()
        else:
            after, place = judgement.head.position, len(judgement.log) - 1
            fields = (place, None, code, code >= HARMFUL, False, before, after)
            changes = (built(VerdictChange, fields),)
            origin = origin_of(call, now)
            self._accounting.count(judgement, changes, origin)
        if judge.comparison is not None:
            inserted = changes[0].place if code is None else None
            self._accounting.alarms.take(session, judgement, token, inserted)
        reported: Sequence[Verdict] = ()
        if changes:
            if judge.plain_of(token) == judge.mismatch:
                self._annotate(judgement, call)
            reported = [
                self._accounting.verdict(session, judgement, change, origin)
                for change in changes
                if not quiet or change.new >= HARMFUL or change.old is not None
            ]
        if judgement.suspicious:
            reported = self._with_suspicions(session, judgement, reported)
        if judgement.crowded and self._limits.fold:
            self._relieve(session, judgement, now)
        return reported

    def _with_suspicions(
        self, session: Session, judgement: Judgement, verdicts: Sequence[Verdict]
    ) -> list[Verdict]:
        """The verdicts with the session's possible harms, one verdict per call."""
        told = {verdict.span_id: verdict for verdict in verdicts}
        found = self._accounting.suspicions(session, judgement, self._started_ns, told)
        news = {
            each.span_id: each._replace(revised_from=told[each.span_id].revised_from)
            if each.span_id in told
            else each
            for each in found
        }
        return [each for each in verdicts if each.span_id not in news] + list(news.values())

    def _insert(
        self,
        judgement: Judgement,
        call: ToolCall,
        tool: int,
        token: int,
        at: int,
        receipt: int,
        origin: Exemplar | None,
    ) -> Sequence[VerdictChange]:
        """Inserts a call among later ones, whose verdicts it may revise."""
        self.out_of_order += 1
        late = judgement.late
        changes = judgement.insert(call, tool, token, at, receipt)
        self._accounting.count(judgement, changes, origin)
        if judgement.pair is not None:
            judgement.pair.late += judgement.late - late
        return changes

    def _tool(self, judge: Judge, call: ToolCall, token: int) -> int:
        """The number of the call's tool, cached for tokens of symbols."""
        symbol = judge.plain_of(token)
        if symbol >= judge.plain or judge.comparison is not None:
            return self._names.number(call.tool, call.session.namespace)
        found = judge.numbers[symbol]
        if found < 0:
            found = judge.numbers[symbol] = self._names.number(
                call.tool, call.session.namespace
            )
        return found

    def token(self, judge: Judge, call: ToolCall) -> int | None:
        """The call's token; None if the spec is a policy that does not name the call."""
        if judge.comparison is not None:
            return judge.comparison.token(call.tool, call.arguments, call.error)
        effect = effect_of(call.doubts) if call.doubts else Effect.NONE
        failed = call.error and effect is not Effect.OUTCOME
        alphabet = judge.spec.alphabet
        token = alphabet.match(call.tool, call.arguments, failed)
        if token >= judge.plain:
            meaning = alphabet.tokens[token]
            if not (meaning.symbols or meaning.named or meaning.symbol is not None):
                if call.control:
                    return CONTROL_TOKEN
                if judge.spec.kind == "policy":
                    return None
        return judge.doubted(token, effect) if call.doubts else token

    def open(self, session: Session, judge: Judge, part: str) -> Judgement:
        """Begins the judgement of a part of a session."""
        judgement = Judgement(judge, part, self.sight(session, judge, part))
        if judge.parted and is_turn_unknown(judge, part):
            self.ledger.count(Cause.TURN_UNKNOWN)
        session.add(judgement)
        self._accounting.enter(session, judgement)
        self._accounting.sample(session, judgement, session.touched_ns)
        return judgement

    def _keep(self, judgement: Judgement, call: ToolCall) -> None:
        """Keeps a call's arguments if they are shown, and their hashes if the judgement is sampled."""
        shown = call.arguments if self._limits.keep_arguments else None
        if judgement.sampled and len(judgement.log) >= CALLS_MAX:
            self._accounting.drop_sample(judgement)
        found = hashed(call.arguments) if judgement.sampled else None
        if shown is not None or found is not None:
            texts: Texts = built(Texts, (call.call_id, shown, found, ""))
            judgement.log.keep(call.span_id, texts)
            if shown is not None:
                self.shown_bytes += arguments_bytes(shown)

    def _annotate(self, judgement: Judgement, call: ToolCall) -> None:
        """Notes which arguments of a call match no symbol: when it is shown, they are dropped."""
        alphabet, show = judgement.judge.spec.alphabet, self._show
        note = explain_mismatch(alphabet, call.tool, call.arguments, show)
        if note:
            judgement.log.annotate(call.span_id, call.call_id, note)

    def _relieve(self, session: Session, judgement: Judgement, now: int) -> None:
        """Makes room in a log that a burst has filled: its oldest steps become final early."""
        count = judgement.lump()
        self._accounting.finalise(session, judgement, judgement.finalise(now, count).reported)
        self.folded_young += count
        judgement.fold_first(count)

    def at(self, judge: Judge, call: ToolCall, now: int) -> int:
        """The call's time in the order: its start, or its end if the spec says so.

        The time of receipt counts if the call's times cannot be right: no start, end before start, or
        far ahead of the receipt.
        """
        start, end = call.start_ns, call.end_ns
        if not start or end < start or end > now + self.clocks.ahead_max_ns:
            return latest_ns(call, now)
        order = judge.spec.order
        return end if order and order.get(call.tool) == "end" else start

    # --- corrections ---------------------------------------------------------------------------

    def amend(self, session: Session, old: ToolCall, call: ToolCall, now: int) -> list[Verdict]:
        """Judges a call again that was judged as `old`, from a fuller span."""
        kept = session.held
        if kept is not None:
            for place, held in enumerate(kept):
                if held.span_id == old.span_id:
                    kept[place] = call
                    self._weigh_held(session, call_bytes(call) - call_bytes(held))
                    break
        session.owe_no_more(old)
        verdicts: list[Verdict] = []
        judges = session.judges or (self.unbound,)
        for judge in judges:
            verdicts += self._amend(session, judge, old, call, now)
        session.take_in(old)
        if not self._is_in_log(session, judges, call):
            session.set_aside(call)
        if old.start_ns != call.start_ns or old.end_ns != call.end_ns:
            session.set_times(old)
        return verdicts

    def _amend(
        self, session: Session, judge: Judge, old: ToolCall, call: ToolCall, now: int
    ) -> list[Verdict]:
        """`amend` under one spec, which may judge only one of the two readings."""
        found = self._find(session, judge, old)
        token, part = self.token(judge, call), part_of(judge, call)
        verdicts: list[Verdict] = []
        if found is not None:
            judgement, place = found
            if token is not None and judgement.part == part:
                gone = self._gone(session, judgement, place, old, call)
                verdicts = self._read_anew(session, judgement, place, old, call, token, now)
                if not gone:
                    return verdicts
                return [*gone, *self._told_anew(session, judgement, call, verdicts)]
            # The spec does not name it any more, or judges it in another part.
            verdicts = self._accounting.withdrawn(session, judgement, place)
            verdicts += self._take_out(session, judgement, place)
        elif self._came_late(session, judge, old, now):
            return []
        return [*verdicts, *(self._judge(session, judge, call, now, quiet=False) or ())]

    def _gone(
        self, session: Session, judgement: Judgement, place: int, old: ToolCall, call: ToolCall
    ) -> list[Verdict]:
        """Takes back what was told of a call under the id of a span that is a part of another one by now."""
        if old.span_id == call.span_id or not judgement.is_alarming(place):
            return []
        return self._accounting.withdrawn(session, judgement, place, counts=False)

    def _told_anew(
        self,
        session: Session,
        judgement: Judgement,
        call: ToolCall,
        verdicts: list[Verdict],
    ) -> list[Verdict]:
        """Tells of a call under its new id, if it is harmful or possibly harmful."""
        place = judgement.log.find(call.span_id)
        if place is None or not judgement.is_alarming(place):
            return verdicts
        if any(each.span_id == call.span_id for each in verdicts):
            return verdicts
        found = [*verdicts, self._accounting.verdict_at(session, judgement, place)]
        return self._with_suspicions(session, judgement, found)

    def _find(
        self, session: Session, judge: Judge, call: ToolCall
    ) -> tuple[Judgement, int] | None:
        """The judgement that holds a call's step, and its place there."""
        for judgement in session.judgements:
            if judgement.judge is judge:
                place = judgement.log.find(call.span_id)
                if place is not None:
                    return judgement, place
        return None

    def _is_in_log(self, session: Session, judges: Iterable[Judge], call: ToolCall) -> bool:
        """True if one of these specs has the call's step."""
        for judge in judges:  # noqa: SIM110 - `any` makes a generator
            if self._find(session, judge, call) is not None:
                return True
        return False

    def _read_anew(
        self,
        session: Session,
        judgement: Judgement,
        place: int,
        old: ToolCall,
        call: ToolCall,
        token: int,
        now: int,
    ) -> list[Verdict]:
        late, judge = judgement.late, judgement.judge
        tool, at = self._tool(judge, call, token), self.at(judge, call, now)
        if _is_worded_alike(old, call) and judgement.ends_doubt(place, call, tool, token, at):
            return []
        receipt = now if old.evidence is Evidence.DECIDED else None
        self._accounting.alarms.amended(session, judgement, place, token)
        changes = judgement.amend(place, call, tool, token, at, receipt)
        self._keep(judgement, call)
        if judge.plain_of(token) == judge.mismatch:
            self._annotate(judgement, call)
        if judgement.pair is not None:
            judgement.pair.late += judgement.late - late
        return self.report(session, judgement, changes)

    def _came_late(self, session: Session, judge: Judge, old: ToolCall, now: int) -> bool:
        """True if the call's step is folded: its verdict stays, and the call counts as late."""
        if self.token(judge, old) is None:
            return False
        judgement = session.judgement(judge, part_of(judge, old))
        base = judgement.base if judgement is not None else None
        if judgement is None or base is None or self.at(judge, old, now) > base.at:
            return False
        judgement.late += 1
        if judgement.pair is not None:
            judgement.pair.late += 1
        return True

    def retract(self, session: Session, call: ToolCall, now: int) -> list[Verdict]:
        """Removes the step of a span that is not a call; later steps are judged without it."""
        for number, held in enumerate(session.held or ()):
            if held.span_id == call.span_id and session.held is not None:
                del session.held[number]
                self._held -= 1
                self._weigh_held(session, -call_bytes(held))
                break
        session.unsee(call)
        session.owe_no_more(call)
        verdicts: list[Verdict] = []
        judged = False
        for judge in session.judges or (self.unbound,):
            found = self._find(session, judge, call)
            if found is None:
                self._came_late(session, judge, call, now)
                continue
            judged = judged or judge is not self.unbound
            verdicts += self._accounting.withdrawn(session, *found)
            verdicts += self._take_out(session, *found)
        session.judged -= judged
        session.take_in(call)
        session.set_times(call)
        return verdicts

    def _take_out(self, session: Session, judgement: Judgement, place: int) -> list[Verdict]:
        """Removes a step, and the judgement if it has no calls left and was not counted."""
        self._accounting.alarms.removed(session, judgement, place)
        verdicts = self.report(session, judgement, judgement.retract(place))
        if not (len(judgement.log) or judgement.folded or judgement.counted):
            session.remove(judgement)
            self._accounting.leave(judgement)
        return verdicts

    def report(
        self, session: Session, judgement: Judgement, changes: Sequence[VerdictChange]
    ) -> list[Verdict]:
        """Counts changes of a judgement, and words them."""
        self._accounting.count(judgement, changes)
        self._accounting.alarms.compare(session, judgement)
        verdicts = [self._accounting.verdict(session, judgement, each) for each in changes]
        if judgement.suspicious:
            return self._with_suspicions(session, judgement, verdicts)
        return verdicts

    def merge(self, moved: Session, target: Session) -> list[Verdict]:
        """Moves the calls of one session into another, and returns the revisions."""
        now = target.touched_ns
        verdicts = self._agree(moved, target, now)
        missing = tuple(judge for judge in target.judges if judge not in moved.judges)
        new = tuple(judge for judge in moved.judges if judge not in target.judges)
        lost = moved.seen - len(moved.held or ())
        target.judges += new
        if new and target.seen:
            verdicts += self._catch_up(target, new, now)
        target.absorb(moved)
        if lost:
            target.bind_late(missing, now)
        for judgement in moved.judgements:
            self._accounting.leave(judgement)
            into = target.judgement(judgement.judge, judgement.part)
            if not judgement.judge.spec.id and target.judges:
                continue
            if into is None:
                target.add(judgement)
            else:
                self._accounting.alarms.absorb(moved, judgement, into)
                verdicts += self.report(target, into, into.absorb(judgement))
                self._accounting.absorbed(judgement, into)
        held = self.release(moved)
        verdicts += self._judge_held(target, [(call, missing) for call in held], now)
        for call in held:
            self._hold(target, call)
        for call, judges in moved.owed or ():
            target.owe(call, judges)
        target.fresh = target.take_proof(None)
        verdicts += self.look_again(target)
        self._accounting.relabel(target)
        if target.binder is not None:
            wanted = wanted_of(target.attributes, target.known_agent, target.binder)
            verdicts += self.bind_more(target, wanted, now)
        return verdicts

    def _agree(self, moved: Session, target: Session, now: int) -> list[Verdict]:
        """Gives two sessions to be merged one agent name, and unbinds the specs of the other name."""
        facts = (*target.attributes, *moved.attributes)
        target.named_as(moved)
        agent = target.known_agent
        wanted: set[Judge] = set()
        for session in (moved, target):
            if session.binder is not None:
                wanted.update(wanted_of(facts, agent, session.binder))
        verdicts: list[Verdict] = []
        for session in (moved, target):
            if session.bound_as != agent and session.judges:
                verdicts += self._unbind(session, wanted)
                if not session.judges and not session.judgements:
                    self._observe(session, now)
        target.bound_as = agent
        return verdicts


def _is_worded_alike(old: ToolCall, call: ToolCall) -> bool:
    """True if two readings of a call, neither of them a mere decision, have the same texts."""
    return (
        old.evidence is call.evidence is not Evidence.DECIDED
        and old.call_id == call.call_id
        and old.arguments == call.arguments
    )


def _receipt(session: Session, call: ToolCall) -> int:
    """When a call of the session was received; if no log has it, when the session's last one was."""
    for judgement in session.judgements:
        place = judgement.log.find(call.span_id)
        if place is not None:
            return judgement.log.receipt(place)
    return session.touched_ns


def _since(gaps: Iterable[Gap], begin_ns: int) -> Iterator[Gap]:
    """What is left of some gaps for a session that began at a moment."""
    for each in gaps:
        if each.until_ns > begin_ns:
            yield each if each.since_ns >= begin_ns else each._replace(since_ns=begin_ns)


def wanted_of(
    facts: Iterable[Mapping[str, Any]], agent: str, binder: SpecBinder
) -> tuple[Judge, ...]:
    """The specs that match any of these attributes under a name, in the binder's order."""
    wanted = {judge for each in facts for judge in binder.bind(each, agent)}
    return tuple(judge for judge in binder.judges.values() if judge in wanted)


def is_turn_unknown(judge: Judge, part: str) -> bool:
    """True for the part that has the calls of a session whose turn is not known."""
    return part == _NO_TURN and judge.spec.scope == "turn"


def part_of(judge: Judge, call: ToolCall) -> str:
    """The part (agent or turn) that the call belongs to, by the spec's scope."""
    if judge.spec.scope == "session":
        return ""
    return call.agent if judge.spec.scope == "agent" else call.trace_id.hex()
