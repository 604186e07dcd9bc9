"""The state of a spec with `each` after a prefix of the calls: one run for each thing.

Idea: each thing has a run of its own over the calls that carry it and the calls of unnamed tools. Things whose runs are
alike share a cell, so a call of an unnamed tool steps as many runs as there are different states, not as many as there
are things.

Invariants:

- `nothing` is the run over the calls of unnamed tools alone. A new thing begins with it; or with `fresh`, once calls were
  seen whose values are not known: each of them may have been of the new thing.
- A call with unknown values may be of each thing: it steps all of them as a call that may not have been made
  (`Alphabet.vanishing`). So nothing is claimed of one thing that some value of the call would excuse.
- The tally is by call: a call is harmful if it is for one of its things or for no thing, else progress if it is for one.
- A thing has one harm more, and which call that is may be in doubt: this one, or an earlier one that is another thing's harm,
  too. Such a call counts as harmful only if the thing then has more harms than there are harmful calls (`_is_counted`).
- Settled things stand in the table, which all copies of a run share; what the steps of the log changed is in `own`.
- Where a thing is one for several sessions, calls of the others move it (`visit`), and count where they were made.
- There, a thing is forgotten some time after its last call. One whose last call may be a call of unknown values may live on,
  or have begun anew: it may be in any state.

Example: `look_up(A1)`, `refund(B7)` under "no refund before a look-up": the run of A1 has moved, that of B7 has a harm,
`nothing` stands at the beginning. `login` steps three runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.alphabet.things import CallThings
from monitor.automaton.position import Position
from monitor.scores.running_scores import HarmTally
from monitor.session.judge.judge import HARMFUL, PROGRESS, Judge, count_code
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.step_marks import JudgedStep
from monitor.session.things.group_calls import GroupCalls, vanishing
from monitor.session.things.thing_cell import (
    NO_COUNTS,
    ThingCell,
    ThingCounts,
    likeness,
)
from monitor.session.things.thing_table import SettledThing, ThingTable

__all__ = ["PlacedThing", "ThingOutcome", "ThingState", "ThingsRun"]

DROPPED_SHARE = 16
"""One thing in so many is dropped at once, so that the search for them serves many."""

SLOTS_SPARE = 64
"""Slots beyond twice the number of cells, before the table is written anew."""


class ThingOutcome(NamedTuple):
    """What a call is for one thing; `thing` None is no thing."""

    code: int
    thing: bytes | None
    before: Position
    after: Position
    doubted: int = 0
    """The harms of the thing, where the last of them may be an earlier call in place of this one; else 0."""


class ThingState(NamedTuple):
    """A thing after some prefix of the calls."""

    key: bytes
    value: Any
    """What is shown of it; None if nothing is."""
    counts: ThingCounts
    run: AutomatonRun


class PlacedThing(NamedTuple):
    """A thing in a cell, with what it has counted beyond the cell's run."""

    cell: ThingCell
    offset: ThingCounts
    value: Any
    at_ns: int = 0
    """The same as in `SettledThing`."""


def _worse(one: ThingOutcome | None, other: ThingOutcome) -> ThingOutcome:
    """The outcome that counts for the call: harm before progress before all else; of equals the first."""
    if one is None:
        return other
    return other if _rank(other) > _rank(one) else one


def _rank(outcome: ThingOutcome) -> tuple[int, int]:
    if outcome.code >= HARMFUL:
        return (2, outcome.doubted) if outcome.doubted else (3, 0)
    return int(outcome.code == PROGRESS), 0


