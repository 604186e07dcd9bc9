"""A task spec drafted from runs: a learnt automaton as a document for a person to review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.spec.document.write import flow, name

__all__ = ["DraftAutomaton", "accepts", "draft_text", "pruned", "support"]

Edge = tuple[int, str]
"""A state and a tool called in it."""


@dataclass(frozen=True, slots=True)
class DraftAutomaton:
    """A deterministic automaton over tools' names; 0 is where runs begin."""

    edges: Mapping[Edge, int]
    ends: frozenset[int]
    """States in which a run may end."""

    @property
    def states(self) -> list[int]:
        """The states that can be reached, breadth first."""
        found = [0]
        for state in found:  # grows while it is read
            for tool in sorted(tool for source, tool in self.edges if source == state):
                target = self.edges[state, tool]
                if target not in found:
                    found.append(target)
        return found


def accepts(model: DraftAutomaton, word: Iterable[str]) -> bool:
    """Whether a run is one of the model's."""
    state: int | None = 0
    for tool in word:
        state = model.edges.get((state, tool)) if state is not None else None
    return state in model.ends


def support(model: DraftAutomaton, words: Iterable[Sequence[str]]) -> Counter[Edge]:
    """In how many of the runs each edge is taken."""
    found: Counter[Edge] = Counter()
    for word in words:
        state, taken = 0, set()
        for tool in word:
            target = model.edges.get((state, tool))
            if target is None:
                break
            taken.add((state, tool))
            state = target
        found.update(taken)
    return found


def pruned(
    model: DraftAutomaton, words: Sequence[Sequence[str]], least: float
) -> DraftAutomaton:
    """The model without edges that fewer than `least` runs take, and what they alone led to."""
    taken = support(model, words)
    kept = {edge: to for edge, to in model.edges.items() if taken[edge] >= least}
    reachable = set(DraftAutomaton(kept, model.ends).states)
    ends = model.ends & reachable
    leading = _leading(kept, ends)
    edges = {edge: to for edge, to in kept.items() if edge[0] in reachable and to in leading}
    return DraftAutomaton(edges, ends)


def _leading(edges: Mapping[Edge, int], ends: frozenset[int]) -> set[int]:
    """States from which a run can end."""
    found, grown = set(ends), True
    while grown:
        more = {source for (source, _), target in edges.items() if target in found} - found
        found |= more
        grown = bool(more)
    return found


# --- the document -----------------------------------------------------------------------------


def draft_text(
    model: DraftAutomaton, id_: str, match: Mapping[str, Any], comment: Iterable[str] = ()
) -> str:
    """The model as a spec document.

    Args:
        model: not empty.
        id_: of the spec.
        match: which sessions it judges; none: those that name it.
        comment: lines of a comment on top.
    """
    return "\n".join(_lines(model, id_, match, comment)) + "\n"


def _lines(
    model: DraftAutomaton, id_: str, match: Mapping[str, Any], comment: Iterable[str]
) -> Iterator[str]:
    names = _names(model)
    tools = sorted({tool for state, tool in model.edges if state in names})
    yield "# A draft, learnt from recorded runs: read it from top to bottom before it is used."
    yield from (f"# {line}" for line in comment)
    yield ""
    yield f"id: {flow(id_)}"
    yield "kind: task"
    yield "mode: shadow"
    if match:
        yield "match:"
        yield from (f"  {flow(key)}: {flow(value)}" for key, value in match.items())
    yield "\n# Any arguments will do: where one decides, say so here."
    yield "alphabet:"
    yield from (f"  {name(tool)}: {{tool: {flow(tool)}}}" for tool in tools)
    yield f"\ninitial: {name(names[0])}"
    yield f"accepting: [{', '.join(name(names[s]) for s in names if s in model.ends)}]"
    yield "transitions:"
    for state in names:
        yield f"  {name(names[state])}: {{{', '.join(_row(model, names, state))}}}"
    loops = [state for state in names if _loops(model, state)]
    if loops:
        yield "\n# Calls that were repeated."
        yield "reads:"
    for state in loops:
        yield f"  {name(names[state])}: [{', '.join(map(name, _loops(model, state)))}]"


def _names(model: DraftAutomaton) -> dict[int, str]:
    """States by the call that leads to them, numbered where several calls of a tool do."""
    last = {target: tool for (_, tool), target in sorted(model.edges.items(), reverse=True)}
    found: dict[int, str] = {}
    used: Counter[str] = Counter()
    for state in model.states:
        text = f"after {last[state]}" if state else "start"
        used[text] += 1
        found[state] = text if used[text] == 1 else f"{text} ({used[text]})"
    return found


def _row(model: DraftAutomaton, names: Mapping[int, str], state: int) -> Iterator[str]:
    for (source, tool), target in sorted(model.edges.items()):
        if source == state != target:
            yield f"{name(tool)}: {name(names[target])}"


def _loops(model: DraftAutomaton, state: int) -> list[str]:
    return sorted(tool for (source, tool), to in model.edges.items() if source == state == to)
