"""`make demo`: the real service, a real agent, and the verdicts as they come.

    make demo                        each call is judged as its span arrives
    make demo ARGS=--guard           the agent asks before each call
    make demo ARGS=--data            rules over data: that order, this address
    make demo ARGS='--run OUT'       what a run of offrails harness has left
    make demo ARGS=--stay            the service and its page stay until Ctrl-C

    tests/demo/rover.py, guarded_rover.py   the agent: how to make one observable, and how to make it ask
    tests/demo/observed.py, guarded.py      what is shown of it
    tests/demo/desk.py, data.py             another agent, whose spans carry results, and what is shown of it
    tests/demo/rollouts.py                  rollouts of the bench, sent and judged
    tests/demo/words.py                     how a verdict is put into words
    tests/demo/processes.py, tied.py        the two processes, and how they end with the demo

Everything is on free ports of the loopback and ends by itself; with `--stay`, when the demo is ended in any way.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.demo import data, guarded, observed, rollouts
from tests.demo.tied import end_by_signals
from tests.demo.words import Paint

DEMOS = (
    ("guard", guarded, "the agent asks before each call"),
    ("data", data, "it asks under rules over data: that order, this address"),
)
"""Options, each with what it shows."""


def main(arguments: Sequence[str]) -> int:
    """Runs the demo; 0 when everything went well."""
    parser = argparse.ArgumentParser("make demo")
    shown = parser.add_mutually_exclusive_group()
    for name, demo, words in DEMOS:
        shown.add_argument(
            f"--{name}", dest="show", action="store_const", const=demo.show, help=words
        )
    shown.add_argument(
        "--run", type=Path, metavar="DIR", help="rollouts of offrails harness are judged again"
    )
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK", help="of --run: where its tasks are, if not bundled"
    )
    parser.add_argument("--stay", action="store_true", help="keep the service until Ctrl-C")
    options = parser.parse_args(arguments)
    paint = Paint(coloured=_wants_colour())
    if options.run is not None:
        return rollouts.show(options.run, options.tasks, paint, staying=options.stay)
    show = options.show or observed.show
    return show(paint, staying=options.stay)


def _wants_colour() -> bool:
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


if __name__ == "__main__":
    end_by_signals()
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
