"""A reference's prefix tree as text for other programs: Mermaid and Graphviz."""

from __future__ import annotations

from typing import Final

from monitor.drawing.diagram import dot_text, mermaid_text
from monitor.spec.learnt_reference import LearntReference

__all__ = ["NODES_DRAWN", "dot", "mermaid"]

NODES_DRAWN: Final = 60
"""Nodes of most runs that are drawn; the medoid always is."""


def mermaid(learnt: LearntReference, title: str) -> str:
    """A Mermaid flowchart of the nodes of most runs; the medoid and writing tools are marked."""
    shown = _shown(learnt)
    lines = ["---", f'title: "{mermaid_text(_title(learnt, title))}"', "---", "flowchart LR"]
    for node in shown:
        text = f"{mermaid_text(_tool(learnt, node))}: {learnt.nodes[node].runs}"
        lines.append(f'    n{node}(["{text}"])' if not node else f'    n{node}["{text}"]')
    lines += [f"    n{learnt.nodes[node].parent} --> n{node}" for node in shown[1:]]
    lines.append("    classDef medoid stroke:#2f7d3b,stroke-width:3px")
    lines.append("    classDef writes fill:#fff3dc")
    for kind, nodes in (("medoid", _medoid_nodes(learnt)), ("writes", _writing(learnt, shown))):
        if nodes:
            lines.append(f"    class {','.join(f'n{node}' for node in nodes)} {kind}")
    return "\n".join(lines) + "\n"


def dot(learnt: LearntReference, title: str) -> str:
    """The same as a Graphviz digraph."""
    shown, medoid = _shown(learnt), frozenset(_medoid_nodes(learnt))
    writing = frozenset(_writing(learnt, shown))
    lines = ["digraph reference {", "    rankdir=LR;", "    node [shape=box style=filled];"]
    lines.append(f"    label={dot_text(_title(learnt, title))};")
    for node in shown:
        text = dot_text(f"{_tool(learnt, node)}: {learnt.nodes[node].runs}")
        fill = "#fff3dc" if node in writing else "#f3f6f9"
        thick = ' color="#2f7d3b" penwidth=3' if node in medoid else ""
        lines.append(f'    n{node} [label={text} fillcolor="{fill}"{thick}];')
    lines += [f"    n{learnt.nodes[node].parent} -> n{node};" for node in shown[1:]]
    return "\n".join([*lines, "}"]) + "\n"


def _title(learnt: LearntReference, title: str) -> str:
    """The title, and what the whole run tells of its outcome."""
    area = learnt.ceiling.area if learnt.ceiling is not None else None
    return title if area is None else f"{title} (ceiling {area:.2f})"


def _shown(learnt: LearntReference) -> list[int]:
    """The nodes of most runs, with the medoid's; parents before children."""
    most = min(NODES_DRAWN, len(learnt.nodes))
    return sorted({*range(most), *_medoid_nodes(learnt)})


def _medoid_nodes(learnt: LearntReference) -> tuple[int, ...]:
    """The nodes of the medoid, from the root as far as the tree holds it."""
    number = {
        (node.parent, learnt.tools[node.tool]): place
        for place, node in enumerate(learnt.nodes)
        if place
    }
    found = [0]
    for tool in learnt.medoid:
        below = number.get((found[-1], tool))
        if below is None:
            break
        found.append(below)
    return tuple(found)


def _writing(learnt: LearntReference, shown: list[int]) -> list[int]:
    return [node for node in shown if node and _tool(learnt, node) in learnt.writes]


def _tool(learnt: LearntReference, node: int) -> str:
    return learnt.tools[learnt.nodes[node].tool] if node else "start"