@mypyc_attr(acyclic=True)
class ThingsRun(AutomatonRun):
    """The runs of all things, that of no thing, and the tally by call."""

    __slots__ = (
        "cells",
        "count",
        "expires_ns",
        "fresh",
        "fresh_unsure",
        "harms",
        "loose_ns",
        "nothing",
        "own",
        "slots",
        "substantive",
        "table",
        "unclaimed",
        "unseen_ns",
    )

    def __init__(
        self, nothing: AutomatonRun, tally: HarmTally, table: ThingTable | None = None
    ) -> None:
        super().__init__(nothing.position, tally, exact=nothing.exact)
        self.nothing = nothing
        self.fresh: AutomatonRun | None = None
        """What a new thing begins with; None while that is `nothing`."""
        self.fresh_unsure = 0
        self.cells: dict[tuple[object, ...], ThingCell] = {}
        """The cells that have things, by likeness."""
        self.table = ThingTable() if table is None else table
        self.slots: dict[int, tuple[ThingCell, ThingCounts]] = {}
        """Slots of the table: the cell of their things, and what they have counted beyond it."""
        self.own: dict[bytes, PlacedThing | None] = {}
        """Things that calls have carried since the table was written; None for those that were forgotten since."""
        self.unseen_ns = 0
        """A thing that begins before this time may have had calls that nobody saw."""
        self.expires_ns = 0
        """No thing is forgotten before this time."""
        self.loose_ns = 0
        """When the last call was made, or may have been, that may be of any thing."""
        self.count = 0
        """Things, and their harms and substantive steps in all."""
        self.harms = 0
        self.substantive = 0
        self.unclaimed = False
        """True if a call was more for `fresh` than for no thing: that counts for each thing that comes later."""

    def copy(self) -> ThingsRun:
        twin = ThingsRun(self.nothing.copy(), self.tally.copy(), self.table)
        twin.position, twin.exact, twin.whole = self.position, self.exact, self.whole
        if self.fresh is not None:
            twin.fresh = self.fresh.copy()
        twin.fresh_unsure, twin.unclaimed = self.fresh_unsure, self.unclaimed
        twin.count, twin.harms, twin.substantive = self.count, self.harms, self.substantive
        twins: dict[int, ThingCell] = {}
        for like, cell in self.cells.items():
            twins[id(cell)] = twin.cells[like] = cell.copy()
        for slot, place in self.slots.items():
            cell, offset = _found(*place)
            if id(cell) in twins:
                twin.slots[slot] = twins[id(cell)], offset
        twin.expires_ns, twin.unseen_ns = self.expires_ns, self.unseen_ns
        twin.loose_ns = self.loose_ns
        for key, thing in self.own.items():
            if thing is None:
                twin.own[key] = None
                continue
            cell, offset = _found(thing.cell, thing.offset)
            twin.own[key] = PlacedThing(twins[id(cell)], offset, thing.value, thing.at_ns)
        return twin

    def settle(self, judge: Judge) -> int:
        """Writes the things of `own` into a table, which further copies share; returns how many were dropped."""
        table = ThingTable()
        table.things, table.next_slot = dict(self.table.things), self.table.next_slot
        table.forgotten = self.table.forgotten
        places: dict[int, tuple[int, ThingCounts]] = {}
        slots: dict[int, tuple[ThingCell, ThingCounts]] = {}
        for slot, place in self.slots.items():
            cell, offset = _found(*place)
            if cell.size:
                slots[slot] = cell, offset
                places.setdefault(id(cell), (slot, offset))
        for key, thing in self.own.items():
            table.things.pop(key, None)
            if thing is None:
                continue
            cell, offset = _found(thing.cell, thing.offset)
            if id(cell) not in places:
                places[id(cell)] = table.next_slot, NO_COUNTS
                slots[table.next_slot] = cell, NO_COUNTS
                table.next_slot += 1
            slot, beyond = places[id(cell)]
            table.things[key] = SettledThing(
                slot, *offset.minus(beyond), thing.value, thing.at_ns
            )
        self.table, self.slots, self.own = table, slots, {}
        if len(slots) > 2 * len(self.cells) + SLOTS_SPARE:
            self._write_anew(table, places)
        return self._drop(judge) if len(table.things) > judge.things_max else 0

    def _drop(self, judge: Judge) -> int:
        """Drops a part of the things: accepting ones that were touched longest ago, then others."""
        things, most = self.table.things, judge.things_max
        count = len(things) - most + most // DROPPED_SHARE
        places = {slot: _found(*place) for slot, place in self.slots.items()}
        done = {slot for slot, (c, _) in places.items() if judge.accepts(c.run.position)}
        accepting = [key for key, each in things.items() if each.slot in done]
        dropped = accepting[:count]
        if len(dropped) < count:
            open_ones = (key for key, each in things.items() if each.slot not in done)
            dropped += islice(open_ones, count - len(dropped))
        for key in dropped:
            cell = places[things[key].slot][0]
            cell.size -= 1
            if not cell.size:
                del self.cells[likeness(cell.run)]
        self.table.drop(dropped)
        self.slots = {slot: place for slot, place in places.items() if place[0].size}
        self.count -= len(dropped)
        return len(dropped)

    def _write_anew(
        self, table: ThingTable, places: dict[int, tuple[int, ThingCounts]]
    ) -> None:
        """Gives all things of one cell one slot."""
        moved: dict[int, tuple[int, ThingCounts]] = {}
        for slot, (cell, offset) in self.slots.items():
            kept, beyond = places[id(cell)]
            if kept != slot:
                moved[slot] = kept, offset.minus(beyond)
        for key, each in list(table.things.items()):
            if each.slot in moved:
                kept, beyond = moved[each.slot]
                counts = ThingCounts(each.calls, each.substantive, each.harmful).plus(beyond)
                table.things[key] = SettledThing(kept, *counts, each.value, each.at_ns)
        for slot in moved:
            del self.slots[slot]

    @property
    def things_count(self) -> int:
        return self.count

    # --- things ---------------------------------------------------------------------------------

    def knows(self, key: bytes) -> bool:
        """True if a call has carried the thing."""
        if key in self.own:
            return self.own[key] is not None
        return key in self.table.things

    def last_call(self, key: bytes) -> int | None:
        """The `at` of a thing's last call; None if it is not known."""
        thing = self.placed(key)
        return None if thing is None else thing.at_ns

    def placed(self, key: bytes) -> PlacedThing | None:
        """Where a thing is; None if it is not known."""
        if key in self.own:
            thing = self.own[key]
            if thing is None:
                return None
            cell, offset = _found(thing.cell, thing.offset)
            return PlacedThing(cell, offset, thing.value, thing.at_ns)
        settled = self.table.things.get(key)
        return None if settled is None else self._settled(settled)

    def _settled(self, settled: SettledThing) -> PlacedThing:
        cell, offset = self.slots[settled.slot]
        cell, offset = _found(cell, offset)
        own = ThingCounts(settled.calls, settled.substantive, settled.harmful)
        return PlacedThing(cell, own.plus(offset), settled.value, settled.at_ns)

    def thing(self, key: bytes) -> ThingState | None:
        """One thing; None if no call has carried it."""
        thing = self.placed(key)
        if thing is None:
            return None
        return ThingState(
            key, thing.value, thing.offset.plus(thing.cell.counts()), thing.cell.run
        )

    def things(self) -> Iterator[ThingState]:
        """All things: the settled ones by their last calls, then those of the log by their first."""
        for key in (*(k for k in self.table.things if k not in self.own), *self.own):
            state = self.thing(key)
            if state is not None:
                yield state

    def beginning(self) -> AutomatonRun:
        """The run that a new thing begins with."""
        return self.nothing if self.fresh is None else self.fresh

    def accepts(self, judge: Judge) -> bool:
        """True if all things accept, or no thing does where there is none."""
        if not self.cells:
            return judge.accepts(self.nothing.position)
        return all(judge.accepts(cell.run.position) for cell in self.cells.values())

    def runs(self) -> Iterator[AutomatonRun]:
        """The runs of no thing, of a new one, and of all cells."""
        yield self.nothing
        if self.fresh is not None:
            yield self.fresh
        for cell in self.cells.values():
            yield cell.run

    def first_of(self, cell: ThingCell) -> bytes:
        """A thing of a cell."""
        known = cell.first
        if known is None or not _is_in(self, known, cell):
            every = chain(self.own, self.table.things)
            known = next(key for key in every if _is_in(self, key, cell))
            cell.first = known
        return known

    # --- stepping -------------------------------------------------------------------------------

    def take(
        self,
        judge: Judge,
        token: int,
        things: CallThings | None,
        heir: bytes | None,
        at_ns: int = 0,
    ) -> ThingOutcome:
        """Takes one call.

        Args:
            judge: of the spec.
            token: of the call.
            things: that it carries; None for a call of a tool that `each` does not name.
            heir: a thing that comes later in the log and not before: what harms a new thing harms it.
            at_ns: the call's `at`, where things are forgotten.
        """
        found: ThingOutcome | None = None
        self._outlast(judge, at_ns)
        if things is None:
            self.forget_until(judge, at_ns)
            found = self._step_all(judge, token, heir, is_sure=True)
        else:
            carried = [self._take_out(judge, key, at_ns) for key in things.keys]
            if things.is_open:
                other = vanishing(judge, token)
                found = self._step_all(judge, other, heir, is_sure=False)
                self.loose_ns = max(self.loose_ns, at_ns)
            for number, key in enumerate(things.keys):
                value = things.values[number] if things.values else None
                outcome = self._step_one(judge, token, key, carried[number], value)
                found = _worse(found, outcome)
        assert found is not None
        if found.doubted and not _is_counted(self.tally, found):
            found = found._replace(code=PROGRESS, thing=None)
        count_code(self.tally, found.code)
        self.position = self.nothing.position
        return found

    def _harms(self, key: bytes) -> int:
        thing = self.thing(key)
        return 0 if thing is None else thing.counts.harmful

    def is_harmed_by(
        self, judge: Judge, token: int, things: CallThings | None, at_ns: int
    ) -> bool:
        """True if the next call would be harmful. Changes nothing."""
        if things is None:
            return any(run.is_harmed(judge, token) for run in self.runs())
        for key in things.keys:
            thing = self.placed(key)
            if thing is not None and _may_live(self.loose_ns, judge, thing, at_ns):
                return True  # as far as a look at the run tells
            if thing is None or _is_past(judge, thing, at_ns):
                run = self.beginning()
            else:
                run = thing.cell.run
            if run.is_harmed(judge, token):
                return True
        return False

    def _step_all(
        self, judge: Judge, token: int, heir: bytes | None, *, is_sure: bool
    ) -> ThingOutcome:
        """Steps all things, and no thing where the call is sure to be of all."""
        if is_sure:
            found: ThingOutcome | None = _stepped(self.nothing, judge, token, None)
        else:
            found = None
        found = self._step_fresh(judge, token, heir, found, is_sure=is_sure)
        cells, self.cells = self.cells, {}
        for cell in cells.values():
            before = cell.counts()
            outcome = _stepped(cell.run, judge, token, None)
            cell.unsure += not is_sure
            self._count(before, cell.counts(), cell.size)
            if outcome.code >= HARMFUL and (
                found is None or found.code < HARMFUL or found.doubted
            ):
                # Asked for before the cell is merged with others, that were not harmed.
                outcome = self._of_thing(outcome, self.first_of(cell))
            found = _worse(found, outcome)
            self.exact = self.exact and cell.run.exact
            self._put(cell)
        assert found is not None
        return found

    def _step_fresh(
        self,
        judge: Judge,
        token: int,
        heir: bytes | None,
        found: ThingOutcome | None,
        *,
        is_sure: bool,
    ) -> ThingOutcome | None:
        """Steps what a new thing begins with. Its verdicts are those of a thing that comes later."""
        if self.fresh is None:
            if is_sure:
                return found
            self.fresh = self.nothing.copy()
        outcome = _stepped(self.fresh, judge, token, heir)
        self.exact = self.exact and self.fresh.exact
        self.fresh_unsure += not is_sure
        if found is None or heir is not None:
            return _worse(found, outcome)
        self.unclaimed = self.unclaimed or _worse(found, outcome) is outcome
        return found

    def take_group(
        self, judge: Judge, group: GroupCalls, heir: bytes | None, at_ns: int = 0
    ) -> list[JudgedStep]:
        """Takes overlapping calls, of which some thing has several; `heir` and `at_ns` as in `take`."""
        self._outlast(judge, at_ns)
        self.forget_until(judge, at_ns)
        if group.open:
            self.loose_ns = max(self.loose_ns, group.last_ns)
        carried = [(key, self._take_out(judge, key, at_ns)) for key in group.keys]
        if self.fresh is None and group.open:
            self.fresh = self.nothing.copy()
        found: dict[int, ThingOutcome] = {}
        steps = group.of_nothing(self.nothing)
        _add(found, _outcomes(group, steps, 0, None, self.nothing.tally.harmful_steps))
        self._take_group_fresh(group, heir, found)
        cells, self.cells = self.cells, {}
        for cell in cells.values():
            before, unsure = cell.counts(), group.unsure(None)
            steps = group.of_thing(cell.run, None)
            cell.unsure += unsure
            self._count(before, cell.counts(), cell.size)
            is_harmed = any(step.code >= HARMFUL for step in steps)
            first = self.first_of(cell) if is_harmed else None
            harms = self._harms(first) if first is not None else 0
            _add(found, _outcomes(group, steps, unsure, first, harms))
            self.exact = self.exact and cell.run.exact
            self._put(cell)
        for key, thing in carried:
            before = thing.cell.counts()
            steps = group.of_thing(thing.cell.run, key)
            unsure = group.unsure(key)
            thing.cell.unsure += unsure
            self._put_back(key, thing, before, group.value(key))
            _add(found, _outcomes(group, steps, unsure, key, self._harms(key)))
        self._count_group(found)
        self.position = self.nothing.position
        return [
            JudgedStep(place, code, before, after, thing)
            for place, (code, thing, before, after, _) in found.items()
        ]

    def _count_group(self, found: dict[int, ThingOutcome]) -> None:
        """Counts the calls of a group: those that are in doubt behind those that are not."""
        for place, outcome in sorted(found.items(), key=_by_doubt):
            if outcome.doubted and not _is_counted(self.tally, outcome):
                found[place] = outcome._replace(code=PROGRESS, thing=None)
            count_code(self.tally, found[place].code)

    def _take_group_fresh(
        self, group: GroupCalls, heir: bytes | None, found: dict[int, ThingOutcome]
    ) -> None:
        """Has what a new thing begins with take a group."""
        if self.fresh is None:
            return
        steps, unsure = group.of_thing(self.fresh, None), group.unsure(None)
        self.fresh_unsure += unsure
        self.exact = self.exact and self.fresh.exact
        harms = self.fresh.tally.harmful_steps
        for place, outcome in _outcomes(group, steps, unsure, heir, harms):
            known = found.get(place)
            if known is None or heir is not None:
                found[place] = _worse(known, outcome)
            elif _worse(known, outcome) is not known:
                self.unclaimed = True

    def scatter(self, position: Position) -> None:
        """Sets the position of all runs, since calls may be missing here, of any thing."""
        cells, self.cells = self.cells, {}
        for run in (self.nothing, self.fresh, *(cell.run for cell in cells.values())):
            if run is not None:
                run.scatter(position)
                run.exact = False
        for cell in cells.values():
            self._put(cell)
        self.position, self.exact = position, False

    def spread(self, judge: Judge, symbols: tuple[int, ...], at_ns: int) -> None:
        """Moves on to where missing calls of some symbols may have led, of any thing, of a new one, too.

        `at_ns` is when the last of them may have been made.
        """
        self.exact = False
        self.loose_ns = max(self.loose_ns, at_ns)
        if self.fresh is None:
            self.fresh = self.nothing.copy()
        shared = judge.shared_of(symbols)
        if shared:
            self.nothing.reach(judge.stepper, shared)
        self.fresh.reach(judge.stepper, symbols)
        if not self.fresh_unsure and _is_same(self.fresh, self.nothing):
            self.fresh = None
        cells, self.cells = self.cells, {}
        for cell in cells.values():
            cell.run.reach(judge.stepper, symbols)
            self._put(cell)
        self.position = self.nothing.position

    def _count(self, before: ThingCounts, after: ThingCounts, size: int) -> None:
        self.harms += size * (after.harmful - before.harmful)
        self.substantive += size * (after.substantive - before.substantive)

    def _put(self, cell: ThingCell) -> None:
        """Adds a cell, or merges it into the one that is like it."""
        like = likeness(cell.run)
        other = self.cells.get(like)
        if other is None:
            self.cells[like] = cell
            return
        cell.into, cell.offset = other, cell.counts().minus(other.counts())
        other.size += cell.size

    def _take_out(self, judge: Judge, key: bytes, at_ns: int) -> PlacedThing:
        """A thing in a cell of its own, which is in no place until it is put."""
        assert judge.each is not None
        within, thing = judge.each.within_ns, self.placed(key)
        may_live = thing is not None and _may_live(self.loose_ns, judge, thing, at_ns)
        if thing is not None and not may_live and _is_past(judge, thing, at_ns):
            self._forget(key, thing)
            thing = None
        if thing is None:
            return self._begun(judge, key, at_ns)._replace(at_ns=at_ns if within else 0)
        if within:
            thing = thing._replace(at_ns=max(at_ns, thing.at_ns))
        cell = thing.cell
        if cell.size == 1:
            del self.cells[likeness(cell.run)]
        else:
            cell.size -= 1
            cell = ThingCell(cell.run.copy(), cell.unsure)
            cell.size = 1
        if may_live:
            cell.run.scatter(judge.anywhere)
            cell.run.exact = False
        return PlacedThing(cell, thing.offset, thing.value, thing.at_ns)

    def _outlast(self, judge: Judge, at_ns: int) -> None:
        """Forgets what calls that may be of any thing can have made of a new one, if they are too long ago."""
        assert judge.each is not None
        within = judge.each.within_ns
        if within and self.fresh is not None and at_ns - self.loose_ns > within:
            self.fresh, self.fresh_unsure = None, 0

    def _forget(self, key: bytes, thing: PlacedThing) -> None:
        """Takes a thing out for good."""
        cell = thing.cell
        cell.size -= 1
        if not cell.size:
            del self.cells[likeness(cell.run)]
        counts = thing.offset.plus(cell.counts())
        self.count -= 1
        self.harms -= counts.harmful
        self.substantive -= counts.substantive
        self.own[key] = None

    def forget_until(self, judge: Judge, at_ns: int) -> None:
        """Forgets the things whose last call is too long ago at a time."""
        assert judge.each is not None
        within = judge.each.within_ns
        if not within or at_ns <= self.expires_ns:
            return
        earliest = at_ns
        for key in [*self.table.things, *(k for k in self.own if k not in self.table.things)]:
            thing = self.placed(key)
            if thing is None:
                continue
            if _may_live(self.loose_ns, judge, thing, at_ns):
                earliest = min(earliest, self.loose_ns)
            elif _is_past(judge, thing, at_ns):
                self._forget(key, thing)
            else:
                earliest = min(earliest, thing.at_ns)
        self.expires_ns = earliest + within

    def visit(
        self, judge: Judge, token: int | None, key: bytes, at_ns: int, *, is_right: bool
    ) -> None:
        """Takes a call of another session on a thing that both carry: it moves the thing, and counts there.

        A call that its own session was right to make, and that this one cannot explain, was right by what only that
        session has. So the thing goes on from wherever it can have led. A harmful one of a thing that may be in several states
        is no reason to take it for harmless: it may have moved nothing.

        Args:
            judge: of the spec.
            token: of the call; None for calls that nobody saw: the thing may be anywhere.
            key: of the thing.
            at_ns: the call's `at`.
            is_right: False if it is harmful in its own session: then it moves nothing where it is harmful here, too.
        """
        self._outlast(judge, at_ns)
        thing = self._take_out(judge, key, at_ns)
        cell, before = thing.cell, thing.cell.counts()
        run = cell.run
        if token is None or (is_right and run.is_harmed(judge, token)):
            run.scatter(judge.anywhere)
            run.exact = False
        if token is not None:
            is_certain = run.ways is None and isinstance(run.position, int)
            run.step(judge, token if is_right or is_certain else vanishing(judge, token))
        after = cell.counts()
        moved = thing._replace(offset=thing.offset.plus(before).minus(after))
        self._put_back(key, moved, after, None)

    def visit_all(self, judge: Judge, token: int, at_ns: int) -> None:
        """Takes a call of another session whose values are not known: it may be of each thing, and of a new one."""
        self._outlast(judge, at_ns)
        self._step_all(judge, token, None, is_sure=False)
        self.loose_ns = max(self.loose_ns, at_ns)
        self.exact = False

    def run_of(self, judge: Judge, key: bytes, at_ns: int) -> AutomatonRun:
        """The run that a call of a thing at a time finds, as a copy."""
        thing = self.placed(key)
        may_live = thing is not None and _may_live(self.loose_ns, judge, thing, at_ns)
        if thing is None or (_is_past(judge, thing, at_ns) and not may_live):
            return self._beginning(judge, key, at_ns)
        found = thing.cell.run.copy()
        if may_live:
            found.scatter(judge.anywhere)
        return found

    def _beginning(self, judge: Judge, key: bytes, at_ns: int) -> AutomatonRun:
        """The run that a thing begins with: in any state, if it may have had calls that are not known."""
        found = self.beginning().copy()
        if self.table.has_forgotten(key) or at_ns < self.unseen_ns:
            found.scatter(judge.anywhere)
            found.exact = False
        return found

    def _begun(self, judge: Judge, key: bytes, at_ns: int) -> PlacedThing:
        cell = ThingCell(self._beginning(judge, key, at_ns), self.fresh_unsure)
        cell.size = 1
        self.count += 1
        self._count(NO_COUNTS, cell.counts(), 1)
        return PlacedThing(cell, NO_COUNTS, None)

    def _step_one(
        self, judge: Judge, token: int, key: bytes, thing: PlacedThing, value: Any
    ) -> ThingOutcome:
        """Steps a thing that was taken out, and puts it to those that are like it."""
        cell = thing.cell
        before = cell.counts()
        outcome = _stepped(cell.run, judge, token, key)
        self._put_back(key, thing, before, value)
        return self._of_thing(outcome, key)

    def _of_thing(self, outcome: ThingOutcome, key: bytes) -> ThingOutcome:
        """The outcome of a cell's run, as that of one of its things."""
        doubted = self._harms(key) if outcome.doubted else 0
        return outcome._replace(thing=key, doubted=doubted)

    def _put_back(
        self, key: bytes, thing: PlacedThing, before: ThingCounts, value: Any
    ) -> None:
        """Puts a thing that was taken out, and stepped, to those that are like it.

        Args:
            key: of the thing.
            thing: as it was taken out.
            before: what its cell had counted by then.
            value: that is shown, if the call has it.
        """
        cell = thing.cell
        self._count(before, cell.counts(), 1)
        self.exact = self.exact and cell.run.exact
        cell.first = key
        self._put(cell)
        self.own.pop(key, None)
        self.own[key] = PlacedThing(
            cell, thing.offset, value if thing.value is None else thing.value, thing.at_ns
        )


