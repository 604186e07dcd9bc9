"""`offrails draw`: draws a spec or a reference."""

from __future__ import annotations

import argparse
from typing import Any

from collector.cli.arguments import to_path
from collector.cli.inputs import OK, load_specs_or_quit, quit_with, recordings, writing

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    draw = group.add_parser("draw", help="draw a spec or a reference")
    draw.add_argument("file", type=to_path, metavar="FILE")
    draw.add_argument(
        "--format",
        choices=("mermaid", "dot"),
        help="format of the printed text (default: mermaid)",
    )
    draw.add_argument(
        "--out",
        type=to_path,
        metavar="FILE.svg|.png",
        help="write a picture in place of printing text",
    )
    draw.add_argument(
        "--runs",
        nargs="+",
        type=to_path,
        default=(),
        metavar="RUNS",
        help="with --out: recordings that have the session to draw in",
    )
    draw.add_argument(
        "--session",
        action="append",
        default=[],
        metavar="ID",
        help="session of --runs whose path is drawn in; under each, whose things are listed with their states",
    )
    draw.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails draw`, and returns the exit code."""
    from monitor.drawing.diagram import dot, mermaid

    specs = load_specs_or_quit((options.file,))
    if len(specs) != 1:
        found = f"{len(specs)} specs; name the file of one" if specs else "no spec"
        quit_with(f"{options.file}: {found}")
    spec = specs[0]
    if options.out is not None:
        return _picture(options, spec)
    if options.runs or options.session:
        quit_with("--runs and --session go with --out: sessions are drawn in a picture")
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
    from collector.offline.draw import picture
    from collector.offline.png import NoRenderer, png

    form = options.out.suffix.lower()
    if form not in (".svg", ".png"):
        quit_with(f"{options.out}: pictures are SVG or PNG; name the file *.svg or *.png")
    if spec.learnt is not None:
        quit_with(
            "--out goes with a spec: a learnt reference is printed for Mermaid or Graphviz"
        )
    if options.format:
        quit_with("--format goes without --out: the file's name says what picture it is")
    if options.session and not options.runs:
        quit_with("--session goes with --runs: the recordings that have it")
    if options.runs and not options.session:
        quit_with("--runs goes with --session: the one to draw in")
    if len(options.session) > 1:
        quit_with("--out goes with one --session")
    try:
        with writing(options.out):
            text = picture(spec, recordings(options.runs), *options.session)
            options.out.write_bytes(png(text) if form == ".png" else text.encode())
    except NoRenderer as problem:
        quit_with(f"{options.out}: {problem}")
    return OK
