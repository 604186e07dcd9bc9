"""`offrails init`: writes a starter spec from the observed calls of an agent."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from collector.cli.arguments import add_token_file, to_path
from collector.cli.inputs import OK, quit_with, recordings, writing

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    init = group.add_parser(
        "init", help="write a starter spec from the observed calls of an agent"
    )
    init.add_argument(
        "--from",
        dest="sources",
        nargs="+",
        default=["127.0.0.1:4319"],
        metavar="URL|FILE|DIR",
        help="admin address of a running service (default: 127.0.0.1:4319), recorded spans, or plain runs",
    )
    init.add_argument("--service", help="service.name of the agent, if there are several")
    init.add_argument(
        "--namespace", help="namespace of its sessions, if there are several of that service"
    )
    init.add_argument(
        "--out",
        type=to_path,
        metavar="FILE",
        help="file for the spec (default: standard output)",
    )
    add_token_file(init)
    init.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails init`, and returns the exit code."""
    from collector.client.first_minutes import limitation
    from collector.offline.drafts.starter_spec import choose, fetch, starter
    from collector.offline.replay import observe

    files = [Path(source) for source in options.sources]
    url = None
    if any(file.exists() or _is_file(file) for file in files):
        agents = observe(recordings(files))
    else:
        url = options.sources[0]
        agents = [
            agent for each in options.sources for agent in fetch(each, options.token_file)
        ]
    text = starter(choose(agents, options.service, options.namespace))
    if said := limitation(url, options.token_file):
        print(said, file=sys.stderr)
    if options.out is None:
        print(text, end="")
    elif options.out.exists():
        quit_with(f"{options.out}: exists already")
    else:
        with writing(options.out):
            options.out.write_text(text, encoding="utf-8")
        print(
            f"{options.out}: now `offrails check {options.out}`, and read it from top to bottom"
        )
    return OK


def _is_file(path: Path) -> bool:
    """True for what is no address, by its looks."""
    return path.suffix in (".json", ".jsonl", ".gz", ".zst") or path.is_absolute()
