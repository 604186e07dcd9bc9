"""Stepping the log of a spec with `each` again: each thing over its own calls.

Idea: single calls step the things that they carry, in the order of the log. Of a group of overlapping calls each thing
has its own part (`GroupCalls`), and the verdict on a call is the worst of its things.

Invariant: the steps of a thing are those of a `Replay` over the calls that are its own.

Example: `refund(A1)` and `refund(B7)` overlap. No order is to be found: each is the only call of its thing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from monitor.alphabet.things import CallThings
from monitor.automaton.position import Position
from monitor.records import built
from monitor.session.judge.judge import CONTROL, CONTROL_TOKEN
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.replay import Replay, Stretch
from monitor.session.judgement.step_marks import CODE, JudgedStep
from monitor.session.log.rows import order_of
from monitor.session.things.group_calls import GroupCall, GroupCalls, vanishing
from monitor.session.things.thing_visit import Visit
from monitor.session.things.things_run import ThingsRun
from monitor.visibility.gap import EVER
from monitor.visibility.sight import between

__all__ = ["ThingsReplay"]


class ThingsReplay(Replay):
    """Steps the log of one judgement with things, in one reading.

    Args:
        replay: of a judgement without things over the same log.
        visits: calls of other sessions on the same things, in their order, that are in no checkpoint.
    """

    __slots__ = ("_firsts", "visits")

    def __init__(self, replay: Replay, visits: Sequence[Visit] = ()) -> None:
        super().__init__(
            replay.judge,
            replay.log,
            replay.windows,
            wide=replay.wide,
            begin_ns=replay.begin_ns,
            budget=replay.budget,
        )
        self.visits = visits
        self._firsts: tuple[list[int], list[bytes]] | None = None
        """Places where things of the log come first, and these things; None until that is asked."""

    def step(
        self,
        run: AutomatonRun,
        stretch: Stretch,
        steps: list[JudgedStep],
        *,
        news: bool = False,
    ) -> None:
        """As `Replay.step`."""
        assert isinstance(run, ThingsRun)
        first, end = stretch.first, stretch.end
        if stretch.together and self._interact(first, end) and not self._is_visited(first, end):
            self._visit_before(run, first)
            found = self._step_things(run, first, end, news=news)
        else:
            found = self._step_singles(run, first, end)
        log = self.log
        steps += (s for s in found if not news or s.code != log.mark(s.place) & CODE)

    def things(self, place: int) -> CallThings | None:
        """What a step is about; None for a call of a tool that `each` does not name."""
        texts = self.log.texts(place)
        return texts.things if texts is not None else None

    def _step_singles(self, run: ThingsRun, first: int, end: int) -> list[JudgedStep]:
        """Steps calls of which no thing has two that overlap."""
        log, found = self.log, list[JudgedStep]()
        visits = self.visits
        for place in range(first, end):
            last = self._visit_before(run, place) if visits else self.before(place)
            if self.windows:
                self.pass_time(run, last, log.at(place), log.receipt(place))
            token = self.token(place)
            if token == CONTROL_TOKEN:
                found.append(_control(place, run.position))
                continue
            things = self.things(place)
            heir = self._heir(run, place) if things is None else None
            code, thing, before, after, _ = run.take(
                self.judge, token, things, heir, log.at(place)
            )
            found.append(built(JudgedStep, (place, code, before, after, thing)))
        return found

    def pass_time(self, run: AutomatonRun, before_ns: int, after_ns: int, receipt: int) -> None:
        """As `Replay.pass_time`: calls of any thing may be missing, of a new one, too."""
        assert isinstance(run, ThingsRun)
        tools = between(self.windows, before_ns, after_ns, receipt)
        if not tools:
            return
        ends = [each.until_ns for each in self.windows if before_ns < each.until_ns]
        last_ns = min(after_ns, max(ends))
        if None in tools:
            run.scatter(self.judge.anywhere)
            run.loose_ns = max(run.loose_ns, last_ns)
        else:
            run.spread(self.judge, self.judge.missing(tools), last_ns)

    # --- calls of other sessions -------------------------------------------------------------------

    def visits_before(self, place: int) -> int:
        """The number of visits up to a place of the log; 0 before the first, which those of the checkpoint have left."""
        if place < 0:
            return 0
        return bisect_left(self.visits, order_of(self.log, place))

    def _visit_before(self, run: ThingsRun, place: int) -> int:
        """Takes the visits between a place and the one before it; returns when the last of these calls was made."""
        before = self.before(place)
        if not self.visits:
            return before
        between_them = self.visits[self.visits_before(place - 1) : self.visits_before(place)]
        return self.visit(run, between_them, before)

    def visit(self, run: ThingsRun, visits: Iterable[Visit], before_ns: int) -> int:
        """Takes some visits behind a call; returns when the last of these calls was made."""
        for at_ns, _, _, key, token, is_right in visits:
            if self.windows:
                self.pass_time(run, before_ns, at_ns, at_ns)
            before_ns = max(before_ns, at_ns)
            own = token
            if token is None:
                if not self.wide:
                    continue
            elif not self.wide:
                own = self.judge.plain_of(token)
            if key is not None:
                run.visit(self.judge, own, key, at_ns, is_right=is_right)
            elif own is not None:
                run.visit_all(self.judge, vanishing(self.judge, own), at_ns)
            else:
                run.scatter(self.judge.anywhere)
                run.loose_ns = max(run.loose_ns, at_ns)
        return before_ns

    def _is_visited(self, first: int, end: int) -> bool:
        """True if other sessions have calls among those of a group: then all count by their starts."""
        return bool(self.visits) and self.visits_before(first) < self.visits_before(end - 1)

    def trail(self, run: AutomatonRun) -> None:
        """As `Replay.trail`; what other sessions did after the last call moves things, too."""
        last = len(self.log) - 1
        before = self.log.at(last) if last >= 0 else self.begin_ns
        if self.visits:
            assert isinstance(run, ThingsRun)
            before = self.visit(run, self.visits[self.visits_before(last) :], before)
        if self.windows:
            self.pass_time(run, before, EVER, EVER)

    # --- things that come later --------------------------------------------------------------------

    def _heir(self, run: ThingsRun, place: int) -> bytes | None:
        """The next thing that comes behind a place of the log, and in no earlier call."""
        if run.fresh is None:
            return None
        if self._firsts is None:
            self._firsts = self._find_firsts()
        places, things = self._firsts
        for number in range(bisect_right(places, place), len(places)):
            if not run.knows(things[number]):
                return things[number]
        return None

    def _find_firsts(self) -> tuple[list[int], list[bytes]]:
        """Where each thing of the log comes first."""
        firsts: dict[bytes, int] = {}
        for place in range(len(self.log)):
            things = self.things(place)
            for key in things.keys if things is not None else ():
                firsts.setdefault(key, place)
        return list(firsts.values()), list(firsts)

    # --- groups of overlapping calls ---------------------------------------------------------------

    def _interact(self, first: int, end: int) -> bool:
        """True if some thing has several calls of a group."""
        seen: set[bytes] = set()
        judged = shared = 0
        for place in range(first, end):
            if self.token(place) == CONTROL_TOKEN:
                continue
            things = self.things(place)
            judged += 1
            shared += things is None or things.is_open
            keys = things.keys if things is not None else ()
            if (shared and judged > 1) or not seen.isdisjoint(keys):
                return True
            seen.update(keys)
        return False

    def _step_things(
        self, run: ThingsRun, first: int, end: int, *, news: bool
    ) -> list[JudgedStep]:
        """Steps a group, of which some thing has several calls."""
        found: list[JudgedStep] = []
        calls: list[GroupCall] = []
        for place in range(first, end):
            token = self.token(place)
            if token == CONTROL_TOKEN:
                found.append(_control(place, run.position))
            else:
                calls.append(GroupCall(place, token, self.things(place)))
        group = GroupCalls(self, first, end, calls, news=news)
        heir = self._heir(run, end - 1)
        return found + run.take_group(self.judge, group, heir, self.log.at(first))


def _control(place: int, here: Position) -> JudgedStep:
    step: JudgedStep = built(JudgedStep, (place, CONTROL, here, here, None))
    return step
