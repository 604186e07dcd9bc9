"""`offrails learn --risk`: runs of many tasks -> a reference of each, and one risk for all of them."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from collector import __version__
from collector.offline.learn import (
    BadLabels,
    Files,
    Keys,
    given_writes,
    page_lines,
    read_files,
    risk_alarm_line,
)
from collector.offline.progress_bar import Progress
from collector.offline.risk.agent_records import read_records
from collector.offline.risk.protocol import DRAWS, TAUGHT_DRAWS, evaluation, without_groups
from collector.offline.risk.task_references import by_task, taught_examples
from collector.offline.risk.train_model import TooFewRuns, TrainedRisk, train, trainer
from monitor.findings import has_errors, printable
from monitor.reference.document import reference_text
from monitor.reference.learn import learn, split_figures, tells_origins
from monitor.reference.settings import VERSION
from monitor.spec.compiler.compile import compile_text
from monitor.spec.learnt_reference import LearntReference, RiskCeiling

__all__ = ["evaluate_files", "learn_tasks"]

NAME_MAX: Final = 80
LEAST_TOLD: Final = 3
"""Tasks that are named whose whole runs tell least."""
NO_DEFAULT: Final = (
    "no risk is shipped that would apply: one of other agents and tasks did worse than chance before the end "
    "(docs/references.md#what-it-reaches)"
)
SUCCESS: Final = "success=true"
"""Attribute, or key of plain runs, of outcomes, where neither option names another."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def learn_tasks(
    files: Sequence[Path],
    out: Path,
    *,
    id_: str,
    keys: Keys,
    writes: str | None = None,
    success: str | None = None,
    labels: Path | None = None,
    record: str | None = None,
    false_pages: float | None = None,
) -> Iterator[str]:
    """Learns a risk and a reference of each task, and writes a folder; what to know comes as lines.

    Args:
        files: OTLP/JSON lines or plain runs, of many tasks.
        out: the folder.
        id_: of the risk.
        keys: where runs say their task and agent.
        writes: tools that change something, with commas between; None: inferred.
        success: ATTR=VALUE of a successful run; None without labels: success=true.
        labels: a file of outcomes.
        record: runs, or an archive, of agents' own success at other tasks (`read_records`).
        false_pages: pages in usual runs, of 1,000, that are to be promised at most; None: no bound.

    Raises:
        NoTrainer: the extra is not installed.
        BadInput: a file cannot be read.
        BadLabels: outcomes or tasks cannot be read, the folder has files in it, or a task has a name or runs of
            which no reference can be made.
    """
    trainer()
    _empty(out)
    outcome = _outcome(success, labels)
    given = None if writes is None else given_writes(writes)
    found = _read(files, keys, outcome, labels, given)
    records = None if record is None else read_records(record, keys, outcome, labels)
    tasks = by_task(found.runs)
    source = {"files": found.files, "version": __version__, "settings": VERSION}
    # What alarms are worth is measured over all tasks: each has few runs.
    split = split_figures(tasks.values(), given)
    told = tells_origins(found.runs)
    references = {
        task: replace(
            learn(
                runs,
                given,
                source,
                split._replace(ceiling=split.ceilings.get(task)),
                provenance=told,
            ),
            page_false_per_1000=false_pages,
        )
        for task, runs in tasks.items()
    }
    _check(references, keys)  # better now than after minutes of learning
    trained: TrainedRisk | None = None
    try:
        chance = random.Random(0)  # noqa: S311 - statistics, not secrets
        trained = train(id_, taught_examples(tasks, given, TAUGHT_DRAWS, chance), None)
    except TooFewRuns as problem:
        yield f"no risk is learnt: {problem}"
        yield "the references keep the risk of the tools called"
        yield risk_alarm_line(split.risk_alarm)
        every = {} if split.ceiling is None else {"": split.ceiling}
        yield from _ceiling_lines({**split.ceilings, **every})
        yield NO_DEFAULT
    else:
        yield from _told(trained)
    out.mkdir(parents=True, exist_ok=True)
    if records is not None:
        yield f"records of {records.agents} agents in {records.runs} runs; each reference has those at other tasks"
    for task, learnt in references.items():
        if records is not None:
            learnt = replace(learnt, agent_records=records.elsewhere(task))  # noqa: PLW2901
        text = _text(
            task, learnt if trained is None else _with_risk(learnt, trained, task), keys
        )
        (out / _file_name(task)).write_text(text, encoding="utf-8")
    yield from page_lines(split.alarms, false_pages, provenance=told)
    yield f"{printable(str(out))}: references of {len(tasks)} tasks, for `serve --specs` or `replay --specs`"


