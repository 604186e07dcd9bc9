"""How often agents succeeded, by task: what `--record` brings beside the risk.

The record of an agent is no part of the risk: it says nothing of the run. It is what is known of the agent before its first call.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from collector.archive.connection import FAULTS
from collector.archive.reader import TooSlowError
from collector.archive.schema import NewerSchemaError, OlderSchemaError
from collector.client.api_client import NoAnswerError
from collector.config.sources import SettingsError, load
from collector.offline.learn import BadLabels, Keys, read_files
from collector.offline.past_sessions.export import (
    ExportError,
    archive_of,
    is_database,
    place_told,
    read_sessions,
)
from collector.offline.replay import files_of

__all__ = ["AgentRecords", "read_records"]

ARCHIVE: Final = "archive"
"""Stands for the folder of `archive.dir`, as the environment has it."""

AGENTS_MAX: Final = 1_000
"""Agents whose records a reference keeps, those of most runs first."""


class AgentRecords:
    """Successes and failures of agents, by task."""

    def __init__(self) -> None:
        self._tasks: dict[str, dict[str, tuple[int, int]]] = {}
        """Agent -> task -> successes, failures."""
        self.runs = 0

    def add(self, agent: str, task: str, *, success: bool) -> None:
        """Counts one run."""
        if agent and task:
            tasks = self._tasks.setdefault(agent, {})
            good, bad = tasks.get(task, (0, 0))
            tasks[task] = good + success, bad + (not success)
            self.runs += 1

    @property
    def agents(self) -> int:
        """Number of agents."""
        return len(self._tasks)

    def elsewhere(self, task: str) -> dict[str, tuple[int, int]]:
        """Agent -> successes and failures at all tasks but one."""
        found = {
            agent: _sum(counts for name, counts in tasks.items() if name != task)
            for agent, tasks in self._tasks.items()
        }
        ranked = sorted(found, key=lambda agent: (-sum(found[agent]), agent))
        return {agent: found[agent] for agent in ranked[:AGENTS_MAX] if sum(found[agent])}


def _sum(counts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    good = bad = 0
    for succeeded, failed in counts:
        good, bad = good + succeeded, bad + failed
    return good, bad


def read_records(
    place: str, keys: Keys, success: str | None = None, labels: Path | None = None
) -> AgentRecords:
    """The records of a file or folder of runs, or of an archive.

    Args:
        place: recorded runs; the folder of an archive, or the address of a service; `archive`: that of `archive.dir`.
        keys: where runs say their task and agent.
        success: ATTR=VALUE of a successful run; of an archive, a run succeeded that ended where its task is done,
            without a harmful call.
        labels: a file of outcomes.

    Raises:
        BadInput: a file cannot be read.
        BadLabels: there is no such archive, or outcomes cannot be read, or no run has an agent and a task.
    """
    archive = _archive(place)
    found = AgentRecords()
    if archive is None:
        if not Path(place).exists():
            raise BadLabels(f"--record {place}: no such file or folder")
        for run in read_files(files_of([Path(place)]), success, labels, None, keys).runs:
            if run.success is not None:
                found.add(run.agent, run.task, success=run.success)
    else:
        for judgement in _judgements(archive):
            if _has_outcome(judgement):
                fine = bool(judgement["accepting"]) and not judgement["harmful"]
                found.add(judgement["agent"], judgement["spec"], success=fine)
    if not found.runs:
        raise BadLabels(
            f"--record {place_told(place)}: no run there has an agent, a task and an outcome"
        )
    return found


def _archive(place: str) -> str | None:
    """Where the archive is; None if the place has recorded runs."""
    if place != ARCHIVE:
        try:
            archive_of(place)
        except ExportError as problem:
            if is_database(place):
                raise BadLabels(f"--record: {problem}") from None
            return None
        return place
    try:
        archive = load(None, os.environ, {}).archive
    except SettingsError as problem:
        raise BadLabels(f"--record archive: {problem}") from None
    if not archive.is_on:
        why = "neither OFFRAILS_ARCHIVE_DIR nor OFFRAILS_ARCHIVE_URL names an archive"
        raise BadLabels(f"--record archive: {why}")
    return str(archive.dir or archive.url.get_secret_value())


def _judgements(place: str) -> Iterator[Mapping[str, Any]]:
    try:
        yield from read_sessions(place)
    except (ExportError, NoAnswerError, TooSlowError) as problem:
        raise BadLabels(f"--record: {problem}") from None
    except (*FAULTS, NewerSchemaError, OlderSchemaError) as problem:
        why = f"the archive cannot be read: {problem}"
        raise BadLabels(f"--record {place_told(place)}: {why}") from None


def _has_outcome(judgement: Mapping[str, Any]) -> bool:
    """Whether a past session tells how it went: it has ended, and a task judged all of it."""
    whole = judgement["ended"] not in (None, "evicted") and not judgement["joined"]
    return judgement["spec_kind"] == "task" and whole
