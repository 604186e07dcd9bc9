"""Where a session may be: one state, or every state that is possible, each with its cost.

Idea: a position is an `int` while one state is certain. Then a step is CORE's step, to the letter.
Where knowledge is missing (arguments that are not on the wire, calls that were not seen), the
position holds every state that some completion of the missing parts leads to. The cost of a state
is the number of harms of its best completion, minus the number of harms of the best completion of
all.

Invariant: a call is harmful exactly if the least cost rises, so every completion has that many
harms. The number of harms is certain. Which calls they are is certain only where no completion
allows them (`Stepper.chances`). No state is ever dropped: a state more than `COST_MAX` harms behind
is kept at that cost. A cost that is too low makes no harm certain that is not.

Example: a session is in state 1, and only `pay` with `amount` up to 10 leads to state 2. A call
`pay` without its arguments may be that call (state 2, no harm) or a larger one (state 1, one harm).
The position is `((0b100, 0b010),)`: one area, with state 2 at cost 0 and state 1 at cost 1. A
second call that only state 1 allows is harmful: state 2 refuses it (one harm), and state 1 has one
harm already. No completion has fewer than one.

Representation: the states of one cost are the bits of one integer (a layer). So the number of
states hardly matters: a call that is refused nearly everywhere takes a few operations on whole
integers, and moves are shifts.

Policies: a machine of several constraints is split into areas (`monitor.automaton.dfa.Area`). A
position has layers for each area and stands for all their combinations. Areas of different groups
share no call, so the costs of a combination add up and nothing is lost. A group that is too large
is cut, and each of its areas is judged by itself. Then another area may refuse a call, so the call
may have had no effect, at the cost of one harm. A harm that one area proves is a harm of every
completion of the others, so all areas of the group are raised.

Source: sets of states as in the subset construction (Rabin and Scott 1959), with a cost per state
as in weighted automata; docs/decisions/0002-sets-of-states.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import islice, product
from typing import Final, NamedTuple

from monitor.automaton.dfa import UNDEFINED, Area, Machine

__all__ = [
    "COST_MAX",
    "LISTED_MAX",
    "Chances",
    "Position",
    "StepEffect",
    "SteppedToken",
    "Stepper",
]

Layers = tuple[int, ...]
"""The states of one area as bits, by their cost; the first layer has some."""

Position = int | tuple[Layers, ...]

COST_MAX: Final = 8
"""Highest cost of a state. States further behind the best one are kept at this cost."""

LISTED_MAX: Final = 16
"""Most states that are listed of those a session may be in."""

CACHE_MAX: Final = 16_384
"""Bound of one spec's step cache, which is cleared when it is full."""

REACHED_MAX: Final = 1_024
"""Bound of the cache of `Stepper.reach`."""

_WORD: Final = 1_024
_AREA: Final = 16
"""A cached position of `_WORD` states weighs as much as one step; each area adds the weight of `_AREA` states."""


class StepEffect(IntEnum):
    """The effect of a step on the position."""

    PROGRESS = 0
    SELF_LOOP = 1
    HARMFUL = 2


class AutomatonStep(NamedTuple):
    """The position after a call, and the call's effect."""

    position: Position
    effect: StepEffect


class Chances(NamedTuple):
    """What a call may have been, over all states of the position and all readings."""

    right: bool
    """True if at least one of them allows the call."""
    wrong: bool
    """True if at least one of them refuses the call."""


class _Moves(NamedTuple):
    """The moves of one symbol in an area, as sets of states."""

    defined: int
    loops: int
    shifts: tuple[tuple[int, int], ...]
    """(distance, states): each of these states leads to the one `distance` bits higher."""


class _Taken(NamedTuple):
    """Where a call leads in one area; both lists are by the cost of the states before it."""

    right: list[int]
    """States after allowed readings."""
    wrong: list[int]
    """States that refuse some reading; a refused call leaves them as they are."""
    moved: bool
    """True if the call leaves a state of least cost."""