def _add(found: dict[int, ThingOutcome], outcomes: Iterable[tuple[int, ThingOutcome]]) -> None:
    """Adds the outcomes of one thing by place: of two verdicts on a call, the worse counts, of equals the first."""
    for place, outcome in outcomes:
        found[place] = _worse(found.get(place), outcome)


def _outcomes(
    group: GroupCalls, steps: Iterable[JudgedStep], unsure: int, thing: bytes | None, harms: int
) -> Iterator[tuple[int, ThingOutcome]]:
    """The steps of a thing in a group by place; `unsure` calls may be none of its, and it has so many harms by now."""
    for place, code, before, after, _ in steps:
        doubted = harms if group.is_doubted(place, code, before, unsure) else 0
        yield place, ThingOutcome(code, thing, before, after, doubted)


def _by_doubt(found: tuple[int, ThingOutcome]) -> tuple[bool, int]:
    return found[1].doubted > 0, found[0]


def _is_same(one: AutomatonRun, other: AutomatonRun) -> bool:
    """True if two runs went as far, and go on alike."""
    mine, its = one.tally, other.tally
    return (
        likeness(one) == likeness(other)
        and mine.harmful_steps == its.harmful_steps
        and mine.substantive == its.substantive
    )


def _found(cell: ThingCell, offset: ThingCounts) -> tuple[ThingCell, ThingCounts]:
    """The cell that a cell was merged into in the end, and the offset to it."""
    while cell.into is not None:
        offset = offset.plus(cell.offset)
        into = cell.into
        if into.into is not None:
            # Halves the way for whoever asks next.
            cell.offset, cell.into = cell.offset.plus(into.offset), into.into
        cell = into
    return cell, offset


