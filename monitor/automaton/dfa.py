"""The automaton of a task (papers/000 eq. 2): immutable, partial, stepped by look-up.

State belongs to the session, never to the automaton, so one automaton serves every session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["UNDEFINED", "Automaton", "Machine", "build"]

UNDEFINED: Final = -1


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

    def heeds(self, symbol: int) -> int:
        """Bit mask of the parts of a state that decide on `symbol`, or that it moves.

        Parts know nothing of each other, so what shares none may change places. 0 for a read of
        every state.
        """

    def likeness(self, symbol: int) -> tuple[int, ...]:
        """Equal for symbols that do the same in every state."""


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
        # Nearly always the first states tell.
        return int(any(self.step(state, symbol) != state for state in range(len(self.states))))

    def likeness(self, symbol: int) -> tuple[int, ...]:
        return self.table[symbol :: len(self.symbols)]

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