class _Places:
    """One area of a machine; its states are bits."""

    __slots__ = (
        "_index",
        "_machine",
        "_moves",
        "_part",
        "_values",
        "accepting",
        "all",
        "group",
    )

    def __init__(self, area: Area) -> None:
        self._part = area.part
        self._machine = area.machine
        self._index = {state: index for index, state in enumerate(area.states)}
        self._values = [area.value(state) for state in area.states]
        self._moves: dict[int, _Moves] = {}
        self.group = area.group
        self.all = (1 << len(area.states)) - 1
        self.accepting = self.where(area.machine.accepts(state) for state in area.states)

    def where(self, answers: Iterable[bool]) -> int:
        """The states with a true answer; answers come in the order of the states."""
        found = 0
        for index, answer in enumerate(answers):
            if answer:
                found |= 1 << index
        return found

    def bit(self, state: int) -> int:
        """The bit of the area's state within a state of the whole machine."""
        return 1 << self._index[self._part(state)]

    def values(self, states: int) -> Iterator[int]:
        """The values that the area's states add to a state of the whole machine."""
        while states:
            lowest = states & -states
            yield self._values[lowest.bit_length() - 1]
            states ^= lowest

    def heeds(self, symbol: int) -> bool:
        return bool(self._machine.heeds(symbol))

    def moves(self, symbol: int) -> _Moves:
        found = self._moves.get(symbol)
        if found is None:
            found = self._moves[symbol] = self._look(symbol)
        return found

    def _look(self, symbol: int) -> _Moves:
        if not self._machine.heeds(symbol):
            return _Moves(self.all, self.all, ())
        defined = loops = 0
        shifts: dict[int, int] = {}
        for state, index in self._index.items():
            target = self._machine.step(state, symbol)
            if target == UNDEFINED:
                continue
            defined |= 1 << index
            if target == state:
                loops |= 1 << index
            else:
                distance = self._index[target] - index
                shifts[distance] = shifts.get(distance, 0) | 1 << index
        return _Moves(defined, loops, tuple(shifts.items()))

    def take(
        self,
        layers: Layers,
        readings: Sequence[int],
        *,
        effect: bool,
        falters: bool,
        right: bool,
        wrong: bool,
    ) -> _Taken:
        """Where a call leads.

        Args:
            layers: the states before it.
            readings: symbols that it may be.
            effect: False if an allowed call changes nothing.
            falters: True if an allowed call may also change nothing.
            right: the call may be none of the readings, and is then allowed and changes nothing.
            wrong: the call may be none of the readings, and is then refused.
        """
        rights: list[int] = []
        wrongs: list[int] = []
        moved = False
        for states in layers:
            allowed = states if right else 0
            refused = states if wrong else 0
            for symbol in readings:
                defined, loops, shifts = self.moves(symbol)
                refused |= states & ~defined
                if not effect or falters:
                    allowed |= states & defined
                if not effect:
                    continue
                allowed |= states & loops
                for distance, leaving in shifts:
                    going = states & leaving
                    if going:
                        allowed |= going << distance if distance > 0 else going >> -distance
                        moved = moved or not rights
            rights.append(allowed)
            wrongs.append(refused)
        return _Taken(rights, wrongs, moved)

    def reach(self, layers: Layers, symbols: Sequence[int]) -> Layers:
        """The states that any number of allowed calls of some symbols lead to, at the cost of where they began."""
        moves = [self.moves(symbol).shifts for symbol in symbols if self.heeds(symbol)]
        found: list[int] = []
        for layer in layers:
            states = new = layer
            while new:
                after = 0
                for shifts in moves:
                    for distance, leaving in shifts:
                        going = new & leaving
                        if going:
                            after |= going << distance if distance > 0 else going >> -distance
                new = after & ~states
                states |= new
            found.append(states)
        return _settled(found)


