"""`offrails replay`: judges recordings."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from collector.cli.arguments import add_specs, to_path
from collector.cli.inputs import (
    FAILED,
    OK,
    load_specs_or_quit,
    quit_with,
    recordings,
)

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    replay = group.add_parser("replay", help="judge stored OTLP/JSON lines or plain runs")
    replay.add_argument("files", nargs="+", type=to_path, metavar="FILE|DIR")
    add_specs(replay)
    form = replay.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="print one judgement per line as JSON"
    )
    form.add_argument("--table", action="store_true", help="print a table (default)")
    replay.add_argument(
        "--summary",
        action="store_true",
        help="print one line per agent and spec, with mean scores",
    )
    replay.add_argument(
        "--together", action="store_true", help="read the spans of all files as one stream"
    )
    replay.add_argument(
        "--against",
        action="append",
        type=to_path,
        metavar="OLD",
        help="older specs: report which sessions and calls --specs judges differently; repeatable",
    )
    replay.add_argument(
        "--by",
        choices=("agent", "task"),
        help="agent: compare agents or models; task: compare the repeated runs of each task",
    )
    replay.add_argument(
        "--task",
        metavar="ATTR",
        help="with --by task: attribute that names the task of a run (default: its task spec)",
    )
    replay.add_argument(
        "--weights",
        metavar="pc=1,harm_free=2",
        help="with --by agent: add one number per agent, the weighted mean of these scores",
    )
    replay.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails replay`, and returns the exit code."""
    from collector.offline.compare_agents import parse_weights
    from collector.offline.replay import replay

    if options.weights is not None and options.by != "agent":
        quit_with("--weights goes with --by agent")
    if options.summary and (options.by is not None or options.against):
        quit_with("--summary goes with neither --by nor --against")
    if options.task is not None and options.by != "task":
        quit_with("--task goes with --by task")
    try:
        weights = None if options.weights is None else parse_weights(options.weights)
    except ValueError as problem:
        quit_with(f"--weights: {problem}")
    specs = load_specs_or_quit(options.specs or ())
    options.files = recordings(options.files)
    if options.against:
        return _against(options, specs)
    judged: list[bool] = []
    if options.by == "task":
        lines = _replayed_tasks(options, specs)
    else:
        unnamed = _only_reference(specs)
        found = replay(options.files, specs, together=options.together, unnamed=unnamed)
        lines = _replayed(_noted(found, judged), weights, options)
    for line in lines:
        print(line)
    if options.by != "task" and not any(judged):
        print(f"offrails: {_NOT_JUDGED}", file=sys.stderr)
        return FAILED
    return OK


_NOT_JUDGED = "no spec judged a run: name specs by --specs; a spec judges what its `match` says, or what names it"


def _noted(found: Iterable[dict[str, Any]], judged: list[bool]) -> Iterator[dict[str, Any]]:
    """Passes judgements on, and appends to `judged` whether a spec gave each."""
    for judgement in found:
        judged.append(bool(judgement["spec"]))
        yield judgement


def _against(options: argparse.Namespace, specs: Sequence[Any]) -> int:
    """Reports what `--specs` judges differently from `--against`."""
    from collector.offline import spec_diff
    from collector.offline.replay import replay

    old = load_specs_or_quit(options.against)
    before, now = (
        list(replay(options.files, each, together=options.together)) for each in (old, specs)
    )
    found = spec_diff.compare(before, now, old, specs)
    if not options.json:
        print("\n".join(spec_diff.lines(found)))
        return OK
    for line in (*(each.as_json() for each in found.changed), found.as_json()):
        print(json.dumps(line, ensure_ascii=False))
    return OK


def _replayed(
    found: Iterable[dict[str, Any]],
    weights: dict[str, float] | None,
    options: argparse.Namespace,
) -> Iterator[str]:
    """What `replay` prints: JSON lines or tables, of judgements or of agents."""
    from collector.offline import tables
    from collector.offline.compare_agents import compare, means, scored, spreads

    if options.summary:
        yield from _summary(found, as_json=options.json)
        return
    if options.json and options.by is None:
        for judgement in found:
            yield json.dumps(judgement, ensure_ascii=False)
        return
    judgements = list(found)
    if options.json:
        for agent in compare(judgements, weights):
            yield json.dumps(agent.as_json(), ensure_ascii=False)
        return
    yield from tables.table(judgements)
    if len(scored(judgements)) > 1:
        yield from tables.means(means(judgements))
    if repeated := spreads(judgements):
        yield from tables.distributions(repeated)
    if options.by == "agent":
        yield from tables.agents(compare(judgements, weights))


def _summary(found: Iterable[dict[str, Any]], *, as_json: bool) -> Iterator[str]:
    """What `replay --summary` prints: a line per agent and spec."""
    from collector.offline import tables
    from collector.offline.summary import summarise

    lines = summarise(found)
    if as_json:
        for line in lines:
            yield json.dumps(line.as_json(), ensure_ascii=False)
        return
    yield from tables.summary(lines)


def _only_reference(specs: Sequence[Any]) -> str:
    """The reference that plain runs without a spec's name are compared with; "" for none.

    Plain runs often say nothing that a `match` could go by, not even their agent.
    """
    found = [spec for spec in specs if spec.kind != "policy"]
    return found[0].id if len(found) == 1 and found[0].learnt is not None else ""


def _replayed_tasks(options: argparse.Namespace, specs: Sequence[Any]) -> Iterator[str]:
    """What `replay --by task` prints: how alike the runs of each task are, after the scores."""
    from collector.offline import tables
    from collector.offline.consistency import agent_means, repeats, task_runs
    from collector.offline.progress_bar import Progress
    from collector.offline.replay import judge, recorded

    progress = Progress(options.files)
    found = [recorded(file, progress) for file in options.files]
    groups = [found] if options.together else [[each] for each in found]
    unnamed = _only_reference(specs)
    judged = [list(judge(group, specs, unnamed)) for group in groups]
    runs = [
        run
        for group, objects in zip(groups, judged, strict=True)
        for run in task_runs(group, objects, options.task)
    ]
    tasks = repeats(runs)
    overall = agent_means(tasks)
    if options.json:
        objects = [each.as_json() for each in tasks] + [each.as_json() for each in overall]
        for line in objects:
            yield json.dumps(line, ensure_ascii=False)
        return
    yield from _replayed(chain.from_iterable(judged), None, options)
    yield from tables.tasks(tasks, overall)