def _stepped(run: AutomatonRun, judge: Judge, token: int, thing: bytes | None) -> ThingOutcome:
    before = run.position if run.ways is None else run.judged_at(judge, token)
    code = run.step(judge, token)
    doubtful = code >= HARMFUL and not judge.is_certain_call(before, token)
    return ThingOutcome(code, thing, before, run.position, doubtful)


def _is_in(run: ThingsRun, key: bytes, cell: ThingCell) -> bool:
    thing = run.placed(key)
    return thing is not None and thing.cell is cell


def _is_counted(tally: HarmTally, outcome: ThingOutcome) -> bool:
    """True if a thing has more harms than calls were harmful: then one more call is, whichever it is."""
    return outcome.doubted > tally.harmful_steps


def _is_past(judge: Judge, thing: PlacedThing, at_ns: int) -> bool:
    """True if a thing is forgotten at a time."""
    assert judge.each is not None
    within = judge.each.within_ns
    return within > 0 and at_ns - thing.at_ns > within


def _may_live(loose_ns: int, judge: Judge, thing: PlacedThing, at_ns: int) -> bool:
    """True if a thing is forgotten at a time, unless a call that may be of any thing, at `loose_ns`, was its own."""
    assert judge.each is not None
    is_loose = loose_ns > thing.at_ns and at_ns - loose_ns <= judge.each.within_ns
    return is_loose and _is_past(judge, thing, at_ns)