def _settled(layers: Sequence[int]) -> Layers:
    """The layers with each state at its least cost only, which is at most `COST_MAX`."""
    found: list[int] = []
    seen = 0
    for cost, layer in enumerate(layers):
        states = layer & ~seen
        seen |= states
        if cost > COST_MAX:
            found[COST_MAX] |= states
        else:
            found.append(states)
    while found[-1] == 0:
        found.pop()
    return tuple(found)


def _raised(layers: Sequence[int]) -> list[int]:
    """The layers relative to a certain harm: no completion has fewer, so costs 0 and 1 both become 0."""
    first = layers[0] | (layers[1] if len(layers) > 1 else 0)
    return [first, *layers[2:]]


class SteppedToken(NamedTuple):
    """What a step depends on of a token."""

    readings: tuple[int, ...]
    """The symbols it may be; empty if it matches none."""
    effect: bool = True
    """False for a failed call that changes nothing."""
    certain: bool = True
    """False if a call may be none of its symbols. Such a call changes nothing in an open world (a policy); else it is harmful."""
    fails: bool = False
    """True if the failure alone makes a call of the spec's symbols harmful."""
    falters: bool = False
    """True if an allowed call may also change nothing: whether it failed is not known."""
    vanishes: bool = False
    """True if the call may not have been made here at all."""


