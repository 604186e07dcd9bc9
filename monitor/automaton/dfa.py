"""The automaton of a task (papers/000 eq. 2): an immutable, partial table.

Idea: a step is one look-up. A missing entry is `UNDEFINED`, a harmful call. Invariant: the automaton holds
no session's state, so one automaton serves all sessions.

Example: states a, b and symbols go, look with a -go-> b, a -look-> a: the table is (1, 0, UNDEFINED, UNDEFINED).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

__all__ = ["UNDEFINED", "Area", "Automaton", "Digit", "Machine", "build"]

UNDEFINED: Final = -1


class Digit(NamedTuple):
    """One constraint's digit in a joint state, which is a number in mixed radix."""

    weight: int
    """Weight in the state of the whole machine."""
    radix: int
    own: int
    """Weight in the state of the area's machine."""


class Machine(Protocol):
    """A task's automaton, or constraints side by side: what a session steps. States are ints."""

    @property
    def symbols(self) -> tuple[str, ...]: ...
    @property
    def initial(self) -> int: ...

    def __hash__(self) -> int:
        """By identity."""

    def step(self, state: int, symbol: int) -> int:
        """Target of `symbol` in `state`; the state itself for a read; UNDEFINED for a harm."""

    def accepts(self, state: int) -> bool: ...

    def defined(self, state: int) -> tuple[int, ...]:
        """Symbols defined in `state`, in declaration order."""

    def progress(self, state: int) -> tuple[tuple[int, int], ...]:
        """(symbol, target) of the edges that change the state, in declaration order."""

    def name(self, state: int) -> str: ...

    def everywhere(self) -> tuple[int, ...]:
        """All states reachable from the initial one; () if they are too many to list."""

    def areas(self, together: Iterable[Collection[int]]) -> tuple[Area, ...]:
        """The machine split into areas whose states can be listed.

        Args:
            together: sets of symbols that one call may be: areas that heed symbols of one set share a group.
        """

    def heeds(self, symbol: int) -> int:
        """Bit mask of the parts of a state that decide on `symbol` or that it changes.

        Parts are independent, so two calls without a common part may change places. 0 for a symbol that
        is a self-loop in all states.
        """

    def likeness(self, symbol: int) -> tuple[int, ...]:
        """A value that is equal for symbols with the same targets in all states."""


class Area(NamedTuple):
    """A part of a machine that is small enough for its states to be listed."""

    machine: Machine
    """The part, as a machine over the same symbols."""
    states: tuple[int, ...]
    """Reachable states, ascending."""
    digits: tuple[Digit, ...]
    """The digits of its states in those of the whole machine."""
    group: int
    """Areas of different groups share no call. Areas of one group were cut from one that is too large."""

    def part(self, state: int) -> int:
        """The area's state within a state of the whole machine."""
        return sum(state // weight % radix * own for weight, radix, own in self.digits)

    def value(self, own_state: int) -> int:
        """The value that a state of the area adds to the state of the whole machine."""
        return sum(own_state // own % radix * weight for weight, radix, own in self.digits)


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """A partial DFA. `table[state * len(symbols) + symbol]` is the target or UNDEFINED. Compared by identity."""

    states: tuple[str, ...]
    symbols: tuple[str, ...]
    initial: int
    accepting: frozenset[int]
    table: tuple[int, ...]

    def step(self, state: int, symbol: int) -> int:
        """Target state, or UNDEFINED if the call is harmful (papers/000 section 2.1)."""
        return self.table[state * len(self.symbols) + symbol]

    def accepts(self, state: int) -> bool:
        return state in self.accepting

    def defined(self, state: int) -> tuple[int, ...]:
        width = len(self.symbols)
        row = self.table[state * width : (state + 1) * width]
        return tuple(symbol for symbol, target in enumerate(row) if target != UNDEFINED)

    def reads(self, state: int) -> tuple[int, ...]:
        """Symbols that loop in `state` (papers/000: reads and state-preserving writes)."""
        return tuple(
            symbol for symbol in self.defined(state) if self.step(state, symbol) == state
        )

    def progress(self, state: int) -> tuple[tuple[int, int], ...]:
        width = len(self.symbols)
        row = self.table[state * width : (state + 1) * width]
        return tuple([edge for edge in enumerate(row) if edge[1] not in (UNDEFINED, state)])

    def name(self, state: int) -> str:
        return self.states[state]

    def heeds(self, symbol: int) -> int:
        # The first states nearly always decide.
        return int(any(self.step(state, symbol) != state for state in range(len(self.states))))

    def likeness(self, symbol: int) -> tuple[int, ...]:
        return self.table[symbol :: len(self.symbols)]

    def areas(self, together: Iterable[Collection[int]]) -> tuple[Area, ...]:  # noqa: ARG002
        return (Area(self, self.everywhere(), (Digit(1, len(self.states), 1),), 0),)

    def everywhere(self) -> tuple[int, ...]:
        seen = {self.initial}
        todo = [self.initial]
        while todo:
            for _, target in self.progress(todo.pop()):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return tuple(sorted(seen))


def build(
    states: Iterable[str],
    symbols: Iterable[str],
    initial: str,
    accepting: Iterable[str],
    edges: Mapping[tuple[str, str], str],
) -> Automaton:
    """An automaton from names; `edges` maps (state, symbol) to the target state.

    Raises KeyError for a name that was not declared: callers validate first.
    """
    names, letters = tuple(states), tuple(symbols)
    number = {name: index for index, name in enumerate(names)}
    letter = {symbol: index for index, symbol in enumerate(letters)}
    table = [UNDEFINED] * (len(names) * len(letters))
    for (source, symbol), target in edges.items():
        table[number[source] * len(letters) + letter[symbol]] = number[target]
    return Automaton(
        states=names,
        symbols=letters,
        initial=number[initial],
        accepting=frozenset(number[name] for name in accepting),
        table=tuple(table),
    )
