"""Pictures of a machine as text, from the same table that is stepped.

Names are text of strangers: whatever could end a label or start a statement is escaped.
"""

from __future__ import annotations

from monitor.automaton.dfa import Machine

__all__ = [
    "dot",
    "dot_text",
    "machine_edges",
    "machine_states",
    "mermaid",
    "mermaid_text",
    "visible",
]


def mermaid(machine: Machine, title: str = "") -> str:
    """A Mermaid `stateDiagram-v2` of the states that can be reached.

    Edges between the same two states are merged, reads are one dashed-looking loop ("reads: ..."),
    accepting states lead to the end mark and have a thick border.

    Raises:
        ValueError: the machine has too many states to list.
    """
    states = machine_states(machine)
    accepting = [state for state in states if machine.accepts(state)]
    lines = ["---", f'title: "{mermaid_text(title)}"', "---"] if title else []
    lines += ["stateDiagram-v2", "    direction LR"]
    lines += [
        f'    state "{mermaid_text(machine.name(state))}" as s{state}' for state in states
    ]
    lines.append(f"    [*] --> s{machine.initial}")
    for source, target, label in _edges(machine, states):
        lines.append(f"    s{source} --> s{target} : {mermaid_text(label)}")
    lines += [f"    s{state} --> [*]" for state in accepting]
    if accepting:
        lines.append("    classDef accepting stroke-width:4px")
        lines.append(f"    class {','.join(f's{state}' for state in accepting)} accepting")
    return "\n".join(lines) + "\n"


def dot(machine: Machine, title: str = "") -> str:
    """A Graphviz digraph of the states that can be reached; accepting states are doubled.

    Raises:
        ValueError: the machine has too many states to list.
    """
    states = machine_states(machine)
    lines = ["digraph spec {", "    rankdir=LR;", "    node [shape=circle];"]
    if title:
        lines.append(f"    label={dot_text(title)};")
    lines.append("    start [shape=point];")
    for state in states:
        shape = " shape=doublecircle" if machine.accepts(state) else ""
        lines.append(f"    s{state} [label={dot_text(machine.name(state))}{shape}];")
    lines.append(f"    start -> s{machine.initial};")
    for source, target, label in _edges(machine, states):
        style = " style=dashed" if source == target else ""
        lines.append(f"    s{source} -> s{target} [label={dot_text(label)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def machine_states(machine: Machine) -> tuple[int, ...]:
    """The states that can be reached.

    Raises:
        ValueError: there are too many of them.
    """
    states = machine.everywhere()
    if not states:
        raise ValueError("too many states to draw")
    return states


def machine_edges(
    machine: Machine, states: tuple[int, ...]
) -> list[tuple[int, int, list[str]]]:
    """(source, target, symbols), one for each pair of states, progress before the reads' loop."""
    edges: list[tuple[int, int, list[str]]] = []
    for source in states:
        labels: dict[int, list[str]] = {}
        for symbol in machine.defined(source):
            labels.setdefault(machine.step(source, symbol), []).append(machine.symbols[symbol])
        reads = labels.pop(source, [])
        edges += [(source, target, names) for target, names in labels.items()]
        if reads:
            edges.append((source, source, reads))
    return edges


def _edges(machine: Machine, states: tuple[int, ...]) -> list[tuple[int, int, str]]:
    """The same with one text for each edge."""
    return [
        (source, target, ("reads: " if source == target else "") + ", ".join(names))
        for source, target, names in machine_edges(machine, states)
    ]


_PLAIN = frozenset(" _-.,'()/=*+[]")


def mermaid_text(text: str) -> str:
    """Mermaid has entity codes (`#35;`) for everything that is not plain in a label."""
    return "".join(
        char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in visible(text)
    )


def dot_text(text: str) -> str:
    """The text as a quoted DOT string."""
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def visible(text: str) -> str:
    """The text on one line: control and other unprintable characters become spaces."""
    return "".join(char if char.isprintable() else " " for char in text)
