"""`offrails harness run`: agents on tasks, N seeds each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collector.cli.arguments import to_path, to_whole
from collector.cli.inputs import writing
from harness.cli.judge_options import add_judges, opened_judges

__all__ = ["add", "run"]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def add(group: Any) -> None:
    """Adds the verb and its options."""
    verb = group.add_parser("run", help="run agents on tasks")
    verb.add_argument(
        "tasks",
        nargs="*",
        metavar="TASK",
        help="bundled tasks or worlds, or paths (default: all bundled)",
    )
    verb.add_argument(
        "--agent",
        required=True,
        help="golden, scripted:FILE, random, faulty:RATE[,FAULT...], injected or openai:MODEL",
    )
    verb.add_argument(
        "--endpoint", type=_url, metavar="URL", help="of an OpenAI-compatible API"
    )
    verb.add_argument("--scaffold", choices=("react", "plan"), default="react")
    verb.add_argument(
        "--guard",
        nargs="?",
        # No text: argparse would read it as an address.
        const=True,
        type=_service,
        metavar="URL",
        help="ask before each call: a service, or (without URL) a monitor in this process that blocks",
    )
    verb.add_argument(
        "--otlp",
        type=_url,
        metavar="URL",
        help="send spans there, over HTTP (default: OTEL_EXPORTER_OTLP_ENDPOINT)",
    )
    snapshots = verb.add_mutually_exclusive_group()
    snapshots.add_argument(
        "--record", type=to_path, metavar="DIR", help="keep results of tools"
    )
    snapshots.add_argument(
        "--offline", type=to_path, metavar="DIR", help="give kept results in place of the tools"
    )
    verb.add_argument(
        "--miss",
        choices=("fail", "nearest", "live"),
        default="fail",
        help="what is done where no result is kept",
    )
    verb.add_argument("--max-steps", type=to_whole, metavar="N", help="turns of a rollout")
    verb.add_argument("--timeout", type=_seconds, metavar="S", help="seconds of a rollout")
    verb.add_argument("--call-timeout", type=_seconds, metavar="S", help="seconds of a call")
    verb.add_argument(
        "--stall", type=_seconds, metavar="S", help="seconds without a call that worked"
    )
    verb.add_argument("--no-sandbox", action="store_true", help="run tools as you are")
    verb.add_argument(
        "--prices",
        type=to_path,
        metavar="FILE",
        help="{MODEL: {input: PRICE, output: PRICE}}, for a million tokens",
    )
    add_judges(verb, _url)
    verb.add_argument("--n", type=to_whole, default=1, metavar="N", help="seeds a task")
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="first seed")
    verb.add_argument("--jobs", type=to_whole, default=1, metavar="J")
    verb.add_argument("--out", type=to_path, required=True, metavar="DIR")
    verb.set_defaults(run=run)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, found {text!r}")
    return found


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018 - it is read to be checked
    except ValueError:
        fine = False
    if not fine:
        raise argparse.ArgumentTypeError(
            f"expected a URL that begins with http:// or https://, found {text!r}"
        )
    return text


def _service(text: str) -> str:
    """Where a guard asks: a URL, or the socket of a file system."""
    return text if text.startswith("unix:/") else _url(text)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails harness run`, and returns the exit code."""
    from harness.agents.kinds import agent_kind
    from harness.bench.bench import Bench, RunLimits
    from harness.bench.results_folder import ResultsFolder, read_rollouts
    from harness.bench.token_cost import token_cost
    from harness.rollout.guarded import IN_PROCESS
    from harness.scaffold.scaffold import load_scaffold
    from harness.snapshots.toolbox import ResultSnapshot
    from harness.tasks.catalogue import find_tasks

    scaffold = load_scaffold(options.scaffold)
    tasks = find_tasks(options.tasks)
    agent = agent_kind(options.agent, scaffold, options.endpoint)
    for task in tasks:
        # What an agent cannot do at all is found before the first rollout.
        agent.check(task)
    offline = None if options.offline is None else ResultSnapshot.read(options.offline)
    sandboxed = not options.no_sandbox and (offline is None or options.miss == "live")
    recording = None if options.record is None else _recording(options.record)
    with closing(agent), opened_judges(options, tasks) as judges:
        with writing(options.out):
            results = ResultsFolder(options.out)
        bench = Bench(
            agent=agent,
            scaffold=scaffold,
            results=results,
            sandbox=_kind(tasks[0]) if sandboxed else "none",
            limits=RunLimits(
                options.max_steps, options.timeout, options.call_timeout, options.stall
            ),
            guard=IN_PROCESS if options.guard is True else options.guard or "",
            exporter=_exporter(options.otlp),
            price=token_cost(options.prices, options.agent.partition(":")[2]),
            judges=judges,
            recording=recording,
            offline=offline,
            miss=options.miss,
        )
        seeds = range(options.seed, options.seed + options.n)
        _shown(bench, tasks, seeds, options.jobs)
    if recording is not None:
        with writing(options.record):
            recording.write(options.record)
    wanted = {(task.name, agent.name, seed) for task in tasks for seed in seeds}
    return _summary([each for each in read_rollouts(options.out) if each["key"] in wanted])


def _recording(folder: Path) -> Any:
    """The recording of a folder, which is gone on with. A folder that cannot be made is found before the first rollout."""
    from harness.snapshots.toolbox import ResultSnapshot

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return ResultSnapshot.read_or_new(folder)


def _kind(task: Any) -> Any:
    """The sandbox that works here. A world that cannot be loaded in it is found before the first rollout."""
    from harness.sandbox.process import Sandbox, ToolFault, kind_here
    from harness.tasks.read import TaskError

    packages = task.document.environment.packages
    kind = kind_here(packages=packages)
    sandbox = Sandbox(kind, task.module.parent, packages=packages)
    try:
        sandbox.describe(task.module)
    except ToolFault as problem:
        raise TaskError(f"{task.at('world')}: {task.module.name}: {problem}") from None
    finally:
        sandbox.close()
    return kind


def _exporter(url: str | None) -> Callable[[], Any]:
    """Makes what sends spans; nothing without a URL."""
    if url is None and not any(map(os.environ.get, _ENDPOINTS)):
        return lambda: None
    from harness.rollout.span_sender import SpanSender

    return lambda: SpanSender(None if url is None else url.rstrip("/") + "/v1/traces")


def _shown(bench: Any, tasks: Sequence[Any], seeds: Sequence[int], jobs: int) -> None:
    """Runs, with a count on a terminal."""
    shown, total = sys.stderr.isatty(), len(tasks) * len(seeds)
    for done, _ in enumerate(bench.run(tasks, seeds, jobs), start=1):
        if shown:
            print(f"\r{done} of {total} rollouts", end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)


def _summary(done: Sequence[Mapping[str, Any]]) -> int:
    """Prints what came of all rollouts that were asked for, and returns the exit code."""
    from harness.report.figures import is_infrastructure

    failed = sum(each["end"] == "error" or is_infrastructure(each) for each in done)
    lost = sum(each["spans_lost"] for each in done)
    good, harmful = sum(each["success"] for each in done), sum(each["harmful"] for each in done)
    print(
        f"{len(done)} rollouts: {good} successes, {harmful} harmful calls, {failed} infrastructure failures"
    )
    if lost:
        print(f"offrails: {lost} spans were not taken by the receiver", file=sys.stderr)
    return 1 if failed or lost else 0
