"""What models say of a session: records of their own, beside its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collector.archive.record import SessionName

__all__ = ["JudgedBy", "ModelJudgements"]

JudgedBy = Callable[[SessionName, int], Sequence[Mapping[str, Any]]]
"""Judgements of a session, by its name and the end of its last call, as they are shown."""


class ModelJudgements:
    """Finds judgements.

    Args:
        live: has those of this process.
    """

    def __init__(self, live: JudgedBy) -> None:
        self._live = live

    async def of(self, found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The judgements of the sessions of judgement objects."""
        last = {
            SessionName(each["namespace"], each["session"], each["started"]): each["last"]
            for each in found
        }
        return [each for name, end in last.items() for each in await self._of(name, end)]

    async def _of(self, name: SessionName, end: int) -> Sequence[Mapping[str, Any]]:
        return self._live(name, end)
