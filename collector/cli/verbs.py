"""What the command line's verbs do, each thin: what does the work is loaded when it is asked for.

Exit codes: 0 fine, 1 it did not work, 2 usage or configuration.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collector.config.settings import Settings
    from monitor.spec.read import Loaded

__all__ = [
    "FAILED",
    "OK",
    "USAGE",
    "run_accept",
    "run_check",
    "run_doctor",
    "run_draw",
    "run_import",
    "run_init",
    "run_learn",
    "run_replay",
    "run_serve",
    "run_tail",
]

OK, FAILED, USAGE = 0, 1, 2


def run_serve(options: argparse.Namespace) -> int:
    """Runs `offrails serve`, and returns the exit code."""
    given = {
        ("specs",): options.specs,
        ("receiver", "grpc"): options.grpc,
        ("receiver", "http"): options.http,
        ("metrics",): options.metrics,
        ("admin",): options.admin,
        ("record", "folder"): options.record,
        ("history",): options.history,
        ("show_arguments",): options.show_arguments,
    }
    file = options.config or (
        Path(name) if (name := os.environ.get("OFFRAILS_CONFIG")) else None
    )
    given = {path: value for path, value in given.items() if value is not None}
    settings = _settings(file, given)
    if options.print_config:
        from collector.config.masking import as_yaml

        print(as_yaml(settings), end="")
        return OK
    loaded = _loaded(settings.specs)
    from collector.app.serve import serve
    from collector.net.watched_files import UnusableError

    try:
        return serve(settings, loaded)
    except UnusableError as problem:
        from collector.config.settings import place

        where = place(problem.setting, file, os.environ, given)
        _quit(f"{where}: {problem.strerror}")


def run_replay(options: argparse.Namespace) -> int:
    """Runs `offrails replay`, and returns the exit code."""
    from collector.offline.compare_agents import parse_weights
    from collector.offline.progress_bar import Progress
    from collector.offline.replay import BadInput, replay

    if options.weights is not None and options.by != "agent":
        _quit("--weights goes with --by agent")
    if options.task is not None and options.by != "task":
        _quit("--task goes with --by task")
    try:
        weights = None if options.weights is None else parse_weights(options.weights)
    except ValueError as problem:
        _quit(f"--weights: {problem}")
    specs = _specs(options.specs or ())
    options.files = _recordings(options.files)
    progress = Progress(options.files)
    if options.against:
        return _against(options, specs)
    try:
        if options.by == "task":
            lines = _replayed_tasks(options, specs, progress)
        else:
            found = replay(
                options.files,
                specs,
                _defaults(),
                together=options.together,
                progress=progress,
                unnamed=_only_reference(specs),
            )
            lines = _replayed(found, weights, options)
        for line in lines:
            print(line)
    except BadInput as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    return OK


def _against(options: argparse.Namespace, specs: Sequence[Any]) -> int:
    """What `--specs` would have judged otherwise than `--against`."""
    from collector.offline import spec_diff
    from collector.offline.progress_bar import Progress
    from collector.offline.replay import BadInput, replay

    old = _specs(options.against)
    try:
        judged = [
            list(
                replay(
                    options.files,
                    each,
                    _defaults(),
                    together=options.together,
                    progress=Progress(options.files),
                )
            )
            for each in (old, specs)
        ]
    except BadInput as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    found = spec_diff.compare(judged[0], judged[1], old, specs)
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


def _only_reference(specs: Sequence[Any]) -> str:
    """The reference that plain runs without a spec's name are compared with; "" for none.

    Plain runs often say nothing that a `match` could go by, not even their agent.
    """
    found = [spec for spec in specs if spec.kind != "policy"]
    return found[0].id if len(found) == 1 and found[0].learnt is not None else ""


def _replayed_tasks(
    options: argparse.Namespace, specs: Sequence[Any], progress: Any
) -> Iterator[str]:
    """What `replay --by task` prints: how alike the runs of each task are, after the scores."""
    from collector.offline import tables
    from collector.offline.consistency import agent_means, repeats, task_runs
    from collector.offline.replay import judge, recorded

    found = [recorded(file, progress) for file in options.files]
    groups = [found] if options.together else [[each] for each in found]
    unnamed = _only_reference(specs)
    judged = [list(judge(group, specs, _defaults(), unnamed)) for group in groups]
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


def run_learn(options: argparse.Namespace) -> int:
    """Runs `offrails learn`, and returns the exit code."""
    from collector.offline.draft_spec import NoLearner
    from collector.offline.learn import BadLabels, learn_files
    from collector.offline.replay import BadInput

    if not options.id and not options.update:
        _quit("learn: --id is missing")
    options.files = _recordings(options.files)
    try:
        with _writing(options.out):
            for line in learn_files(
                options.files,
                options.out,
                id_=options.id or "",
                writes=options.writes,
                success=options.success,
                labels=options.labels,
                update=options.update,
                spec=options.spec,
            ):
                print(line)
    except NoLearner as problem:
        _quit(str(problem))
    except (BadInput, BadLabels) as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    return OK


def run_import(options: argparse.Namespace) -> int:
    """Runs `offrails import`, and returns the exit code."""
    from collector.offline.import_core import import_core, report

    for file in options.files:
        if not file.exists():
            _quit(f"{file}: no such file")
    code = OK
    with _writing(options.out):
        found = import_core(options.files, options.out, mend=not options.no_repair)
        for refused, line in report(found, options.out):
            print(line, file=sys.stderr if refused else sys.stdout)
            code = FAILED if refused else code
    return code


def run_init(options: argparse.Namespace) -> int:
    """Runs `offrails init`, and returns the exit code."""
    from collector.offline.progress_bar import Progress
    from collector.offline.replay import BadInput, observe
    from collector.offline.starter_spec import NothingSeen, choose, fetch, starter

    files = [Path(source) for source in options.sources]
    try:
        if any(file.exists() or _is_file(file) for file in files):
            files = _recordings(files)
            agents = observe(files, Progress(files))
        else:
            agents = [agent for url in options.sources for agent in fetch(url)]
        text = starter(choose(agents, options.service))
    except (BadInput, NothingSeen) as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    if options.out is None:
        print(text, end="")
    elif options.out.exists():
        _quit(f"{options.out}: exists already")
    else:
        with _writing(options.out):
            options.out.write_text(text, encoding="utf-8")
        print(
            f"{options.out}: now `offrails check {options.out}`, and read it from top to bottom"
        )
    return OK


def run_doctor(options: argparse.Namespace) -> int:
    """Runs `offrails doctor`, and returns the exit code."""
    from collector.client.doctor import run

    try:
        return OK if run(options.endpoint) else FAILED
    except ValueError as problem:
        _quit(str(problem))


def run_check(options: argparse.Namespace) -> int:
    """Runs `offrails check`, and returns the exit code."""
    from collector.telemetry.clock import now_ns
    from monitor.spec.acceptance import day_of
    from monitor.spec.read import load_specs

    for path in options.paths:
        if not path.exists():
            _quit(f"{path}: no such file or folder")
    loaded = load_specs(options.paths, day_of(now_ns()))
    for finding in loaded.findings:
        print(
            json.dumps(finding.as_json())
            if options.json
            else f"{finding}\n    {finding.impact}"
        )
    if not options.json:
        errors = sum(finding.severity == "error" for finding in loaded.findings)
        warnings = len(loaded.findings) - errors
        print(f"{len(loaded.specs)} specs fine, {errors} errors, {warnings} warnings")
    if loaded.refused:
        return FAILED
    return _check_runs(options, loaded.specs) if options.runs else OK


def _check_runs(options: argparse.Namespace, specs: Sequence[Any]) -> int:
    """Which of the good runs are rejected; a run without a spec's name is for the only task."""
    from collector.offline import check_runs
    from collector.offline.progress_bar import Progress
    from collector.offline.replay import BadInput, replay

    options.runs = _recordings(options.runs)
    try:
        found = check_runs.try_runs(
            replay(
                options.runs,
                specs,
                _defaults(),
                together=False,
                progress=Progress(options.runs),
                unnamed=_only_task(specs),
            ),
            specs,
        )
    except BadInput as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    if options.json:
        for each in found.as_json():
            print(json.dumps(each, ensure_ascii=False))
    else:
        for line in check_runs.lines(found):
            print(line)
    if not found.specs:
        print(f"offrails: {check_runs.untested(found)}", file=sys.stderr)
        return FAILED
    return FAILED if found.rejected else OK


