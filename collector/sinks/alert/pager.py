"""Decides which verdicts page, and until when. No sockets, no clock: `now` is an argument.

Idea: one page stands for all calls of one session that are harmful for one reason, and is delivered as
the worst of them that holds. Only specs in `mode: page` page, and nothing that they rate `info`.

The life of a page:

    verdict -> settling -> waiting -> firing -> resolved
               0.5 s       no room    repeated   its harm was revised, its session ended,
                           this       each       or was quiet for 30 minutes
                           minute     minute

- Settling: what depends on the order of arrival waits `settle`, since an earlier call that is still on its
  way may show that it was right. What does not (`AT_ONCE`, alarms of references) skips this.
- Waiting: a minute has room for `per_minute` new pages. What finds no room waits, the worst first.
- That a session can no longer finish, or stands still, is a page of its own.

Invariants:

- A receiver has a page under one severity at a time: severity is a label, so a page that becomes worse
  or less bad ends as one alert and begins as another.
- `_of` has a call exactly while its page, firing or waiting, counts it in `calls`.
- A page that was delivered as firing is delivered as resolved, unless the process ends first.
- Each stage has a bound (`Quota`): lesser harm and one tenant alone cannot use it up. What is left out is
  counted in `withheld`.

Example: call 3 of a session is out of place. Its verdict settles; within 0.5 s call 2 arrives, and the verdict
is revised to progress: nobody is paged, and `withheld["revised"]` is one more. Had it not arrived, the page
fires. When call 7 is harmful for the same reason with severity `critical`, the page with `warning` resolves
and the one with `critical` fires, with `calls` 2.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from collector.sinks.alert.page_alert import RANKS, PageAlert, PageKey, rank
from collector.sinks.alert.quota import CRITICAL, Quota, RateQuota
from monitor.aggregate.totals import SessionFinished
from monitor.records import ALARMING, SESSION_KINDS, Reason, ReferenceAlarm, SessionKey, Verdict

__all__ = ["AT_ONCE", "FIRING_MAX", "Deliver", "Joins", "PageRules", "Pager"]

Deliver = Callable[[Sequence[PageAlert], int, bool], None]
"""Takes pages, the time, and whether they are news: just raised or resolved, not repeated."""

Joins = Callable[[Verdict | ReferenceAlarm], bool]
"""Takes what a page is delivered as."""

SECOND = 1_000_000_000
MINUTE = 60 * SECOND

AT_ONCE = frozenset({Reason.UNKNOWN_TOOL, Reason.ARGUMENT_MISMATCH, Reason.FORBIDDEN})
"""Reasons that no call that arrives later can take away."""

FIRING_MAX = 10_000
"""Pages firing at once, and calls that settle; beyond it the counters must do."""

WAITING_MAX = 1_000
"""Pages that wait for room in a minute: at the usual 60, a quarter of an hour's."""

REPEATED_AT_ONCE = RELEASED_AT_ONCE = 64
"""Pages repeated, or that waited, in one tick: thousands never hold up the process, or fill a queue."""

OUTLASTS = "missing_write"
"""The one page that the end of its session raises, and so does not take back."""

CALLS_MAX = 64
"""Calls of one page that are remembered one by one, the worst; with more it is not revised to nothing."""


class PageRules(NamedTuple):
    """How pages are raised and kept. Times in nanoseconds."""

    settle_ns: int = SECOND // 2
    repeat_ns: int = MINUTE
    """A page that still fires is delivered again so often."""
    quiet_ns: int = 30 * MINUTE
    """A page is over when its session did no more such harm for so long."""
    per_minute: int = 60
    """New pages in a minute, and those that became worse; more wait, and are counted."""
    possible: bool = False
    """Whether possible harm pages: calls that are harmful unless something was missed or is in doubt."""


class _Call(NamedTuple):
    """Under which spec, whose and which: another tenant may send a span with the same ids."""

    spec: str
    namespace: str
    span: bytes


class _Settling(NamedTuple):
    due_ns: int
    call: _Call


