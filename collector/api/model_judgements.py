"""What models say of a session: records of their own, beside its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collector.archive.record import SessionName

if TYPE_CHECKING:
    from collector.api.archive.past_sessions import PastSessions

__all__ = ["JudgedBy", "ModelJudgements"]

JudgedBy = Callable[[SessionName, int], Sequence[Mapping[str, Any]]]
"""Judgements of a session, by its name and the end of its last call, as they are shown."""


class ModelJudgements:
    """Finds judgements: of this process, and of the archive.

    Args:
        live: has those of this process; None if no model is asked.
        past: has those that are archived; None if there is no archive.
    """

    def __init__(self, live: JudgedBy | None, past: PastSessions | None) -> None:
        self._live = live
        self._past = past

    async def of(self, found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The judgements of the sessions of judgement objects."""
        last = {
            SessionName(each["namespace"], each["session"], each["started"]): each["last"]
            for each in found
        }
        return [each for name, end in last.items() for each in await self._of(name, end)]

    async def _of(self, name: SessionName, end: int) -> Sequence[Mapping[str, Any]]:
        """What this process has is the latest; a session of an earlier process is in the archive alone."""
        before = await self._past.judged(name) if self._past is not None else ()
        now = self._live(name, end) if self._live is not None else ()
        named = {(each["judge"], each["model"]): each for each in (*before, *now)}
        return list(named.values())
