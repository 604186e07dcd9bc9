"""`offrails serve`: receives spans and judges calls as they arrive."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from collector.cli.arguments import add_specs, to_path
from collector.cli.inputs import OK, load_settings, loaded_or_quit, quit_with

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    serve = group.add_parser("serve", help="receive spans and judge calls as they arrive")
    serve.add_argument("--config", type=to_path, metavar="FILE.yaml", help="settings")
    add_specs(serve)
    place = "H:P|unix:PATH|off"
    serve.add_argument("--grpc", metavar=place, help="OTLP over gRPC (127.0.0.1:4317)")
    serve.add_argument("--http", metavar=place, help="OTLP over HTTP (127.0.0.1:4318)")
    serve.add_argument("--metrics", metavar="H:P|off", help="/metrics (127.0.0.1:9464)")
    serve.add_argument("--admin", metavar="H:P|off", help="the API (127.0.0.1:4319)")
    serve.add_argument(
        "--record", type=to_path, metavar="DIR", help="keep accepted spans there"
    )
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
    serve.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
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
    settings = load_settings(file, given)
    if options.print_config:
        from collector.config.masking import as_yaml

        print(as_yaml(settings), end="")
        return OK
    loaded = loaded_or_quit(settings.specs)
    from collector.app.serve import serve
    from collector.net.watched_files import UnusableError

    try:
        return serve(settings, loaded)
    except UnusableError as problem:
        from collector.config.settings import place

        where = place(problem.setting, file, os.environ, given)
        quit_with(f"{where}: {problem.strerror}")