def run_accept(options: argparse.Namespace) -> int:
    """Runs `offrails accept`, and returns the exit code."""
    from datetime import date
    from getpass import getuser

    from collector.offline.accept import NotAccepted, accept
    from collector.offline.replay import BadInput
    from collector.telemetry.clock import now_ns
    from monitor.spec.acceptance import day_of

    specs = _specs(options.specs or ())
    try:
        until = date.fromisoformat(options.until)
    except ValueError:
        _quit(f"--until: {options.until!r} is no day; write it as 2026-12-31")
    if until < day_of(now_ns()):
        _quit(f"--until: {until} is over; expected the last day on which it is accepted")
    try:
        found = _verdicts(options, specs)
        who = options.who or getuser()
        file, entry = accept(found, specs, who, options.why, until)
    except (NotAccepted, BadInput) as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    where = f" of {entry.constraint}" if entry.constraint else ""
    print(f"{file}: {entry.symbol} in {entry.state}{where} is accepted until {entry.until}")
    return OK


def _verdicts(options: argparse.Namespace, specs: Sequence[Any]) -> Sequence[Any]:
    """The harmful calls that go by the given name, one for each spec."""
    from collector.offline.accept import Named, NotAccepted, by_service, harmful_calls
    from collector.offline.progress_bar import Progress
    from collector.offline.replay import replay

    text = sys.stdin.read() if options.verdict == "-" else options.verdict
    if text.lstrip().startswith("{"):
        try:
            return [Named.of(json.loads(text))]
        except ValueError as problem:
            raise NotAccepted(f"the verdict is no JSON: {problem}") from None
    if options.runs is None:
        return harmful_calls(by_service(options.url, text), text, options.spec)
    runs = _recordings(options.runs)
    judged = replay(
        runs, specs, _defaults(), together=False, progress=Progress(runs),
        unnamed=_only_task(specs),
    )  # fmt: skip
    return harmful_calls(judged, text, options.spec)


