"""What one judgement is to allow for: the gaps that reach its session, as time spans.

Idea: a session is read twice. The *plain* reading takes for granted that nothing is missing but what certainly is. The
*wide* reading allows for everything that may be missing. A call is harmful for certain only if the least cost of the wide
reading rises; what only the plain reading calls harmful is possible harm.

Example: the service was down from 10 to 20 s, so calls may be missing between a call at 8 s and one at 21 s. The window
(10 s, 20 s) lies between them, and the wide reading goes on from every state that missing calls may have led to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from monitor.visibility.cause import FACTS, Cause, Effect
from monitor.visibility.gap import EVER, Gap

__all__ = ["CLEAR", "Sight", "Window", "between", "sight_of"]


_built: Final[Any] = tuple.__new__
"""The same as `built` of `monitor.records`, which is above this module."""
_CAUSES: Final = tuple(Cause)
_SURE: Final = frozenset(each for each, fact in FACTS.items() if fact.sure)
_SCATTERED: Final = frozenset(
    each for each, fact in FACTS.items() if fact.effect is Effect.SCATTERED
)
_QUIET: Final = frozenset(each for each, fact in FACTS.items() if not (fact.told or fact.sure))

MILLISECOND: Final = 1_000_000
"""Precision with which a log keeps receipts."""


class Window(NamedTuple):
    """A time span in which calls may be missing, Unix nanoseconds."""

    since_ns: int
    until_ns: int
    tool: str | None
    """The only tool whose calls may be missing; "" for any; None if nothing follows from one call to the next."""
    received_ns: int
    """Calls that were received up to then are judged as they were."""


class Sight(NamedTuple):
    """What a judgement allows for."""

    sure: tuple[Window, ...]
    """Windows in which calls are certainly missing, for both readings."""
    maybe: tuple[Window, ...]
    """Windows in which calls may be missing, for the wide reading only."""
    since_ns: int
    """The beginning of the window that begins last; -1 without windows."""
    until_ns: int
    """The end of the last window; 0 without windows."""
    received_ns: int
    """The greatest of the windows'; -1 without windows."""
    told: bool
    """True if harm of the plain reading alone is reported as possible."""
    causes: tuple[Cause, ...]
    """Why, in the order of `Cause`."""

    def windows(self, *, wide: bool) -> tuple[Window, ...]:
        """The windows of one reading."""
        return self.sure + self.maybe if wide else self.sure


CLEAR: Final = Sight((), (), -1, 0, -1, True, ())
"""Sight of a session that misses nothing."""


def sight_of(gaps: Iterable[Gap], begin_ns: int = -1, own: Iterable[Gap] = ()) -> Sight:
    """What gaps that reach a session come to, whatever their order.

    Args:
        gaps: of the ledger, or of the session.
        begin_ns: nothing of these was missing before; -1 if that is not known.
        own: further gaps, whenever the session began.
    """
    sure, maybe, causes = set[Window](), set[Window](), set[Cause]()
    last_since_ns = last_until_ns = last_received_ns = 0
    for part, begun_ns in ((gaps, begin_ns), (own, -1)):
        for each in part:
            cause, until_ns = each.cause, each.until_ns
            if until_ns <= begun_ns:
                continue
            since_ns = max(each.since_ns, begun_ns)
            tool = None if cause in _SCATTERED else each.tool
            received_ns = each.received_ns // MILLISECOND * MILLISECOND
            window: Window = _built(Window, (since_ns, until_ns, tool, received_ns))
            (sure if cause in _SURE else maybe).add(window)
            causes.add(cause)
            last_since_ns = max(last_since_ns, since_ns)
            last_until_ns = max(last_until_ns, until_ns)
            last_received_ns = max(last_received_ns, received_ns)
    if not causes:
        return CLEAR
    order = None if causes.isdisjoint(_SCATTERED) else _order
    return Sight(
        tuple(sorted(sure, key=order)),
        tuple(sorted(maybe, key=order)),
        last_since_ns,
        last_until_ns,
        last_received_ns + MILLISECOND - 1 if last_received_ns else -1,
        causes.isdisjoint(_QUIET),
        tuple(sorted(causes, key=_CAUSES.index)),
    )


def _order(window: Window) -> tuple[int, int, bool, str, int]:
    tool = window.tool
    return window.since_ns, window.until_ns, tool is None, tool or "", window.received_ns


def between(
    windows: Sequence[Window], before_ns: int, after_ns: int, receipt: int = EVER
) -> list[str | None]:
    """The tools whose calls may be missing between two calls, as `Window.tool`; none in most cases.

    Args:
        windows: of a sight.
        before_ns: when the first call began, Unix nanoseconds.
        after_ns: when the second one began. A window that begins then counts: calls of one instant have no order.
        receipt: when the second one was received.
    """
    return [
        each.tool
        for each in windows
        if each.since_ns <= after_ns
        and each.until_ns > before_ns
        and (receipt > each.received_ns or not each.received_ns)
    ]
