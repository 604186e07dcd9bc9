"""`offrails serve`: receives spans and judges calls as they arrive."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, NoReturn

from collector.cli.arguments import add_specs, to_path
from collector.cli.inputs import (
    FAILED,
    OK,
    USAGE,
    load_settings,
    loaded_or_quit,
    quit_with,
    read_specs,
)

__all__ = ["add", "run"]

_Options = dict[tuple[str, ...], Any]
"""Setting -> the value of its option."""


def add(group: Any) -> None:
    """Adds the verb and its options."""
    serve = group.add_parser("serve", help="receive spans and judge calls as they arrive")
    serve.add_argument("--config", type=to_path, metavar="FILE.yaml", help="settings file")
    add_specs(serve)
    place = "H:P|unix:PATH|off"
    serve.add_argument(
        "--grpc", metavar=place, help="address for OTLP over gRPC (default: 127.0.0.1:4317)"
    )
    serve.add_argument(
        "--http", metavar=place, help="address for OTLP over HTTP (default: 127.0.0.1:4318)"
    )
    serve.add_argument(
        "--metrics",
        metavar="H:P|off",
        help="address of /metrics and health (default: 127.0.0.1:9464)",
    )
    serve.add_argument(
        "--admin",
        metavar="H:P|off",
        help="address of the API and the session view (default: 127.0.0.1:4319)",
    )
    serve.add_argument(
        "--decide",
        metavar=place,
        help="address for decisions before calls are made (default: 127.0.0.1:4320)",
    )
    serve.add_argument(
        "--record",
        type=to_path,
        metavar="DIR",
        help="folder in which accepted spans are recorded",
    )
    serve.add_argument(
        "--forward",
        action="append",
        metavar="URL",
        help="OTLP/HTTP receiver to which accepted requests go on; repeatable",
    )
    serve.add_argument(
        "--state",
        type=to_path,
        metavar="DIR",
        help="folder of the journal, from which the next start goes on",
    )
    serve.add_argument(
        "--history",
        choices=("auto", "complete"),
        help="complete: declare that no session began before the service",
    )
    serve.add_argument(
        "--show-arguments",
        action="store_true",
        default=None,
        help="keep arguments of calls, and show them in the API and in verdicts",
    )
    serve.add_argument(
        "--print-config",
        action="store_true",
        help="print the effective settings as YAML, without secrets, and exit",
    )
    serve.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails serve`, and returns the exit code."""
    given = {
        ("specs",): options.specs,
        ("receiver", "grpc"): options.grpc,
        ("receiver", "http"): options.http,
        ("metrics",): options.metrics,
        ("admin",): options.admin,
        ("decide", "listen"): options.decide,
        ("record", "folder"): options.record,
        ("forward",): options.forward,
        ("state", "dir"): options.state,
        ("history",): options.history,
        ("show_arguments",): options.show_arguments,
    }
    file = options.config or (
        Path(name) if (name := os.environ.get("OFFRAILS_CONFIG")) else None
    )
    given = {path: value for path, value in given.items() if value is not None}
    if options.print_config:
        from collector.config.masking import as_yaml

        print(as_yaml(load_settings(file, given)), end="")
        return OK
    while True:
        try:
            _serve(file, given)
        except _CannotStart as problem:
            if _stopped_meanwhile(problem, file, given):
                return OK


class _CannotStart(Exception):  # noqa: N818 - caught in this module only
    """Why the service cannot start, and the exit code if it exits."""

    def __init__(self, why: str, code: int = USAGE) -> None:
        super().__init__(why)
        self.code = code


def _serve(file: Path | None, given: _Options) -> NoReturn:
    from collector.app.serve import NotStartedError, serve
    from collector.config.sources import SettingsError, load, place
    from collector.net.watched_files import UnusableFileError

    try:
        settings = load(file, os.environ, given)
        fails_open = settings.specs_on_error == "start"
        loaded = (read_specs if fails_open else loaded_or_quit)(settings.specs)
        serve(settings, loaded)
    except SettingsError as problem:
        raise _CannotStart(str(problem)) from None
    except UnusableFileError as problem:
        where = place(problem.setting, file, os.environ, given)
        raise _CannotStart(f"{where}: {problem.strerror}") from None
    except NotStartedError as problem:
        raise _CannotStart(str(problem), FAILED) from None


def _stopped_meanwhile(problem: _CannotStart, file: Path | None, given: _Options) -> bool:
    """Exits, or with `specs_on_error: start` stands by until the next try.

    Returns:
        True if the service was stopped while it stood by.
    """
    from collector.config.sources import standby

    settings = standby(file, os.environ, given)
    if settings is None:
        quit_with(str(problem), problem.code)
    from collector.app.standby import stand_by

    return stand_by(settings, str(problem))
