"""What one judgement is to allow for: the gaps that reach its session, as time spans.

Idea: a session is read twice. The *plain* reading takes for granted that nothing is missing but what certainly is. The
*wide* reading allows for everything that may be missing. A call is harmful for certain only if the least cost of the wide
reading rises; what only the plain reading calls harmful is possible harm.

Example: the service was down from 10 to 20 s, so calls may be missing between a call at 8 s and one at 21 s. The window
(10 s, 20 s) lies between them, and the wide reading goes on from every state that missing calls may have led to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from monitor.visibility.cause import FACTS, Cause, Effect
from monitor.visibility.gap import Gap

__all__ = ["CLEAR", "Sight", "Window", "between", "sight_of"]


class Window(NamedTuple):
    """A time span in which calls may be missing, Unix nanoseconds."""

    since_ns: int
    until_ns: int
    tool: str | None
    """The only tool whose calls may be missing; "" for any; None if nothing follows from one call to the next."""


class Sight(NamedTuple):
    """What a judgement allows for."""

    sure: tuple[Window, ...]
    """Where calls are certainly missing: for both readings."""
    maybe: tuple[Window, ...]
    """Where they may be missing: for the wide reading alone."""
    since_ns: int
    """The beginning of the window that begins last; -1 without windows."""
    until_ns: int
    """The end of the last window; 0 without windows."""
    told: bool
    """True if harm of the plain reading alone is reported as possible."""
    causes: tuple[Cause, ...]
    """Why, in the order of `Cause`."""

    def windows(self, *, wide: bool) -> tuple[Window, ...]:
        """The windows of one reading."""
        return self.sure + self.maybe if wide else self.sure

    @property
    def began_before(self) -> bool:
        """True if calls before all others are certainly missing."""
        return any(not each.since_ns for each in self.sure)


CLEAR: Final = Sight((), (), -1, 0, True, ())
"""Nothing is missing."""


def sight_of(gaps: Iterable[Gap]) -> Sight:
    """What gaps that reach a session come to, whatever their order."""
    sure: set[Window] = set()
    maybe: set[Window] = set()
    causes: set[Cause] = set()
    for each in gaps:
        scattered = FACTS[each.cause].effect is Effect.SCATTERED
        (sure if FACTS[each.cause].sure else maybe).add(
            Window(each.since_ns, each.until_ns, None if scattered else each.tool)
        )
        causes.add(each.cause)
    if not causes:
        return CLEAR
    since_ns = max(each.since_ns for each in (*sure, *maybe))
    until_ns = max(each.until_ns for each in (*sure, *maybe))
    told = all(FACTS[each].told or FACTS[each].sure for each in causes)
    order = list(Cause)
    return Sight(
        tuple(sorted(sure, key=_order)),
        tuple(sorted(maybe, key=_order)),
        since_ns,
        until_ns,
        told,
        tuple(sorted(causes, key=order.index)),
    )


def _order(window: Window) -> tuple[int, int, bool, str]:
    return window.since_ns, window.until_ns, window.tool is None, window.tool or ""


def between(windows: Sequence[Window], before_ns: int, after_ns: int) -> list[str | None]:
    """The tools whose calls may be missing between two moments, as `Window.tool`; none in most cases.

    A window that only touches one of the two moments counts: calls of one instant have no order.
    """
    return [
        each.tool for each in windows if each.since_ns <= after_ns and each.until_ns > before_ns
    ]
