"""Answers what calls would be, before they are made.

Idea: a call that comes in order, in a session whose specs are bound, needs no more than a look at the
heads of its judgements (`CallDecider.at_once`). Any other call is observed on a copy of its session
(`Rehearsal`), by the code that judges calls, so the answer is what observing gives. The copy, or a new
session where none is known, is made by `Monitor._rehearse` (`monitor/engine`).

Invariant: deciding changes no session, no sum and no counter. Caches of what depends on the spec alone
may fill.

Example: `pay` is asked about, and `approve` was the last call. The head of the judgement allows `pay`:
allow. If the session was never seen, `Monitor._rehearse` makes one, its specs are bound, and `pay` is
judged in it as its first call. Then the session is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from monitor.aggregate.totals import Totals
from monitor.decision import Answer, CallDecision, SpecDecision, ThingClaim
from monitor.judging.accounting import Accounting
from monitor.judging.clocks.leading_calls import LEAD_NS
from monitor.judging.clocks.mistimed_calls import beside as beside_untimed
from monitor.judging.deciding.decide_by_reference import decided_by_reference
from monitor.judging.deciding.going_ahead import SpecCall, go_ahead
from monitor.judging.judge_calls import part_of
from monitor.judging.judging_parts import JudgingParts
from monitor.judging.thing_spaces import is_shared
from monitor.records import AgentName, Proof, ToolCall, built
from monitor.session.judge.concurrent_calls import CallPossibilities, ConcurrentCalls
from monitor.session.judge.judge import CODES, CONTROL_TOKEN, HARMFUL, Judge, code_of
from monitor.session.judgement.calls_asked_about import (
    RIGHT,
    certain_head,
    concurrent_calls,
    possibilities_amid,
    possibilities_anywhere,
    possibilities_behind,
    possibilities_beside,
)
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.possible_harms import is_certain_call, possible_harms
from monitor.session.judgement.step_marks import JudgedStep
from monitor.session.log.rows import order_of
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.session.proofs import is_dated, of_both, proves, resumes
from monitor.session.session import Session
from monitor.session.tool_names import BorrowedNames, Names
from monitor.visibility.cause import Cause

if TYPE_CHECKING:
    from monitor.session.things.thing_reservations import OtherFlights
    from monitor.session.things.thing_slices import ThingCase, ThingSlices

__all__ = ["CallDecider", "Circumstances", "Rehearsal", "overlapping"]

_WORST: Final = {Answer.DENY: 0, Answer.UNKNOWN: 1, Answer.ALLOW: 2}


class Circumstances(NamedTuple):
    """What is known beside a call that is asked about, as `Monitor.decide` takes it."""

    now: int
    beside: Sequence[ToolCall]
    named: AgentName | None = None
    proof: Proof | None = None
    doubted: bool = False


class CallDecider:
    """Decides calls that come in order.

    Args:
        judging: judges the calls of the sessions.
        names: tool names by number.
    """

    def __init__(self, judging: JudgingParts, names: Names) -> None:
        self._state = judging.state
        self._calls = judging.calls
        self._names = names

    def at_once(
        self, session: Session, call: ToolCall, given: Circumstances
    ) -> CallDecision | None:
        """The decision on a call that tells nothing new of its session and comes in order; else None."""
        if self._tells_more(session, call, given):
            return None
        now, beside = given.now, given.beside
        for each in beside:
            if each.attributes is not call.attributes or each.agent != call.agent:
                return None
        found: list[SpecDecision] = []
        for judge in session.judges:
            if judge.comparison is not None and judge.spec.enforce == "off":
                continue
            if beside and judge.data is not None:
                return None  # their results, too, are among what was seen before the call
            token = self._calls.token(session, judge, call, now)
            if token is None:
                continue
            by_reference = decided_by_reference(judge, call, token)
            if by_reference is not None:
                found.append(by_reference)
                continue
            decided = self._under(session, judge, call, token, beside, now)
            if decided is None:
                return None
            found.append(decided)
        return _decision(found)

    def _under(
        self,
        session: Session,
        judge: Judge,
        call: ToolCall,
        token: int,
        beside: Sequence[ToolCall],
        now: int,
    ) -> SpecDecision | None:
        """What one spec says, if the call and those beside it began behind all others."""
        part = part_of(judge, call) if judge.parted else ""
        judgement = session.judgement(judge, part)
        at = self._calls.time_in_order(judge, call, now)
        if judgement is None or _is_late(judgement, at):
            return None
        flying = self._flying(session, judge, part, beside, judgement, now) if beside else []
        preview = judgement.preview(call, token, at)
        if preview is None or flying is None:
            return None
        code, before = preview
        begun = judgement.log.in_flight()
        if flying:
            position = certain_head(judgement)
            if position is None or begun:
                return None
            run = judgement.head.copy()
            for each in flying:
                run.step(judge, each)
            code, before = run.peek(judge, token), run.position
            possibilities = possibilities_beside(judge, position, flying, token)
        elif begun:
            amid = possibilities_amid(judgement, begun, token, at)
            if amid is None:
                return None
            possibilities = amid
        else:
            possibilities = possibilities_behind(judgement, token)
        certain = code < HARMFUL or judge.is_certain_call(before, token)
        step: JudgedStep = built(JudgedStep, (0, code, before, before, None))
        wrong = code >= HARMFUL or possibilities.rises
        tool = self._tool(call) if wrong else call.tool
        return _spec_decision(judge, token, tool, step, code, possibilities, certain)

    def _flying(
        self,
        session: Session,
        judge: Judge,
        part: str,
        beside: Sequence[ToolCall],
        judgement: Judgement,
        now: int,
    ) -> list[int] | None:
        """The tokens of the calls beside a call, if they began one after the other and behind all others."""
        found: list[int] = []
        behind = judgement.log.tail_end
        for each in beside:
            at = self._calls.time_in_order(judge, each, now)
            if at < behind or (at == behind and not found):
                return None
            behind = at
            token = self._calls.token(session, judge, each, now)
            if token is not None and (not judge.parted or part_of(judge, each) == part):
                found.append(token)
        return found

    def _tells_more(self, session: Session, call: ToolCall, given: Circumstances) -> bool:
        """True if observing the call may change how its session is read, beside adding the call."""
        now, _, named, proof, doubted = given
        start_ns, causes = call.start_ns, session.causes
        if session.ledger_version != self._state.ledger.version or call.doubts:
            return True
        if call.gaps and Cause.SAMPLED not in causes:
            return True
        if start_ns < self._state.started_ns and Cause.SEEN_BEFORE not in causes:
            return True
        if doubted and Cause.EARLIER_TURN not in causes:
            return True
        if session.gaps and beside_untimed(
            session.gaps, start_ns, call.end_ns, now, self._state.limits.window_ns
        ):
            return True
        if call.end_ns - now > LEAD_NS or self._state.clocks.is_doubted(session.key):
            return True
        if proof is not None or session.fresh or Cause.RESUMED in causes:
            started_ns = min(session.started_ns, start_ns) if session.seen else start_ns
            counts = of_both(session.proof, proof)
            if proves(counts, started_ns) is not session.fresh:
                return True
            if resumes(counts, started_ns) is not (Cause.RESUMED in causes):
                return True
            if session.gaps and is_dated(session.proof, proof):
                return True
        agent = session.known_agent
        if named is not None or call.agent:
            named = named or AgentName(start_ns, call.span_id, call.agent)
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


class RehearsalAccounting(Accounting):
    """Makes verdicts, and counts nothing: judgements have no place in any sums."""

    def __init__(self, names: Names) -> None:
        super().__init__(Totals(0, 0, "never"), names)

    def enter(self, session: Session, judgement: Judgement) -> None:
        """Leaves the judgement without sums. What other sessions did with its things counts."""
        self.spaces.lend(session, judgement)


class Rehearsal:
    """Observes calls on a copy of a session, which nothing else refers to.

    Args:
        session: the copy.
        judging: judges the calls of the sessions.
        names: tool names by number.
    """

    def __init__(self, session: Session, judging: JudgingParts, names: Names) -> None:
        self._session = session
        self._names = BorrowedNames(names)
        self._accounting = RehearsalAccounting(self._names)
        self._judging = judging.twin(self._accounting, self._names)
        self._doubts = dict(judging.state.ledger.counts)
        self._walked: dict[Judgement, dict[int, JudgedStep]] = {}
        self._possibly: dict[Judgement, dict[int, JudgedStep]] = {}
        self._slices: dict[Judgement, ThingSlices] = {}
        self._budget = QuestionBudget()
        self._before = [
            (judge, judge.skewed, judge.left_out) for judge in judging.state.judges(session)
        ]

    def restore(self) -> None:
        """Sets the counters of judges and of doubts back, which the rehearsal has changed."""
        self._judging.state.ledger.counts.update(self._doubts)
        for judge, skewed, left_out in self._before:
            judge.skewed, judge.left_out = skewed, left_out

    def move_back(self, lead_ns: int) -> None:
        """The call shows by how much its sender's clock is ahead, as `Lifecycle.corrected` takes it."""
        clocks, key = self._judging.state.clocks, self._session.key
        turned_out = clocks.lead_of(key) is None
        clocks.set_lead(key, lead_ns)
        if turned_out:
            self._judging.sights.move_back(self._session)

    def mention(
        self,
        start_ns: int,
        named: AgentName | None,
        attributes: Iterable[Mapping[str, Any]],
        now: int,
    ) -> None:
        """Takes what spans that are no call say of the session, as `Corrections.learn` does."""
        if start_ns < self._judging.state.started_ns:
            self._judging.sights.doubt(self._session, Cause.SEEN_BEFORE)
        if named is not None:
            self._session.name(named)
        for each in attributes:
            self._judging.binder.bind(self._session, each, now)

    def learn(self, call: ToolCall, given: Circumstances) -> None:
        """Takes what a call says of its session, as `Monitor.observe` does, in the same steps."""
        now, _, named, proof, doubted = given
        session, sights = self._session, self._judging.sights
        sights.follow(session)
        sights.doubt_times(session, call, now)
        sights.doubt_clocks(session, call, now)
        session.see(call, now)
        if call.gaps:
            sights.doubt(session, Cause.SAMPLED)
        if call.start_ns < self._judging.state.started_ns:
            sights.doubt(session, Cause.SEEN_BEFORE)
        if proof is not None or session.fresh or Cause.RESUMED in session.causes:
            sights.prove(session, proof)
        if doubted:
            sights.doubt(session, Cause.EARLIER_TURN)
        if named is None and call.agent:
            named = AgentName(call.start_ns, call.span_id, call.agent)
        if named is not None:
            session.name(named)
        self._judging.binder.bind(session, call.attributes, now)

    def open(self, call: ToolCall, now: int) -> Session:
        """The session, with the judgements that the call would be added to."""
        session, calls = self._session, self._judging.calls
        for judge in session.judges:
            part = part_of(judge, call) if judge.parted else ""
            is_judged = (
                judge.comparison is None and calls.token(session, judge, call, now) is not None
            )
            if is_judged and session.judgement(judge, part) is None:
                calls.open(session, judge, part)
        for judgement in session.judgements:
            judgement.budget = self._budget
        return session

    def take(self, call: ToolCall, now: int) -> None:
        """Judges a call that was learnt, as `Monitor.observe` does."""
        self._judging.calls.take(self._session, call, now)

    def observe_all(self, calls: Sequence[ToolCall], given: Circumstances) -> None:
        """Judges many calls at the cost of one: under each spec, once all of them are in their places."""
        now = given.now
        for call in calls:
            self.learn(call, given._replace(named=None, doubted=False))
            self.open(call, now)
        held = [each for each in self._session.judgements if each.judge.comparison is None]
        for judgement in held:
            judgement.hold_back()
        for call in calls:
            self._judging.calls.take(self._session, call, now)
        for judgement in held:
            judgement.catch_up()

    def decide(self, calls: Sequence[ToolCall], now: int) -> list[CallDecision]:
        """The decisions on calls of one question that were observed."""
        sliced: dict[Judgement, list[int]] = {}
        whole = [self._cases(call, now, sliced) for call in calls]
        by_call = [self._sliced(cases, sliced, now) for cases in whole]
        self._search([case for cases in by_call for case in cases])
        searched = [[case for case in cases if case.among is not None] for cases in by_call]
        risen = go_ahead([[case.under() for case in cases] for cases in searched])
        for cases, rises in zip(searched, risen, strict=True):
            for case, each in zip(cases, rises, strict=True):
                case.rises = each
        decided = [
            _decision([*_by_spec(map(self._judged, cases)), *self._by_references(call, now)])
            for call, cases in zip(calls, by_call, strict=True)
        ]
        if not sliced:
            return decided
        return [
            each._replace(claims=self._claims(cases, each))
            for each, cases in zip(decided, whole, strict=True)
        ]

    def _by_references(self, call: ToolCall, now: int) -> Iterator[SpecDecision]:
        for judge in self._session.judges:
            if judge.comparison is not None and judge.spec.enforce != "off":
                token = self._judging.calls.token(self._session, judge, call, now)
                found = decided_by_reference(judge, call, token) if token is not None else None
                if found is not None:
                    yield found

    def _search(self, cases: Sequence[_Case]) -> None:
        """Finds the calls that each call is among."""
        asked: dict[Judgement, list[_Case]] = {}
        for case in cases:
            if not case.is_late and case.token != CONTROL_TOKEN:
                asked.setdefault(case.judgement, []).append(case)
        for judgement, mine in asked.items():
            places = sorted({case.place for case in mine})
            among = concurrent_calls(judgement, places, QuestionBudget())
            for case in mine:
                case.among = among[case.place]

    def _cases(
        self, call: ToolCall, now: int, sliced: dict[Judgement, list[int]]
    ) -> list[_Case]:
        """The call under each spec that judges it. `sliced` gets the places of calls of things."""
        found: list[_Case] = []
        for judge in self._session.judges:
            if judge.comparison is not None:
                continue
            part = part_of(judge, call) if judge.parted else ""
            judgement = self._session.judgement(judge, part)
            place = judgement.log.find_last(call.span_id) if judgement is not None else None
            if judgement is not None and place is not None:
                late = _is_late(judgement, self._judging.calls.time_in_order(judge, call, now))
                found.append(_Case(judgement, place, is_late=late))
                if judge.each is not None:
                    sliced.setdefault(judgement, []).append(place)
        return found

    def _sliced(
        self, cases: list[_Case], sliced: Mapping[Judgement, Sequence[int]], now: int
    ) -> list[_Case]:
        """The cases, with one for each thing of a call under a spec that has things."""
        if not sliced:
            return cases
        # Loaded with the first spec that has things.
        from monitor.session.things.thing_slices import slices_of

        found: list[_Case] = []
        for case in cases:
            if case.judgement not in sliced or case.token == CONTROL_TOKEN:
                found.append(case)
                continue
            slices = self._slices.get(case.judgement)
            if slices is None:
                flights = self._flights(case.judgement, now)
                slices = slices_of(case.judgement, sliced[case.judgement], flights)
                self._slices[case.judgement] = slices
            found += [
                _Case(
                    part.judgement,
                    part.place,
                    is_late=case.is_late or part.is_anywhere,
                    part=part,
                )
                for part in slices.cases(case.place)
            ]
        return found

    def _flights(self, judgement: Judgement, now: int) -> OtherFlights | None:
        """The calls of other sessions on the same things that go ahead and are not made yet."""
        if not is_shared(judgement.judge):
            return None
        state = self._judging.state
        space = state.spaces.name(self._session, judgement.judge)
        return state.reservations.others(space, self._session.key, now)

    def _claims(self, cases: Iterable[_Case], decided: CallDecision) -> tuple[ThingClaim, ...]:
        """What a call reserves where it goes ahead, under each spec whose things sessions have in common."""
        denied = {each.spec for each in decided.specs if each.answer is Answer.DENY}
        found: list[ThingClaim] = []
        for case in cases:
            judgement, log = case.judgement, case.judgement.log
            texts = log.texts(case.place)
            things = texts.things if texts is not None else None
            if things is None or case.token == CONTROL_TOKEN or not is_shared(judgement.judge):
                continue
            spec = judgement.judge.spec.id
            space = self._judging.state.spaces.name(self._session, judgement.judge)
            at_ns, end_ns, span_id = order_of(log, case.place)
            found.append(
                ThingClaim(
                    at_ns,
                    end_ns,
                    span_id,
                    space,
                    case.token,
                    things.keys,
                    things.is_open,
                    spec not in denied,
                )
            )
        return tuple(found)

    def _judged(self, case: _Case) -> SpecDecision:
        """The decision that the verdict on a step is."""
        judgement, place, judge = case.judgement, case.place, case.judgement.judge
        step = self._steps(judgement)[place]
        code = step.code
        step = self._possible(judgement).get(place, step)
        harmful = step.code >= HARMFUL
        certain = not harmful or is_certain_call(judgement, place, step.before)
        tool = self._names.text(judgement.log.tool(place))
        possibilities = case.possibilities()
        decided = _spec_decision(judge, case.token, tool, step, code, possibilities, certain)
        return decided if case.part is None else case.part.of_thing(decided)

    def _steps(self, judgement: Judgement) -> dict[int, JudgedStep]:
        """The steps of a judgement by place: walked once."""
        found = self._walked.get(judgement)
        if found is None:
            found = self._walked[judgement] = {each.place: each for each in judgement.walk()}
        return found

    def _possible(self, judgement: Judgement) -> dict[int, JudgedStep]:
        """Its possible harms by place: looked for once."""
        found = self._possibly.get(judgement)
        if found is None:
            harms = possible_harms(judgement)
            found = self._possibly[judgement] = {each.place: each for each in harms}
        return found


