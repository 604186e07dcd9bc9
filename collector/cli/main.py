"""The command line: what can be asked for. What is done then is in `verbs`."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from collector import __version__
from collector.cli import verbs
from collector.cli.pydantic_plugins import skip_plugins
from collector.cli.verbs import FAILED, OK

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    _open_streams()
    skip_plugins()
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


def _open_streams() -> None:
    """Opens /dev/null for each standard stream that whoever started us has closed.

    Else the next file or socket gets its number: libraries would write to it, and uvloop aborts.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest number that is free is that of the stream.
            stream = Path(os.devnull).open(mode, errors="backslashreplace")  # noqa: SIM115
            setattr(sys, name, stream)


def _path(text: str) -> Path:
    """A path; an empty text, as of a variable that is not set, is not the working directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a path, found an empty text")
    return Path(text)


class _Arguments(argparse.ArgumentParser):
    """The parser of a verb, or of them all."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, Any]:
        """As ever, but what nobody knows is refused by its verb, with the verb's own usage."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


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
    group = parser.add_subparsers(metavar="VERB", required=True)
    _add_serve(group)
    _add_replay(group)
    _add_import(group)
    _add_learn(group)
    _add_init(group)
    _add_doctor(group)
    _add_check(group)
    _add_accept(group)
    _add_draw(group)
    _add_tail(group)
    return parser


def _add_serve(group: Any) -> None:
    serve = group.add_parser("serve", help="receive spans and judge calls as they arrive")
    serve.add_argument("--config", type=_path, metavar="FILE.yaml", help="settings")
    _add_specs(serve)
    place = "H:P|unix:PATH|off"
    serve.add_argument("--grpc", metavar=place, help="OTLP over gRPC (127.0.0.1:4317)")
    serve.add_argument("--http", metavar=place, help="OTLP over HTTP (127.0.0.1:4318)")
    serve.add_argument("--metrics", metavar="H:P|off", help="/metrics (127.0.0.1:9464)")
    serve.add_argument("--admin", metavar="H:P|off", help="the API (127.0.0.1:4319)")
    serve.add_argument("--record", type=_path, metavar="DIR", help="keep accepted spans there")
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
    serve.set_defaults(run=verbs.run_serve)


def _add_replay(group: Any) -> None:
    replay = group.add_parser("replay", help="judge stored OTLP/JSON lines or plain runs")
    replay.add_argument("files", nargs="+", type=_path, metavar="FILE|DIR")
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
        type=_path,
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
    replay.set_defaults(run=verbs.run_replay)


def _add_import(group: Any) -> None:
    bring = group.add_parser("import", help="write specs from published automata")
    bring.add_argument("source", choices=("core",), help="whose: the CORE authors'")
    bring.add_argument(
        "files", nargs="+", type=_path, metavar="FILE.json", help="a data set, or one automaton"
    )
    bring.add_argument("--out", type=_path, required=True, metavar="DIR", help="for the specs")
    bring.add_argument(
        "--no-repair", action="store_true", help="refuse defective tasks, repair nothing"
    )
    bring.set_defaults(run=verbs.run_import)


def _add_learn(group: Any) -> None:
    learn = group.add_parser("learn", help="learn a reference from recorded runs")
    learn.add_argument("files", nargs="+", type=_path, metavar="FILE|DIR")
    learn.add_argument("--id", help="of the reference; with --update that of OLD")
    learn.add_argument("--out", type=_path, required=True, metavar="FILE", help="for it")
    learn.add_argument("--writes", metavar="TOOL,...", help="tools that change something")
    outcomes = learn.add_mutually_exclusive_group()
    outcomes.add_argument(
        "--success", metavar="ATTR=VALUE", help="what a successful run says of itself"
    )
    outcomes.add_argument(
        "--labels", type=_path, metavar="FILE", help="session and outcome a line"
    )
    learn.add_argument(
        "--update", type=_path, metavar="OLD", help="propose the next version of this reference"
    )
    learn.add_argument(
        "--spec",
        type=_path,
        metavar="OUT",
        help="draft a task spec as well, for review (ALERGIA; needs the extra learn)",
    )
    learn.set_defaults(run=verbs.run_learn)


def _add_init(group: Any) -> None:
    init = group.add_parser("init", help="write a starter spec from what was seen of an agent")
    init.add_argument(
        "--from",
        dest="sources",
        nargs="+",
        default=["127.0.0.1:4319"],
        metavar="URL|FILE|DIR",
        help="a running service's admin address (127.0.0.1:4319), or recorded spans or plain runs",
    )
    init.add_argument(
        "--service", help="which agent, by its service.name, where there are several"
    )
    init.add_argument("--out", type=_path, metavar="FILE", help="where to; else it is printed")
    init.set_defaults(run=verbs.run_init)


def _add_doctor(group: Any) -> None:
    doctor = group.add_parser("doctor", help="send a test span and say what is missing")
    doctor.add_argument(
        "endpoint",
        nargs="?",
        metavar="ENDPOINT",
        help="[http[s]://]HOST[:PORT] or unix:PATH (OTEL_EXPORTER_OTLP_ENDPOINT, or 127.0.0.1)",
    )
    doctor.set_defaults(run=verbs.run_doctor)


def _add_check(group: Any) -> None:
    check = group.add_parser("check", help="say what is wrong with specs")
    check.add_argument("paths", nargs="+", type=_path, metavar="FILE|DIR")
    check.add_argument("--json", action="store_true", help="one finding a line")
    check.add_argument(
        "--runs",
        nargs="+",
        type=_path,
        default=(),
        metavar="RUNS",
        help="recorded good runs: say which of them a spec rejects",
    )
    check.set_defaults(run=verbs.run_check)


def _add_accept(group: Any) -> None:
    accept = group.add_parser(
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
        "--runs", nargs="+", type=_path, metavar="RUNS", help="recordings that have the call"
    )
    accept.set_defaults(run=verbs.run_accept)


def _add_draw(group: Any) -> None:
    draw = group.add_parser("draw", help="draw a spec or a reference")
    draw.add_argument("file", type=_path, metavar="FILE")
    draw.add_argument(
        "--format",
        choices=("mermaid", "dot"),
        help="of what is printed; mermaid is the default",
    )
    draw.add_argument(
        "--out", type=_path, metavar="FILE.svg|.png", help="write a picture instead"
    )
    draw.add_argument(
        "--runs",
        nargs="+",
        type=_path,
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
    draw.set_defaults(run=verbs.run_draw)


def _add_tail(group: Any) -> None:
    tail = group.add_parser("tail", help="show the verdicts of a running service")
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
    tail.set_defaults(run=verbs.run_tail)


def _add_specs(verb: Any) -> None:
    verb.add_argument(
        "--specs",
        action="append",
        type=_path,
        metavar="DIR",
        help="spec file or folder; repeatable",
    )
