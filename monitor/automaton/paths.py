"""Searches a machine's graph: reachable states, golden paths, shortest legal ways.

Only progress edges are followed (papers/000 section 2.1), since a read leaves the state as it is. All
searches are bounded, because the states of constraints side by side are too many to list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count, islice
from typing import Final

from monitor.automaton.dfa import UNDEFINED, Machine

__all__ = [
    "STATES_MAX",
    "count_golden",
    "dead_states",
    "forget_ways",
    "golden_lengths",
    "golden_paths",
    "progress_cycles",
    "reachable",
    "reachable_symbols",
    "shortest_way",
    "walk_golden",
]

STATES_MAX: Final = 10_000
"""States a search visits before it gives up: 10 ms at a few edges a state."""

EDGES_MAX: Final = 1_000_000
"""Edges the search for golden paths tries: about half a second."""

COUNT_MAX: Final = 10**15
"""Count of golden paths above which it is only "at least"."""

_CACHE_MAX: Final = 4_096

Word = tuple[int, ...]


def reachable(
    machine: Machine, sources: Iterable[int], limit: int = STATES_MAX
) -> tuple[int, ...] | None:
    """States reachable from `sources`, breadth first, sources included; None above `limit`."""
    found = dict.fromkeys(sources)
    queue = list(found)
    for state in queue:  # grows while it is read
        for _, target in machine.progress(state):
            if target not in found:
                if len(found) >= limit:
                    return None
                found[target] = None
                queue.append(target)
    return tuple(queue)


# --- cached, because each harmful call needs them; machines are told apart by identity ---------


@lru_cache(_CACHE_MAX)
def shortest_way(machine: Machine, sources: tuple[int, ...], symbol: int) -> Word | None:
    """Symbols of a shortest legal way to a state where `symbol` is defined.

    Args:
        machine: the machine.
        sources: states the session may be in; ties go to the first, then to declaration order.
        symbol: the symbol to reach.

    Returns:
        () if a source defines it; None if none of the first `STATES_MAX` states does.
    """
    came_from: dict[int, tuple[int, int] | None] = dict.fromkeys(sources)
    queue = list(came_from)
    for state in queue:
        if machine.step(state, symbol) != UNDEFINED:
            return _word_to(state, came_from)
        if len(queue) >= STATES_MAX:
            continue
        for letter, target in machine.progress(state):
            if target not in came_from:
                came_from[target] = (state, letter)
                queue.append(target)
    return None


def _word_to(state: int, came_from: dict[int, tuple[int, int] | None]) -> Word:
    word: list[int] = []
    while (step := came_from[state]) is not None:
        state, letter = step
        word.append(letter)
    return tuple(reversed(word))


@lru_cache(_CACHE_MAX)
def reachable_symbols(machine: Machine, state: int) -> frozenset[int]:
    """Symbols defined in some state reachable from `state`, its own included.

    If more than `STATES_MAX` states are reachable: all symbols, since none can be ruled out.
    """
    ahead = reachable(machine, (state,))
    if ahead is None:
        return frozenset(range(len(machine.symbols)))
    return frozenset(symbol for reached in ahead for symbol in machine.defined(reached))


def forget_ways() -> None:
    """Drops what these searches have found: other machines are in use, and what was found holds the old ones."""
    shortest_way.cache_clear()
    reachable_symbols.cache_clear()


# --- shape ------------------------------------------------------------------------------------


def _live(machine: Machine, states: Iterable[int]) -> set[int]:
    """The states from which an accepting state can be reached; `states` must be closed under steps."""
    sources: dict[int, list[int]] = {}
    for state in states:
        sources.setdefault(state, [])
        for _, target in machine.progress(state):
            sources.setdefault(target, []).append(state)
    live = {state for state in sources if machine.accepts(state)}
    todo = list(live)
    while todo:
        for source in sources[todo.pop()]:
            if source not in live:
                live.add(source)
                todo.append(source)
    return live


def dead_states(machine: Machine, limit: int = STATES_MAX) -> tuple[int, ...]:
    """Reachable states from which no accepting state can be reached, breadth first.

    () if the machine has more than `limit` states.
    """
    states = reachable(machine, (machine.initial,), limit)
    if states is None:
        return ()
    live = _live(machine, states)
    return tuple(state for state in states if state not in live)


def progress_cycles(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Groups of reachable states on a common cycle of progress edges, each sorted.

    () if the machine has more than `STATES_MAX` states.
    """
    states = reachable(machine, (machine.initial,)) or ()
    return tuple(tuple(sorted(group)) for group in _components(machine, states) if group[1:])


