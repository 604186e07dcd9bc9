"""Compensating pairs (papers/000 section 1): a call, and the call that undoes it.

The end state is clean, and neither call need be harmful. But between the two calls the world is in a
wrong state, in which a failure would leave it. So such pairs are reported, whatever the scores are.

Example: the spec says that `unlock` undoes `lock`. `lock` is step 2 and `unlock` is step 5: one pair (2, 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from monitor.session.judge.judge import PROGRESS, SELF_LOOP

__all__ = ["LISTED_MAX", "OPEN_MAX", "Compensation", "Compensations", "compensations"]

LISTED_MAX: Final = 64
"""Limit of the pairs of one judgement that are listed; all are counted."""

OPEN_MAX: Final = 64
"""Limit of the steps that wait for their undo; beyond it the oldest is forgotten."""


class Compensation(NamedTuple):
    """A pair. Steps are numbered from 1, as in the judgement object."""

    do: int
    undo: int
    symbol: int
    undone_by: int


class Compensations:
    """The pairs of a judgement so far, kept step by step.

    Args:
        undo: symbol -> the symbol that undoes it, as the spec marks them.
    """

    __slots__ = ("_open", "_undo", "count", "listed")

    def __init__(self, undo: Mapping[int, int]) -> None:
        self._undo = undo
        self._open: tuple[tuple[int, int], ...] = ()
        """(number of the step, symbol) of the steps that may still be undone."""
        self.count = 0
        self.listed: tuple[Compensation, ...] = ()

    def copy(self) -> Compensations:
        twin = Compensations(self._undo)
        twin._open, twin.count, twin.listed = self._open, self.count, self.listed
        return twin

    def take(self, number: int, token: int, code: int) -> bool:
        """Takes a step; True if it undoes an earlier one.

        An undo must be allowed where it is made (progress or self-loop) and have an effect. It undoes
        the latest step that it can.
        """
        if code not in (PROGRESS, SELF_LOOP):
            return False
        undone = next(
            (each for each in reversed(self._open) if self._undo[each[1]] == token), None
        )
        if undone is not None:
            self._open = tuple(each for each in self._open if each != undone)
            self.count += 1
            if len(self.listed) < LISTED_MAX:
                pair = Compensation(undone[0], number, undone[1], token)
                self.listed = (*self.listed, pair)
            return True
        if code == PROGRESS and token in self._undo:
            self._open = (*self._open[1 - OPEN_MAX :], (number, token))
        return False

    def start_episode(self) -> None:
        """Begins a new episode, which cannot undo calls of the last one."""
        self._open = ()


def compensations(
    steps: Iterable[tuple[int, int, int]],
    undo: Mapping[int, int],
    before: Compensations | None = None,
) -> Compensations:
    """The compensating pairs of one episode.

    Args:
        steps: (number, token, code) of each step, in the order taken; a token below the number
            of symbols is the symbol of a call that did not fail.
        undo: symbol -> the symbol that undoes it.
        before: the pairs and open steps so far, which are not changed.

    Returns:
        The pairs in the order of their undo, with those of `before`.
    """
    found = before.copy() if before is not None else Compensations(undo)
    if undo:
        for number, token, code in steps:
            found.take(number, token, code)
    return found
