"""A machine as plain data, for whoever draws it."""

from __future__ import annotations

from typing import Any

from monitor.automaton.dfa import Machine

__all__ = ["DRAWN_MAX", "graph"]

DRAWN_MAX = 300
"""More states than this are no picture."""


def graph(machine: Machine) -> dict[str, Any]:
    """States that can be reached, and edges; those between the same two states are one.

    Returns:
        `states` with `name`, `initial` and `accepting`; `edges` with `source` and `target`
        (places in `states`) and `symbols`; an edge that ends where it starts is its state's reads.

    Raises:
        ValueError: the machine has more than `DRAWN_MAX` states, or too many to list.
    """
    states = machine.everywhere()
    if not states or len(states) > DRAWN_MAX:
        raise ValueError("too many states to draw")
    place = {state: index for index, state in enumerate(states)}
    edges: dict[tuple[int, int], list[str]] = {}
    for source in states:
        for symbol in machine.defined(source):
            between = place[source], place[machine.step(source, symbol)]
            edges.setdefault(between, []).append(machine.symbols[symbol])
    return {
        "states": [
            {
                "name": machine.name(state),
                "initial": state == machine.initial,
                "accepting": machine.accepts(state),
            }
            for state in states
        ],
        "edges": [
            {"source": source, "target": target, "symbols": symbols}
            for (source, target), symbols in edges.items()
        ],
    }
