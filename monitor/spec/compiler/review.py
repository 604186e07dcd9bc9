"""What is broken or doubtful in a learnt reference: found when it is loaded, reported by `check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from monitor.spec.document.faults import Notes
from monitor.spec.learnt_reference import FALSE_PER_1000_MAX, Alarm, LearntReference

__all__ = ["review"]

PAGING: Final = ("new_write_tool", "agreed_arguments", "missing_write")
"""Alarms that are worth a page."""


def review(learnt: LearntReference, notes: Notes) -> None:
    """Notes what is wrong with a reference whose document has the right shape."""
    _tools(learnt, notes)
    _tree(learnt, notes)
    _counts(learnt, notes)
    _worth(learnt, notes)
    _risk(learnt, notes)


def _tools(learnt: LearntReference, notes: Notes) -> None:
    for tool, count in Counter(learnt.tools).items():
        if count > 1:
            notes.add("duplicate_tool", f"{tool!r} is listed {count} times", "tools")
    known = set(learnt.tools)
    named: Mapping[str, Iterable[str]] = {
        "writes": sorted(learnt.writes),
        "expected_writes": learnt.expected_writes,
        "medoid": dict.fromkeys(learnt.medoid),
        "write_calls": learnt.write_calls,
        "agreed_arguments": learnt.agreed_arguments,
    }
    for key, tools in named.items():
        for tool in tools:
            if tool not in known:
                notes.add("unseen_tool", f"no run called {tool!r}", key)
    for tool in learnt.expected_writes:
        if tool not in learnt.writes:
            notes.add("expected_read", f"{tool!r} is not among the writes", "expected_writes")


def _tree(learnt: LearntReference, notes: Notes) -> None:
    """No two nodes for one way, and no node with more runs than the way to it."""
    seen: set[tuple[int, int]] = set()
    below: Counter[int] = Counter()
    for number, node in enumerate(learnt.nodes):
        if (node.parent, node.tool) in seen:
            tool = learnt.tools[node.tool]
            notes.add("broken_tree", f"node {number}: {tool!r} is there twice", "tree", number)
        seen.add((node.parent, node.tool))
        if number:
            below[node.parent] += node.runs
    for number, node in enumerate(learnt.nodes):
        # A tree that was cut to its most frequent nodes lacks some runs below, but never has more.
        if below[number] + node.ends > node.runs:
            message = (
                f"node {number}: {below[number]} runs go on and {node.ends} end, of {node.runs}"
            )
            notes.add("contradicting_counts", message, "tree", number)


def _counts(learnt: LearntReference, notes: Notes) -> None:
    if learnt.nodes[0].runs != learnt.runs:
        message = (
            f"the tree is of {learnt.nodes[0].runs} runs, but {learnt.runs} were learnt from"
        )
        notes.add("contradicting_counts", message, "learnt", "runs")
    for tool, (good, bad) in learnt.called_by.items():
        if good > learnt.successes or bad > learnt.failures:
            notes.add(
                "contradicting_counts", f"more runs called {tool!r} than there were", "risk"
            )


def _worth(learnt: LearntReference, notes: Notes) -> None:
    if learnt.runs < 2:
        notes.add("few_runs", f"learnt from {learnt.runs} usual runs", "learnt", "runs")
    if not learnt.writes:
        notes.add("no_writes", "no tool is said to write", "writes")
    key, alarms = (
        ("split_alarms", learnt.split_alarms)
        if learnt.split_alarms
        else ("alarms", learnt.alarms)
    )
    # What was learnt before the two kinds of unexpected writes were told apart has one figure for both.
    old = () if PAGING[0] in alarms else ("unexpected_write",)
    for name in (*old, *PAGING):
        alarm = alarms.get(name)
        if alarm is not None and alarm.false_per_1000 > FALSE_PER_1000_MAX:
            notes.add("noisy_alarm", _noise(name, alarm), key, name)


def _noise(name: str, alarm: Alarm) -> str:
    return (
        f"{name} was raised in {alarm.raised} of {alarm.runs} recorded runs, "
        f"{alarm.false_per_1000:.0f} false alarms per 1,000 runs"
    )


def _risk(learnt: LearntReference, notes: Notes) -> None:
    """Says where the risk does not apply, for nothing else shows it: a session has a risk all the same."""
    model = learnt.model
    if model is not None and not learnt.runs:
        notes.add(
            "no_risk", "no usual run to compare with by the risk of other tasks", "risk_model"
        )
    elif model is not None and model.alarm >= 1:
        notes.add(
            "no_risk", "too few successes taught when its alarm is right", "risk_model", "alarm"
        )
