"""Which steps of a log one model answer asked for together: they are one group, whether their times overlap or not.

Idea: a model that asks for several calls in one answer says that their order does not matter. Whether a framework
then runs them at once or one after the other is the framework's affair. Few answers ask for several calls, so a log
has a small table of those only.

Example: an answer asks for `check` and `pay`. A framework runs `pay` first, then `check`, and something else between:
the three steps are one group, from the first to the last of the two.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import mypyc_attr

__all__ = ["ENTRY_BYTES", "StepAnswers", "united"]

ENTRY_BYTES = 160
"""Approximate bytes of a step here."""

Group = tuple[int, int]
"""(first place, the place behind the last one)."""


@mypyc_attr(acyclic=True)
class StepAnswers:
    """Span id -> the answer that asked for the step."""

    __slots__ = ("by_span",)

    def __init__(self) -> None:
        self.by_span: dict[bytes, bytes] = {}

    def copy(self) -> StepAnswers:
        """The same table, to be changed apart."""
        twin = StepAnswers()
        twin.by_span = dict(self.by_span)
        return twin

    def knows(self, answer: bytes) -> bool:
        """True if a step of this answer is in the log."""
        return answer in self.by_span.values()

    def groups(self, find: Callable[[bytes], int | None]) -> list[Group]:
        """From the first to the last step of each answer that has several, in the order of their first places."""
        found: dict[bytes, list[int]] = {}
        for span, answer in self.by_span.items():
            place = find(span)
            if place is not None:
                found.setdefault(answer, []).append(place)
        return sorted((min(each), max(each) + 1) for each in found.values() if len(each) > 1)

    def members(self, find: Callable[[bytes], int | None], group: Group) -> list[list[int]]:
        """The places of each answer's steps in a group, where it has several."""
        found: dict[bytes, list[int]] = {}
        for span, answer in self.by_span.items():
            place = find(span)
            if place is not None and group[0] <= place < group[1]:
                found.setdefault(answer, []).append(place)
        return [each for each in found.values() if len(each) > 1]


def united(groups: list[Group]) -> list[Group]:
    """Groups as they are judged: those that reach into each other are one."""
    found: list[Group] = []
    for first, end in sorted(groups):
        if found and found[-1][1] > first:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((first, end))
    return found
