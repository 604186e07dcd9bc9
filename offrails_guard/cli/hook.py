"""`offrails hook`: asks before a tool of a coding agent runs; or stays, and answers for the hooks of its user."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from offrails_guard.cli.options import FAILED, VerbParser, add_guard, guard_of

if TYPE_CHECKING:
    from offrails_guard.adapters.claude_code import HookReply
    from offrails_guard.base import BaseGuard

__all__ = ["add", "reply_of", "run"]


def add(group: Any, program: str = "offrails") -> None:
    """Adds the verb and its options to those of a program."""
    hook = group.add_parser(
        "hook",
        help="ask before a tool of a coding agent runs",
        usage=f"{program} hook claude-code [options]\n       {program} hook --serve [options]",
    )
    hook.add_argument(
        "agent_program",
        nargs="?",
        default="claude-code",
        choices=("claude-code",),
        metavar="claude-code",
        help="claude-code: SessionStart, PreToolUse, PostToolUse and PostToolUseFailure, on standard input",
    )
    hook.add_argument(
        "--json",
        action="store_true",
        help="deny by permissionDecision on standard output, in place of exit code 2",
    )
    hook.add_argument(
        "--serve",
        action="store_true",
        help="stay, and answer for the hooks of this user over a Unix socket; the options are for events that "
        "other programs write to it",
    )
    add_guard(hook)
    hook.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails hook`, and returns the exit code."""
    import logging

    # What the user is to read is a part of the answer.
    logging.getLogger("offrails.guard").addHandler(logging.NullHandler())
    if options.serve:
        from offrails_guard.cli.hook_helper import serve

        return serve(options, _parse, reply_of)
    from offrails_guard.cli.direct import DirectGuard
    from offrails_guard.cli.resident import EVENT_BYTES_MAX

    try:
        guard = guard_of(options, DirectGuard)
    except SystemExit:
        if options.on_unavailable == "deny":
            raise  # its code, 2, keeps the call from being made
        return FAILED  # a notice for the user: a file that is gone stops no agent
    found = reply_of(sys.stdin.buffer.read(EVENT_BYTES_MAX), guard, options)
    if found.out:
        print(found.out)
    if found.err:
        print(found.err, file=sys.stderr)
    return found.code


def _parse(arguments: list[str]) -> argparse.Namespace:
    """The options of a hook's command line."""
    parser = VerbParser(prog="offrails")
    add(parser.add_subparsers(required=True))
    return parser.parse_args(arguments)


def reply_of(event: bytes, guard: BaseGuard, options: argparse.Namespace) -> HookReply:
    """The answer to one event."""
    from offrails_guard.adapters.claude_code import reply
    from offrails_guard.awaiting_outcome.decision_id_files import DecisionIdFiles

    awaiting = DecisionIdFiles(scope=f"{options.url} {options.service}")
    return reply(event, guard, awaiting, options.on_unavailable, as_json=options.json)
