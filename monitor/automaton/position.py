"""Where a session may be: normally one state, else a set of states with costs.

A position is an `int` while one state is certain (then everything is CORE to the letter). Where
knowledge is missing it is a tuple of (state, cost) pairs sorted by state: a state's cost is the
number of harms that reading of the session needs above the least. `ANYWHERE` stands for more
states than are worth listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from monitor.automaton.dfa import UNDEFINED, Machine

__all__ = [
    "ANYWHERE",
    "COST_MAX",
    "STATES_MAX",
    "Outcome",
    "Position",
    "Stepper",
    "likely",
    "union",
]

Position = int | tuple[tuple[int, int], ...]

STATES_MAX: Final = 16
"""Beyond this a set says too little to be worth its memory: the position becomes ANYWHERE."""

COST_MAX: Final = 2
"""A reading three harms behind the best one is no longer believed."""

CACHE_MAX: Final = 16_384
"""Bound of one spec's step cache; reaching it empties the cache, so cost stays flat."""

ANYWHERE: Final[Position] = ()


class Outcome(IntEnum):
    """What a step did to the position."""

    PROGRESS = 0
    SELF_LOOP = 1
    HARMFUL = 2


class Step(NamedTuple):
    """The position after a call, and what the call was."""

    position: Position
    outcome: Outcome


def likely(position: Position) -> tuple[int, ...]:
    """The states of least cost; () where the session may be anywhere."""
    if isinstance(position, int):
        return (position,)
    return tuple(state for state, cost in position if cost == 0)


def union(positions: Iterable[Position]) -> Position:
    """Everywhere that one of the positions may be; ANYWHERE where one of them is."""
    pairs: list[tuple[int, int]] = []
    for position in positions:
        if position == ANYWHERE:
            return ANYWHERE
        pairs += ((position, 0),) if isinstance(position, int) else position
    return _settle(pairs)


class Stepper:
    """Steps positions of one machine by token, with a bounded cache.

    `readings[token]` are the symbols a token may be (none: it matches nothing), `effects[token]`
    is False for a failed call that changes nothing. In an `open_world` (a policy) an unmatched
    call changes nothing, and an uncertain one (`certain[token]` False) may be none of its symbols.
    """

    __slots__ = (
        "_cache",
        "_certain",
        "_effects",
        "_open_world",
        "_readings",
        "_size",
        "heeds",
        "kinds",
        "machine",
    )

    def __init__(
        self,
        machine: Machine,
        readings: Sequence[tuple[int, ...]],
        effects: Sequence[bool],
        certain: Sequence[bool],
        *,
        open_world: bool,
    ) -> None:
        self.machine = machine
        self._readings = tuple(readings)
        self._effects = tuple(effects)
        self._certain = tuple(certain)
        self._open_world = open_world
        self._cache: tuple[dict[Position, Step], ...] = tuple({} for _ in readings)
        self._size = 0
        self.heeds = tuple(self._heeds(token) for token in range(len(self._readings)))
        """By token a bit mask of the machine's parts (`Machine.heeds`); all where one is not sure.

        0 for a token that is the same in every position, and leaves it as it is.
        """
        self.kinds = self._likened()
        """By token the first one that does the same in every position."""

    def _heeds(self, token: int) -> int:
        readings = self._readings[token]
        found = 0
        for symbol in readings:
            found |= self.machine.heeds(symbol)
        sure = len(readings) == 1 and (self._certain[token] or not self._open_world)
        return found if sure or not found else -1

    def _likened(self) -> tuple[int, ...]:
        alike: dict[tuple[int, ...], int] = {}
        like = {
            symbol: alike.setdefault(self.machine.likeness(symbol), symbol)
            for symbol in {symbol for readings in self._readings for symbol in readings}
        }
        first: dict[tuple[tuple[int, ...], bool, bool], int] = {}
        kinds: list[int] = []
        for token, readings in enumerate(self._readings):
            key = (
                tuple(like[symbol] for symbol in readings),
                self._effects[token],
                self._certain[token],
            )
            kinds.append(first.setdefault(key, token))
        return tuple(kinds)

    def readings(self, token: int) -> tuple[int, ...]:
        """The symbols a token may be."""
        return self._readings[token]

    def under(self, machine: Machine) -> Stepper:
        """The stepper of the same tokens by another machine over the same symbols."""
        return Stepper(
            machine,
            self._readings,
            self._effects,
            self._certain,
            open_world=self._open_world,
        )

    def start(self) -> Position:
        """Position of a session seen from its first call."""
        return self.machine.initial

    def anywhere(self) -> Position:
        """Position of a session joined in the middle: every reachable state."""
        return _settle((state, 0) for state in self.machine.everywhere())

    def step(self, position: Position, token: int) -> Step:
        """The step from `position` by `token`; a harmful one leaves a single state unchanged."""
        found = self._cache[token].get(position)
        return found if found is not None else self._remember(position, token)

    def _remember(self, position: Position, token: int) -> Step:
        if self._size >= CACHE_MAX:
            for cache in self._cache:
                cache.clear()
            self._size = 0
        step = self._take(position, token)
        self._cache[token][position] = step
        self._size += 1
        return step

    def _take(self, position: Position, token: int) -> Step:
        if position == ANYWHERE:
            lost = not self._readings[token] and not self._open_world
            return Step(ANYWHERE, Outcome.HARMFUL if lost else Outcome.SELF_LOOP)
        pairs = ((position, 0),) if isinstance(position, int) else position
        moves = [move for state, cost in pairs for move in self._moves(state, cost, token)]
        least = min(cost for _, cost, _ in moves)
        after = _settle((state, cost - least) for state, cost, _ in moves)
        if least:
            return Step(after, Outcome.HARMFUL)
        moved = any(moved for _, cost, moved in moves if cost == 0)
        return Step(after, Outcome.PROGRESS if moved else Outcome.SELF_LOOP)

    def _moves(self, state: int, cost: int, token: int) -> list[tuple[int, int, bool]]:
        """(target, cost, moved) for each defined reading in `state`; a harm where none is."""
        targets = {
            target
            for symbol in self._readings[token]
            if (target := self.machine.step(state, symbol)) != UNDEFINED
        }
        if targets and not self._effects[token]:
            targets = {state}
        if self._open_world and (not self._certain[token] or not self._readings[token]):
            targets.add(state)
        if not targets:
            return [(state, cost + 1, False)]
        return [(target, cost, target != state) for target in sorted(targets)]


def _settle(pairs: Iterable[tuple[int, int]]) -> Position:
    """The pairs as a position: least cost a state, far readings dropped, one state as an int."""
    best: dict[int, int] = {}
    for state, cost in pairs:
        if cost <= COST_MAX and cost < best.get(state, COST_MAX + 1):
            best[state] = cost
    if len(best) > STATES_MAX or not best:
        return ANYWHERE
    if len(best) == 1:
        return next(iter(best))
    return tuple(sorted(best.items()))
