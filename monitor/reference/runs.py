"""Runs as learning takes them: plain data, with arguments reduced to digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple

from monitor.reference.calls import digest, seems_to_write
from monitor.scores.consistency import TraceCall, flatten

__all__ = ["SeenCall", "SeenRun", "sample", "seen_call", "writes_anew"]


class SeenCall(NamedTuple):
    """One call of a run that was recorded."""

    tool: str
    digest: str
    """Digest of the arguments; "" if they are unknown."""
    failed: bool
    call: TraceCall
    """The call in the form of the consistency scores."""


class SeenRun(NamedTuple):
    """One recorded run."""

    id: str
    agent: str
    calls: tuple[SeenCall, ...]
    success: bool | None = None
    """None if the outcome is unknown."""
    task: str = ""
    """What it was asked to do, by name; "" if that is unknown."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools called, in order."""
        return tuple(call.tool for call in self.calls)


def seen_call(tool: str, arguments: Mapping[str, Any] | None, *, failed: bool) -> SeenCall:
    """A call from what was recorded of it."""
    found = "" if arguments is None else digest(arguments)
    return SeenCall(tool, found, failed, TraceCall(tool, flatten(arguments)))


def writes_anew(run: SeenRun, is_known: Callable[[str], bool], writes: Container[str]) -> bool:
    """Whether a run wrote, without failing, by a tool that is not known (`new_write_tool`).

    Args:
        run: the run.
        is_known: whether usual runs called a tool.
        writes: tools that write, beside those that do by their names.
    """
    return any(
        not call.failed
        and (call.tool in writes or seems_to_write(call.tool))
        and not is_known(call.tool)
        for call in run.calls
    )


def sample(runs: Iterable[SeenRun], most: int) -> list[SeenRun]:
    """At most so many of the runs: the same ones whatever the order they come in."""
    return sorted(runs, key=_shuffle_key)[:most]


def _shuffle_key(run: SeenRun) -> tuple[bytes, str]:
    """An order that has nothing to do with the runs' content or names, and is always the same."""
    text = "\0".join(f"{call.tool}\1{call.digest}" for call in run.calls)
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest(), run.id
