"""The automaton of a task (papers/000 eq. 2): immutable, partial, stepped by look-up.

State belongs to the session, never to the automaton, so one automaton serves every session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

__all__ = ["UNDEFINED", "Area", "Automaton", "Digit", "Machine", "build"]

UNDEFINED: Final = -1


class Digit(NamedTuple):
    """Where one constraint's own state stands in a joint state, in mixed radix."""

    weight: int
    """In the state of the whole machine."""
    radix: int
    own: int
    """Its weight in the state of the area's machine."""


class Machine(Protocol):
    """What a session steps: a task's automaton, or constraints side by side. States are ints."""

    @property
    def symbols(self) -> tuple[str, ...]: ...
    @property
    def initial(self) -> int: ...

    def step(self, state: int, symbol: int) -> int:
        """Target of `symbol` in `state`; the state itself for a read; UNDEFINED for a harm."""

    def accepts(self, state: int) -> bool: ...

    def defined(self, state: int) -> tuple[int, ...]:
        """Symbols defined in `state`, in declaration order."""

    def name(self, state: int) -> str: ...

    def everywhere(self) -> tuple[int, ...]:
        """All states reachable from the initial one; () where they are too many to list."""

    def areas(self, together: Iterable[Collection[int]]) -> tuple[Area, ...]:
        """The machine in shares whose states can be listed.

        Args:
            together: symbols that one call may be: what looks at either of them is in one group.
        """

    def heeds(self, symbol: int) -> int:
        """Bit mask of the parts of a state that decide on `symbol`, or that it moves.

        Parts do not influence each other, so two calls that share no part may change places. 0 for
        a read of every state.
        """

    def likeness(self, symbol: int) -> tuple[int, ...]:
        """Equal for symbols that do the same in every state."""


class Area(NamedTuple):
    """A share of a machine, small enough for its states to be listed."""

    machine: Machine
    """The share, as a machine over the same symbols."""
    states: tuple[int, ...]
    """Its states that can be reached, ascending."""
    digits: tuple[Digit, ...]
    """How its states are read from those of the whole machine."""
    group: int
    """Areas of different groups share no call. Those of one group are parts of something too large."""

    def part(self, state: int) -> int:
        """The area's own share of a state of the whole machine."""
        return sum(state // weight % radix * own for weight, radix, own in self.digits)

    def value(self, own_state: int) -> int:
        """What a state of the area adds to the state of the whole machine."""
        return sum(own_state // own % radix * weight for weight, radix, own in self.digits)


@dataclass(frozen=True, slots=True)
class Automaton:
    """A partial DFA. `table[state * len(symbols) + symbol]` is the target or UNDEFINED."""

    states: tuple[str, ...]
    symbols: tuple[str, ...]
    initial: int
    accepting: frozenset[int]
    table: tuple[int, ...]

    def step(self, state: int, symbol: int) -> int:
        """Target state, or UNDEFINED where the call is harmful (papers/000 section 2.1)."""
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
        """(symbol, target) of the edges that change the state, in declaration order."""
        edges = ((symbol, self.step(state, symbol)) for symbol in self.defined(state))
        return tuple((symbol, target) for symbol, target in edges if target != state)

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
