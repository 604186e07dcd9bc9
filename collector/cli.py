"""The command line: thin verbs. Exit codes: 0 fine, 1 it did not work, 2 usage or configuration."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from collector.settings import Settings, SettingsError, load

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
    except BrokenPipeError:
        # Whoever read our output has left; that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="offrails", description="Online monitor for AI agents' tool calls."
    )
    from importlib.metadata import version

    parser.add_argument(
        "--version", action="version", version=f"offrails {version('offrails')}"
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    _add_serve(verbs)
    _add_replay(verbs)
    _add_import(verbs)
    _add_check(verbs)
    _add_draw(verbs)
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
    serve.add_argument(
        "--history", choices=("auto", "complete"), help="complete: no session began before us"
    )
    serve.add_argument(
        "--show-arguments", action="store_true", default=None, help="show arguments in the API"
    )
    serve.set_defaults(run=_serve)


def _add_replay(verbs: Any) -> None:
    replay = verbs.add_parser("replay", help="judge stored OTLP/JSON lines or plain runs")
    replay.add_argument("files", nargs="+", type=Path, metavar="FILE")
    _add_specs(replay)
    form = replay.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one judgement object a line")
    form.add_argument("--table", action="store_true", help="a table for people (the default)")
    replay.add_argument(
        "--together", action="store_true", help="the spans of all files as one stream"
    )
    replay.add_argument("--by", choices=("agent",), help="compare agents (or models)")
    replay.add_argument(
        "--weights",
        metavar="pc=1,harm_free=2",
        help="with --by: a single number of your making",
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


def _add_check(verbs: Any) -> None:
    check = verbs.add_parser("check", help="say what is wrong with specs")
    check.add_argument("paths", nargs="+", type=Path, metavar="FILE|DIR")
    check.add_argument("--json", action="store_true", help="one finding a line")
    check.set_defaults(run=_check)


def _add_draw(verbs: Any) -> None:
    draw = verbs.add_parser("draw", help="print a spec as a diagram")
    draw.add_argument("file", type=Path, metavar="FILE")
    draw.add_argument(
        "--format", choices=("mermaid", "dot"), default="mermaid", help="mermaid is the default"
    )
    draw.set_defaults(run=_draw)


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
        ("history",): options.history,
        ("show_arguments",): options.show_arguments,
    }
    file = options.config or (
        Path(name) if (name := os.environ.get("OFFRAILS_CONFIG")) else None
    )
    settings = _settings(
        file, {path: value for path, value in given.items() if value is not None}
    )
    specs = _specs(settings.specs)
    from collector.serve import serve

    return serve(settings, specs)


def _replay(options: argparse.Namespace) -> int:
    from collector.comparing import parse_weights
    from collector.progress import Progress
    from collector.replay import BadInput, replay

    if options.weights is not None and options.by is None:
        _quit("--weights goes with --by agent")
    try:
        weights = None if options.weights is None else parse_weights(options.weights)
    except ValueError as problem:
        _quit(f"--weights: {problem}")
    specs = _specs(options.specs or ())
    progress = Progress(options.files)
    try:
        found = replay(
            options.files, specs, Settings(), together=options.together, progress=progress
        )
        for line in _replayed(found, weights, options):
            print(line)
    except BadInput as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
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
    if options.by is not None:
        yield from table.agents(compare(judgements, weights))


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


def _check(options: argparse.Namespace) -> int:
    from monitor.spec.read import load_specs

    for path in options.paths:
        if not path.exists():
            _quit(f"{path}: no such file or folder")
    loaded = load_specs(options.paths)
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
    return FAILED if loaded.refused else OK


def _draw(options: argparse.Namespace) -> int:
    from monitor.automaton.draw import dot, mermaid

    (spec,) = _specs((options.file,)) or (None,)
    if spec is None:
        _quit(f"{options.file}: no spec")
    for title, machine in spec.diagrams():
        print(mermaid(machine, title) if options.format == "mermaid" else dot(machine, title))
    return OK


def _settings(file: Path | None, options: dict[tuple[str, ...], Any]) -> Settings:
    try:
        return load(file, os.environ, options)
    except SettingsError as problem:
        _quit(str(problem))


def _specs(paths: Sequence[Path]) -> tuple[Any, ...]:
    """The specs of files and folders; refused ones end the program, warnings do not."""
    if not paths:
        return ()
    from monitor.spec.read import load_specs

    loaded = load_specs(paths)
    if loaded.refused:
        errors = [found for found in loaded.findings if found.severity == "error"]
        _quit("\n".join(f"{found}\n    {found.impact}" for found in errors))
    return loaded.specs


def _quit(message: str) -> NoReturn:
    print(f"offrails: {message}", file=sys.stderr)
    raise SystemExit(USAGE)