class Stepper:
    """Steps positions of one machine by token, with a bounded cache.

    Args:
        machine: the machine.
        tokens: what each token says.
        open_world: whether calls that match no symbol are not judged (a policy).
    """

    __slots__ = (
        "_cache",
        "_may_be_none",
        "_open_world",
        "_places",
        "_reached",
        "_size",
        "_tokens",
        "_touched",
        "_weight",
        "heeds",
        "kinds",
        "machine",
        "whole",
    )

    def __init__(
        self, machine: Machine, tokens: Sequence[SteppedToken], *, open_world: bool
    ) -> None:
        self.machine = machine
        self._tokens = tuple(tokens)
        self._open_world = open_world
        self._may_be_none = tuple(
            not each.certain or not (each.readings or each.fails) for each in self._tokens
        )
        """Whether a call may be none of its symbols, by token."""
        self._cache: tuple[dict[Position, AutomatonStep], ...] = tuple({} for _ in tokens)
        self._reached: dict[tuple[Position, tuple[int, ...]], Position] = {}
        self._size = 0
        self._places: tuple[_Places, ...] = ()
        """The machine's areas, once they are needed."""
        self._touched: dict[int, tuple[int, ...]] = {}
        """Areas that look at a token, by token."""
        self._weight = 1
        self.whole = True
        """False if a group of constraints is cut, once areas are needed."""
        self.heeds = tuple(self._heeds(token) for token in self._tokens)
        """Bit mask of the machine's parts (`Machine.heeds`) by token; all of them if one is not sure.

        0 for a token that is the same in every position, and leaves it as it is.
        """
        self.kinds = self._likened()
        """First token that does the same in every position, by token."""

    def _heeds(self, token: SteppedToken) -> int:
        found = 0
        for symbol in token.readings:
            found |= self.machine.heeds(symbol)
        sure = len(token.readings) == 1 and token.certain
        sure = sure and not (token.falters or token.vanishes)
        return found if sure or not found else -1

    def _likened(self) -> tuple[int, ...]:
        alike: dict[tuple[int, ...], int] = {}
        like = {
            symbol: alike.setdefault(self.machine.likeness(symbol), symbol)
            for symbol in {symbol for token in self._tokens for symbol in token.readings}
        }
        first: dict[SteppedToken, int] = {}
        kinds: list[int] = []
        for number, token in enumerate(self._tokens):
            kind = token._replace(readings=tuple(like[symbol] for symbol in token.readings))
            kinds.append(first.setdefault(kind, number))
        return tuple(kinds)

    def readings(self, token: int) -> tuple[int, ...]:
        """The symbols a token may be."""
        return self._tokens[token].readings

    def under(self, machine: Machine) -> Stepper:
        """A stepper for the same tokens and another machine over the same symbols."""
        return Stepper(machine, self._tokens, open_world=self._open_world)

    # --- positions --------------------------------------------------------------------------------

    def start(self) -> Position:
        """Position of a session seen from its first call."""
        return self.machine.initial

    def anywhere(self) -> Position:
        """Position of a session joined in the middle: every reachable state."""
        return self._position([(place.all,) for place in self._areas()])

    def reach(self, position: Position, symbols: tuple[int, ...]) -> Position:
        """Every state that any number of allowed calls of some symbols may lead to from a position, cached."""
        key = (position, symbols)
        found = self._reached.get(key)
        if found is None:
            layers = zip(self._areas(), self._layers(position), strict=True)
            found = self._position([place.reach(each, symbols) for place, each in layers])
            if len(self._reached) >= REACHED_MAX:
                self._reached.clear()
            self._reached[key] = found
        return found

    def loose(self, position: Position) -> Position:
        """The same states, each without cost."""
        if isinstance(position, int):
            return position
        found: list[Layers] = []
        for layers in position:
            states = 0
            for layer in layers:
                states |= layer
            found.append((states,))
        return self._position(found)

    def _areas(self) -> tuple[_Places, ...]:
        if not self._places:
            areas = self.machine.areas(dict.fromkeys(token.readings for token in self._tokens))
            self._places = tuple(_Places(area) for area in areas)
            self.whole = len({area.group for area in areas}) == len(areas)
            self._weight = 1 + sum(_AREA + len(area.states) for area in areas) // _WORD
        return self._places

    def _position(self, found: Sequence[Layers]) -> Position:
        """The position of these layers: an int if they are one state."""
        state = 0
        for place, layers in zip(self._areas(), found, strict=True):
            if len(layers) > 1 or layers[0].bit_count() > 1:
                return tuple(found)
            state += next(place.values(layers[0]))
        return state

    def _layers(self, position: Position) -> tuple[Layers, ...]:
        if isinstance(position, int):
            return tuple((place.bit(position),) for place in self._areas())
        return position

    def union(self, positions: Iterable[Position], behind: Sequence[int] = ()) -> Position:
        """The union of some positions.

        Args:
            positions: some positions.
            behind: additional harms of each position, 0 for at least one of them; () means 0 for all.
        """
        different = list(
            dict.fromkeys(
                zip(positions, behind, strict=True)
                if behind
                else ((position, 0) for position in positions)
            )
        )
        if len(different) == 1:
            return different[0][0]
        best = [self._layers(position) for position, harms in different if not harms]
        found = [_merged(layers) for layers in zip(*best, strict=True)]
        for position, harms in different:
            if harms:
                layers = _put_behind(self._layers(position), harms, found)
                found = [_merged(each) for each in zip(found, layers, strict=True)]
        return self._position(found)

    def likely(self, position: Position) -> tuple[int, ...]:
        """The states of least cost, the first `LISTED_MAX` of them."""
        if isinstance(position, int):
            return (position,)
        each = [
            list(islice(place.values(layers[0]), LISTED_MAX))
            for place, layers in zip(self._areas(), position, strict=True)
        ]
        return tuple(sorted(map(sum, islice(product(*each), LISTED_MAX))))

    def likely_each(self, position: Position) -> Iterator[int]:
        """States of least cost: each state of one area, combined with the first state of every other area."""
        if isinstance(position, int):
            yield position
            return
        areas = list(zip(self._areas(), position, strict=True))
        firsts = [next(place.values(layers[0])) for place, layers in areas]
        for (place, layers), first in zip(areas, firsts, strict=True):
            for value in place.values(layers[0]):
                yield sum(firsts) - first + value

    def likely_count(self, position: Position) -> int:
        """The number of states of least cost."""
        found = 1
        if not isinstance(position, int):
            for layers in position:
                found *= layers[0].bit_count()
        return found

    def accepts(self, position: Position) -> bool:
        """True if every state of least cost accepts."""
        if isinstance(position, int):
            return self.machine.accepts(position)
        return all(
            not layers[0] & ~place.accepting
            for place, layers in zip(self._areas(), position, strict=True)
        )

    def cannot_accept(self, position: Position) -> bool:
        """True if no state of the position accepts."""
        if isinstance(position, int):
            return not self.machine.accepts(position)
        return any(
            not any(states & place.accepting for states in layers)
            for place, layers in zip(self._areas(), position, strict=True)
        )

    def possible(self, position: Position) -> list[list[int]]:
        """By area, the values that the position's states add to a state of the machine."""
        return [
            [value for states in layers for value in place.values(states)]
            for place, layers in zip(self._areas(), self._layers(position), strict=True)
        ]

    def allows(self, position: Position, symbol: int) -> bool:
        """True if a symbol is defined in a state of least cost."""
        if isinstance(position, int):
            return self.machine.step(position, symbol) != UNDEFINED
        return all(
            layers[0] & place.moves(symbol).defined
            for place, layers in zip(self._areas(), position, strict=True)
        )

    # --- steps ------------------------------------------------------------------------------------

    def step(self, position: Position, token: int) -> AutomatonStep:
        """The step from `position` by `token`. A harmful call leaves a single state unchanged."""
        found = self._cache[token].get(position)
        return found if found is not None else self._remember(position, token)

    def _remember(self, position: Position, token: int) -> AutomatonStep:
        if self._size >= CACHE_MAX:
            for cache in self._cache:
                cache.clear()
            self._size = 0
        if isinstance(position, int):
            step = self._step_one(position, token)
        else:
            step = self._step_many(position, token)
        self._cache[token][position] = step
        self._size += 1 if isinstance(step.position, int) else self._weight
        return step

    def _step_one(self, state: int, token: int) -> AutomatonStep:
        targets, wrong = self._targets(state, token)
        if not targets:
            return AutomatonStep(state, StepEffect.HARMFUL)
        moved = any(target != state for target in targets)
        effect = StepEffect.PROGRESS if moved else StepEffect.SELF_LOOP
        if len(targets) == 1 and not (wrong and moved):
            return AutomatonStep(next(iter(targets)), effect)
        layers = [
            _merged([(place.bit(target),) for target in targets]) for place in self._areas()
        ]
        if wrong:
            stays = [(0, place.bit(state)) for place in self._areas()]
            layers = [_merged(each) for each in zip(layers, stays, strict=True)]
        return AutomatonStep(self._position(layers), effect)

    def _targets(self, state: int, token: int) -> tuple[set[int], bool]:
        """The targets of the allowed readings of a call, and whether some reading is refused."""
        readings, effect, _, wrong, falters, vanishes = self._tokens[token]
        targets: set[int] = set()
        for symbol in readings:
            target = self.machine.step(state, symbol)
            if target == UNDEFINED:
                wrong = True
            else:
                targets.add(target if effect else state)
                if falters:
                    targets.add(state)
        if vanishes:
            targets.add(state)
        if self._may_be_none[token]:
            if self._open_world:
                targets.add(state)
            else:
                wrong = True
        return targets, wrong

    def _is_nothing_right(self, token: int) -> bool:
        """True if a call may be none of its symbols, and is then allowed."""
        may_be_none = self._may_be_none[token] and self._open_world
        return may_be_none or self._tokens[token].vanishes

    def _heeding(self, token: int) -> tuple[int, ...]:
        found = self._touched.get(token)
        if found is None:
            readings = self._tokens[token].readings
            found = self._touched[token] = tuple(
                index
                for index, place in enumerate(self._areas())
                if any(place.heeds(symbol) for symbol in readings)
            )
        return found

    def _take(self, position: tuple[Layers, ...], token: int) -> list[_Taken]:
        said, places = self._tokens[token], self._areas()
        return [
            places[index].take(
                position[index],
                said.readings,
                effect=said.effect,
                falters=said.falters,
                right=self._is_nothing_right(token),
                wrong=self._may_be_none[token] and not self._open_world,
            )
            for index in self._heeding(token)
        ]

    def _step_many(self, position: tuple[Layers, ...], token: int) -> AutomatonStep:
        if not self._tokens[token].readings:
            right = self._is_nothing_right(token)
            return AutomatonStep(
                position, StepEffect.SELF_LOOP if right else StepEffect.HARMFUL
            )
        taken = self._take(position, token)
        if not all(any(each.right) for each in taken):
            return AutomatonStep(position, StepEffect.HARMFUL)
        if not taken:
            return AutomatonStep(position, StepEffect.SELF_LOOP)
        refusing = [any(each.wrong) for each in taken]
        after: list[Sequence[int]] = list(position)
        harm, heeding = False, self._heeding(token)
        for number, index in enumerate(heeding):
            # Another area of the group may refuse what this one allows.
            others = any(refusing[:number]) or any(refusing[number + 1 :])
            after[index] = _after(position[index], taken[number], refused=others)
            harm = harm or not after[index][0]
        if harm:
            group = self._areas()[heeding[0]].group
            for index, place in enumerate(self._areas()):
                if place.group == group:
                    after[index] = _raised(after[index])
        effect = StepEffect.HARMFUL
        if not harm:
            moved = any(each.moved for each in taken)
            effect = StepEffect.PROGRESS if moved else StepEffect.SELF_LOOP
        return AutomatonStep(self._position([_settled(layers) for layers in after]), effect)

    def chances(self, position: Position, token: int) -> Chances:
        """What a call may have been at a position, over all its states and readings."""
        if isinstance(position, int):
            targets, wrong = self._targets(position, token)
            return Chances(bool(targets), wrong)
        may_be_none, said = self._may_be_none[token], self._tokens[token]
        if not said.readings:
            refused = said.fails or not (may_be_none and self._open_world)
            return Chances(self._is_nothing_right(token), refused)
        taken = self._take(position, token)
        # No area may look at the readings, and the call may be none of them.
        none = may_be_none and not self._open_world
        wrong = none or any(any(each.wrong) for each in taken)
        return Chances(all(any(each.right) for each in taken), wrong)


