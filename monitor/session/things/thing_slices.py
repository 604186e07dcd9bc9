"""The judgement of one thing alone: an ordinary one, over the calls that are its own.

Idea: what is asked of a call before it is made (which orders are possible, what is in flight, what may be missing) is asked of
each thing that the call is of. So a thing gets a judgement of its own for the question: its state behind the folded calls,
and its part of the log. All that is known of ordinary judgements holds for it.

Under `across`, calls of other sessions in flight (`OtherFlights`) are among those of a thing, as calls in flight of the session
itself are.

A call of an unnamed tool is of all things. Those that are in one state before the question, and carried by no call since, are
asked as one.

Example: `refund(A1)` is asked about. The slice of A1 has `login`, `look_up(A1)` and the refund, and not `look_up(B7)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from monitor.alphabet.things import KEY_BYTES, CallThings
from monitor.decision import Answer, Missing, SpecDecision, ThingClaim
from monitor.records import Evidence, NamedThing, SessionKey, ToolCall
from monitor.session.judge.judge import CONTROL_TOKEN
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.calls_asked_about import concurrent_calls
from monitor.session.judgement.checkpoint import Checkpoint
from monitor.session.judgement.judgement import Judgement
from monitor.session.log.rows import order_of
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.session.things.group_calls import vanishing
from monitor.session.things.shared_judgement import SharedThingsJudgement
from monitor.session.things.thing_reservations import OtherFlights
from monitor.session.things.thing_visit import Visit
from monitor.session.things.thing_words import named_thing
from monitor.session.things.things_judgement import ThingsJudgement
from monitor.session.things.things_replay import ThingsReplay
from monitor.session.things.things_run import ThingsRun
from monitor.visibility.gap import EVER

__all__ = ["ThingCase", "ThingSlices", "slices_of"]

NEW_THING: Final = blake2b(b"new", digest_size=KEY_BYTES).digest()
"""Stands for a thing that no call is known to carry."""


class ThingCase(NamedTuple):
    """A call that is asked about, as the call of one thing."""

    judgement: Judgement
    place: int
    """Place of the call in its log."""
    is_certain: bool
    """False if it is not known that the call is of the thing, or that there is such a thing."""
    name: NamedThing | None
    """None for no thing, or one that is not known."""
    is_anywhere: bool = False
    """True if calls of other sessions on the thing may have led it to any state."""

    def of_thing(self, found: SpecDecision) -> SpecDecision:
        """A decision on the call of the thing, as one on the call."""
        if self.is_certain:
            return found._replace(thing=None if found.answer is Answer.ALLOW else self.name)
        if found.answer is Answer.ALLOW:
            return found
        things = self.judgement.log.texts(self.place)
        is_open = things is not None and things.things is not None
        missing: Missing = "arguments" if is_open else "earlier_calls"
        return found._replace(
            answer=Answer.UNKNOWN,
            certain=False,
            missing=tuple(dict.fromkeys((missing, *found.missing))),
            until=None,
            thing=self.name,
        )


class ThingSlices:
    """The slices of one judgement, each made once.

    Args:
        judgement: that has the calls which are asked about.
        asked: their places.
        flights: calls of other sessions on the same things that go ahead and are not made yet; None if there are none.
    """

    def __init__(
        self,
        judgement: ThingsJudgement,
        asked: Collection[int],
        flights: OtherFlights | None = None,
    ) -> None:
        self._whole = judgement
        self._asked = frozenset(asked)
        self._flights = flights
        self._anywhere: set[bytes | None] = set()
        """Things that other sessions may have led to any state."""
        self._slices: dict[bytes | None, Judgement] = {}
        self._each: list[bytes] | None = None
        self._before: dict[tuple[int, bool], ThingsRun] = {}
        """Runs before a step, by its place and whether they are wide."""

    def of(self, key: bytes | None) -> Judgement:
        """The judgement of one thing, of a new one (`NEW_THING`), or of no thing."""
        found = self._slices.get(key)
        if found is None:
            found = self._slices[key] = self._sliced(key)
        return found

    def cases(self, place: int) -> Iterator[ThingCase]:
        """A call that is asked about, as the call of each of its things."""
        things = self._things(place)
        if things is None:
            yield self._case(place, None, is_certain=True)
            for key in self._representatives():
                yield self._case(place, key, is_certain=True)
        else:
            for key in things.keys:
                yield self._case(place, key, is_certain=True)
            if not things.is_open:
                return
            for key in self._representatives():
                if key not in things.keys:
                    yield self._case(place, key, is_certain=False)
        yield self._case(place, NEW_THING, is_certain=False)

    def _case(self, place: int, key: bytes | None, *, is_certain: bool) -> ThingCase:
        slice_ = self.of(key)
        found = slice_.log.find_last(self._whole.log.span_id(place))
        assert found is not None
        is_named = key is not None and key != NEW_THING
        name = named_thing(self._whole, key) if is_named and key is not None else None
        return ThingCase(slice_, found, is_certain, name, key in self._anywhere)

    def _things(self, place: int) -> CallThings | None:
        texts = self._whole.log.texts(place)
        return texts.things if texts is not None else None

    def _representatives(self) -> list[bytes]:
        """Things that stand for all: one of each state before the question, and those with calls since."""
        if self._each is None:
            self._each = self._find_each()
        return self._each

    def _find_each(self) -> list[bytes]:
        log, first = self._whole.log, self._first()
        run = self._run_before(first, wide=self._whole.is_doubtful())
        since = [
            key
            for place in range(first, len(log))
            if (things := self._things(place)) is not None
            for key in things.keys
        ]
        each = [*(run.first_of(cell) for cell in run.cells.values()), *since]
        if self._flights is not None and isinstance(self._whole, SharedThingsJudgement):
            each += self._flights.keys(self._whole.met)
        return list(dict.fromkeys(each))

    def _first(self, flying: Sequence[ThingClaim] = ()) -> int:
        """The first step that the question may concern, beside some calls of other sessions in flight."""
        log = self._whole.log
        first = min([*self._asked, *log.in_flight()])
        while flying and first > 0 and log.at(first - 1) >= flying[0].at_ns:
            first -= 1
        groups = log.groups(end=first + 1) if log.grouped else ()
        return next((start for start, end in groups if start <= first < end), first)

    def _run_before(self, first: int, *, wide: bool) -> ThingsRun:
        """The run before a step that is in no group, or is the first of one, in one reading."""
        run = self._before.get((first, wide))
        if run is None:
            found = self._whole.origin(wide=wide)
            self._whole.replay_log(wide=wide).walk(found, first)
            assert isinstance(found, ThingsRun)
            run = self._before[first, wide] = found
        return run

    def _sliced(self, key: bytes | None) -> Judgement:
        whole = self._whole
        found = Judgement(whole.judge, whole.part, whole.sight)
        is_shared = isinstance(whole, SharedThingsJudgement)
        flying = self._flying(key)
        first = self._first(flying) if is_shared else 0
        since = self._since(flying)
        found.base = self._base_of_all(key, first, since) if is_shared else self._base(key)
        found.budget, found.late = whole.budget, whole.late
        found.hold_back()
        for place in range(first, len(whole.log)):
            token = self._token(place, key)
            if token < 0:
                continue
            found.log.take(whole.log, place)
            own = found.log.find(whole.log.span_id(place))
            assert own is not None
            found.log.set_token(own, token)
            found.doubts += whole.judge.is_doubted(token)
        visits = self._visits(key, since)
        for claim in flying:
            token = claim.token if key in claim.keys else vanishing(whole.judge, claim.token)
            self._add(found, claim.at_ns, claim.span_id, token, Evidence.DECIDED)
        for visit in visits:
            if visit.token is not None:
                token = visit.token
                token = token if visit.key is not None else vanishing(whole.judge, token)
                self._add(found, visit.at_ns, visit.span_id, token, Evidence.EXECUTED)
        found.catch_up()
        if not len(found.log) and found.base is not None:
            found.head = found.origin(wide=False)
        if isinstance(whole, SharedThingsJudgement) and self._is_anywhere(
            whole, found, key, flying, visits
        ):
            self._anywhere.add(key)
        return found

    # --- calls of other sessions -------------------------------------------------------------------

    def _flying(self, key: bytes | None) -> list[ThingClaim]:
        """The calls of other sessions in flight that are, or may be, on a thing, in order."""
        if self._flights is None or key is None:
            return []
        return self._flights.of(None if key == NEW_THING else key)

    def _since(self, flying: Sequence[ThingClaim]) -> int:
        """When the first of the calls in flight began, this session's or others'; `EVER` if there are none."""
        log = self._whole.log
        own = [log.at(place) for place in log.in_flight() if place not in self._asked]
        return min([*own, *(claim.at_ns for claim in flying)], default=EVER)

    def _visits(self, key: bytes | None, since: int) -> list[Visit]:
        """The calls of other sessions on a thing that were made while calls are in flight: they may come before these."""
        whole = self._whole
        if key is None or since == EVER or not isinstance(whole, SharedThingsJudgement):
            return []
        last = order_of(whole.log, max(self._asked))
        return [
            each
            for each in whole.visits
            if each.at_ns >= since and each[:3] < last and each.key in (key, None)
        ]

    def _add(
        self, slice_: Judgement, at_ns: int, span_id: bytes, token: int, evidence: Evidence
    ) -> None:
        """Adds a call of another session to those of a thing."""
        call = ToolCall(
            SessionKey("", ""),
            agent="",
            tool="",
            arguments=None,
            error=False,
            start_ns=at_ns,
            end_ns=at_ns,
            trace_id=span_id * 2,  # it is nobody's sibling
            span_id=span_id,
            parent_span_id=b"",
            call_id="",
            evidence=evidence,
            attributes={},
        )
        slice_.log.insert(call, 0, token, at_ns, at_ns)
        slice_.doubts += self._whole.judge.is_doubted(token)

    def _is_anywhere(
        self,
        whole: SharedThingsJudgement,
        slice_: Judgement,
        key: bytes | None,
        flying: Sequence[ThingClaim],
        visits: Sequence[Visit],
    ) -> bool:
        """True if calls of other sessions may have led a thing to states that no order of the slice's calls leads to."""
        if key == NEW_THING:
            return self._may_be_met_first(whole)
        if flying and whole.base is not None and flying[0].at_ns <= whole.base.at:
            return True  # calls of this session that began since are folded
        if any(visit.token is None for visit in visits):
            return True
        right = [claim.span_id for claim in flying if claim.is_right and key in claim.keys]
        right += [v.span_id for v in visits if v.is_right and v.key is not None]
        return any(_is_unexplained(slice_, span_id) for span_id in right)

    def _may_be_met_first(self, whole: SharedThingsJudgement) -> bool:
        """True if a call whose value is not known may be on a thing that only other sessions have called."""
        asks_any = any(
            (things := self._things(place)) is not None and things.is_open
            for place in self._asked
        )
        if not asks_any or whole.space is None:
            return False
        space, flights = whole.space, self._flights
        return (
            (flights is not None and not flights.is_empty)
            or space.forgotten is not None
            or not whole.met.issuperset(space.things)
        )

    def _token(self, place: int, key: bytes | None) -> int:
        """The token of a step for one thing; -1 if it is none of its calls."""
        token, things = self._whole.log.token(place), self._things(place)
        if things is None or (key is not None and key in things.keys):
            return token
        if key is None or not things.is_open or token == CONTROL_TOKEN:
            return -1
        if place in self._asked:
            return token  # as if it were of the thing: whether it is, is what the case is about
        return vanishing(self._whole.judge, token)

    def _base_of_all(self, key: bytes | None, first: int, since: int) -> Checkpoint:
        """The state of one thing before the steps in question, as all sessions together made it by then.

        Calls of others from `since` on are among the steps.
        """
        whole = self._whole
        last = max(self._asked)
        found: Checkpoint | None = None
        for wide in (False, True) if whole.is_doubtful() else (False,):
            run = self._run_before(first, wide=wide).copy()
            replay = whole.replay_log(wide=wide)
            assert isinstance(replay, ThingsReplay)
            begin, end = replay.visits_before(first - 1), replay.visits_before(last)
            before = [each for each in replay.visits[begin:end] if each.at_ns < since]
            replay.visit(run, before, replay.before(first))
            own = self._run_of(run, key, whole.log.at(last))
            if found is None:
                found = Checkpoint(own, whole.judge)
            else:
                found.wide = own
        assert found is not None
        base = whole.base
        found.apart, found.doubted = whole.swapped, whole.doubts > 0
        found.count = whole.folded + first
        found.at = whole.log.at(first - 1) if first else base.at if base is not None else 0
        span = whole.span()
        assert span is not None
        found.started, found.last = span
        return found

    def _base(self, key: bytes | None) -> Checkpoint | None:
        """The state of one thing behind the folded calls."""
        base, judge = self._whole.base, self._whole.judge
        if base is None:
            return None
        found = Checkpoint(self._run_of(base.run, key), judge)
        if base.wide is not None:
            found.wide = self._run_of(base.wide, key)
        found.apart, found.doubted = base.apart, base.doubted
        found.count, found.at = base.count, base.at
        found.started, found.last = base.started, base.last
        return found

    def _run_of(self, run: AutomatonRun, key: bytes | None, at_ns: int = 0) -> AutomatonRun:
        """The run that a call of one thing finds, or of no thing, as a copy."""
        assert isinstance(run, ThingsRun)
        return run.nothing.copy() if key is None else run.run_of(self._whole.judge, key, at_ns)


def _is_unexplained(slice_: Judgement, span_id: bytes) -> bool:
    """True if a call that its own session may be right to make is wrong here in every order.

    It is right by what only that session has, and goes on from wherever that can have led.
    """
    place = slice_.log.find(span_id)
    if place is None:
        return True
    among, number = concurrent_calls(slice_, [place], QuestionBudget())[place]
    return not among.possibilities(number, rises=among.rises(number)).right


def slices_of(
    judgement: Judgement, asked: Collection[int], flights: OtherFlights | None = None
) -> ThingSlices:
    """The slices of a judgement with things, for calls at some places of its log."""
    assert isinstance(judgement, ThingsJudgement)
    return ThingSlices(judgement, asked, flights)
