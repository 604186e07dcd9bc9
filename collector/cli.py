"""The command line: thin verbs. Exit codes: 0 fine, 1 it did not work, 2 usage or configuration."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from collector import __version__
from collector.settings import Settings, SettingsError, load, place

__all__ = ["main"]

OK, FAILED, USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        # What agents say may hold half a surrogate pair; showing it must not end the program.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has left; that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130
    except OSError as problem:
        if problem.errno != errno.ENOSPC or problem.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"offrails: standard output: {problem.strerror}", file=sys.stderr)
        return FAILED
    return code


class _Arguments(argparse.ArgumentParser):
    """The parser of a verb, or of them all."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, **options)


class _Formatter(argparse.HelpFormatter):
    """As wide as the terminal; argparse's own way to find that loads three compressors."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    with suppress(KeyError, ValueError):
        return int(os.environ["COLUMNS"]) or 80
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


def _parser() -> argparse.ArgumentParser:
    parser = _Arguments(
        prog="offrails", description="Online monitor for AI agents' tool calls."
    )
    parser.add_argument("--version", action="version", version=f"offrails {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    _add_serve(verbs)
    _add_replay(verbs)
    _add_import(verbs)
    _add_learn(verbs)
    _add_init(verbs)
    _add_doctor(verbs)
    _add_check(verbs)
    _add_accept(verbs)
    _add_draw(verbs)
    _add_tail(verbs)
    return parser


def _add_serve(verbs: Any) -> None:
    serve = verbs.add_parser("serve", help="receive spans and judge calls as they arrive")
    serve.add_argument("--config", type=Path, metavar="FILE.yaml", help="settings")
    _add_specs(serve)
    place = "H:P|unix:PATH|off"
    serve.add_argument("--grpc", metavar=place, help="OTLP over gRPC (127.0.0.1:4317)")
    serve.add_argument("--http", metavar=place, help="OTLP over HTTP (127.0.0.1:4318)")
    serve.add_argument("--metrics", metavar="H:P|off", help="/metrics (127.0.0.1:9464)")
    serve.add_argument("--admin", metavar="H:P|off", help="the API (127.0.0.1:4319)")
    serve.add_argument("--record", type=Path, metavar="DIR", help="keep accepted spans there")
    serve.add_argument(
        "--history", choices=("auto", "complete"), help="complete: no session began before us"
    )
    serve.add_argument(
        "--show-arguments", action="store_true", default=None, help="show arguments in the API"
    )
    serve.add_argument(
        "--print-config",
        action="store_true",
        help="print the settings in use as YAML, without secrets, and end",
    )
    serve.set_defaults(run=_serve)


def _add_replay(verbs: Any) -> None:
    replay = verbs.add_parser("replay", help="judge stored OTLP/JSON lines or plain runs")
    replay.add_argument("files", nargs="+", type=Path, metavar="FILE|DIR")
    _add_specs(replay)
    form = replay.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one judgement object a line")
    form.add_argument("--table", action="store_true", help="a table for people (the default)")
    replay.add_argument(
        "--together", action="store_true", help="the spans of all files as one stream"
    )
    replay.add_argument(
        "--against",
        action="append",
        type=Path,
        metavar="OLD",
        help="older specs: say which sessions and calls --specs judges otherwise",
    )
    replay.add_argument(
        "--by",
        choices=("agent", "task"),
        help="agent: compare agents (or models); task: how alike repeated runs of a task are",
    )
    replay.add_argument(
        "--task",
        metavar="ATTR",
        help="with --by task: the attribute that names a run's task (else its task spec)",
    )
    replay.add_argument(
        "--weights",
        metavar="pc=1,harm_free=2",
        help="with --by agent: a single number of your making",
    )
    replay.set_defaults(run=_replay)


def _add_import(verbs: Any) -> None:
    bring = verbs.add_parser("import", help="write specs from published automata")
    bring.add_argument("source", choices=("core",), help="whose: the CORE authors'")
    bring.add_argument(
        "files", nargs="+", type=Path, metavar="FILE.json", help="a data set, or one automaton"
    )
    bring.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the specs")
    bring.add_argument(
        "--no-repair", action="store_true", help="refuse defective tasks, repair nothing"
    )
    bring.set_defaults(run=_import)


def _add_learn(verbs: Any) -> None:
    learn = verbs.add_parser("learn", help="learn a reference from recorded runs")
    learn.add_argument("files", nargs="+", type=Path, metavar="FILE|DIR")
    learn.add_argument("--id", help="of the reference; with --update that of OLD")
    learn.add_argument("--out", type=Path, required=True, metavar="FILE", help="for it")
    learn.add_argument("--writes", metavar="TOOL,...", help="tools that change something")
    told = learn.add_mutually_exclusive_group()
    told.add_argument(
        "--success", metavar="ATTR=VALUE", help="what a successful run says of itself"
    )
    told.add_argument("--labels", type=Path, metavar="FILE", help="session and outcome a line")
    learn.add_argument(
        "--update", type=Path, metavar="OLD", help="propose the next version of this reference"
    )
    learn.add_argument(
        "--spec",
        type=Path,
        metavar="OUT",
        help="draft a task spec as well, for review (ALERGIA; needs the extra learn)",
    )
    learn.set_defaults(run=_learn)


def _add_init(verbs: Any) -> None:
    init = verbs.add_parser("init", help="write a starter spec from what was seen of an agent")
    init.add_argument(
        "--from",
        dest="sources",
        nargs="+",
        default=["127.0.0.1:4319"],
        metavar="URL|FILE",
        help="a running service's admin address (127.0.0.1:4319), or recorded spans",
    )
    init.add_argument(
        "--service", help="which agent, by its service.name, where there are several"
    )
    init.add_argument("--out", type=Path, metavar="FILE", help="where to; else it is printed")
    init.set_defaults(run=_init)


def _add_doctor(verbs: Any) -> None:
    doctor = verbs.add_parser("doctor", help="send a test span and say what is missing")
    doctor.add_argument(
        "endpoint",
        nargs="?",
        metavar="ENDPOINT",
        help="[http[s]://]HOST[:PORT] or unix:PATH (OTEL_EXPORTER_OTLP_ENDPOINT, or 127.0.0.1)",
    )
    doctor.set_defaults(run=_doctor)


def _add_check(verbs: Any) -> None:
    check = verbs.add_parser("check", help="say what is wrong with specs")
    check.add_argument("paths", nargs="+", type=Path, metavar="FILE|DIR")
    check.add_argument("--json", action="store_true", help="one finding a line")
    check.add_argument(
        "--runs",
        nargs="+",
        type=Path,
        default=(),
        metavar="RUNS",
        help="recorded good runs: say which of them a spec rejects",
    )
    check.set_defaults(run=_check)


def _add_accept(verbs: Any) -> None:
    accept = verbs.add_parser(
        "accept", help="write into a spec that a call is no harm for a time"
    )
    accept.add_argument(
        "verdict",
        metavar="VERDICT",
        help="SESSION#STEP, a span id, or the verdict as JSON (- reads it)",
    )
    _add_specs(accept)
    accept.add_argument(
        "--why", required=True, metavar="TEXT", help="for whoever reads it later"
    )
    accept.add_argument("--until", required=True, metavar="DAY", help="last day, as 2026-12-31")
    accept.add_argument("--who", metavar="NAME", help="who says so (the user's name)")
    accept.add_argument(
        "--spec", default="", metavar="ID", help="under which spec it is harmful"
    )
    place = accept.add_mutually_exclusive_group()
    place.add_argument(
        "--from",
        dest="url",
        default="127.0.0.1:4319",
        metavar="URL",
        help="a running service's admin address (127.0.0.1:4319)",
    )
    place.add_argument(
        "--runs", nargs="+", type=Path, metavar="RUNS", help="recordings that have the call"
    )
    accept.set_defaults(run=_accept)


def _add_draw(verbs: Any) -> None:
    draw = verbs.add_parser("draw", help="draw a spec or a reference")
    draw.add_argument("file", type=Path, metavar="FILE")
    draw.add_argument(
        "--format", choices=("mermaid", "dot"), default="mermaid", help="mermaid is the default"
    )
    draw.add_argument(
        "--out", type=Path, metavar="FILE.svg|.png", help="write a picture instead"
    )
    draw.add_argument(
        "--runs",
        nargs="+",
        type=Path,
        default=(),
        metavar="RUNS",
        help="recordings: draw in the sessions named by --session, or (a reference) all",
    )
    draw.add_argument(
        "--session",
        action="append",
        default=[],
        metavar="ID",
        help="draw in the path of a session of --runs; repeatable for a reference",
    )
    draw.set_defaults(run=_draw)


def _add_tail(verbs: Any) -> None:
    tail = verbs.add_parser("tail", help="show the verdicts of a running service")
    tail.add_argument("url", nargs="?", metavar="URL", help="its API (http://127.0.0.1:4319)")
    tail.add_argument("--agent", default="", help="of this agent only")
    tail.add_argument("--spec", default="", help="under this spec only")
    tail.add_argument("--session", default="", help="of this session only")
    tail.add_argument(
        "--kind",
        action="append",
        choices=(
            "progress",
            "self_loop",
            "harmful",
            "control",
            "cannot_finish",
            "stalled",
            "divergence",
        ),
        help="of this kind only; repeatable",
    )
    tail.add_argument("--json", action="store_true", help="one verdict a line, as JSON")
    tail.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto: on a terminal",
    )
    tail.set_defaults(run=_tail)


def _add_specs(verb: Any) -> None:
    verb.add_argument(
        "--specs",
        action="append",
        type=Path,
        metavar="DIR",
        help="spec file or folder; repeatable",
    )


def _serve(options: argparse.Namespace) -> int:
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
        from collector.masking import as_yaml

        print(as_yaml(settings), end="")
        return OK
    specs = _specs(settings.specs)
    from collector.receivers.files import UnusableError
    from collector.serve import serve

    try:
        return serve(settings, specs)
    except UnusableError as problem:
        where = place(problem.setting, file, os.environ, given)
        _quit(f"{where}: {problem.strerror}")


def _replay(options: argparse.Namespace) -> int:
    from collector.comparing import parse_weights
    from collector.progress import Progress
    from collector.replay import BadInput, replay

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
                Settings(),
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
    from collector import against
    from collector.progress import Progress
    from collector.replay import BadInput, replay

    old = _specs(options.against)
    try:
        judged = [
            list(
                replay(
                    options.files,
                    each,
                    Settings(),
                    together=options.together,
                    progress=Progress(options.files),
                )
            )
            for each in (old, specs)
        ]
    except BadInput as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    found = against.compare(judged[0], judged[1], old, specs)
    if not options.json:
        print("\n".join(against.lines(found)))
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
    from collector import table
    from collector.comparing import compare, means, scored, spreads

    if options.json and options.by is None:
        for judgement in found:
            yield json.dumps(judgement, ensure_ascii=False)
        return
    judgements = list(found)
    if options.json:
        for agent in compare(judgements, weights):
            yield json.dumps(agent.as_json(), ensure_ascii=False)
        return
    yield from table.table(judgements)
    if len(scored(judgements)) > 1:
        yield from table.means(means(judgements))
    if repeated := spreads(judgements):
        yield from table.distributions(repeated)
    if options.by == "agent":
        yield from table.agents(compare(judgements, weights))


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
    from collector import table
    from collector.repeats import agent_means, repeats, task_runs
    from collector.replay import judge, recorded

    found = [recorded(file, progress) for file in options.files]
    groups = [found] if options.together else [[each] for each in found]
    unnamed = _only_reference(specs)
    judged = [list(judge(group, specs, Settings(), unnamed)) for group in groups]
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
    yield from table.tasks(tasks, overall)


def _learn(options: argparse.Namespace) -> int:
    from collector.drafts import NoLearner
    from collector.learning import BadLabels, learn_files
    from collector.replay import BadInput

    if not options.id and not options.update:
        _quit("learn: --id is missing")
    options.files = _recordings(options.files)
    try:
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
    except OSError as problem:
        _quit(f"{problem.filename or options.out}: {problem.strerror or problem}")
    return OK


def _import(options: argparse.Namespace) -> int:
    from collector.importing import import_core, report

    for file in options.files:
        if not file.exists():
            _quit(f"{file}: no such file")
    code = OK
    try:
        found = import_core(options.files, options.out, mend=not options.no_repair)
        for refused, line in report(found, options.out):
            print(line, file=sys.stderr if refused else sys.stdout)
            code = FAILED if refused else code
    except OSError as problem:
        _quit(f"{problem.filename or options.out}: {problem.strerror or problem}")
    return code


def _init(options: argparse.Namespace) -> int:
    from collector.progress import Progress
    from collector.replay import BadInput, observe
    from collector.starting import NothingSeen, choose, fetch, starter

    files = [Path(source) for source in options.sources]
    try:
        if all(file.exists() for file in files):
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
        try:
            options.out.write_text(text, encoding="utf-8")
        except OSError as problem:
            _quit(f"{options.out}: {problem.strerror or problem}")
        print(
            f"{options.out}: now `offrails check {options.out}`, and read it from top to bottom"
        )
    return OK


def _doctor(options: argparse.Namespace) -> int:
    from collector.doctor import run

    try:
        return OK if run(options.endpoint) else FAILED
    except ValueError as problem:
        _quit(str(problem))


def _check(options: argparse.Namespace) -> int:
    from collector.clock import now_ns
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
    from collector import checking
    from collector.progress import Progress
    from collector.replay import BadInput, replay

    options.runs = _recordings(options.runs)
    try:
        found = checking.try_runs(
            replay(
                options.runs,
                specs,
                Settings(),
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
        print("\n".join(checking.lines(found)))
    return FAILED if found.rejected else OK


def _accept(options: argparse.Namespace) -> int:
    from datetime import date
    from getpass import getuser

    from collector.accepting import NotAccepted, accept
    from collector.clock import now_ns
    from collector.replay import BadInput
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
    from collector.accepting import Named, NotAccepted, by_service, harmful_calls
    from collector.progress import Progress
    from collector.replay import replay

    text = sys.stdin.read() if options.verdict == "-" else options.verdict
    if text.lstrip().startswith("{"):
        try:
            return [Named.of(json.loads(text))]
        except ValueError as problem:
            raise NotAccepted(f"the verdict is no JSON: {problem}") from None
    if options.runs is None:
        return harmful_calls(by_service(options.url, text), text, options.spec)
    judged = replay(
        options.runs, specs, Settings(), together=False, progress=Progress(options.runs),
        unnamed=_only_task(specs),
    )  # fmt: skip
    return harmful_calls(judged, text, options.spec)


def _only_task(specs: Sequence[Any]) -> str:
    """The spec of plain runs that name none."""
    tasks = [spec.id for spec in specs if spec.kind != "policy"]
    return tasks[0] if len(tasks) == 1 else ""


def _draw(options: argparse.Namespace) -> int:
    from monitor.automaton.draw import dot, mermaid

    (spec,) = _specs((options.file,)) or (None,)
    if spec is None:
        _quit(f"{options.file}: no spec")
    if options.out is not None:
        return _picture(options, spec)
    if spec.learnt is not None:
        from monitor.reference import diagram

        tree = diagram.mermaid if options.format == "mermaid" else diagram.dot
        print(tree(spec.learnt, spec.id))
        return OK
    for title, machine in spec.diagrams():
        print(mermaid(machine, title) if options.format == "mermaid" else dot(machine, title))
    return OK


def _picture(options: argparse.Namespace, spec: Any) -> int:
    from collector.drawing import BadPicture, picture
    from collector.png import NoRenderer, png

    form = options.out.suffix.lower()
    if form not in (".svg", ".png"):
        _quit(f"{options.out}: pictures are SVG or PNG; name the file *.svg or *.png")
    try:
        text = picture(spec, _recordings(options.runs), options.session)
        options.out.write_bytes(png(text) if form == ".png" else text.encode())
    except NoRenderer as problem:
        _quit(f"{options.out}: {problem}")
    except (BadPicture, OSError) as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    return OK


def _tail(options: argparse.Namespace) -> int:
    from collector.tail import DEFAULT_URL, Filters, TailError, tail

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
        return FAILED
    return OK


def _recordings(paths: Sequence[Path]) -> list[Path]:
    """Files, and the recordings of folders."""
    from collector.replay import BadInput, files_of

    try:
        return files_of(paths)
    except BadInput as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        raise SystemExit(FAILED) from None


def _settings(file: Path | None, options: dict[tuple[str, ...], Any]) -> Settings:
    try:
        return load(file, os.environ, options)
    except SettingsError as problem:
        _quit(str(problem))


def _specs(paths: Sequence[Path]) -> tuple[Any, ...]:
    """The specs of files and folders; refused ones end the program, warnings do not."""
    if not paths:
        return ()
    from collector.clock import now_ns
    from monitor.spec.acceptance import day_of
    from monitor.spec.read import load_specs

    loaded = load_specs(paths, day_of(now_ns()))
    if loaded.refused:
        errors = [found for found in loaded.findings if found.severity == "error"]
        _quit("\n".join(f"{found}\n    {found.impact}" for found in errors))
    return loaded.specs


def _quit(message: str) -> NoReturn:
    print(f"offrails: {message}", file=sys.stderr)
    raise SystemExit(USAGE)
