"""`offrails hook`: asks before a tool of a coding agent runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from collector.cli.guarding import add_guard, guard_of
from collector.cli.inputs import FAILED

__all__ = ["add", "run"]

DEADLINE_SECONDS: Final = 1.0
"""Each event is a process that opens a connection; the agent itself waits for much longer."""

EVENT_BYTES_MAX: Final = 64 << 20


def add(group: Any) -> None:
    """Adds the verb and its options."""
    hook = group.add_parser("hook", help="ask before a tool of a coding agent runs")
    hook.add_argument(
        "agent_program",
        choices=("claude-code",),
        metavar="claude-code",
        help="claude-code: PreToolUse, PostToolUse and PostToolUseFailure, on standard input",
    )
    hook.add_argument(
        "--json",
        action="store_true",
        help="deny by permissionDecision on standard output, in place of exit code 2",
    )
    add_guard(hook, deadline_seconds=DEADLINE_SECONDS)
    hook.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails hook`, and returns the exit code."""
    from guard.adapters.claude_code import reply
    from guard.held_files import HeldFiles

    try:
        guard = guard_of(options)
    except SystemExit:
        if options.on_unavailable == "deny":
            raise  # its code, 2, keeps the call from being made
        return FAILED  # a notice for the user: a file that is gone stops no agent
    with guard:
        text = sys.stdin.buffer.read(EVENT_BYTES_MAX)
        found = reply(text, guard, HeldFiles(), options.on_unavailable, as_json=options.json)
    if found.out:
        print(found.out)
    if found.err:
        print(found.err, file=sys.stderr)
    return found.code
