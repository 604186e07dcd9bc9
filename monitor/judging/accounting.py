"""Updates the sums per agent and spec with each call, and delivers final verdicts.

Idea: a judgement counts in the *pair* of its agent and spec. Counters grow with each change of a
verdict. Live means need no pass over all sessions: the pair holds the sum of the *shares* of its live
judgements, and a judgement's share is replaced when its scores change.

Invariants:

- The sums of a pair are those of the shares of its live judgements. `leave` subtracts exactly what
  the judgement last added.
- Final counters count only final verdicts, each call once. They never fall, and do not depend on the order of
  arrival within the window.
- An ended session enters the final scores once, even if it is reopened.

Example: a session's HarmRate rises from 0 to 0.5. The pair subtracts the share with 0 and adds the
share with 0.5. If its agent is renamed, `relabel` moves the share to the other pair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from monitor.aggregate.consistency_sample import LIVE_MAX, SAMPLED_MAX
from monitor.aggregate.totals import (
    NO_SHARE,
    UNKNOWN_TOOL,
    UNMATCHED,
    Exemplar,
    Pair,
    SessionFinished,
    Totals,
)
from monitor.judging.reference_alarms import Alarms
from monitor.judging.thing_spaces import ThingSpaces
from monitor.records import Kind, Verdict, built
from monitor.scores.score_records import FinalScores
from monitor.session.judge.judge import CODES, CONTROL, HARMFUL, PROGRESS, SELF_LOOP
from monitor.session.judgement.finality import finalise
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.possible_harms import (
    Suspicion,
    is_certain_call,
    suspicions,
    unless,
)
from monitor.session.judgement.step_marks import (
    CODE,
    POSSIBLE,
    JudgedStep,
    VerdictChange,
    is_final,
)
from monitor.session.log.rows import Row
from monitor.session.report.harms import explanation, harmed_thing
from monitor.session.report.judgement_object import compensated, scores
from monitor.session.report.obstacles import cannot_finish, missed_of
from monitor.session.session import Ended, Session
from monitor.session.time_limits.session_verdicts import News
from monitor.session.time_limits.timing import MissedLimit
from monitor.session.tool_names import Names
from monitor.tenants import Holdings
from monitor.visibility.cause import Cause

__all__ = ["Accounting"]

EXEMPLAR_EACH: Final = 64
"""One in this many harmless calls, beginning with the first, becomes an exemplar."""


class Accounting:
    """Updates the sums from the changes of judgements, and makes verdicts of changes.

    Args:
        totals: the sums.
        names: tool names by number.
    """

    def __init__(self, totals: Totals, names: Names) -> None:
        self.on_final: Callable[[Verdict], None] | None = None
        """Called with each harmful verdict when it becomes final."""
        self.alarms = Alarms(names)
        self.spaces = ThingSpaces(0, 0, 0)
        """The things that sessions have in common."""
        self._totals = totals
        self._names = names
        self._sampled: dict[Judgement, str] = {}
        """Sampled judgements in the order of sampling, each with the tenant that its place counts for."""
        self._shares = Holdings()
        """Places in samples, by tenant."""

    # --- a judgement's place in the sums -----------------------------------------------------

    def enter(self, session: Session, judgement: Judgement) -> None:
        """Adds a judgement to the sums of its agent and spec."""
        judge, spec = judgement.judge, judgement.judge.spec
        agent = judgement.part if spec.scope == "agent" and judgement.part else session.agent
        name = spec.id or UNMATCHED
        beta = spec.conventions.beta
        # A reference judges no harm, so it has no counters of harm.
        severities = judge.severities if spec.kind != "reference" else ()
        judgement.pair = self._totals.pair(
            agent,
            name,
            beta,
            severities,
            scored=judge.scored,
            namespace=session.key.namespace,
        )
        judgement.pair.active += 1
        judgement.pair.bounded = judgement.pair.bounded or judge.bounds is not None
        if judge.comparison is not None:
            self.alarms.enter(judgement)
        if judgement.sampled:
            self._sample_still(session, judgement, judgement.pair)
        self.spaces.enter(session, judgement)

    def _sample_still(self, session: Session, judgement: Judgement, pair: Pair) -> None:
        """Counts a sampled judgement in its new pair; it leaves the sample if that pair has enough."""
        if pair.repeats.live < LIVE_MAX:
            self._count_in(session, judgement)
        else:
            judgement.sampled = False
            judgement.log.release()

    def leave(self, judgement: Judgement) -> None:
        """Takes a judgement out of the live sums."""
        self.spaces.leave(judgement)
        pair = judgement.pair
        if pair is not None:
            pair.move(judgement.share, NO_SHARE)
            self._stand_behind(judgement, 0)
            pair.active -= 1
            if judgement.sampled:
                self._count_out(judgement)
            judgement.share, judgement.pair, judgement.is_behind = NO_SHARE, None, False

    def _count_in(self, session: Session, judgement: Judgement) -> None:
        if judgement.pair is not None:
            judgement.pair.repeats.live += 1
            self._totals.sampled += 1
            name = self._sampled[judgement] = self._shares.name(session.key.namespace)
            self._shares.add(name, 1)

    def _count_out(self, judgement: Judgement) -> None:
        if judgement.pair is not None:
            judgement.pair.repeats.live -= 1
            self._totals.sampled -= 1
            name = self._sampled.pop(judgement, None)
            if name is not None:
                self._shares.add(name, -1)

    def _gives_way(self, session: Session) -> Judgement | None:
        """The judgement that leaves a full sample for one of this session; None if none does."""
        name = self._shares.name(session.key.namespace)
        giver = self._shares.gives_way(name)
        if giver == name or self._shares.of(giver) <= self._shares.of(name) + 1:
            return None
        return next(each for each, held_by in self._sampled.items() if held_by == giver)

    def sample(self, session: Session, judgement: Judgement, now: int) -> None:
        """Samples a new judgement for comparison with others at its end, if there is room."""
        pair = judgement.pair
        repeated = judgement.judge.spec.id and judgement.judge.spec.kind != "policy"
        if pair is None or not repeated or judgement.partial:
            return
        gone = None
        if self._totals.sampled >= SAMPLED_MAX:
            gone = self._gives_way(session)
            if gone is None:
                return
        if pair.repeats.wants(now):
            if gone is not None:
                self.drop_sample(gone)
            judgement.sampled = True
            self._count_in(session, judgement)

    def _compare(self, session: Session, judgement: Judgement, ended: Ended) -> None:
        """Takes a judgement out of the sample; compares it first if all of its calls were seen and kept."""
        log, pair = judgement.log, judgement.pair
        if not judgement.sampled or pair is None:
            return
        whole = not (judgement.partial or judgement.folded or ended == "evicted")
        if whole and len(log):
            calls = [self._repeated(log.row(place)) for place in range(len(log))]
            answer = session.answer[-1] if session.answer is not None else None
            pair.repeats.add(calls, answer)
        self.drop_sample(judgement)

    def absorbed(self, moved: Judgement, into: Judgement) -> None:
        """Keeps `into`, which absorbed the calls of `moved`, in the sample only if both were in it."""
        if into.sampled and not moved.sampled:
            self.drop_sample(into)
        elif moved.sampled and not into.sampled:
            into.log.release()

    def drop_sample(self, judgement: Judgement) -> None:
        """Takes a judgement out of the sample and drops its kept arguments."""
        self._count_out(judgement)
        judgement.sampled = False
        judgement.log.release()

    def _repeated(self, row: Row) -> tuple[str, frozenset[int] | None]:
        return self._names.text(row.tool), row.texts.hashed if row.texts else None

    def relabel(self, session: Session) -> None:
        """Moves a session to the sums of its present agent."""
        for judgement in session.judgements:
            self.leave(judgement)
            self.enter(session, judgement)
            self.share(judgement)

    # --- verdicts ----------------------------------------------------------------------------

    def count(
        self,
        judgement: Judgement,
        changes: Sequence[VerdictChange],
        origin: Exemplar | None = None,
    ) -> None:
        """Counts first verdicts and revisions, and updates the live means.

        Args:
            judgement: the judgement that has changed.
            changes: its changes.
            origin: origin of the call that gets its first verdict, if known.
        """
        pair = judgement.pair
        if pair is None or not judgement.judge.spec.id:
            return
        for change in changes:
            kind, reason = CODES[change.new]
            if change.old is None:
                _count_call(pair, change.new)
                pair.exemplars[kind] = origin or judgement.log.origin(change.place)
            else:
                pair.revisions[CODES[change.old][0], kind] += 1
            if change.raised and reason is not None:
                state = judgement.judge.state(change.before)
                tool = self._names.text(judgement.log.tool(change.place))
                severity = judgement.judge.spec.severity.of(tool, state, reason)
                pair.provisional[reason, severity] += 1
        if judgement.judge.comparison is None:
            self._weigh(judgement, pair)

    def count_plain(self, judgement: Judgement, code: int) -> None:
        """Counts the first verdict of a harmless call that came in order: the fast path of `count`."""
        pair, judge = judgement.pair, judgement.judge
        if pair is not None and judge.spec.id:
            if _count_call(pair, code) % EXEMPLAR_EACH == 1:
                place = len(judgement.log) - 1
                pair.exemplars[CODES[code][0]] = judgement.log.origin(place)
            if judge.comparison is None:
                self._weigh(judgement, pair)

    def _weigh(self, judgement: Judgement, pair: Pair) -> None:
        """Updates the judgement's share after a call: at once if it has none yet, else later if it changed."""
        run, share = judgement.head, judgement.share
        if not (share.sessions and run.exact):
            self.share(judgement)
            return
        tally = run.tally
        pair.scored_calls += tally.calls - judgement.behind
        judgement.behind = tally.calls
        if tally.harmful_steps or share.harmful:
            pair.put_off(judgement)

    def share(self, judgement: Judgement) -> None:
        """Updates the judgement's share in the live means."""
        pair = judgement.pair
        if pair is None:
            return
        if judgement.judge.comparison is not None:
            self.alarms.rank(judgement)
            return
        new = judgement.weigh()
        self._stand_behind(judgement, judgement.head.tally.calls if new.sessions else 0)
        pair.take(judgement, new)

    def _stand_behind(self, judgement: Judgement, calls: int) -> None:
        """Sets how many calls of the judgement the live means count."""
        assert judgement.pair is not None
        judgement.pair.scored_calls += calls - judgement.behind
        judgement.behind = calls

    def finalise(
        self, session: Session, judgement: Judgement, final: Iterable[JudgedStep]
    ) -> None:
        """Counts and delivers harmful verdicts that have become final.

        The session is counted with its first final verdicts. Until then its trace may turn out to be part of
        another session.
        """
        if not judgement.counted and judgement.pair is not None:
            judgement.counted = True
            judgement.pair.started += 1
            judgement.pair.joined += judgement.joined
        if judgement.judge.comparison is not None:
            self.alarms.settle(judgement, final)
            return
        for step in final:
            _, reason = CODES[step.code]
            if judgement.pair is not None and reason is not None:
                state = judgement.judge.state(step.before)
                tool = self._names.text(judgement.log.tool(step.place))
                severity = judgement.judge.spec.severity.of(tool, state, reason)
                judgement.pair.final[reason, severity] += 1
                if self.on_final is not None:
                    change = _first_verdict(step, final=True)
                    self.on_final(self.verdict(session, judgement, change))
                exemplar = judgement.log.origin(step.place)
                judgement.pair.exemplars[reason, severity] = exemplar
                known = tool in judgement.judge.spec.alphabet.tools
                self._totals.by_tool[judgement.pair.spec, tool if known else UNKNOWN_TOOL] += 1

    def finish(
        self, session: Session, judgement: Judgement, ended: Ended, now: int
    ) -> SessionFinished:
        """Ends a judgement: its verdicts become final and its scores are added to the sums."""
        self.finalise(session, judgement, finalise(judgement, now).reported)
        self.spaces.leave(judgement)
        pair, spec, tally = judgement.pair, judgement.judge.spec, judgement.head.tally
        uncertain = not isinstance(judgement.head.position, int)
        if uncertain and not judgement.judge.stepper.whole and not judgement.ending:
            self._totals.read_in_parts += 1
        finished = FinalScores(
            outcome=_outcome(judgement, ended),
            calls=tally.calls,
            harmful=tally.harmful_steps,
            **scores(judgement)._asdict(),
        )
        agent = session.agent
        if judgement.judge.comparison is not None:
            self.alarms.finish(session, judgement, ended)
        if pair is not None:
            agent = pair.agent
            pair.active -= 1
            self._compare(session, judgement, ended)
            if judgement.is_behind:
                self.share(judgement)
            if not judgement.ending:
                self._finish(judgement, finished)
            judgement.ending = self._totals.hold(
                pair, judgement.share, judgement.behind, finished, now
            )
            judgement.behind = 0
            judgement.share, judgement.pair = NO_SHARE, None
        return SessionFinished(
            session.key,
            agent,
            spec.id,
            spec.version,
            ended,
            finished,
            judgement.judge.unsatisfied(judgement.head.position),
            tuple(_described(each.missed) for each in missed_of(judgement)),
        )

    def _finish(self, judgement: Judgement, finished: FinalScores) -> None:
        """Counts the final scores once: a call after the end changes no counter."""
        pair, last = judgement.pair, len(judgement.log) - 1
        assert pair is not None
        undone = compensated(judgement)
        pair.compensations += undone.count if undone else 0
        exemplar = judgement.log.origin(last) if last >= 0 else None
        self._totals.finish(pair, finished, exemplar)

    def reopen(self, session: Session) -> None:
        """Counts an ended session as live again."""
        for judgement in session.judgements:
            self._totals.let_go(judgement.ending)
            self.enter(session, judgement)
            self.share(judgement)
            self.alarms.compare(session, judgement)

    def verdict_at(self, session: Session, judgement: Judgement, place: int) -> Verdict:
        """The present verdict on a step of the log, as a first one."""
        step = next(each for each in judgement.walk() if each.place == place)
        change = _first_verdict(step, final=is_final(judgement.log.mark(place)))
        return self.verdict(session, judgement, change)

    def withdrawn(
        self, session: Session, judgement: Judgement, place: int, *, counts: bool = True
    ) -> list[Verdict]:
        """The verdict that withdraws a harmful or possibly harmful step before it is removed.

        It reports the step as a self-loop without effect. With `counts`, it counts as a revision; that of a call which
        goes on under another id does not.
        """
        for step in judgement.walk():
            if step.place == place and judgement.log.mark(place) & POSSIBLE:
                gone = VerdictChange(
                    place, None, SELF_LOOP, False, False, step.before, step.before
                )
                return [self.verdict(session, judgement, gone)._replace(was_possible=True)]
            if step.place == place and step.code >= HARMFUL:
                final = is_final(judgement.log.mark(place))
                change = VerdictChange(
                    place, step.code, SELF_LOOP, False, final, step.before, step.before
                )
                if counts and judgement.pair is not None:
                    judgement.pair.revisions[Kind.HARMFUL, Kind.SELF_LOOP] += 1
                return [self.verdict(session, judgement, change)]
        return []

    def count_session(
        self, judgement: Judgement, news: Iterable[News], final: Iterable[MissedLimit]
    ) -> None:
        """Counts the final and the withdrawn verdicts on a session."""
        pair = judgement.pair
        if pair is None:
            return
        for missed in final:
            pair.session_verdicts[missed.kind, missed.obstacle] += 1
        for each in news:
            if each.withdrawn:
                pair.revisions[each.missed.kind, Kind.SELF_LOOP] += 1

    def withdrawn_limits(self, session: Session, judgement: Judgement) -> list[Verdict]:
        """The verdicts that withdraw those on the session as a whole."""
        given, judgement.session_verdicts = judgement.session_verdicts, None
        news = [
            News(each.missed, True, each.final)
            for each in (given.declared.values() if given is not None else ())
        ]
        self.count_session(judgement, news, ())
        return [self.session_verdict(session, judgement, each) for each in news]

    def session_verdict(self, session: Session, judgement: Judgement, news: News) -> Verdict:
        """The verdict on a session, given or withdrawn.

        A withdrawn verdict is reported as a self-loop without effect, as for withdrawn calls.
        """
        judge, missed, position = judgement.judge, news.missed, judgement.head.position
        spec, mark, state = judge.spec, missed.mark, judge.state(judgement.head.position)
        tool, given = self._names.text(mark.tool), not news.withdrawn
        return Verdict(
            session=session.key,
            agent=(judgement.part if spec.scope == "agent" else "") or session.agent,
            spec=spec.id,
            spec_version=spec.version,
            mode=spec.mode,
            kind=missed.kind if given else Kind.SELF_LOOP,
            reason=missed.obstacle if given else None,
            severity=spec.severity.of(tool, state, missed.obstacle) if given else "info",
            step=mark.step,
            tool=tool,
            symbol=judge.symbol(mark.token),
            skipped=(),
            allowed=judge.allowed(position),
            state_before=state,
            state=state,
            final=news.final,
            revised_from=None if given else missed.kind,
            trace_id=mark.trace_id,
            span_id=mark.span_id,
            constraint=missed.rule or None,
            detail=missed.explanation(spec, state) if given else "",
        )

    def suspicions(
        self,
        session: Session,
        judgement: Judgement,
        started_ns: int,
        again: Collection[bytes] = (),
    ) -> list[Verdict]:
        """The verdicts on new possible harms, on those that are withdrawn, and on those to be told `again`.

        A possible harm has a counter of its own; `kind` is the verdict that the scores count.
        """
        news = suspicions(judgement, again)
        return [self._suspicion(session, judgement, each, started_ns) for each in news]

    def _suspicion(
        self, session: Session, judgement: Judgement, news: Suspicion, started_ns: int
    ) -> Verdict:
        mark = judgement.log.mark(news.step.place)
        if news.first and judgement.pair is not None:
            judgement.pair.possible += 1
        change = _first_verdict(news.step, final=is_final(mark))
        found = self.verdict(session, judgement, change)
        if news.withdrawn:
            return found._replace(was_possible=True)
        counted, _ = CODES[mark & CODE]
        causes = unless(judgement)
        return found._replace(
            kind=counted,
            possible=True,
            unless_before_ns=started_ns if Cause.STARTED in causes else 0,
            unless=causes,
        )

    def verdict(
        self,
        session: Session,
        judgement: Judgement,
        change: VerdictChange,
        origin: Exemplar | None = None,
    ) -> Verdict:
        """The verdict of a change; `origin` as in `count`."""
        judge, log = judgement.judge, judgement.log
        kind, reason = CODES[change.new]
        own = origin if change.old is None else None
        trace_id, span_id, _ = own or judgement.log.origin(change.place)
        tool, token = self._names.text(log.tool(change.place)), judgement.token(change.place)
        before = judge.state(change.before)
        harmful = kind is Kind.HARMFUL
        fields = (
            session.key,
            # The full name, although the label of its counters may be __overflow__.
            (judgement.part if judge.spec.scope == "agent" else "") or session.agent,
            judge.spec.id,
            judge.spec.version,
            judge.spec.mode,
            kind,
            reason,
            judge.spec.severity.of(tool, before, reason) if harmful else "info",
            judgement.folded + change.place + 1,
            tool,
            judge.symbol(token),
            judge.skipped(change.before, token) if harmful else (),
            judge.allowed(change.before),
            before,
            judge.state(change.after),
            change.final,
            None if change.old is None else CODES[change.old][0],
            trace_id,
            span_id,
            judge.constraint(change.before, token) if harmful else None,
            not harmful or is_certain_call(judgement, change.place, change.before),
            False,  # not a possible harm
            False,
            0,
            (),
            explanation(judgement, _step_of(change)) if harmful else "",
            harmed_thing(judgement, change.thing) if harmful else None,
        )
        verdict: Verdict = built(Verdict, fields)
        return verdict


