"""Judges one call under one spec: the call becomes a token of the spec's alphabet, and steps the judgement.

Idea: a session has one judgement for each bound spec (and for each agent or turn, by the spec's scope). A call in order
steps its head; one that belongs earlier is inserted, and may revise the verdicts behind it.

Example: `open` arrives under the task `door`, whose head allows `scan` alone: harmful. `scan` arrives late and began
before it: it is inserted, and `open` is revised.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.aggregate.consistency_sample import CALLS_MAX, hashed
from monitor.aggregate.score_histogram import Exemplar
from monitor.alphabet.pattern_words import explain_mismatch
from monitor.alphabet.readings import NO_DATA
from monitor.automaton.position import Position
from monitor.judging.change_reports import ChangeReports
from monitor.judging.clocks.mistimed_calls import latest_ns
from monitor.judging.held_calls import HeldCalls
from monitor.judging.judging_state import JudgingState
from monitor.judging.session_sights import SessionSights, is_turn_unknown
from monitor.judging.thing_spaces import is_shared
from monitor.records import Evidence, ToolCall, Verdict, built
from monitor.reference.comparison import Comparison
from monitor.session.begun_judgement import begun
from monitor.session.data.call_records import Times
from monitor.session.data.seen_values import AskingCall
from monitor.session.data.session_data import SessionData
from monitor.session.judge.judge import CONTROL_TOKEN, HARMFUL, Judge
from monitor.session.judgement.finality import finalise
from monitor.session.judgement.fold_log import fold_first, is_crowded, lump
from monitor.session.judgement.judgement import Judgement, position_before
from monitor.session.judgement.step_marks import VerdictChange
from monitor.session.log.rows import Texts, origin_of
from monitor.session.session import Session
from monitor.visibility.cause import Cause, Effect, effect_of
from monitor.visibility.sight import Sight
from monitor.weights import arguments_bytes

__all__ = ["CallJudge", "part_of"]


class CallJudge:
    """Judges the calls of one session at a time; it keeps no sessions itself."""

    def __init__(
        self,
        state: JudgingState,
        held: HeldCalls,
        sights: SessionSights,
        reports: ChangeReports,
    ) -> None:
        self._state = state
        self._held = held
        self._sights = sights
        self._reports = reports
        # What never changes is bound once: this is the way of each call.
        self._accounting = state.accounting
        self._names = state.names
        self._limits = state.limits
        self._clocks = state.clocks
        self._ledger = state.ledger
        self._unbound = state.unbound
        self._data = state.data
        self._spaces = state.spaces

    def take(
        self, session: Session, call: ToolCall, now: int, *, quiet: bool = False
    ) -> list[Verdict]:
        """Judges a call under each of the session's specs; without specs, the call is held."""
        if session.held is not None:
            self._held.hold(session, call)
        session.seen += 1
        if not session.judges:
            self.under(session, self._unbound, call, now, quiet=True)
            return []
        verdicts: list[Verdict] = []
        judged = False
        for judge in session.judges:
            found = self.under(session, judge, call, now, quiet=quiet)
            if found is not None:
                judged = True
                if found:
                    verdicts += found
        if session.data is not None:
            verdicts += self.reread(session)
        if self._spaces.by_key:
            verdicts += self.revisit(session)
        session.judged += judged
        if not judged:
            session.set_aside(call)
        return verdicts

    def under(
        self, session: Session, judge: Judge, call: ToolCall, now: int, *, quiet: bool
    ) -> Sequence[Verdict] | None:
        """The verdicts under one spec; None if it is a policy that does not name the call."""
        if judge.data is None:
            token = self.token(session, judge, call, now)
        else:
            token = self.read(session, judge, call, now)
        if token is None:
            return None
        return self._judge(session, judge, call, token, now, quiet=quiet)

    def _judge(
        self,
        session: Session,
        judge: Judge,
        call: ToolCall,
        token: int,
        now: int,
        *,
        quiet: bool,
    ) -> Sequence[Verdict]:
        """The verdicts under one spec on a call that is not in its log, by its token."""
        part = part_of(judge, call) if judge.parted else ""
        judgement = session.judgement(judge, part)
        if judgement is None:
            judgement = self.open(session, judge, part)
        tool = self.tool(judge, call, token)
        at = self.time_in_order(judge, call, now)
        if self._limits.keep_arguments or judgement.sampled:
            self.keep(judgement, call)
        before, origin = position_before(judgement, token), None
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
            place = len(judgement.log) - 1
            fields = (place, None, code, code >= HARMFUL, False, *_last_step(judgement, before))
            changes = (built(VerdictChange, fields),)
            origin = origin_of(call, now)
            self._accounting.count(judgement, changes, origin)
        if judge.comparison is not None:
            inserted = changes[0].place if code is None else None
            self._accounting.alarms.take(session, judgement, token, inserted)
        reported: Sequence[Verdict] = ()
        if changes:
            if judge.plain_of(token) == judge.mismatch:
                self.annotate(session, judgement, call)
            reported = [
                self._accounting.verdict(session, judgement, change, origin)
                for change in changes
                if not quiet or change.new >= HARMFUL or change.old is not None
            ]
        if judgement.suspicious:
            reported = self._reports.with_suspicions(session, judgement, reported)
        if is_crowded(judgement.log) and self._limits.fold:
            self._relieve(session, judgement, now)
        return reported

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
        self._state.out_of_order += 1
        late = judgement.late
        changes = judgement.insert(call, tool, token, at, receipt)
        self._accounting.count(judgement, changes, origin)
        if judgement.pair is not None:
            judgement.pair.late += judgement.late - late
        return changes

    def tool(self, judge: Judge, call: ToolCall, token: int) -> int:
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

    def token(self, session: Session, judge: Judge, call: ToolCall, now: int) -> int | None:
        """The call's token; None if the spec is a policy that does not name the call."""
        if judge.comparison is not None:
            return self._compared(session, judge, judge.comparison, call, now)
        if judge.data is not None and call.tool in judge.data.conditions:
            times, sight = self._times(judge, call, now), self._sights.sight(session, judge)
            found = self._data.token(session.data, judge, call, times, sight)
            return self._named(judge, call, found)
        effect = effect_of(call.doubts) if call.doubts else Effect.NONE
        is_told = effect is not Effect.OUTCOME
        failed = call.error and is_told
        ended = is_told and call.evidence is Evidence.EXECUTED
        alphabet = judge.spec.alphabet
        token = alphabet.match(call.tool, call.arguments, failed, call.returned, ended=ended)
        if token < judge.plain and not call.doubts:
            return token
        return self._named(judge, call, token)

    def _compared(
        self, session: Session, judge: Judge, comparison: Comparison, call: ToolCall, now: int
    ) -> int:
        """The token of a call under a reference."""
        token = comparison.token(call.tool, call.arguments, call.error)
        if judge.data is None or not comparison.own.asks(token):
            return token
        times, sight = self._times(judge, call, now), self._sights.sight(session, judge)
        carried = self._data.carried(session.data, judge, call, times, sight)
        return comparison.own.token(token, is_own=carried is False)

    def _named(self, judge: Judge, call: ToolCall, token: int) -> int | None:
        """The token of a call whose symbols are found; None if the spec is a policy that does not name it."""
        if token >= judge.plain:
            meaning = judge.spec.alphabet.tokens[token]
            if not (meaning.symbols or meaning.named or meaning.symbol is not None):
                if call.control:
                    return CONTROL_TOKEN
                if judge.spec.kind == "policy":
                    return None
        return judge.doubted(token, effect_of(call.doubts)) if call.doubts else token

    # --- rules over data ----------------------------------------------------------------------------

    def read(self, session: Session, judge: Judge, call: ToolCall, now: int) -> int | None:
        """The call's token as `token` gives it; what rules over data need of the call is kept."""
        if judge.data is None:
            return self.token(session, judge, call, now)
        if session.data is None:
            session.data = SessionData()
        self._data.take(session.data, judge, call, self._times(judge, call, now))
        token = self.token(session, judge, call, now)
        asking = session.data.of(judge).asking.get(call.span_id)
        if asking is not None:
            asking.token = token
        return token

    def unread(self, session: Session, judge: Judge, call: ToolCall) -> None:
        """Forgets what rules over data kept of a call: it is none, or is told of under another id."""
        if session.data is not None:
            self._data.drop(session.data, judge, call)

    def move_data(self, moved: Session, target: Session) -> None:
        """What rules over data kept of a session whose calls move goes with them."""
        if moved.data is not None:
            target.data = target.data or SessionData()
            self._data.move(moved.data, target.data)

    def _times(self, judge: Judge, call: ToolCall, now: int) -> Times:
        at = self.time_in_order(judge, call, now)
        is_timed = call.start_ns and call.end_ns >= call.start_ns
        return at, call.start_ns if is_timed else at, now

    def reread(self, session: Session) -> list[Verdict]:
        """Gives calls new tokens whose rules over data come out otherwise by what is known now; returns the revisions."""
        verdicts: list[Verdict] = []
        if session.data is None:
            return verdicts
        for judge in session.judges:
            seen = session.data.seen.get(judge) if judge.data is not None else None
            asking = seen.concerned() if seen is not None else []
            if asking:
                sight = self._sights.sight(session, judge)
                if judge.comparison is not None and len(asking) > 1:
                    verdicts += self._compare_all(session, judge, asking, sight)
                    continue
                for each in asking:
                    verdicts += self._reread(session, judge, each, sight)
        return verdicts

    def _compare_all(
        self, session: Session, judge: Judge, asking: Sequence[AskingCall], sight: Sight
    ) -> list[Verdict]:
        """Compares many calls again under a reference: the steps behind them are stepped once, not for each."""
        held = [each for each in session.judgements if each.judge is judge]
        for judgement in held:
            judgement.hold_back()
        verdicts: list[Verdict] = []
        for each in asking:
            verdicts += self._reread(session, judge, each, sight)
        for judgement in held:
            verdicts += self._reports.report(session, judgement, judgement.catch_up())
        return verdicts

    def _reread(
        self, session: Session, judge: Judge, asking: AskingCall, sight: Sight
    ) -> Sequence[Verdict]:
        """Judges a call again that has another token by what is known now."""
        assert session.data is not None
        call = asking.call
        found = self.find(session, judge, call, from_end=True)
        if found is None and asking.token is not None:  # it is folded: its verdict stays
            session.data.of(judge).forget((call.span_id,))
            return ()
        if judge.comparison is not None:
            return self._compare_anew(session, judge.comparison, found, asking, sight)
        token = self._named(
            judge, call, self._data.token_of(session.data, judge, asking, sight)
        )
        if token == asking.token:
            return ()
        asking.token = token
        if found is None:
            assert token is not None
            return self._judge(session, judge, call, token, asking.received_ns, quiet=False)
        judgement, place = found
        if token is None:
            gone = self._accounting.withdrawn(session, judgement, place)
            return [*gone, *self.take_out(session, judgement, place)]
        changes = judgement.retoken(place, token)
        if judge.plain_of(token) == judge.mismatch:
            self.annotate(session, judgement, call)
        return self._reports.report(session, judgement, changes)

    def _compare_anew(
        self,
        session: Session,
        comparison: Comparison,
        found: tuple[Judgement, int] | None,
        asking: AskingCall,
        sight: Sight,
    ) -> Sequence[Verdict]:
        """Compares a call again under a reference: by what is known now its values come from elsewhere."""
        if session.data is None or found is None:
            return ()
        judgement, place = found
        before = judgement.log.token(place)
        carried = self._data.carried_by(session.data, judgement.judge, asking, sight)
        token = comparison.own.token(before, is_own=carried is False)
        if token == before:
            return ()
        self._accounting.alarms.amended(session, judgement, place, token)
        return self._reports.report(session, judgement, judgement.retoken(place, token))

    # --- things of several sessions -----------------------------------------------------------------

    def revisit(self, session: Session) -> list[Verdict]:
        """Judges other sessions again whose things a session's calls have moved; returns the revisions."""
        verdicts: list[Verdict] = []
        for mine in session.judgements:
            if is_shared(mine.judge):
                for other, judgement in self._spaces.moved(session, mine):
                    verdicts += self._reports.report(other, judgement, judgement.revisit())
        return verdicts

    # --- what is kept to be shown -------------------------------------------------------------------

    def open(self, session: Session, judge: Judge, part: str) -> Judgement:
        """Begins the judgement of a part of a session."""
        sight = self._sights.sight(session, judge, part)
        judgement = begun(judge, part, sight)
        if judge.parted and is_turn_unknown(judge, part):
            self._ledger.count(Cause.TURN_UNKNOWN)
        session.add(judgement)
        self._accounting.enter(session, judgement)
        self._accounting.sample(session, judgement, session.touched_ns)
        return judgement

    def keep(self, judgement: Judgement, call: ToolCall) -> None:
        """Keeps a call's arguments if they are shown, and their hashes if the judgement is sampled."""
        shown = call.arguments if self._limits.keep_arguments else None
        if judgement.sampled and len(judgement.log) >= CALLS_MAX:
            self._accounting.drop_sample(judgement)
        found = hashed(call.arguments) if judgement.sampled else None
        if shown is not None or found is not None:
            known = judgement.log.texts_of(call.span_id)
            things = known.things if known is not None else None
            texts: Texts = built(Texts, (call.call_id, shown, found, "", things))
            judgement.log.keep(call.span_id, texts)
            if shown is not None:
                self._state.shown_bytes += arguments_bytes(shown)

    def annotate(self, session: Session, judgement: Judgement, call: ToolCall) -> None:
        """Notes which arguments of a call match no symbol: when it is shown, they are dropped."""
        judge, show = judgement.judge, self._state.show
        alphabet, data = judge.spec.alphabet, NO_DATA
        if judge.data is not None:
            sight = self._sights.sight(session, judge)
            data = self._data.facts(session.data, judge, call, sight)
        given = alphabet.facts_of(
            call.tool, call.arguments, call.returned, failed=call.error, data=data
        )
        note = explain_mismatch(alphabet, call.tool, given, show)
        if note:
            known = judgement.log.texts_of(call.span_id) or Texts(call.call_id, None)
            judgement.log.keep(call.span_id, known._replace(note=note))

    def _relieve(self, session: Session, judgement: Judgement, now: int) -> None:
        """Makes room in a log that a burst has filled: its oldest steps become final early."""
        count = lump(judgement)
        self._accounting.finalise(session, judgement, finalise(judgement, now, count).reported)
        self._state.folded_young += count
        fold_first(judgement, count)

    def time_in_order(self, judge: Judge, call: ToolCall, now: int) -> int:
        """The call's time in the order: its start, or its end if the spec says so.

        The time of receipt counts if the call's times cannot be right: no start, end before start, or
        far ahead of the receipt.
        """
        start, end = call.start_ns, call.end_ns
        if not start or end < start or end > now + self._clocks.ahead_max_ns:
            return latest_ns(call, now)
        order = judge.spec.order
        return end if order and order.get(call.tool) == "end" else start

    def find(
        self, session: Session, judge: Judge, call: ToolCall, *, from_end: bool = False
    ) -> tuple[Judgement, int] | None:
        """The judgement that holds a call's step, and its place there.

        `from_end`: of one of the latest calls, as a log may be long.
        """
        for judgement in session.judgements:
            if judgement.judge is judge:
                log, span_id = judgement.log, call.span_id
                place = log.find_last(span_id) if from_end else log.find(span_id)
                if place is not None:
                    return judgement, place
        return None

    def take_out(self, session: Session, judgement: Judgement, place: int) -> list[Verdict]:
        """Removes a step, and the judgement if it has no calls left and was not counted."""
        self._accounting.alarms.removed(session, judgement, place)
        verdicts = self._reports.report(session, judgement, judgement.retract(place))
        if not (len(judgement.log) or judgement.folded or judgement.counted):
            session.remove(judgement)
            self._accounting.leave(judgement)
        return verdicts


def _last_step(
    judgement: Judgement, before: Position
) -> tuple[Position, Position, bytes | None]:
    """(position before, position after, thing) of the last call, which came in order."""
    if judgement.judge.each is None:
        return before, judgement.head.position, None
    # Loaded with the first spec that has things.
    from monitor.session.things.things_judgement import last_step

    return last_step(judgement)


def part_of(judge: Judge, call: ToolCall) -> str:
    """The part (agent or turn) that the call belongs to, by the spec's scope."""
    if judge.spec.scope == "session":
        return ""
    return call.agent if judge.spec.scope == "agent" else call.trace_id.hex()
