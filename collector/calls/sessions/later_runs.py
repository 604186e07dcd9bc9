"""Which calls of a trace without a session id are of a later run of its agent, and so perhaps of another conversation.

Idea: without an id, a trace is a session. But a program may run its agent several times within one span of its own, and a
context that was not given back puts the next request below the span of the one before. These runs may be one conversation, or
several, and nothing says which.

A call is of a later run if it began after the span of an agent had ended, and

- no span of a framework (a workflow, an agent, a call) is above both, so that one run does not hold the other, and
- an agent of the same name is above the call; an agent of another name goes on with the same work.

While the agent above the call has not arrived, its name is open, so the call may be of a later run. A missing span that is
right above a call or a step is an agent's or a step's, not the program's. A span that ended before the call began holds nothing.

Example: `main` runs `rover` twice. The second run's `unlock` arrives, below a span that is missing, and the first run's span has
ended. `unlock` may be the first call of another conversation, so it is no certain harm. If it turns out that a workflow holds
both, they are one run.
"""

from __future__ import annotations

from typing import Final

from collector.calls.call.call import LogicalCall
from collector.calls.tree.span_tree import SpanNode, SpanTree

__all__ = ["RUNS_MAX", "is_of_later_run", "later_calls", "note_run"]

RUNS_MAX: Final = 64
"""Ends of agents' spans that are remembered of one trace."""


def note_run(tree: SpanTree, node: SpanNode, end_ns: int) -> None:
    """The span of an agent has ended."""
    if tree.runs is None:
        tree.runs = {}
    if len(tree.runs) < RUNS_MAX:
        tree.runs[node.span_id] = end_ns


def later_calls(tree: SpanTree) -> list[LogicalCall]:
    """The calls that began after the first end of an agent's span."""
    if tree.runs is None:
        return []
    first_ns = min(tree.runs.values())
    calls = [node.call for node in tree.calls()]
    return [each for each in calls if each is not None and each.outer.start_ns >= first_ns]


def is_of_later_run(tree: SpanTree, node: SpanNode, start_ns: int) -> bool:
    """True if a call that began then may be of another run of an agent than the calls before it."""
    runs = tree.runs
    if runs is None:
        return False
    ended = [span_id for span_id, end_ns in runs.items() if end_ns <= start_ns]
    if not ended:
        return False
    path = _path(tree, node, runs, start_ns)
    agent = next((each for each in path if each.span_id in runs), None)
    if agent is None and not (path and not path[-1].came):
        return False
    holding = _holding(path, runs)
    for span_id in ended:
        run = tree.node(span_id)
        if run is None or not run.came or (agent is not None and agent.agent != run.agent):
            continue
        if not any(above.span_id in holding for above in tree.ancestors(run)):
            return True
    return False


def _path(
    tree: SpanTree, node: SpanNode, runs: dict[bytes, int], start_ns: int
) -> list[SpanNode]:
    """The spans above a call that had not ended when it began, nearest first, as far as is known."""
    found: list[SpanNode] = []
    for above in tree.ancestors(node):
        if runs.get(above.span_id, start_ns + 1) <= start_ns:
            break
        found.append(above)
    return found


def _holding(path: list[SpanNode], runs: dict[bytes, int]) -> set[bytes]:
    """The spans of the path that are a framework's: all below one of them is one run."""
    found: set[bytes] = set()
    is_below_agent = False
    for each in path:
        if not each.foreign and (each.came or not is_below_agent):
            found.add(each.span_id)
        is_below_agent = each.span_id in runs
    return found
