"""Answers what calls would be, before they are made.

Idea: a call that comes in order, in a session whose specs are bound, needs no more than a look at the
heads of its judgements (`CallDecider.at_once`). Any other call is observed on a copy of its session
(`Rehearsal`), by the code that judges calls, so the answer is what observing gives.

Invariant: deciding changes no session, no sum and no counter. Caches of what depends on the spec alone
may fill.

Example: `pay` is asked about, and `approve` was the last call. The head of the judgement allows `pay`:
allow. If the session was never seen, a session is made, its specs are bound, and `pay` is judged in
it as its first call. Then the session is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from monitor.aggregate.totals import Totals
from monitor.decision import Answer, Decision, SpecDecision
from monitor.judging.accounting import Accounting
from monitor.judging.judge_calls import CallJudge, part_of
from monitor.records import Named, Proof, ToolCall, built
from monitor.session.judge import CODES, HARMFUL, Judge
from monitor.session.judgement import Judgement
from monitor.session.possible_outcomes import (
    Outcomes,
    outcomes_anywhere,
    outcomes_at,
    outcomes_next,
)
from monitor.session.session import Session
from monitor.session.step_marks import Step
from monitor.session.tool_names import BorrowedNames, Names
from monitor.visibility.cause import Cause

__all__ = ["CallDecider", "Rehearsal", "overlapping"]

_WORST: Final = {Answer.DENY: 0, Answer.UNKNOWN: 1, Answer.ALLOW: 2}


class CallDecider:
    """Decides calls that come in order.

    Args:
        call_judge: judges the calls of the sessions.
        names: tool names by number.
    """

    def __init__(self, call_judge: CallJudge, names: Names) -> None:
        self._call_judge = call_judge
        self._names = names

    def at_once(
        self,
        session: Session,
        call: ToolCall,
        now: int,
        named: Named | None,
        proof: Proof | None,
        *,
        doubted: bool,
    ) -> Decision | None:
        """The decision on a call that tells nothing new of its session and comes in order; else None."""
        if self._tells_more(session, call, named, proof, doubted=doubted):
            return None
        call_judge = self._call_judge
        found: list[SpecDecision] = []
        for judge in session.judges:
            if judge.comparison is not None:
                continue
            token = call_judge.token(judge, call)
            if token is None:
                continue
            judgement = session.judgement(judge, part_of(judge, call) if judge.parted else "")
            at = call_judge.at(judge, call, now)
            if judgement is None or _is_late(judgement, at) or judgement.log.in_flight():
                return None
            preview = judgement.preview(call, token, at)
            if preview is None:
                return None
            code, before = preview
            harmful = code >= HARMFUL
            outcomes = outcomes_next(judge, judgement.readings, token, harmful=harmful)
            certain = not harmful or judge.is_certain_call(before, token)
            step: Step = built(Step, (0, code, before, before))
            tool = self._tool(call) if harmful else call.tool
            found.append(_spec_decision(judge, token, tool, step, code, outcomes, certain))
        return _decision(found)

    def _tells_more(
        self,
        session: Session,
        call: ToolCall,
        named: Named | None,
        proof: Proof | None,
        *,
        doubted: bool,
    ) -> bool:
        """True if observing the call may change how its session is read, beside adding the call."""
        start_ns, causes = call.start_ns, session.causes
        if session.ledger_version != self._call_judge.ledger.version or call.doubts:
            return True
        if call.gaps and Cause.SAMPLED not in causes:
            return True
        if start_ns < self._call_judge.started_ns and Cause.SEEN_BEFORE not in causes:
            return True
        if doubted and Cause.EARLIER_TURN not in causes:
            return True
        if proof is not None or session.fresh:
            started_ns = min(session.started_ns, start_ns) if session.seen else start_ns
            if session.is_proven(proof, started_ns) is not session.fresh:
                return True
        agent = session.known_agent
        if named is not None or call.agent:
            named = named or Named(start_ns, call.span_id, call.agent)
            if named.agent != agent and session.is_named_by(named):
                return True
        if session.bound_as != agent or session.binder is None:
            return True
        if session.bound_on is call.attributes:
            return False
        bound = session.binder.bind(call.attributes, agent)
        return any(judge not in session.judges for judge in bound)

    def _tool(self, call: ToolCall) -> str:
        """The name that a verdict would give the call's tool."""
        names, tool = self._names, call.tool
        known = names.known(tool) is not None
        return tool if known or names.has_room(tool, call.session.namespace) else names.OVERFLOW


class Uncounted(Accounting):
    """Makes verdicts, and counts nothing: judgements have no place in any sums."""

    def __init__(self, names: Names) -> None:
        super().__init__(Totals(0, 0, "never"), names)

    def enter(self, session: Session, judgement: Judgement) -> None:
        """Leaves the judgement without sums."""