class Pager:
    """All pages of the process.

    Args:
        rules: times and bounds.
        deliver: takes pages that were raised, repeated or resolved.
        joins: whether a page of this is a part of an alert that fires already. It is no new message then, and
            takes no room in its minute.
    """

    def __init__(self, rules: PageRules, deliver: Deliver, joins: Joins | None = None) -> None:
        self.firing: dict[PageKey, PageAlert] = {}
        """Firing pages, in the order of their last delivery."""
        self.waiting: dict[PageKey, PageAlert] = {}
        """Pages that wait for room: undelivered ones, and firing ones that have become worse since."""
        self.withheld: Counter[str] = Counter(known=0, rate_limit=0, revised=0, full=0)
        self._rules = rules
        self._deliver = deliver
        self._joins = joins or (lambda _: False)
        self._of: dict[_Call, PageAlert] = {}
        """Page of each call."""
        self._held: dict[_Call, Verdict] = {}
        self._settling: deque[_Settling] = deque()
        # The room for what settles, fires and waits; the pages themselves are kept above.
        self.settling_quota, self.firing_quota = Quota(FIRING_MAX), Quota(FIRING_MAX)
        self._may_have_room = False
        """Whether what waits may have room since it was tried last."""
        self.waiting_quota, self._pace = (
            Quota(WAITING_MAX),
            RateQuota(rules.per_minute, MINUTE),
        )

    @property
    def due_ns(self) -> int | None:
        """When the first call that settles is to page."""
        return self._settling[0].due_ns if self._settling else None

    # --- verdicts ------------------------------------------------------------------------------

    def consider(self, verdicts: Iterable[Verdict], now: int) -> None:
        """New verdicts and revisions of earlier ones."""
        self._catch_up(now)
        for verdict in verdicts:
            if verdict.mode == "page":
                self._consider(verdict, now)

    def _consider(self, verdict: Verdict, now: int) -> None:
        call = _call(verdict)
        pages = verdict.kind in ALARMING or (verdict.possible and self._rules.possible)
        reason = verdict.reason if pages else None
        if reason is None or verdict.severity == "info":
            if self._stop_settling(call) is not None:
                self.withheld["revised"] += 1
            self._revise(call, now)
            return
        page, key = self._of.get(call), PageKey(verdict.session, verdict.spec, reason.value)
        if page is not None and page.key != key:
            self._revise(call, now)
        if reason in AT_ONCE:
            self._stop_settling(call)
            self._raise(call, reason.value, verdict, now)
        elif call in self._of:
            self._add(self._of[call], call, verdict, now)
        else:
            self._hold(call, verdict, now)

    def _hold(self, call: _Call, verdict: Verdict, now: int) -> None:
        """The call pages when it has settled, unless it is revised before."""
        known = self._stop_settling(call) is not None
        namespace = verdict.session.namespace
        if not known and not self.settling_quota.has(verdict.severity, namespace):
            self.withheld["full"] += 1
            return
        self._held[call] = verdict
        self.settling_quota.enter(namespace)
        if not known:
            self._settling.append(_Settling(now + self._rules.settle_ns, call))

    def _stop_settling(self, call: _Call) -> Verdict | None:
        """The call does not settle any more; None if it did not."""
        verdict = self._held.pop(call, None)
        if verdict is not None:
            self.settling_quota.leave(verdict.session.namespace)
        return verdict

    def alarm(self, raised: ReferenceAlarm, now: int) -> None:
        """An alarm of a reference: at its level `page` it depends on no order of arrival."""
        if raised.mode != "page" or raised.level != "page":
            return
        self._catch_up(now)
        if not raised.withdrawn:
            self._raise(_call_of(raised), raised.alarm, raised, now)
        elif raised.alarm == OUTLASTS:
            page = self._page(PageKey(raised.session, raised.spec, raised.alarm))
            if page is not None:
                page.taken_back = True
                self._resolve([page], now)
        else:
            self._revise(_call_of(raised), now)

    def _raise(
        self,
        call: _Call,
        reason: str,
        news: Verdict | ReferenceAlarm,
        now: int,
        waited_ns: int = 0,
    ) -> None:
        key = PageKey(news.session, news.spec, reason)
        page = self._page(key)
        if page is not None:
            self._add(page, call, news, now)
            return
        if not self._fits(news):
            self.withheld["full"] += 1
            return
        tools = {news.tool: None}
        page = PageAlert(key, news, now - waited_ns, now, now, {call.span: news}, tools)
        self._of[call] = page
        if not self._fire(page, now):
            self._wait(page)

    def _fits(self, news: Verdict | ReferenceAlarm) -> bool:
        """True if a new page may fire, now or when it has waited."""
        severity, namespace = news.severity, news.session.namespace
        return self.firing_quota.has(severity, namespace) and (
            self._pace.has(severity, namespace)
            or self.waiting_quota.has(severity, namespace)
            or self._joins(news)
        )

    def _page(self, key: PageKey) -> PageAlert | None:
        return self.firing.get(key) or self.waiting.get(key)

    def _add(
        self, page: PageAlert, call: _Call, news: Verdict | ReferenceAlarm, now: int
    ) -> None:
        """The page is known; it has one more call, or one of its calls is revised."""
        if call.span in page.calls:
            page.calls[call.span] = news
        else:
            known = rank(news) <= rank(page.verdict) or rank(news) <= rank(page.worst())
            page.count += 1
            page.last_ns = now
            page.name_tool(news.tool)
            self._remember(page, call, news)
            if known:
                self.withheld["known"] += 1
                return
        self._reassess(page, now)

    def _remember(self, page: PageAlert, call: _Call, news: Verdict | ReferenceAlarm) -> None:
        """The call is one of its page's, unless these are many and none is less bad."""
        if len(page.calls) >= CALLS_MAX:
            if rank(news) <= min(page.beyond, rank(page.verdict)):
                return  # delivered as that already, and nothing takes it back
            lesser = (span for span, known in page.calls.items() if rank(known) < rank(news))
            span = next(lesser, None)
            if span is None:
                page.beyond = max(page.beyond, rank(news))
                return
            page.beyond = max(page.beyond, rank(page.calls.pop(span)))
            self._of.pop(_call_in(page, span), None)
        page.calls[call.span] = news
        self._of[call] = page

    def _revise(self, call: _Call, now: int) -> None:
        """The call turned out not to be harmful, or for another reason."""
        page = self._of.pop(call, None)
        if page is None:
            return
        page.calls.pop(call.span, None)
        page.count -= 1
        if not page.calls and page.count <= 0:
            page.taken_back = True
            self._resolve([page], now)
        else:
            self._reassess(page, now)

    # --- what a page is delivered as -----------------------------------------------------------

    def _reassess(self, page: PageAlert, now: int) -> None:
        """The page is what the worst of its calls is."""
        worst = page.worst()
        change = rank(worst) - rank(page.verdict)
        if page.key not in self.firing:
            page.verdict = worst
            if change > 0:
                self._fire(page, now)
        elif change > 0:
            if not self._fire(page, now) and page.key not in self.waiting:
                self._wait(page)
        else:
            self._stop_waiting(page)
            if change < 0:
                self._fire_as(page, worst, now)
            else:
                # Nothing that is a label changes unless the alert before it ends.
                page.verdict = worst._replace(agent=page.verdict.agent)

    def _fire(self, page: PageAlert, now: int) -> bool:
        """Delivers a page, or that it is worse; False if the minute has no room for it."""
        worst, namespace = page.worst(), page.key.session.namespace
        fires = page.key in self.firing
        if not fires and not self.firing_quota.has(worst.severity, namespace):
            return False
        if not self._joins(worst) and not self._pace.takes(worst.severity, namespace, now):
            return False
        self._stop_waiting(page)
        if not fires:
            self.firing_quota.enter(namespace)
        self._fire_as(page, worst, now)
        return True

    def _fire_as(self, page: PageAlert, news: Verdict | ReferenceAlarm, now: int) -> None:
        """Delivers a page as one of its calls.

        The severity is a label: what was delivered under another one is another alert, and is over.
        """
        before = self.firing.pop(page.key, None)
        ended = [replace(page, ended_ns=now, taken_back=True)] if before is not None else []
        page.verdict, page.delivered_ns = news, now
        self.firing[page.key] = page
        self._deliver((*ended, page), now, True)

    def _wait(self, page: PageAlert) -> None:
        """The page is delivered when there is room for it."""
        self.withheld["rate_limit"] += 1
        self.waiting[page.key] = page
        self.waiting_quota.enter(page.key.session.namespace)

    def _stop_waiting(self, page: PageAlert) -> None:
        """The page waits for nothing, whether it did or not."""
        if self.waiting.pop(page.key, None) is not None:
            self.waiting_quota.leave(page.key.session.namespace)

    def _catch_up(self, now: int) -> None:
        """What was delivered a minute ago makes room for what waits, the worst and oldest first."""
        self._may_have_room = self._pace.passes(now) or self._may_have_room
        if not self._may_have_room:
            return
        self._may_have_room = False
        tried = sorted(self.waiting.values(), key=self._urgency, reverse=True)
        for page in tried:
            if self._pace.full:
                return
            if len(tried) - len(self.waiting) >= RELEASED_AT_ONCE:
                self._may_have_room = True
                return
            self._try(page, now)

    def _urgency(self, page: PageAlert) -> int:
        """A firing page waits to be delivered as critical: there is nothing else above what pages."""
        return RANKS[CRITICAL] if page.key in self.firing else rank(page.verdict)

    def _try(self, page: PageAlert, now: int) -> None:
        """The turn of a page that waits: it is delivered, or dropped if its session has been quiet."""
        fires, namespace = page.key in self.firing, page.key.session.namespace
        if not fires and page.last_ns <= now - self._rules.quiet_ns:
            self._resolve([page], now)
        elif not fires and not self.firing_quota.has(page.verdict.severity, namespace):
            self.withheld["full"] += 1
            self._resolve([page], now)
        else:
            self._fire(page, now)

    # --- time ----------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Raises what has settled, repeats what fires, ends what has been quiet for long."""
        self._catch_up(now)
        self._release(now, now)
        self._repeat(now)

    def flush(self, now: int) -> None:
        """No more calls are to come: what settles pages at once."""
        self._catch_up(now)
        self._release(now, now + self._rules.settle_ns)

    def _release(self, now: int, until: int) -> None:
        """Calls that have settled by a moment page."""
        while self._settling and self._settling[0].due_ns <= until:
            due_ns, call = self._settling.popleft()
            verdict = self._stop_settling(call)
            if verdict is not None and verdict.reason is not None:
                waited = now - due_ns + self._rules.settle_ns
                self._raise(call, verdict.reason.value, verdict, now, waited)

    def _repeat(self, now: int) -> None:
        """Pages that were delivered long ago are delivered again, or are over; a few at a time."""
        delivered_before, quiet = now - self._rules.repeat_ns, now - self._rules.quiet_ns
        due = [
            page
            for page in islice(self.firing.values(), REPEATED_AT_ONCE)
            if page.delivered_ns <= delivered_before
        ]
        self._resolve([page for page in due if page.last_ns <= quiet], now)
        still = [page for page in due if not page.ended_ns]
        for page in still:
            page.delivered_ns = now
            self.firing[page.key] = self.firing.pop(page.key)
        if still:
            self._deliver(tuple(still), now, False)

    def ended(self, events: Iterable[SessionFinished], now: int) -> None:
        """Sessions are over: so are their pages, but for one."""
        over = {(event.session, event.spec) for event in events}
        if over:
            pages = {page.key: page for page in self._pages_of(over)}
            self._resolve(list(pages.values()), now)

    def _pages_of(self, over: set[tuple[SessionKey, str]]) -> Iterator[PageAlert]:
        """What fires or waits of sessions under specs; twice, what does both."""
        for page in chain(self.firing.values(), self.waiting.values()):
            key = page.key
            if (key.session, key.spec) in over and key.reason != OUTLASTS:
                yield page

    def _resolve(self, pages: Sequence[PageAlert], now: int) -> None:
        """The pages are over; those that were delivered are delivered as resolved."""
        delivered = []
        for page in pages:
            page.ended_ns = now
            self._stop_waiting(page)
            for span in page.calls:
                self._of.pop(_call_in(page, span), None)
            if self.firing.pop(page.key, None) is not None:
                self.firing_quota.leave(page.key.session.namespace)
                delivered.append(page)
        if delivered:
            self._deliver(tuple(delivered), now, True)


def _call(verdict: Verdict) -> _Call:
    """What a verdict is on: a call, or the session, by the call that it hangs on.

    A call may be harmful, and be what a session waits at: these are two things.
    """
    found = verdict.trace_id + verdict.span_id
    for kind in SESSION_KINDS:
        if kind in (verdict.kind, verdict.revised_from):
            found += kind.value.encode()
    return _Call(verdict.spec, verdict.session.namespace, found)


def _call_of(raised: ReferenceAlarm) -> _Call:
    return _Call(raised.spec, raised.session.namespace, raised.trace_id + raised.span_id)


def _call_in(page: PageAlert, span: bytes) -> _Call:
    return _Call(page.key.spec, page.key.session.namespace, span)