def _first_verdict(step: JudgedStep, *, final: bool) -> VerdictChange:
    """A step as one that was not judged before."""
    place, code, before, after, thing = step
    return VerdictChange(place, None, code, False, final, before, after, thing)


def _step_of(change: VerdictChange) -> JudgedStep:
    place, _, code, _, _, before, after, thing = change
    return JudgedStep(place, code, before, after, thing)


def _count_call(pair: Pair, code: int) -> int:
    """Counts the first verdict of a call, and returns the new count of its kind."""
    if code == PROGRESS:
        pair.progress += 1
        return pair.progress
    if code >= HARMFUL:
        pair.harms += 1
        return pair.harms
    if code == CONTROL:
        pair.controls += 1
        return pair.controls
    pair.loops += 1
    return pair.loops


def _described(missed: MissedLimit) -> str:
    return f"{missed.obstacle.value}: {missed.rule}" if missed.rule else missed.obstacle.value


def _outcome(judgement: Judgement, ended: Ended) -> str:
    """How a session ended, as a label: evicted, empty, accepted or not_accepted."""
    if ended == "evicted":
        return "evicted"
    if not judgement.head.tally.calls:
        return "empty"
    accepts = judgement.judge.accepts(judgement.head.position)
    accepted = accepts and not cannot_finish(judgement)
    return "accepted" if accepted else "not_accepted"