def _after(layers: Layers, taken: _Taken, *, refused: bool) -> list[int]:
    """The states after a call, by cost; `refused` if another area may refuse the call."""
    found = [0] * (len(layers) + 1)
    for cost, states in enumerate(layers):
        found[cost] |= taken.right[cost]
        found[cost + 1] |= taken.wrong[cost] | (states if refused else 0)
    return found


def _put_behind(each: tuple[Layers, ...], harms: int, best: Sequence[Layers]) -> list[Layers]:
    """The layers of all areas with `harms` added to the cost.

    Costs of areas are summed, so one area gets the harms: the first with a state that is cheaper than in `best`.
    """
    found = list(each)
    for index, (layers, known) in enumerate(zip(each, best, strict=True)):
        if _is_cheaper(layers, known):
            found[index] = (0,) * harms + layers
            break
    return found


def _is_cheaper(layers: Layers, known: Layers) -> bool:
    """True if some state has a lower cost than in `known`, or is not in it."""
    as_cheap = 0
    for cost, states in enumerate(layers):
        if cost < len(known):
            as_cheap |= known[cost]
        if states & ~as_cheap:
            return True
    return False


def _merged(each: Iterable[Layers]) -> Layers:
    """The union of some layers; each state at its least cost."""
    found: list[int] = []
    for layers in each:
        for cost, states in enumerate(layers):
            if cost == len(found):
                found.append(0)
            found[cost] |= states
    return _settled(found)