def evaluate_files(
    files: Sequence[Path],
    *,
    keys: Keys,
    writes: str | None = None,
    success: str | None = None,
    labels: Path | None = None,
    record: str | None = None,
    draws: int = DRAWS,
) -> Iterator[str]:
    """The report of the protocol on the runs, line by line; the arguments are those of `learn_tasks`, and how often is drawn.

    Raises:
        NoTrainer: the extra is not installed.
        BadInput: a file cannot be read.
        BadLabels: outcomes or tasks cannot be read.
    """
    trainer()
    outcome = _outcome(success, labels)
    given = None if writes is None else given_writes(writes)
    found = _read(files, keys, outcome, labels, given)
    records = None if record is None else read_records(record, keys, outcome, labels)
    yield from evaluation(found.runs, given, draws, records)
    yield from without_groups(found.runs, given)


def _empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadLabels(f"{out}: expected a folder that is empty, or not there yet")


def _outcome(success: str | None, labels: Path | None) -> str | None:
    """What marks a success; a risk is learnt from outcomes, so runs are asked for `success` if nothing is said."""
    return SUCCESS if success is None and labels is None else success


def _read(
    files: Sequence[Path],
    keys: Keys,
    success: str | None,
    labels: Path | None,
    writes: Sequence[str] | None,
) -> Files:
    found = read_files(files, success, labels, Progress(files), keys, writes)
    if not any(run.task for run in found.runs):
        raise BadLabels(f"--task: no run has a task under {keys.task!r}")
    return found


def _told(trained: TrainedRisk) -> Iterator[str]:
    model = trained.model
    source = model.source
    yield (
        f"risk {printable(model.id)}: learnt from {source['runs']} runs, {source['failures']} of them failed, "
        f"of {source['tasks']} tasks and {source['agents']} agents"
    )
    yield (
        f"alarm from {model.alarm:.2f}"
        if model.alarm < 1
        else "no alarm: the successes are too few to bound false ones"
    )
    yield from _ceiling_lines(trained.ceilings)


def _ceiling_lines(ceilings: Mapping[str, RiskCeiling]) -> Iterator[str]:
    """What whole runs tell over all tasks, and of which tasks they tell least."""
    every = ceilings[""].area if "" in ceilings else None
    known = sorted(
        (found.area, task)
        for task, found in ceilings.items()
        if task and found.area is not None
    )
    if every is None or not known:
        return
    least = ", ".join(f"{printable(task)} {area:.2f}" for area, task in known[:LEAST_TOLD])
    yield (
        f"ceiling: with the whole run the risk reaches {every:.2f} on tasks that were left out; "
        "what it misses then cannot be seen in calls"
    )
    yield f"of {len(known)} tasks with both outcomes it tells least of {least}"


def _check(references: Mapping[str, LearntReference], keys: Keys) -> None:
    """Refuses a task whose reference would be refused when it is loaded."""
    for task, learnt in references.items():
        _, findings = compile_text(_text(task, learnt, keys), _file_name(task))
        if has_errors(findings):
            why = next(each.message for each in findings if each.severity == "error")
            raise BadLabels(f"no reference of the task {printable(task[:NAME_MAX])!r}: {why}")


def _with_risk(learnt: LearntReference, trained: TrainedRisk, task: str) -> LearntReference:
    """The reference with a risk of other tasks, whose figures are not those of the tools called."""
    alarms = {name: alarm for name, alarm in learnt.alarms.items() if name != "risk"}
    split = {name: alarm for name, alarm in learnt.split_alarms.items() if name != "risk"}
    if trained.alarm is not None:
        split["risk"] = trained.alarm
    return replace(
        learnt,
        model=trained.model,
        alarms=alarms,
        split_alarms=split,
        ceiling=trained.ceilings.get(task),
    )


def _text(task: str, learnt: LearntReference, keys: Keys) -> str:
    return reference_text(learnt, task, match={keys.task: task} if keys.task else None)


def _file_name(task: str) -> str:
    """A name that is safe on every disk, and another one for every task."""
    safe = _UNSAFE.sub("-", task)[:NAME_MAX].lstrip(".")
    if safe == task:
        return f"{safe}.yaml"
    mark = hashlib.blake2b(task.encode(errors="replace"), digest_size=4).hexdigest()
    return f"{safe}-{mark}.yaml"