class _Case:
    """A call that was observed, under one spec."""

    __slots__ = ("among", "is_late", "judgement", "part", "place", "rises", "token")

    def __init__(
        self,
        judgement: Judgement,
        place: int,
        *,
        is_late: bool,
        part: ThingCase | None = None,
    ) -> None:
        self.part = part
        """The thing that it is the call of; None if the spec has none."""
        self.judgement = judgement
        self.place = place
        self.token = judgement.token(place)
        self.is_late = is_late
        """True if its place is among the folded steps."""
        self.among: tuple[ConcurrentCalls, int] | None = None
        """The calls that it is among, and its number there; None if it is late, or a control call."""
        self.rises: bool | None = None

    def under(self) -> SpecCall:
        """The call among the others."""
        assert self.among is not None
        is_certain = self.part is None or self.part.is_certain
        blocks = is_certain and self.judgement.judge.spec.enforce == "block"
        return SpecCall(*self.among, self.token, blocks)

    def possibilities(self) -> CallPossibilities:
        """What it may be, once all calls of the question are decided."""
        if self.among is not None:
            among, number = self.among
            return among.possibilities(number, rises=self.rises)
        judge = self.judgement.judge
        found = possibilities_anywhere(judge, self.token) if self.is_late else RIGHT
        if found.missing and self.part is not None and self.part.is_anywhere:
            return found._replace(missing=("calls_in_flight",))
        return found


