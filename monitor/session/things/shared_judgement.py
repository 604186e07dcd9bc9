"""One session under one spec whose things it has in common with other sessions.

Idea: it is a judgement with things, and beside its log stand the *visits*: calls of other sessions on things that this one
carries, which its replay takes between its own calls. It tells the space of its own ones. So what is known of
ordinary judgements holds here, too: order of arrival, folding, copies.

Invariants:

- `visits` are in order, and none of them is in the checkpoint yet. The head has taken all of them. Between two calls of
  the log, a thing has `VISITS_MAX` of them.
- What it has told the space is each call of its log on a thing (`told`), and what it told of folded ones.
- A copy reads the space, tells it nothing, and is told nothing.

Example: this session looks A1 up at 12:02, and another one refunds A1 at 12:03. The head of this one then says that A1 is
refunded, so its own refund at 12:05 is harmful.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.records import ToolCall
from monitor.session.judge.judge import CONTROL_TOKEN, HARMFUL, Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.replay import Replay
from monitor.session.judgement.step_marks import CODE, VerdictChange
from monitor.session.log.rows import StepOrder, order_of
from monitor.session.things.thing_space import SharedCall, ThingSpace
from monitor.session.things.thing_visit import Visit
from monitor.session.things.things_judgement import ThingsJudgement
from monitor.session.things.things_replay import ThingsReplay
from monitor.session.things.things_run import ThingsRun
from monitor.visibility.gap import EVER
from monitor.visibility.sight import CLEAR, Sight

if TYPE_CHECKING:
    from monitor.session.session import Session

__all__ = ["SharedThingsJudgement", "ToldCall", "members_of", "moved_members"]

VISITS_MAX: Final = 256
"""Calls of other sessions on one thing between two of its own calls; beyond it, the earlier half is not known any more."""


class ToldCall(NamedTuple):
    """What the space knows of one call of the log."""

    call: SharedCall
    keys: tuple[bytes, ...]
    is_open: bool


def _order(visit: Visit) -> tuple[int, int, bytes]:
    return visit.at_ns, visit.end_ns, visit.span_id


@mypyc_attr(acyclic=True)
class SharedThingsJudgement(ThingsJudgement):
    """The calls of one session under a spec with `each` and `across`.

    While it is live, it and its space refer to each other. `leave_space` breaks this cycle.
    """

    __slots__ = (
        "changed",
        "folded_to",
        "is_live",
        "lacks",
        "last_of_all",
        "met",
        "number",
        "open_version",
        "space",
        "told",
        "visits",
    )

    def __init__(self, judge: Judge, part: str, sight: Sight = CLEAR) -> None:
        self.is_live = False
        """True while the space tells it of calls."""
        self.lacks = False
        """True if calls on its things may be missing that were made in other sessions: it counts as a doubt."""
        self.space: ThingSpace | None = None
        self.number = 0
        """The number that it has in the space; 0 before it has been there."""
        self.met: set[bytes] = set()
        """Keys of the things of which the space has told it."""
        self.visits: list[Visit] = []
        self.told: dict[bytes, ToldCall] = {}
        """What it has told, by span."""
        self.folded_to: StepOrder = (-1, 0, b"")
        """The place of the last folded step in the order of calls."""
        self.last_of_all: StepOrder = (-1, 0, b"")
        """The place of the last call that is, or may be, of all things, here or in another session."""
        self.open_version = 0
        """Version of the space's calls whose values are not known, when it took them."""
        self.changed = -1
        """The first place to be stepped again because of visits; -1 if there is none."""
        super().__init__(judge, part, sight)

    # --- the space --------------------------------------------------------------------------------

    def enter_space(self, space: ThingSpace, session: Session) -> None:
        """Its session is live, and in this space from now on."""
        old = self.space
        if old is not None and old is not space:
            self.withdraw(old)
            self.met, self.visits, self.number, self.changed = set(), [], 0, 0
        self.read_space(space, session)
        self.number = space.enter(session, self, self.number)
        self.is_live = True
        self.meet_again()
        for place in range(len(self.log)):
            self._tell(place)
        if self.changed >= 0:
            space.moved[self.number] = None

    def read_space(self, space: ThingSpace, session: Session) -> None:
        """Reads a space, without being told of further calls."""
        self.space = space
        if space.since_ns and session.started_ns < space.since_ns + space.within_ns:
            self._note_lack(Visit(0, 0, b"", None, None, True))
        head = self.head
        assert isinstance(head, ThingsRun)
        self._look_back(head, wide=self.swapped)

    def leave_space(self) -> None:
        """Its session is not live any more, or is about to have another agent. What it has told stays."""
        if self.space is not None and self.is_live:
            self.space.leave(self.number)
        self.is_live = False

    def withdraw(self, space: ThingSpace) -> None:
        """Takes back what it has told, since it belongs elsewhere."""
        for span, told in self.told.items():
            self._untell(space, span, told)
        self.told = {}

    def _keys(self) -> set[bytes]:
        """The things of the log."""
        found: set[bytes] = set()
        for place in range(len(self.log)):
            texts = self.log.texts(place)
            if texts is not None and texts.things is not None:
                found.update(texts.things.keys)
        return found

    # --- what it is told --------------------------------------------------------------------------

    def take_visit(self, visit: Visit) -> None:
        """Takes note of a call of another session; `revisit` judges by it."""
        kept = [e for e in self.visits if e.span_id != visit.span_id or e.key != visit.key]
        is_new = len(kept) == len(self.visits)
        insort(kept, visit, key=_order)
        self.visits = kept
        if not (is_new and self._take_at_once(visit)):
            self._note_change(_order(visit))
        self._bound_visits(visit)

    def _bound_visits(self, visit: Visit) -> None:
        """Keeps the visits of its thing between two calls of the log within their bound: one stands for all that go."""
        if len(self.visits) <= VISITS_MAX:
            return
        log, place, key = self.log, self._place(_order(visit)), visit.key
        before = order_of(log, place - 1) if place else self.folded_to
        begin, end = bisect_right(self.visits, before, key=_order), len(self.visits)
        if place < len(log):
            end = bisect_left(self.visits, order_of(log, place), key=_order)
        since = [each for each in self.visits[begin:end] if each.key == key]
        if len(since) <= VISITS_MAX:
            return
        gone = since[: VISITS_MAX // 2]
        known, stand_in = set(gone), gone[-1]._replace(span_id=b"", token=None, is_right=True)
        self.visits = [each for each in self.visits if each not in known]
        insort(self.visits, stand_in, key=_order)
        self._note_lack(stand_in)
        self._note_change(_order(stand_in))

    def _take_at_once(self, visit: Visit) -> bool:
        """Has the readings take a visit that nothing of the log depends on; False if the log must be stepped again.

        The order of calls on different things makes no difference.
        """
        log, order, head = self.log, _order(visit), self.head
        assert isinstance(head, ThingsRun)
        if self.changed >= 0 or self._held_back >= 0 or self.sight != CLEAR:
            return False
        if visit.key is None or order < self.last_of_all:
            return False
        if log.grouped and len(log) and order < order_of(log, len(log) - 1):
            return False
        known = head.last_call(visit.key)
        if known is not None and visit.at_ns <= known:
            return False
        if self.resume_points is not None:
            self.resume_points.before(self._place(order))  # drops those that lack it
        for run, wide in ((head, self.swapped), (self.rival, not self.swapped)):
            if run is not None:
                assert isinstance(run, ThingsRun)
                replay = self.replay_log(wide=wide)
                assert isinstance(replay, ThingsReplay)
                replay.visit(run, [visit], visit.at_ns)
        return True

    def drop_visit(self, span_id: bytes, key: bytes | None) -> None:
        """Forgets a call that is none, or is another one."""
        for visit in self.visits:
            if visit.span_id == span_id and visit.key == key:
                self.visits = [each for each in self.visits if each is not visit]
                self._note_change(_order(visit))
                return

    def _note_change(self, order: StepOrder) -> None:
        """Notes from where on the log is to be stepped again."""
        place = self._place(order)
        self.changed = place if self.changed < 0 else min(self.changed, place)

    def _place(self, order: StepOrder) -> int:
        """The first place of the log behind a call of another session."""
        place = len(self.log)
        while place and order < order_of(self.log, place - 1):
            place -= 1
        return place

    def is_beyond(self, at_ns: int) -> bool:
        """True if the last call of the log began after a time."""
        return len(self.log) > 0 and self.log.at(-1) > at_ns

    def revisit(self) -> list[VerdictChange]:
        """Judges again what the calls of others have changed."""
        self._take_unknown_calls()
        return self._replay(self.changed) if self.changed >= 0 else []

    def _meet(self, key: bytes, at_ns: int = EVER) -> None:
        """Asks what is known of a thing that it carries for the first time, at a time."""
        if self.space is None or key in self.met:
            return
        self.met.add(key)
        head = self.head
        assert isinstance(head, ThingsRun)
        was_known = head.knows(key)
        for visit in self.space.meet(key, self.number, at_ns, joins=self.is_live):
            is_folded = was_known and _order(visit) < self.folded_to
            if not is_folded and visit not in self.visits:
                self.take_visit(visit)
                self._note_lack(visit)

    def _note_lack(self, visit: Visit) -> None:
        """From a visit that stands for calls which are not known any more, there are two readings."""
        if visit.token is None and not self.lacks:
            self.lacks = True
            self.doubts += 1

    def _take_unknown_calls(self) -> None:
        """Takes the calls of others whose values are not known, as they are by now."""
        space = self.space
        if space is None or space.open_version == self.open_version:
            return
        self.open_version = space.open_version
        known = {each.span_id: each for each in self.visits if each.key is None}
        for visit in space.unknown_calls(self.number):
            old = known.get(visit.span_id)
            if old == visit or _order(visit) <= self.folded_to:
                continue
            if old is not None and visit.token is not None:
                self.drop_visit(old.span_id, None)
            # What it knows beyond those that the space keeps stays: its own calls beside them were judged by it.
            insort(self.visits, visit, key=_order)
            self.last_of_all = max(self.last_of_all, _order(visit))
            self._note_lack(visit)
            self._note_change(_order(visit))
            self._bound_visits(visit)

    # --- judging ----------------------------------------------------------------------------------

    def origin(self, *, wide: bool) -> AutomatonRun:
        """As `Judgement.origin`."""
        run = super().origin(wide=wide)
        assert isinstance(run, ThingsRun)
        self._look_back(run, wide=wide)
        return run

    def _look_back(self, run: ThingsRun, *, wide: bool) -> None:
        """Says until when calls on a new thing may have been made that nobody saw."""
        space = self.space
        if space is not None:
            run.unseen_ns = space.since_ns + space.within_ns if wide and space.since_ns else 0

    def replay_log(self, *, wide: bool) -> Replay:
        """As `Judgement.replay_log`."""
        replay = super().replay_log(wide=wide)
        assert isinstance(replay, ThingsReplay)
        replay.visits = self.visits
        return replay

    def note_call(self, call: ToolCall) -> None:
        """As `Judgement.note_call`."""
        super().note_call(call)
        things = self.things_of(call)
        for key in things.keys if things is not None else ():
            self._meet(key, call.start_ns)

    def append(self, call: ToolCall, tool: int, token: int, at: int, now: int) -> int | None:
        """As `Judgement.append`."""
        space = self.space
        if space is not None and space.open_version != self.open_version:
            return None
        things = self.things_of(call)
        for key in things.keys if things is not None else ():
            self._meet(key, at)
        if self.changed >= 0:
            return None
        if self.visits and (at, call.end_ns, call.span_id) <= _order(self.visits[-1]):
            return None
        code = super().append(call, tool, token, at, now)
        if code is not None:
            self._tell(len(self.log) - 1)
        return code

    def _replay(self, changed: int) -> list[VerdictChange]:
        self._take_unknown_calls()
        if self._held_back < 0 <= self.changed:
            changed = min(changed, self.changed)
            self.changed = -1
        changes = super()._replay(changed)
        if self._held_back < 0:
            places = {each.place for each in changes}
            for place in sorted(places | set(range(changed, len(self.log)))):
                self._tell(place)
        return changes

    def retract(self, place: int) -> list[VerdictChange]:
        """As `Judgement.retract`."""
        span = self.log.span_id(place)
        told = self.told.pop(span, None)
        if told is not None and self.space is not None:
            self._untell(self.space, span, told)
        return super().retract(place)

    def absorb(self, other: Judgement) -> list[VerdictChange]:
        """As `Judgement.absorb`."""
        assert isinstance(other, SharedThingsJudgement)
        if other.space is not None:
            other.withdraw(other.space)
        for key in other.met:
            self._meet(key)
        self.changed = 0
        return super().absorb(other)

    def settle(self, last: StepOrder) -> None:
        """As `Judgement.settle`: what others did by then is folded, too."""
        del self.visits[: bisect_left(self.visits, last, key=_order)]
        self.told = {s: told for s, told in self.told.items() if told.call[:3] > last}
        self.folded_to = last
        super().settle(last)

    def copy(self) -> Judgement:
        """As `Judgement.copy`."""
        twin = super().copy()
        assert isinstance(twin, SharedThingsJudgement)
        twin.space, twin.number, twin.lacks = self.space, self.number, self.lacks
        twin.met, twin.visits = set(self.met), list(self.visits)
        twin.folded_to, twin.last_of_all = self.folded_to, self.last_of_all
        twin.open_version, twin.changed = self.open_version, self.changed
        if not self.is_live:
            twin.meet_again()
        return twin

    def meet_again(self) -> None:
        """Asks again what is known of its things, since it was told nothing meanwhile."""
        known, self.met = self.met, set()
        for key in known | self._keys():
            self._meet(key)

    # --- what it tells ----------------------------------------------------------------------------

    def _tell(self, place: int) -> None:
        """Tells the space what a call of the log is by now."""
        space, log = self.space, self.log
        texts = log.texts(place)
        if texts is None or texts.things is None or texts.things.is_open:
            self.last_of_all = max(self.last_of_all, order_of(log, place))
        if space is None or not self.is_live:
            return
        span, found = log.span_id(place), self._told(place)
        known = self.told.get(span)
        if found == known:
            return
        if known is not None:
            del self.told[span]
            self._untell(space, span, known)
        if found is not None:
            self.told[span] = found
            space.put(found.call, found.keys)
            if found.is_open:
                space.put_unknown(found.call)

    def _told(self, place: int) -> ToldCall | None:
        """What others are to know of a call; None if it moves nothing."""
        log = self.log
        token, texts = log.token(place), log.texts(place)
        things = texts.things if texts is not None else None
        if things is None or token == CONTROL_TOKEN:
            return None
        is_right = log.mark(place) & CODE < HARMFUL
        call = SharedCall(*order_of(log, place), self.number, token, is_right)
        return ToldCall(call, things.keys, things.is_open)

    def _untell(self, space: ThingSpace, span: bytes, told: ToldCall) -> None:
        space.take_back(span, told.call.owner, told.keys)
        if told.is_open:
            space.take_back_unknown(span, told.call.owner)


def members_of(space: ThingSpace) -> Iterator[tuple[Session, SharedThingsJudgement]]:
    """The live sessions of a space."""
    for session, judgement in space.members.values():
        assert isinstance(judgement, SharedThingsJudgement)
        yield session, judgement


def moved_members(space: ThingSpace) -> Iterator[tuple[Session, SharedThingsJudgement]]:
    """The sessions that have been told of calls, as long as there are any; each is judged again before the next."""
    while space.moved:
        number = next(iter(space.moved))
        del space.moved[number]
        member = space.members.get(number)
        if member is not None:
            session, judgement = member
            assert isinstance(judgement, SharedThingsJudgement)
            yield session, judgement
