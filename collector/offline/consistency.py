"""Repeated runs of one task: how alike an agent goes about it (papers/002 section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from collector.decode.span import Span
from collector.dialects.answers import answers
from collector.offline.replay import Recording
from monitor.reference.runs import SeenRun, sample, seen_call
from monitor.scores.consistency import Consistency, consistency, output_agreement
from monitor.session.session import UNKNOWN_AGENT

__all__ = [
    "AVERAGED",
    "AgentMeans",
    "TaskConsistency",
    "TaskRun",
    "agent_means",
    "repeats",
    "task_runs",
]

Judgement = Mapping[str, Any]

COMPARED_MAX: Final = 400
"""Runs of a group whose pairs are compared: 80,000 pairs take a few seconds."""

AVERAGED: Final = (
    "tss", "ac_paper", "ac_repository", "unique_sequences", "divergence_point",
    "first_two_agreement", "output_agreement",
)  # fmt: skip


class TaskRun(NamedTuple):
    """One run of a task."""

    agent: str
    task: str
    """ "" if nothing names it."""
    run: SeenRun
    answer: str
    """ "" if it is not on the wire."""


class TaskConsistency(NamedTuple):
    """An agent's runs of one task, compared in pairs."""

    agent: str
    task: str
    runs: int
    compared: int
    """Runs that are compared, a sample if there are very many."""
    scores: Consistency | None
    """None for a single run: there is nothing to compare it with."""
    answers: int
    """Compared runs whose final answer is known."""
    output_agreement: float | None
    """Exact-match rate of their final answers; None for fewer than two."""

    def value(self, name: str) -> float | None:
        """One of `AVERAGED`."""
        if name == "output_agreement":
            return self.output_agreement
        found: float | None = getattr(self.scores, name) if self.scores is not None else None
        return found

    def values(self) -> dict[str, float | None]:
        """All of `AVERAGED`, in that order."""
        return {name: self.value(name) for name in AVERAGED}

    def as_json(self) -> dict[str, Any]:
        """The group as a JSON object."""
        return {
            "agent": self.agent,
            "task": self.task or None,
            "runs": self.runs,
            "compared": self.compared,
            **self.values(),
            "answers": self.answers,
        }


# --- which run is of which task ---------------------------------------------------------------


def task_runs(
    recordings: Sequence[Recording], judgements: Iterable[Judgement], key: str | None = None
) -> Iterator[TaskRun]:
    """The runs of recordings, each with its task.

    A plain run names its task. A session's is the task spec that judges it, else the reference.

    Args:
        recordings: what was judged.
        judgements: the judgement objects of it, with arguments.
        key: an attribute of a span or a resource (a key of a plain run) that names the task
            instead.
    """
    for each in recordings:
        for run in each.runs:
            calls = (seen_call(c.tool, c.arguments, failed=c.failed) for c in run.calls)
            task = run.task if key is None else str(run.facts.get(key, ""))
            seen = SeenRun(run.session, run.agent, tuple(calls))
            yield TaskRun(run.agent or UNKNOWN_AGENT, task, seen, run.answer)
    spans = [span for each in recordings for batch in each.requests for span in batch]
    final, named = answers(spans), {} if key is None else _named(spans, key)
    for judged in _one_each(judgements, by_spec=key is None):
        yield _session(judged, final, named if key is not None else None)


def _named(spans: Iterable[Span], key: str) -> dict[bytes, str]:
    """The task of each trace that names one."""
    found: dict[bytes, str] = {}
    for span in spans:
        value = span.attributes().get(key, span.resource.attributes.get(key))
        if value is not None:
            found.setdefault(span.trace_id, str(value))
    return found


_RANK: Final = {"task": 0, "reference": 1, None: 2, "policy": 3}


def _one_each(judgements: Iterable[Judgement], *, by_spec: bool) -> Iterator[Judgement]:
    """Of each session with spans the judgements that stand for it: its tasks', else one."""
    sessions: dict[tuple[str, str], list[Judgement]] = {}
    for each in judgements:
        if each["source"] != "plain" and each["steps"]:
            sessions.setdefault((each["namespace"], each["session"]), []).append(each)
    for found in sessions.values():
        found.sort(key=lambda each: _RANK[each["spec_kind"]])
        tasks = [each for each in found if each["spec_kind"] == "task"]
        yield from tasks if tasks and by_spec else found[:1]


def _session(
    judged: Judgement, final: Mapping[bytes, str], named: Mapping[bytes, str] | None
) -> TaskRun:
    steps = judged["steps"]
    traces = [bytes.fromhex(step["trace_id"]) for step in steps]
    calls = (seen_call(step["tool"], step["arguments"], failed=step["error"]) for step in steps)
    run = SeenRun(judged["session"], judged["agent"], tuple(calls))
    if named is not None:
        task = next((named[trace] for trace in traces if trace in named), "")
    else:
        task = judged["spec"] or "" if judged["spec_kind"] in ("task", "reference") else ""
    return TaskRun(judged["agent"], task, run, final.get(traces[-1], ""))


# --- what they have in common -----------------------------------------------------------------


def repeats(runs: Iterable[TaskRun]) -> list[TaskConsistency]:
    """Each agent's runs of each task, compared; sorted by agent and task."""
    groups: dict[tuple[str, str], list[TaskRun]] = {}
    for each in runs:
        groups.setdefault((each.agent, each.task), []).append(each)
    return [_repeats(*key, groups[key]) for key in sorted(groups, key=_in_order)]


def _in_order(key: tuple[str, str]) -> tuple[str, int, str]:
    """Numbered tasks by their numbers."""
    agent, task = key
    return agent, int(task) if task.isdecimal() else -1, task


def _repeats(agent: str, task: str, runs: Sequence[TaskRun]) -> TaskConsistency:
    compared = sample((each.run for each in runs), COMPARED_MAX)
    chosen = {id(run) for run in compared}
    final = [each.answer for each in runs if each.answer and id(each.run) in chosen]
    return TaskConsistency(
        agent=agent,
        task=task,
        runs=len(runs),
        compared=len(compared),
        scores=consistency([call.call for call in run.calls] for run in compared)
        if len(compared) > 1
        else None,
        answers=len(final),
        output_agreement=output_agreement(final) if len(final) > 1 else None,
    )


class AgentMeans(NamedTuple):
    """An agent's means over the tasks it ran more than once."""

    agent: str
    tasks: int
    runs: int
    means: Mapping[str, float | None]
    """Means by `AVERAGED`, each over the tasks where it is defined."""

    def as_json(self) -> dict[str, Any]:
        """The agent as a JSON object."""
        return {"agent": self.agent, "tasks": self.tasks, "runs": self.runs, **self.means}


def agent_means(found: Iterable[TaskConsistency]) -> list[AgentMeans]:
    """Each agent's means, every task counting the same, as the paper has them."""
    agents: dict[str, list[TaskConsistency]] = {}
    for each in found:
        if each.scores is not None:
            agents.setdefault(each.agent, []).append(each)
    return [
        AgentMeans(
            agent,
            len(tasks),
            sum(each.runs for each in tasks),
            {name: _mean(each.value(name) for each in tasks) for name in AVERAGED},
        )
        for agent, tasks in agents.items()
    ]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