def overlapping(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls of one model's turn, which it makes in parallel, as calls that overlap.

    Each that ends before the last one has begun ends one nanosecond after that.
    """
    last = max((call.start_ns for call in calls), default=0)
    return [call if call.end_ns > last else call._replace(end_ns=last + 1) for call in calls]


def _is_late(judgement: Judgement, at: int) -> bool:
    """True if the call's place is among the folded steps."""
    return judgement.base is not None and at < judgement.base.at


def _spec_decision(
    judge: Judge,
    token: int,
    tool: str,
    step: JudgedStep,
    counted: int,
    possibilities: CallPossibilities,
    certain: bool,
) -> SpecDecision:
    """What a spec says of a call.

    Args:
        judge: of the spec.
        token: of the call.
        tool: its name in the verdict.
        step: the call as judged; if it is possibly harmful, by the plain reading.
        counted: the code that the scores count.
        possibilities: what the call may be.
        certain: as `Verdict.certain_call`.
    """
    spec, before, code = judge.spec, step.before, step.code
    if possibilities.rises:
        answer = Answer.DENY
        if code < HARMFUL and possibilities.refused is not None:
            before = possibilities.refused
            code = code_of(judge.reason(before, token, -1))
        if counted < HARMFUL <= code:
            counted, certain = code, not possibilities.right
    elif possibilities.wrong:
        answer = Answer.UNKNOWN
    else:
        answer = Answer.ALLOW
    kind, _ = CODES[counted]
    _, reason = CODES[code]
    harmful, state = code >= HARMFUL, judge.state(before)
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
        possibilities.missing if answer is Answer.UNKNOWN else (),
        "calls_in_flight" if possibilities.waits else None,
        None,
    )
    found: SpecDecision = built(SpecDecision, fields)
    return found


def _by_spec(found: Iterable[SpecDecision]) -> list[SpecDecision]:
    """One decision for each spec: of those for several things the worst, and of these the first."""
    worst: dict[str, SpecDecision] = {}
    for each in found:
        known = worst.get(each.spec)
        if known is None or _WORST[each.answer] < _WORST[known.answer]:
            worst[each.spec] = each
    return list(worst.values())


def _decision(found: list[SpecDecision]) -> CallDecision:
    if len(found) > 1:
        found.sort(key=_badness)
    decision: CallDecision = built(
        CallDecision, (found[0].answer if found else Answer.ALLOW, tuple(found), ())
    )
    return decision


def _badness(each: SpecDecision) -> tuple[int, str]:
    return _WORST[each.answer], each.spec
