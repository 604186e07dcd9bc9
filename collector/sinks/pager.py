"""Decides which verdicts page, and until when. No sockets, no clock: `now` is an argument.

Only specs in `mode: page` page, and nothing they rate `info`. What does not depend on the order of arrival pages at once; the
rest waits `settle`, because an earlier call that is still on its way may show that it was right.
One page stands for all calls of one session that are harmful for one reason. That a session can no
longer finish, or stands still, is a page of its own, which waits like the rest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from collector.sinks.page import Page, PageKey
from monitor.records import ALARMING, SESSION_KINDS, Raised, Reason, Verdict
from monitor.totals import SessionFinished

__all__ = ["AT_ONCE", "FIRING_MAX", "Pager", "Rules", "Tell"]

Tell = Callable[[Sequence[Page], int, bool], None]
"""Takes pages, the time, and whether they are news: just raised or resolved, not repeated."""

SECOND = 1_000_000_000
MINUTE = 60 * SECOND

AT_ONCE = frozenset({Reason.UNKNOWN_TOOL, Reason.ARGUMENT_MISMATCH, Reason.FORBIDDEN})
"""Reasons that no call that arrives later can take away."""

FIRING_MAX = 10_000
"""Pages firing at once; beyond it the counters must do."""

REPEATED_AT_ONCE = 64
"""Pages told again in one tick: thousands that fire never hold up the process, or fill a queue."""

OUTLASTS = "missing_write"
"""The one page that the end of its session raises, and so does not take back."""

CALLS_MAX = 64
"""Calls of one page that are remembered one by one; with more it is not revised to nothing."""


class Rules(NamedTuple):
    """How pages are raised and kept. Times in nanoseconds."""

    settle_ns: int = SECOND // 2
    repeat_ns: int = MINUTE
    """A page that still fires is told again so often."""
    quiet_ns: int = 30 * MINUTE
    """A page is over when its session did no more such harm for so long."""
    per_minute: int = 60
    """New pages in a minute; more are withheld, and counted."""


class _Waiting(NamedTuple):
    due_ns: int
    call: tuple[str, bytes]


class Pager:
    """All pages of the process.

    Args:
        rules: times and bounds.
        tell: takes pages that were raised, repeated or resolved.
    """

    def __init__(self, rules: Rules, tell: Tell) -> None:
        self.firing: dict[PageKey, Page] = {}
        """In the order in which they were told of last."""
        self.withheld: Counter[str] = Counter(known=0, rate_limit=0, revised=0, full=0)
        self._rules = rules
        self._tell = tell
        self._of: dict[tuple[str, bytes], Page] = {}
        """By spec and call, the page it is in."""
        self._held: dict[tuple[str, bytes], Verdict] = {}
        self._waiting: deque[_Waiting] = deque()
        self._raised: deque[int] = deque()

    @property
    def due_ns(self) -> int | None:
        """When the first call that waits is to page."""
        return self._waiting[0].due_ns if self._waiting else None

    # --- verdicts ------------------------------------------------------------------------------

    def take(self, verdicts: Iterable[Verdict], now: int) -> None:
        """New verdicts and revisions of earlier ones."""
        for verdict in verdicts:
            if verdict.mode == "page":
                self._take(verdict, now)

    def _take(self, verdict: Verdict, now: int) -> None:
        call = _call(verdict)
        reason = verdict.reason if verdict.kind in ALARMING else None
        if reason is None or verdict.severity == "info":
            if self._held.pop(call, None) is not None:
                self.withheld["revised"] += 1
            self._revise(call, now)
            return
        page = self._of.get(call)
        if page is not None and page.key.reason != reason.value:
            self._revise(call, now)
        if reason in AT_ONCE:
            self._held.pop(call, None)
            self._raise(call, reason.value, verdict, now)
        elif call in self._held:
            self._held[call] = verdict
        elif call not in self._of:
            self._hold(call, verdict, now)

    def _hold(self, call: tuple[str, bytes], verdict: Verdict, now: int) -> None:
        """The call pages when it has settled, unless it is revised before."""
        if len(self._held) >= FIRING_MAX:
            self.withheld["full"] += 1
            return
        self._held[call] = verdict
        self._waiting.append(_Waiting(now + self._rules.settle_ns, call))

    def alarm(self, raised: Raised, now: int) -> None:
        """An alarm of a reference: at its level `page` it depends on no order of arrival."""
        if raised.mode != "page" or raised.level != "page":
            return
        if not raised.withdrawn:
            self._raise(_call_of(raised), raised.alarm, raised, now)
        elif raised.alarm == OUTLASTS:
            page = self.firing.get(PageKey(raised.session, raised.spec, raised.alarm))
            self._resolve([page] if page is not None else [], now)
        else:
            self._revise(_call_of(raised), now)

    def _raise(
        self,
        call: tuple[str, bytes],
        reason: str,
        news: Verdict | Raised,
        now: int,
        waited_ns: int = 0,
    ) -> None:
        key = PageKey(news.session, news.spec, reason)
        page = self.firing.get(key)
        if page is not None:
            self._add(page, call, now)
        elif len(self.firing) >= FIRING_MAX:
            self.withheld["full"] += 1
        elif self._may(now):
            page = self.firing[key] = Page(key, news, now - waited_ns, now, now, {call[1]})
            self._of[call] = page
            self._tell((page,), now, True)
        else:
            self.withheld["rate_limit"] += 1

    def _add(self, page: Page, call: tuple[str, bytes], now: int) -> None:
        """The page is known; it has one more call."""
        if call[1] in page.calls:
            return
        self.withheld["known"] += 1
        page.count += 1
        page.last_ns = now
        if len(page.calls) < CALLS_MAX:
            page.calls.add(call[1])
            self._of[call] = page

    def _may(self, now: int) -> bool:
        """False where too many pages have been raised in the last minute."""
        raised = self._raised
        while raised and raised[0] <= now - MINUTE:
            raised.popleft()
        if len(raised) >= self._rules.per_minute:
            return False
        raised.append(now)
        return True

    def _revise(self, call: tuple[str, bytes], now: int) -> None:
        """The call turned out not to be harmful, or for another reason."""
        page = self._of.pop(call, None)
        if page is None:
            return
        page.calls.discard(call[1])
        page.count -= 1
        if not page.calls and page.count <= 0:
            self._resolve([page], now)

    # --- time ----------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Raises what has settled, repeats what fires, ends what has been quiet for long."""
        while self._waiting and self._waiting[0].due_ns <= now:
            due_ns, call = self._waiting.popleft()
            verdict = self._held.pop(call, None)
            if verdict is not None and verdict.reason is not None:
                waited = now - due_ns + self._rules.settle_ns
                self._raise(call, verdict.reason.value, verdict, now, waited)
        self._repeat(now)

    def _repeat(self, now: int) -> None:
        """Pages that were told of long ago are told again, or are over; a few at a time."""
        told_before, quiet = now - self._rules.repeat_ns, now - self._rules.quiet_ns
        due = [
            page
            for page in islice(self.firing.values(), REPEATED_AT_ONCE)
            if page.told_ns <= told_before
        ]
        self._resolve([page for page in due if page.last_ns <= quiet], now)
        still = [page for page in due if not page.ended_ns]
        for page in still:
            page.told_ns = now
            self.firing[page.key] = self.firing.pop(page.key)
        if still:
            self._tell(tuple(still), now, False)

    def ended(self, events: Iterable[SessionFinished], now: int) -> None:
        """Sessions are over: so are their pages, but for one."""
        over = {(event.session, event.spec) for event in events}
        if over and self.firing:
            pages = self.firing.values()
            self._resolve(
                [
                    page
                    for page in pages
                    if (page.key.session, page.key.spec) in over and page.key.reason != OUTLASTS
                ],
                now,
            )

    def _resolve(self, pages: Sequence[Page], now: int) -> None:
        for page in pages:
            page.ended_ns = now
            del self.firing[page.key]
            for span in page.calls:
                self._of.pop((page.key.spec, span), None)
        if pages:
            self._tell(tuple(pages), now, True)


def _call(verdict: Verdict) -> tuple[str, bytes]:
    """What a verdict is on: a call, or the session, by the call that it hangs on.

    A call may be harmful, and be what a session waits at: these are two things.
    """
    found = verdict.trace_id + verdict.span_id
    for kind in SESSION_KINDS:
        if kind in (verdict.kind, verdict.revised_from):
            found += kind.value.encode()
    return verdict.spec, found


def _call_of(raised: Raised) -> tuple[str, bytes]:
    return raised.spec, raised.trace_id + raised.span_id