class Rehearsal:
    """Observes calls on a copy of a session, which nothing else refers to.

    Args:
        session: the copy.
        call_judge: judges the calls of the sessions.
        names: tool names by number.
    """

    def __init__(self, session: Session, call_judge: CallJudge, names: Names) -> None:
        self._session = session
        self._names = BorrowedNames(names)
        self._accounting = Uncounted(self._names)
        self._call_judge = call_judge.twin(self._accounting, self._names)
        self._before = [
            (judge, judge.skewed, judge.left_out) for judge in call_judge.judges(session)
        ]

    def restore(self) -> None:
        """Sets the counters of judges back, which the rehearsal has changed."""
        for judge, skewed, left_out in self._before:
            judge.skewed, judge.left_out = skewed, left_out

    def mention(
        self,
        start_ns: int,
        named: Named | None,
        attributes: Iterable[Mapping[str, Any]],
        now: int,
    ) -> None:
        """Takes what spans that are no call say of the session, as `Monitor.learn` does."""
        if start_ns < self._call_judge.started_ns:
            self._call_judge.doubt(self._session, Cause.SEEN_BEFORE)
        if named is not None:
            self._session.name(named)
        for each in attributes:
            self._call_judge.bind(self._session, each, now)

    def observe(
        self,
        call: ToolCall,
        now: int,
        named: Named | None,
        proof: Proof | None,
        *,
        doubted: bool,
    ) -> None:
        """Judges a call as `Monitor.observe` does, in the same steps."""
        session, call_judge = self._session, self._call_judge
        if session.ledger_version != call_judge.ledger.version:
            call_judge.look_again(session)
        session.see(call, now)
        if call.gaps:
            call_judge.doubt(session, Cause.SAMPLED)
        if call.start_ns < call_judge.started_ns:
            call_judge.doubt(session, Cause.SEEN_BEFORE)
        if proof is not None or session.fresh:
            fresh = session.take_proof(proof)
            if fresh is not session.fresh:
                call_judge.prove(session, fresh=fresh)
        if doubted:
            call_judge.doubt(session, Cause.EARLIER_TURN)
        if named is None and call.agent:
            named = Named(call.start_ns, call.span_id, call.agent)
        if named is not None:
            session.name(named)
        call_judge.bind(session, call.attributes, now)
        call_judge.take(session, call, now)

    def decide(self, call: ToolCall, now: int) -> Decision:
        """The decision on a call that was observed."""
        found: list[SpecDecision] = []
        for judge in self._session.judges:
            if judge.comparison is not None:
                continue
            part = part_of(judge, call) if judge.parted else ""
            judgement = self._session.judgement(judge, part)
            place = judgement.log.find_last(call.span_id) if judgement is not None else None
            if judgement is not None and place is not None:
                late = _is_late(judgement, self._call_judge.at(judge, call, now))
                found.append(self._judged(judgement, place, late=late))
        return _decision(found)

    def _judged(self, judgement: Judgement, place: int, *, late: bool) -> SpecDecision:
        """The decision that the verdict on a step is."""
        judge, token = judgement.judge, judgement.token(place)
        step = next(each for each in judgement.walk() if each.place == place)
        code = step.code
        for possible in judgement.possible_harms():
            if possible.place == place:
                step = possible
        harmful = step.code >= HARMFUL
        certain = not harmful or judgement.is_certain_call(place, step.before)
        tool = self._names.text(judgement.log.tool(place))
        outcomes = _outcomes(judgement, place, late=late)
        return _spec_decision(judge, token, tool, step, code, outcomes, certain)


def overlapping(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls of one model's turn, which it makes in parallel, as calls that overlap.

    Each that ends before the last one has begun ends one nanosecond after that.
    """
    last = max((call.start_ns for call in calls), default=0)
    return [call if call.end_ns > last else call._replace(end_ns=last + 1) for call in calls]


def _is_late(judgement: Judgement, at: int) -> bool:
    """True if the call's place is among the folded steps."""
    return judgement.base is not None and at < judgement.base.at


def _outcomes(judgement: Judgement, place: int, *, late: bool) -> Outcomes:
    """What the call at a place may be.

    Calls in flight may take effect at any later time: they overlap all siblings that began since.
    """
    log, judge = judgement.log, judgement.judge
    if late:
        return outcomes_anywhere(judge, judgement.token(place))
    found, flying, end = outcomes_at(judgement, place), log.in_flight(), len(log) - 1
    alone = not flying or flying == [end] == [place]
    if alone or (found.right and found.wrong):
        return found
    twin, last = judgement.copy(), log.at(end)
    for each in flying:
        if log.row(each).end <= last:
            twin.log.extend(each, last + 1)
    wide = outcomes_at(twin, place)
    right, wrong = found.right or wide.right, found.wrong or wide.wrong
    return Outcomes(right, wrong, ("calls_in_flight",) if right and wrong else ())


def _spec_decision(
    judge: Judge,
    token: int,
    tool: str,
    step: Step,
    counted: int,
    outcomes: Outcomes,
    certain: bool,
) -> SpecDecision:
    """What a spec says of a call.

    Args:
        judge: of the spec.
        token: of the call.
        tool: its name in the verdict.
        step: the call as judged; if it is possibly harmful, by the plain reading.
        counted: the code that the scores count.
        outcomes: what the call may be.
        certain: as `Verdict.certain_call`.
    """
    spec, before = judge.spec, step.before
    kind, _ = CODES[counted]
    _, reason = CODES[step.code]
    harmful, state = step.code >= HARMFUL, judge.state(before)
    if not outcomes.wrong:
        answer = Answer.ALLOW
    else:
        answer = Answer.UNKNOWN if outcomes.right else Answer.DENY
    fields = (
        spec.id,
        spec.version,
        spec.mode,
        spec.enforce,
        answer,
        kind,
        reason,
        spec.severity.of(tool, state, reason) if harmful else "info",
        judge.symbol(token),
        judge.skipped(before, token) if harmful else (),
        judge.allowed(before),
        judge.constraint(before, token) if harmful else None,
        state,
        certain,
        outcomes.missing,
    )
    found: SpecDecision = built(SpecDecision, fields)
    return found


def _decision(found: list[SpecDecision]) -> Decision:
    if len(found) > 1:
        found.sort(key=_badness)
    decision: Decision = built(
        Decision, (found[0].answer if found else Answer.ALLOW, tuple(found))
    )
    return decision


def _badness(each: SpecDecision) -> tuple[int, str]:
    return _WORST[each.answer], each.spec
