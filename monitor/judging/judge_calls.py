"""Judges the calls of sessions: binds specs, finds the judgement, adds the call to it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from monitor.aggregate.consistency_sample import CALLS_MAX, hashed
from monitor.aggregate.histogram import Exemplar
from monitor.judging.accounting import Accounting
from monitor.judging.sender_clocks import SenderClocks
from monitor.limits import Limits
from monitor.records import ToolCall, Verdict, built
from monitor.session.judge import CONTROL_TOKEN, HARMFUL, Judge
from monitor.session.judgement import Judgement
from monitor.session.log.rows import Texts, origin_of
from monitor.session.marks import Change
from monitor.session.session import Session
from monitor.session.spec_binding import SpecBinder
from monitor.session.tool_names import Names
from monitor.spec.spec import Spec
from monitor.tenants import Holdings
from monitor.weights import call_bytes

__all__ = ["HELD_ALL_MAX", "HELD_MAX", "CallJudge"]

HELD_MAX: Final = 256
"""Calls of a session that another spec may match, kept with their arguments for a late binding."""

FOREVER: Final = 2**64
"""Calls may be missing whenever one began."""

HELD_ALL_MAX: Final = 50_000
"""The same, over all sessions."""


class CallJudge:
    """Judges the calls of one session at a time; it keeps no sessions itself."""

    def __init__(
        self,
        binder: SpecBinder,
        accounting: Accounting,
        names: Names,
        limits: Limits,
        started_ns: int,
    ) -> None:
        self.binder = binder
        self.folded_young = 0
        """Steps folded before they were final, in a burst of one session."""
        self.out_of_order = 0
        """Calls that arrived after one that began later, under each spec."""
        self._skewed_before = 0
        self._left_out_before = 0
        """Under specs that are not in use any more."""
        self._accounting = accounting
        self._names = names
        self._limits = limits
        self._started_ns = started_ns
        self._young_since = started_ns
        """Our start by the clock of receipts, as that is set now."""
        self.clocks = SenderClocks()
        self._unbound = Judge(Spec.observer())
        self._held = 0
        self._held_bytes = Holdings()
        """Of the calls that sessions hold, by tenant."""
        self._holders: dict[str, OrderedDict[Session, int]] = {}
        """Who holds some, and its bytes, by tenant, in the order in which they began to."""
        self._held_under: dict[Session, str] = {}
        """The name by which a holder is counted: another one may be its tenant's by now."""
        self.held_given_up = 0
        """Sessions whose calls were let go before their time: too much was held."""

    @property
    def skewed(self) -> int:
        """Calls placed behind the call they are a part of, under each spec."""
        judges = (*self.binder.judges.values(), self._unbound)
        return self._skewed_before + sum(judge.skewed for judge in judges)

    @property
    def orders_left_out(self) -> int:
        """Times that overlapping calls were judged by some of the orders they may have had."""
        judges = self.binder.judges.values()
        return self._left_out_before + sum(judge.left_out for judge in judges)

    def use(self, binder: SpecBinder) -> None:
        """Sessions that begin from now on are bound by another binder."""
        kept = set(map(id, binder.judges.values()))
        gone = [judge for judge in self.binder.judges.values() if id(judge) not in kept]
        self._skewed_before += sum(judge.skewed for judge in gone)
        self._left_out_before += sum(judge.left_out for judge in gone)
        self.binder = binder

    def clock_moved(self, by: int) -> None:
        """The clock of receipts was set by so many nanoseconds."""
        self.clocks.clock_moved(by)
        if self._young_since:
            self._young_since += by
        if by < 0 and self._started_ns:
            self._started_ns += by

    # --- which specs -------------------------------------------------------------------------

    def bind(self, session: Session, attributes: Mapping[str, Any], now: int) -> list[Verdict]:
        """Binds specs that match what is known by now; held calls are judged under them."""
        agent = session.known_agent
        renamed = session.bound_as != agent
        if session.bound_on is attributes and not renamed:
            return []
        session.bind_on(attributes, agent)
        first, binder = session.binder is None, session.binder or self.binder
        session.binder = binder
        bound = binder.bound(attributes, agent)
        found = bound.judges
        if renamed and len(session.attributes) > 1:
            # Another name may match together with attributes that are known already.
            found = _wanted(session.attributes, agent, binder)
        if first and (bound.more or not found):
            session.held = []
        verdicts: list[Verdict] = []
        if renamed and session.judges:
            verdicts = self._unbind(session, set(found))
        verdicts += self._bind_new(session, found, now)
        if not session.judges and session.seen and not session.judgements:
            self._observe(session, now)
        return verdicts

    def _bind_new(self, session: Session, found: tuple[Judge, ...], now: int) -> list[Verdict]:
        """Those of the specs that the session has not; the calls so far are judged under them."""
        new = tuple(judge for judge in found if judge not in session.judges)
        if not new:
            return []
        session.judges = session.judges + new if session.judges else found
        return self._catch_up(session, new, now)

    def _observe(self, session: Session, now: int) -> None:
        """The calls of a session that no spec matches are kept by an observer."""
        for call in session.held or ():
            self._judge(session, self._unbound, call, now, quiet=True)

    def rebind(self, session: Session, now: int) -> list[Verdict]:
        """The same where the session may have got another name."""
        return [] if session.bound_on is None else self.bind(session, session.bound_on, now)

    def _unbind(self, session: Session, wanted: Collection[Judge]) -> list[Verdict]:
        """Specs that were bound for a name which turns out not to be the session's are let go.

        Where one of their verdicts is final they stay: final counters never change.

        Args:
            session: whose specs they are.
            wanted: those that match the session under the name it has.
        """
        verdicts: list[Verdict] = []
        for judge in session.judges:
            found = session.under(judge)
            if judge in wanted or any(each.counted for each in found):
                continue
            session.judges = tuple(each for each in session.judges if each is not judge)
            for judgement in found:
                if (span := judgement.span()) is not None and session.held is None:
                    session.leave_behind(span)
                for place in range(len(judgement.log)):
                    verdicts += self._accounting.withdrawn(session, judgement, place)
                session.remove(judgement)
                self._accounting.leave(judgement)
        if not session.judges:
            session.judged = 0
        return verdicts

    def _catch_up(self, session: Session, new: Sequence[Judge], now: int) -> list[Verdict]:
        """Judges the calls that came before their specs were bound."""
        held = session.held or []
        lost = session.seen - len(held)
        unbound = session.judgement(self._unbound, "")
        if unbound is not None:
            if lost and (span := unbound.span()) is not None:
                session.leave_behind(span)
            session.bound_late = session.bound_late or unbound.counted
            session.remove(unbound)
            self._accounting.leave(unbound)
        if lost:
            session.miss("no_spec", lost)
            session.bind_late(new, now)
        return [verdict for call in held for verdict in self._under(session, new, call, now)]

    def release(self, session: Session) -> list[ToolCall]:
        """The calls a session has held, which it holds no longer."""
        held, session.held = session.held or [], None
        self._held -= len(held)
        if self._holders:
            self._let_go(session)
        return held

    def _hold(self, session: Session, call: ToolCall) -> None:
        held = session.held
        if held is None or len(held) >= HELD_MAX or self._held >= HELD_ALL_MAX:
            return
        held.append(call)
        self._held += 1
        self._weigh_held(session, call_bytes(call))

    def _weigh_held(self, session: Session, size: int) -> None:
        """A session holds so many bytes more."""
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
        """A session holds nothing any more."""
        name = self._held_under.pop(session, None)
        if name is None:
            return
        holders = self._holders[name]
        self._held_bytes.add(name, -holders.pop(session))
        if not holders:
            del self._holders[name]

    def _make_room(self, name: str) -> None:
        """Sessions let their calls go: the earliest, of the tenant that holds too much.

        A spec that is bound to one later has missed these.
        """
        while self._held_bytes.total > self._limits.held_bytes_max:
            holders = self._holders[self._held_bytes.gives_way(name)]
            self.held_given_up += 1
            self.release(next(iter(holders)))
            if name not in self._holders:
                name = self._held_bytes.most()

    def join(self, session: Session, *, gaps: bool = False) -> None:
        """The session began before it was seen: certain harms only, from now on.

        With `gaps` calls may be missing anywhere in it, not only before our start.
        """
        if session.gaps or self._limits.history_complete or (session.joined and not gaps):
            return
        session.joined, session.gaps = True, gaps
        for judgement in session.judgements:
            blind = FOREVER if gaps else judgement.blind_ns
            self._accounting.count(judgement, judgement.join(blind))
            self._accounting.alarms.compare(session, judgement)

    def resume(self, session: Session) -> list[Verdict]:
        """The session turns out to be one whose state was let go: it is read as joined."""
        verdicts: list[Verdict] = []
        for judgement in session.judgements:
            blind = FOREVER if session.gaps else max(judgement.blind_ns, session.started_ns)
            verdicts += self._report(session, judgement, judgement.join(blind))
        return verdicts

    def doubt(self, session: Session, *, doubted: bool) -> list[Verdict]:
        """Calls before the session's first one may be missing, or turn out not to be.

        It is read both ways while they may, and as joined where that needs fewer harms.
        """
        session.doubted = doubted
        if self._limits.history_complete:
            return []
        verdicts: list[Verdict] = []
        for judgement in session.judgements:
            verdicts += self._report(session, judgement, judgement.doubt(doubtful=doubted))
        return verdicts

    # --- one call ------------------------------------------------------------------------------

    def take(
        self, session: Session, call: ToolCall, now: int, *, quiet: bool = False
    ) -> list[Verdict]:
        """The call under each of the session's specs; kept for later where there is none."""
        if session.held is not None:
            self._hold(session, call)
        session.seen += 1
        if not session.judges:
            self._judge(session, self._unbound, call, now, quiet=True)
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
        self, session: Session, judges: Sequence[Judge], call: ToolCall, now: int
    ) -> list[Verdict]:
        """A call that was kept, under specs that were bound after it."""
        found = [self._judge(session, judge, call, now, quiet=False) for judge in judges]
        judged = any(verdicts is not None for verdicts in found)
        session.judged += judged
        if not judged:
            session.set_aside(call)
        return [verdict for verdicts in found for verdict in verdicts or ()]

    def _judge(
        self, session: Session, judge: Judge, call: ToolCall, now: int, *, quiet: bool
    ) -> Sequence[Verdict] | None:
        """The verdicts under one spec; None where a policy does not name the call."""
        token = self._token(judge, call)
        if token is None:
            return None
        part = _part(judge, call) if judge.parted else ""
        judgement = session.judgement(judge, part)
        if judgement is None:
            judgement = self._open(session, judge, part)
        tool = self._tool(judge, call, token)
        at = self._at(judge, call, now)
        if self._limits.keep_arguments or judgement.sampled:
            self._keep(judgement, call)
        before, origin = judgement.before(token), None
        code = judgement.append(call, tool, token, at, now)
        if code is None:
            origin = origin_of(call, now)
            changes = self._insert(judgement, call, tool, token, at, now, origin)
        elif quiet and code < HARMFUL:
            self._accounting.count_plain(judgement, code)
            changes = ()
        else:
            after, place = judgement.head.position, len(judgement.log) - 1
            fields = (place, None, code, code >= HARMFUL, False, before, after)
            changes = (built(Change, fields),)
            origin = origin_of(call, now)
            self._accounting.count(judgement, changes, origin)
        if judge.comparison is not None:
            inserted = changes[0].place if code is None else None
            self._accounting.alarms.take(session, judgement, token, inserted)
        reported: Sequence[Verdict] = ()
        if changes:
            reported = [
                self._accounting.verdict(session, judgement, change, origin)
                for change in changes
                if not quiet or change.new >= HARMFUL or change.old is not None
            ]
        if judgement.crowded and self._limits.fold:
            self._relieve(session, judgement, now)
        return reported

    def _insert(
        self,
        judgement: Judgement,
        call: ToolCall,
        tool: int,
        token: int,
        at: int,
        now: int,
        origin: Exemplar | None,
    ) -> Sequence[Change]:
        """The call goes to its place among earlier ones, whose verdicts it may revise."""
        self.out_of_order += 1
        late = judgement.late
        changes = judgement.insert(call, tool, token, at, now)
        self._accounting.count(judgement, changes, origin)
        if judgement.pair is not None:
            judgement.pair.late += judgement.late - late
        return changes

    def _tool(self, judge: Judge, call: ToolCall, token: int) -> int:
        """The number of the call's tool; a token that is a symbol has it."""
        if token >= judge.plain or judge.comparison is not None:
            return self._names.number(call.tool, call.session.namespace)
        found = judge.numbers[token]
        if found < 0:
            found = judge.numbers[token] = self._names.number(call.tool, call.session.namespace)
        return found

    def _token(self, judge: Judge, call: ToolCall) -> int | None:
        """The call's token, or None where a policy does not name the call."""
        if judge.comparison is not None:
            return judge.comparison.token(call.tool, call.arguments, call.error)
        alphabet = judge.spec.alphabet
        token = alphabet.match(call.tool, call.arguments, call.error)
        if token < judge.plain:
            return token
        meaning = alphabet.tokens[token]
        if meaning.symbols or meaning.named or meaning.symbol is not None:
            return token
        if call.control:
            return CONTROL_TOKEN
        return None if judge.spec.kind == "policy" else token

    def _open(self, session: Session, judge: Judge, part: str) -> Judgement:
        complete = self._limits.history_complete
        # For a while after our start a session may have begun before us without a sign of it.
        young = session.touched_ns - self._young_since < self._limits.idle_ns
        late = session.late.get(judge, 0) if session.late else 0
        judgement = Judgement(
            judge,
            part,
            joined=late > 0 or session.forgotten or (session.joined and not complete),
            doubtful=young and not complete,
            blind_ns=FOREVER
            if session.gaps
            else max(
                late,
                0 if complete else self._started_ns,
                session.started_ns if session.forgotten else 0,
            ),
        )
        if session.doubted and not complete:
            judgement.doubt(doubtful=True)
        session.add(judgement)
        self._accounting.enter(session, judgement)
        self._accounting.sample(judgement, session.touched_ns)
        return judgement

    def _keep(self, judgement: Judgement, call: ToolCall) -> None:
        """Keeps a call's arguments where they are shown, and hashes of them in the sample."""
        shown = call.arguments if self._limits.keep_arguments else None
        if judgement.sampled and len(judgement.log) >= CALLS_MAX:
            self._accounting.drop_sample(judgement)
        found = hashed(call.arguments) if judgement.sampled else None
        if shown is not None or found is not None:
            texts: Texts = built(Texts, (call.call_id, shown, found))
            judgement.log.keep(call.span_id, texts)

    def _relieve(self, session: Session, judgement: Judgement, now: int) -> None:
        """A burst has filled a log: its oldest steps become final before their time."""
        count = judgement.lump()
        self._accounting.finalise(session, judgement, judgement.finalise(now, count).reported)
        self.folded_young += count
        judgement.fold_first(count)

    def _at(self, judge: Judge, call: ToolCall, now: int) -> int:
        """Where the call stands in the order: its start, or its end where the spec says so.

        A clock that cannot be right (no start, an end before it, or far ahead of the receipt) is not
        believed: the call is placed by its receipt.
        """
        start, end = call.start_ns, call.end_ns
        if not start or end < start or end > now + self.clocks.ahead_max_ns:
            return now
        order = judge.spec.order
        return end if order and order.get(call.tool) == "end" else start

    # --- corrections ---------------------------------------------------------------------------

    def amend(self, session: Session, old: ToolCall, call: ToolCall, now: int) -> list[Verdict]:
        """The call that was judged as `old` is read anew, from a fuller span of it."""
        kept = session.held
        if kept is not None:
            for place, held in enumerate(kept):
                if held.span_id == old.span_id:
                    kept[place] = call
                    self._weigh_held(session, call_bytes(call) - call_bytes(held))
                    break
        verdicts: list[Verdict] = []
        for judge in session.judges or (self._unbound,):
            verdicts += self._amend(session, judge, old, call, now)
        session.take_in(old)
        judges = session.judges or (self._unbound,)
        if not any(self._find(session, judge, call) for judge in judges):
            session.set_aside(call)
        session.set_times(old)
        return verdicts

    def _amend(
        self, session: Session, judge: Judge, old: ToolCall, call: ToolCall, now: int
    ) -> list[Verdict]:
        """The same under one spec, which may name the call only now, or no longer."""
        found = self._find(session, judge, old)
        token, part = self._token(judge, call), _part(judge, call)
        verdicts: list[Verdict] = []
        if found is not None:
            judgement, place = found
            if token is not None and judgement.part == part:
                return self._read_anew(session, judgement, place, call, token, now)
            verdicts = self._take_out(session, judgement, place)
        elif self._came_late(session, judge, old, now):
            return []
        return [*verdicts, *(self._judge(session, judge, call, now, quiet=False) or ())]

    def _find(
        self, session: Session, judge: Judge, call: ToolCall
    ) -> tuple[Judgement, int] | None:
        """The judgement that holds a call's step, and its place there."""
        for judgement in session.under(judge):
            place = judgement.log.find(call.span_id)
            if place is not None:
                return judgement, place
        return None

    def _read_anew(
        self,
        session: Session,
        judgement: Judgement,
        place: int,
        call: ToolCall,
        token: int,
        now: int,
    ) -> list[Verdict]:
        late, judge = judgement.late, judgement.judge
        tool = self._names.number(call.tool, call.session.namespace)
        self._accounting.alarms.amended(session, judgement, place, token)
        changes = judgement.amend(place, call, tool, token, self._at(judge, call, now))
        self._keep(judgement, call)
        if judgement.pair is not None:
            judgement.pair.late += judgement.late - late
        return self._report(session, judgement, changes)

    def _came_late(self, session: Session, judge: Judge, old: ToolCall, now: int) -> bool:
        """True for a call whose step is folded: it stays as it was judged, and is counted."""
        if self._token(judge, old) is None:
            return False
        judgement = session.judgement(judge, _part(judge, old))
        base = judgement.base if judgement is not None else None
        if judgement is None or base is None or self._at(judge, old, now) > base.at:
            return False
        judgement.late += 1
        if judgement.pair is not None:
            judgement.pair.late += 1
        return True

    def retract(self, session: Session, call: ToolCall, now: int) -> list[Verdict]:
        """The step of a call was no call: what follows is judged without it."""
        for number, held in enumerate(session.held or ()):
            if held.span_id == call.span_id and session.held is not None:
                del session.held[number]
                self._held -= 1
                self._weigh_held(session, -call_bytes(held))
                break
        session.unsee(call)
        verdicts: list[Verdict] = []
        judged = False
        for judge in session.judges or (self._unbound,):
            found = self._find(session, judge, call)
            if found is None:
                self._came_late(session, judge, call, now)
                continue
            judged = judged or judge is not self._unbound
            verdicts += self._accounting.withdrawn(session, *found)
            verdicts += self._take_out(session, *found)
        session.judged -= judged
        session.take_in(call)
        session.set_times(call)
        return verdicts

    def _take_out(self, session: Session, judgement: Judgement, place: int) -> list[Verdict]:
        """Takes a step out; a judgement of no call is none, unless it was counted as one."""
        self._accounting.alarms.removed(session, judgement, place)
        verdicts = self._report(session, judgement, judgement.retract(place))
        if not (len(judgement.log) or judgement.folded or judgement.counted):
            session.remove(judgement)
            self._accounting.leave(judgement)
        return verdicts

    def _report(
        self, session: Session, judgement: Judgement, changes: Sequence[Change]
    ) -> list[Verdict]:
        self._accounting.count(judgement, changes)
        self._accounting.alarms.compare(session, judgement)
        return [self._accounting.verdict(session, judgement, change) for change in changes]

    def merge(self, moved: Session, target: Session) -> list[Verdict]:
        """Moves the calls of one session into another, each to its place; what that revises."""
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
                verdicts += self._report(target, into, into.absorb(judgement))
                self._accounting.absorbed(judgement, into)
        for call in self.release(moved):
            verdicts += self._under(target, missing, call, now)
            self._hold(target, call)
        if target.joined or target.forgotten:
            for judgement in target.judgements:
                blind = FOREVER if target.gaps else judgement.blind_ns
                verdicts += self._report(target, judgement, judgement.join(blind))
        self._accounting.relabel(target)
        if target.binder is not None:
            wanted = _wanted(target.attributes, target.known_agent, target.binder)
            verdicts += self._bind_new(target, wanted, now)
        return verdicts

    def _agree(self, moved: Session, target: Session, now: int) -> list[Verdict]:
        """Two sessions that are one have one name, and no spec that was bound for another one."""
        facts = (*target.attributes, *moved.attributes)
        target.named_as(moved)
        agent = target.known_agent
        wanted: set[Judge] = set()
        for session in (moved, target):
            if session.binder is not None:
                wanted.update(_wanted(facts, agent, session.binder))
        verdicts: list[Verdict] = []
        for session in (moved, target):
            if session.bound_as != agent and session.judges:
                verdicts += self._unbind(session, wanted)
                if not session.judges and not session.judgements:
                    self._observe(session, now)
        target.bound_as = agent
        return verdicts


def _wanted(
    facts: Iterable[Mapping[str, Any]], agent: str, binder: SpecBinder
) -> tuple[Judge, ...]:
    """The specs of a session with all these attributes, under one name; in the binder's order."""
    wanted = {judge for each in facts for judge in binder.bind(each, agent)}
    return tuple(judge for judge in binder.judges.values() if judge in wanted)


def _part(judge: Judge, call: ToolCall) -> str:
    """Which of a session's judgements under one spec the call belongs to."""
    if judge.spec.scope == "session":
        return ""
    return call.agent if judge.spec.scope == "agent" else call.trace_id.hex()
