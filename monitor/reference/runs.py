"""Runs as learning takes them: plain data, with arguments reduced to digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from monitor.reference.calls import digest
from monitor.scores.consistency import Call, flatten

__all__ = ["SeenCall", "SeenRun", "seen_call"]


class SeenCall(NamedTuple):
    """One call of a run that was recorded."""

    tool: str
    digest: str
    """Of the arguments; "" where they were not told."""
    failed: bool
    call: Call
    """As the consistency scores take it."""


class SeenRun(NamedTuple):
    """One recorded run."""

    id: str
    agent: str
    calls: tuple[SeenCall, ...]
    success: bool | None = None
    """None where the outcome was not told."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools called, in order."""
        return tuple(call.tool for call in self.calls)


def seen_call(tool: str, arguments: Mapping[str, Any] | None, *, failed: bool) -> SeenCall:
    """A call from what was recorded of it."""
    found = "" if arguments is None else digest(arguments)
    return SeenCall(tool, found, failed, Call(tool, flatten(arguments)))
