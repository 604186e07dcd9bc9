"""Which calls of one answer may be made at the same time: those that touch nothing that another one of them writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.scaffold.turn import AgentCall

__all__ = ["together"]


def together(
    calls: Sequence[AgentCall], tools: Mapping[str, Mapping[str, Any]], most: int
) -> Iterator[list[AgentCall]]:
    """Groups of calls, in their order: made at the same time, a group ends as if it was made one after the other.

    Args:
        calls: of one answer.
        tools: with what they read and write; calls of others touch nothing.
        most: calls of a group.
    """
    group: list[AgentCall] = []
    read: set[str] = set()
    written: set[str] = set()
    for call in calls:
        tool = tools.get(call.tool, {})
        reads, writes = set(tool.get("reads", ())), set(tool.get("writes", ()))
        if group and (len(group) >= most or writes & (read | written) or reads & written):
            yield group
            group, read, written = [], set(), set()
        group.append(call)
        read |= reads
        written |= writes
    if group:
        yield group
