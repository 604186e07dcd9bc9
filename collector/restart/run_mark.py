"""A mark in a folder that a process ran: with it, the next one knows that it is not the first.

Idea: `history: complete` is a promise about the first process, which starts before its agents do. A process that is started
again among running agents has not seen their first calls. Without a journal, only a mark beside it can tell.

Invariant: a mark counts for as long as a session may be idle. What ran before that has no live session.

Example: a sidecar is restarted. It finds the mark of 20 s ago, and reads sessions as `history: auto` does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from collector.telemetry.clock import now_ns, steady_ns
from collector.telemetry.logs import log

__all__ = ["RunMark"]

NAME: Final = "ran"
SECOND_NS: Final = 1_000_000_000
EACH_NS: Final = 10 * SECOND_NS
"""How often a process says that it runs."""


class RunMark:
    """The mark of this process, and of the one before.

    Args:
        folder: outlives the process, but not its agents.
        lasts_seconds: how long a mark counts.
    """

    def __init__(self, folder: Path, lasts_seconds: float) -> None:
        self._file = folder / NAME
        self._due_ns = 0
        self._is_usable = True
        self.has_predecessor = self._was_there(lasts_seconds)
        """True if a process ran before whose sessions may go on, also where nobody can say."""

    def _was_there(self, lasts_seconds: float) -> bool:
        try:
            age = now_ns() - self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return not self._touch()
        except OSError as problem:
            self._warn(problem)
            return True
        self._touch()
        return age < lasts_seconds * SECOND_NS

    def tick(self) -> None:
        """Says now and then that the process runs."""
        now = steady_ns()
        if now >= self._due_ns:
            self._due_ns = now + EACH_NS
            self._touch()

    def _touch(self) -> bool:
        try:
            self._file.touch(0o600)
            os.utime(self._file)
        except OSError as problem:
            self._warn(problem)
            return False
        return True

    def _warn(self, problem: OSError) -> None:
        if self._is_usable:
            log.warning("history_mark_unusable", file=str(self._file), reason=problem.strerror)
        self._is_usable = False
