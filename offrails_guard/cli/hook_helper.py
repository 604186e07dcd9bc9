"""`offrails hook --serve`: stays, and answers for the hooks of its user, each by its own options."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from offrails_guard.base import BaseGuard
from offrails_guard.cli.options import FAILED, OK, guard_of
from offrails_guard.cli.resident import Answer, HookRequest, listen, socket_path
from offrails_guard.cli.resident import serve as answer_hooks
from offrails_guard.client import Guard

__all__ = ["serve"]

GUARDS_MAX: Final = 32
"""Guards with options of their own; beyond it the least recently used one is closed."""


Parse = Callable[[list[str]], argparse.Namespace]
ReplyOf = Callable[[bytes, BaseGuard, argparse.Namespace], tuple[int, str, str]]


def serve(options: argparse.Namespace, parse: Parse, reply_of: ReplyOf) -> int:
    """Answers until a signal, and returns the exit code.

    Args:
        options: for events that other programs than hooks write.
        parse: reads the command line of a hook; SystemExit where it cannot be used.
        reply_of: answers an event.
    """
    path = socket_path()
    try:
        listener = listen(path)
    except OSError as problem:
        print(f"offrails hook: {problem.strerror or problem}", file=sys.stderr)
        return FAILED
    guards = _Guards(options, parse, reply_of)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _end(listener, path))
    print(f"offrails hook ready socket={path}", flush=True)
    answer_hooks(listener, guards.answer)
    guards.close()
    return OK


def _end(listener: Any, path: str) -> None:
    Path(path).unlink(missing_ok=True)
    listener.shutdown(2)
    listener.close()


class _Guards:
    """A guard for each set of options, with kept connections."""

    def __init__(self, options: argparse.Namespace, parse: Parse, reply_of: ReplyOf) -> None:
        self._options = options
        self._parse = parse
        self._reply_of = reply_of
        self._guards: OrderedDict[tuple[Any, ...], Guard] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, request: HookRequest) -> Answer | None:
        """The answer to a hook; None if its options cannot be used, which it says itself."""
        try:
            options = self._of(request)
            guard = self._guard(options)
        except SystemExit:
            return None
        return self._reply_of(request.event, guard, options)

    def close(self) -> None:
        """Waits for outcomes that are on their way."""
        for each in self._guards.values():
            each.close()

    def _of(self, request: HookRequest) -> argparse.Namespace:
        """The options of a hook; our own, with answers in JSON, for another program."""
        if request.arguments is None:
            return argparse.Namespace(**{**vars(self._options), "json": True})
        found = self._parse(request.arguments)
        for name in ("token_file", "ca_file"):
            file = getattr(found, name)
            setattr(found, name, file and Path(request.folder) / file)
        return found

    def _guard(self, options: argparse.Namespace) -> Guard:
        key = (
            *sorted((name, str(value)) for name, value in vars(options).items()),
            *(_changed(each) for each in (options.token_file, options.ca_file)),
        )
        with self._lock:
            guard = self._guards.get(key) or guard_of(options, Guard)
            self._guards[key] = guard
            self._guards.move_to_end(key)
            old = self._guards.popitem(last=False) if len(self._guards) > GUARDS_MAX else None
        if old is not None:
            old[1].close()
        return guard


def _changed(file: Path | None) -> int:
    """When a file was written last: a token may be replaced."""
    try:
        return file.stat().st_mtime_ns if file is not None else 0
    except OSError:
        return 0