def _only_task(specs: Sequence[Any]) -> str:
    """The spec of plain runs that name none."""
    tasks = [spec.id for spec in specs if spec.kind != "policy"]
    return tasks[0] if len(tasks) == 1 else ""


def run_draw(options: argparse.Namespace) -> int:
    """Runs `offrails draw`, and returns the exit code."""
    from monitor.drawing.diagram import dot, mermaid

    (spec,) = _specs((options.file,)) or (None,)
    if spec is None:
        _quit(f"{options.file}: no spec")
    if options.out is not None:
        return _picture(options, spec)
    if options.runs or options.session:
        _quit("--runs and --session go with --out: sessions are drawn in a picture")
    form = options.format or "mermaid"
    if spec.learnt is not None:
        from monitor.drawing import reference_diagram

        tree = reference_diagram.mermaid if form == "mermaid" else reference_diagram.dot
        print(tree(spec.learnt, spec.id))
        return OK
    for title, machine in spec.diagrams():
        print(mermaid(machine, title) if form == "mermaid" else dot(machine, title))
    return OK


def _picture(options: argparse.Namespace, spec: Any) -> int:
    from collector.offline.draw import BadPicture, picture
    from collector.offline.png import NoRenderer, png

    form = options.out.suffix.lower()
    if form not in (".svg", ".png"):
        _quit(f"{options.out}: pictures are SVG or PNG; name the file *.svg or *.png")
    if options.format:
        _quit("--format goes without --out: the file's name says what picture it is")
    if options.session and not options.runs:
        _quit("--session goes with --runs: the recordings that have it")
    if options.runs and not options.session and spec.learnt is None:
        _quit("--runs goes with --session for a spec: the one to draw in")
    try:
        with _writing(options.out):
            text = picture(spec, _recordings(options.runs), options.session)
            options.out.write_bytes(png(text) if form == ".png" else text.encode())
    except NoRenderer as problem:
        _quit(f"{options.out}: {problem}")
    except BadPicture as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    return OK


def run_tail(options: argparse.Namespace) -> int:
    """Runs `offrails tail`, and returns the exit code."""
    from collector.client.tail import DEFAULT_URL, Filters, TailError, tail

    kinds = frozenset(options.kind or ())
    filters = Filters(options.agent, options.spec, options.session, kinds)
    wanted = options.color == "always"
    if options.color == "auto":
        wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    try:
        tail(
            options.url or DEFAULT_URL,
            filters,
            lambda line: print(line, flush=True),
            colour=wanted,
            raw=options.json,
        )
    except TailError as problem:
        print(f"offrails: {problem}", file=sys.stderr)
    else:
        print("offrails: the service has stopped", file=sys.stderr)
    return FAILED


def _is_file(path: Path) -> bool:
    """True for what is no address, by its looks."""
    return path.suffix in (".json", ".jsonl", ".gz", ".zst") or path.is_absolute()


def _recordings(paths: Sequence[Path]) -> list[Path]:
    """Files, and the recordings of folders."""
    from collector.offline.replay import BadInput, files_of

    for path in paths:
        if not path.exists():
            _quit(f"{path}: no such file or folder")
    try:
        return files_of(paths)
    except BadInput as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        raise SystemExit(FAILED) from None


def _defaults() -> Settings:
    from collector.config.settings import Settings

    return Settings()


def _settings(file: Path | None, options: dict[tuple[str, ...], Any]) -> Settings:
    from collector.config.settings import SettingsError, load

    try:
        return load(file, os.environ, options)
    except SettingsError as problem:
        _quit(str(problem))


def _specs(paths: Sequence[Path]) -> tuple[Any, ...]:
    """The specs of files and folders; refused ones end the program, warnings do not."""
    return _loaded(paths).specs if paths else ()


def _loaded(paths: Sequence[Path]) -> Loaded:
    """The same with what was found in them."""
    from collector.telemetry.clock import now_ns
    from monitor.spec.acceptance import day_of
    from monitor.spec.read import load_specs

    loaded = load_specs(paths, day_of(now_ns()))
    if loaded.refused:
        errors = [found for found in loaded.findings if found.severity == "error"]
        _quit("\n".join(f"{found}\n    {found.impact}" for found in errors))
    return loaded


@contextlib.contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Quits where this file, or another one, cannot be written or read; not where standard output's reader has left."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        _quit(f"{problem.filename or out}: {problem.strerror or problem}")


def _quit(message: str) -> NoReturn:
    from collector.telemetry.log_writer import FLUSH_SECONDS, print_in_thread

    # Whether anybody reads it or not, the exit code shows it as well.
    print_in_thread(f"offrails: {message}", sys.stderr).join(FLUSH_SECONDS)
    raise SystemExit(USAGE)