def _components(machine: Machine, states: Iterable[int]) -> list[list[int]]:
    """Strongly connected components, last ones first (Tarjan 1972, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in states:
        if root in number:
            continue
        calls = [(root, _enter(machine, root, number, low, stack, on_stack))]
        while calls:
            state, edges = calls[-1]
            for _, target in edges:
                if target not in number:
                    calls.append(
                        (target, _enter(machine, target, number, low, stack, on_stack))
                    )
                    break
                if target in on_stack:
                    low[state] = min(low[state], number[target])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[state])
                if low[state] == number[state]:
                    found.append(_pop_component(state, stack, on_stack))
    return found


def _enter(
    machine: Machine,
    state: int,
    number: dict[int, int],
    low: dict[int, int],
    stack: list[int],
    on_stack: set[int],
) -> Iterator[tuple[int, int]]:
    number[state] = low[state] = len(number)
    stack.append(state)
    on_stack.add(state)
    return iter(machine.progress(state))


def _pop_component(state: int, stack: list[int], on_stack: set[int]) -> list[int]:
    group = [stack.pop()]
    while group[-1] != state:
        group.append(stack.pop())
    on_stack.difference_update(group)
    return group


# --- golden paths (papers/000 section 2.2) ----------------------------------------------------


def golden_paths(machine: Machine, limit: int) -> tuple[Word, ...]:
    """The first `limit` golden paths: accepting, loop-free and harm-free, in declaration order.

    A golden path is an accepting word over progress edges that visits no state twice. If the initial
    state accepts, the empty word is one.
    """
    found: list[Word] = []
    for word in walk_golden(machine):
        if word is None or len(found) >= limit:
            break
        found.append(word)
    return tuple(found)


def walk_golden(machine: Machine) -> Iterator[Word | None]:
    """Golden paths one by one; the last item is None if the search gives up.

    It gives up after `EDGES_MAX` edges, or if more than `STATES_MAX` states are reachable.
    """
    states = reachable(machine, (machine.initial,))
    if states is None:
        yield None
        return
    live = _live(machine, states)
    if machine.initial not in live:
        return
    edges = {
        state: [edge for edge in machine.progress(state) if edge[1] in live] for state in live
    }
    word: list[int] = []
    trail = [(machine.initial, iter(edges[machine.initial]))]
    visited = {machine.initial}
    if machine.accepts(machine.initial):
        yield ()
    for tried in count():
        if tried > EDGES_MAX:
            yield None
            return
        step = next(trail[-1][1], None)
        if step is None:
            visited.discard(trail.pop()[0])
            if not trail:
                return
            word.pop()
        elif step[1] not in visited:
            word.append(step[0])
            visited.add(step[1])
            trail.append((step[1], iter(edges[step[1]])))
            if machine.accepts(step[1]):
                yield tuple(word)


def count_golden(machine: Machine, limit: int) -> int:
    """The number of golden paths.

    Without progress cycles it is exact up to `COUNT_MAX`. With cycles, or with too many states to list,
    counting stops at `limit` + 1; this is also the result if the search gives up.
    """
    order = _ends_first(machine)
    if order is None:
        words = list(islice(walk_golden(machine), limit + 1))
        return limit + 1 if None in words else len(words)
    ways: dict[int, int] = {}
    for state in order:
        onward = sum(ways[target] for _, target in machine.progress(state))
        ways[state] = min(COUNT_MAX, onward + machine.accepts(state))
    return ways[machine.initial]


def golden_lengths(machine: Machine, limit: int) -> tuple[int, ...]:
    """The distinct lengths of the golden paths, ascending (the set under eq. 8's maximum).

    With progress cycles, only the first `limit` golden paths count.
    """
    order = _ends_first(machine)
    if order is None:
        return tuple(sorted({len(word) for word in golden_paths(machine, limit)}))
    lengths: dict[int, int] = {}  # bit n: some accepting path of n steps starts here
    for state in order:
        mask = int(machine.accepts(state))
        for _, target in machine.progress(state):
            mask |= lengths[target] << 1
        lengths[state] = mask
    mask = lengths[machine.initial]
    return tuple(n for n in range(mask.bit_length()) if mask >> n & 1)


def _ends_first(machine: Machine) -> list[int] | None:
    """Reachable states in reverse topological order; None with a progress cycle or too many states."""
    states = reachable(machine, (machine.initial,))
    if states is None:
        return None
    groups = _components(machine, states)
    return None if any(group[1:] for group in groups) else [group[0] for group in groups]
