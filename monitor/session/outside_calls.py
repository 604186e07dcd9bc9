"""Times of the calls of a session that are in no log: calls that no spec names, and calls that left the logs."""

from __future__ import annotations

from typing import Final

from monitor.records import ToolCall

__all__ = ["OutsideCalls"]

OUTSIDE_MAX: Final = 8
"""Limit of the first starts, and of the last ends, that are kept per call for calls in no log."""

_Time = tuple[int, bytes]


class OutsideCalls:
    """Times of calls that are in no log. Some are kept per call, so that one may be withdrawn."""

    __slots__ = ("_ends", "_kept", "_starts")

    def __init__(self) -> None:
        self._starts: list[_Time] = []
        """The earliest starts, with their span ids."""
        self._ends: list[_Time] = []
        """The latest ends, with their span ids."""
        self._kept: tuple[int, int] | None = None
        """First start and last end of the calls that cannot be withdrawn."""

    def add(self, call: ToolCall) -> None:
        """Adds the times of a call that may be withdrawn."""
        self._add((call.start_ns, call.span_id), (call.end_ns, call.span_id))

    def _add(self, start: _Time | None, end: _Time | None) -> None:
        if start is not None:
            self._starts = sorted([*self._starts, start])[:OUTSIDE_MAX]
        if end is not None:
            self._ends = sorted([*self._ends, end])[-OUTSIDE_MAX:]

    def remove(self, span_id: bytes) -> None:
        """Removes the times of a call."""
        self._starts = [each for each in self._starts if each[1] != span_id]
        self._ends = [each for each in self._ends if each[1] != span_id]

    def keep(self, span: tuple[int, int]) -> None:
        """Adds times that cannot be withdrawn."""
        start, end = self._kept or span
        self._kept = min(start, span[0]), max(end, span[1])

    def absorb(self, other: OutsideCalls) -> None:
        """Adds all times of another session."""
        for each in other._starts:
            self._add(each, None)
        for each in other._ends:
            self._add(None, each)
        if other._kept is not None:
            self.keep(other._kept)

    def copy(self) -> OutsideCalls:
        """The same times, to be changed apart from now on."""
        twin = OutsideCalls()
        twin._starts, twin._ends, twin._kept = self._starts, self._ends, self._kept
        return twin

    def span(self) -> tuple[int, int] | None:
        """(first start, last end); None if there are none."""
        starts = [start for start, _ in self._starts]
        ends = [end for end, _ in self._ends]
        if self._kept is not None:
            starts.append(self._kept[0])
            ends.append(self._kept[1])
        return (min(starts), max(ends)) if starts and ends else None
