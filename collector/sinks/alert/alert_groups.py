"""One alert for all that one agent does wrong under one spec. No sockets, no clock: `now` is an argument.

Idea: the pager raises a page for each session and reason. An agent that goes on being bad begins new sessions
all the time, and each would be another message to whoever is on call. So pages of one agent, spec and severity
are one alert, with counts and its worst session. Its labels never change while it fires, so that Alertmanager
tells of it once, groups it with the rules' alerts, and takes what follows as news of the same alert.

The life of a group:

    first page -> firing, delivered again each minute with the newest counts -> resolved
                  worse: a new reason or tool, 10 times the calls                no page fires, and no such harm for `resolve`

- One message for one harm must not be one message for all that follows. So a group that gets worse is told anew, to
  those who are told of news alone, too: when it has a reason or a tool that it has not been told with, and when it has
  10, 100, 1,000 times the calls that it was first told with; at most once a minute, or once in `repeat_ns` if that is
  shorter. Another severity is another group.

- A page that ends because its session ended leaves the group firing for `resolve` from the last harm: the
  next session of the agent does not raise it anew.
- A page that is taken back, or is told under another severity, leaves as if it had never been. With the last
  such page the group is over at once.

Invariants:

- A page that fires is in one group. The group counts its calls anew when it is delivered again.
- A group that was delivered as firing is delivered as resolved, unless the process ends first.
- There are no more groups than pages that fire, and groups that wait for their end: the pager bounds the former,
  `QUIET_MAX` the latter.
- In a minute no more groups are told anew than there may be new pages; more wait.

Example: rover waters before it unlocks, in a session every ten seconds, for eight minutes. That is one alert
AgentCriticalHarmfulCall with agent rover, posted nine times with rising counts, and two messages: at the first call, and at
the tenth. When it also calls a forbidden tool, that is a third one. It is resolved 35 minutes after the last such call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

from collector.sinks.alert.alert_links import AlertLinks, generator_link
from collector.sinks.alert.page_alert import (
    PageAlert,
    PageKey,
    alert_name,
    call_annotations,
    own_labels,
)
from collector.sinks.alert.quota import RateQuota
from collector.sinks.printable_text import printable, stamp
from monitor.records import ReferenceAlarm, SessionKey, Verdict

__all__ = ["QUIET_MAX", "AlertGroup", "AlertGroups", "GroupKey", "as_group_alert"]

SECOND = 1_000_000_000
MINUTE = 60 * SECOND

QUIET_MAX = 1_000
"""Groups that wait for their end; beyond it the one that is quiet for longest ends at once."""

REPEATED_AT_ONCE = 64
"""Groups repeated in one tick."""

WORSE_TIMES = 10
"""Multiple of the calls that is news again."""

TRAITS_MAX = 256
"""Reasons and tools that a group remembers; further ones are no news, and counted."""

NEWS_MAX = 5
"""New reasons and tools that are named."""


class GroupKey(NamedTuple):
    """What makes two pages one alert."""

    alertname: str
    agent: str
    spec: str
    namespace: str
    """"" if /metrics has no such label: the alert has the labels of the rules' alerts."""
    severity: str


@dataclass(slots=True, eq=False, kw_only=True)
class AlertGroup:
    """The pages of one agent, spec and severity, while one of them fires or has fired lately.

    Args:
        key: whose they are.
        worst: the page with the most calls, as far as was delivered.
        since_ns: when the first one was seen, Unix nanoseconds.
    """

    key: GroupKey
    worst: PageAlert
    since_ns: int
    last_ns: int
    """When the latest such call was seen."""
    delivered_ns: int
    firing: dict[PageKey, PageAlert] = field(default_factory=dict)
    counted: dict[PageKey, int] = field(default_factory=dict)
    """Number of each firing page's calls that are in `calls`."""
    calls: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Calls by reason."""
    sessions: int = 0
    """Sessions that ever had a page in it; a session that comes again counts again."""
    pages_of: Counter[SessionKey] = field(default_factory=Counter)
    """Pages that fire, by session."""
    ended_ns: int = 0
    """0 while it fires."""
    told_ns: int = 0
    """Time of its last news, Unix nanoseconds."""
    told_calls: int = 0
    """Number of its calls at the last news."""
    worse_at: int = 0
    """Number of calls that are news again: 10, 100, 1,000 times those of the first message."""
    traits: dict[str, None] = field(default_factory=dict)
    """Reasons and tools of its messages."""
    untold: dict[str, str] = field(default_factory=dict)
    """Tools and reasons that it has had since, with the session of each."""
    worse: int = 0
    """How often it was news again."""
    news: str = ""
    """What was new in its last news."""
    unnamed: int = 0
    """Reasons and tools beyond `TRAITS_MAX`, each as often as it came."""

    def add(self, page: PageAlert) -> None:
        """A page fires, or fires on."""
        key = page.key
        if key not in self.counted:
            self.sessions += not self.pages_of[key.session]
            self.pages_of[key.session] += 1
        self._count(key.reason, page.count - self.counted.get(key, 0))
        self.firing[key], self.counted[key] = page, page.count
        self.last_ns = max(self.last_ns, page.last_ns)
        self._note(page)
        if page.count >= self.worst.count:
            self.worst = page

    def remove(self, page: PageAlert) -> None:
        """A page is over."""
        key = page.key
        counted = self.counted.pop(key, 0)
        self.firing.pop(key, None)
        self.pages_of[key.session] -= 1
        is_last = self.pages_of[key.session] <= 0
        if is_last:
            del self.pages_of[key.session]
        if not page.taken_back:
            self._count(key.reason, page.count - counted)
            return
        self.sessions -= is_last
        self._count(key.reason, -counted)
        self._forget_untold()
        if self.worst.key == key:
            self.worst = max(
                self.firing.values(), key=lambda each: each.count, default=self.worst
            )

    def _count(self, reason: str, calls: int) -> None:
        self.calls += calls
        self.reasons[reason] += calls

    # --- what is told anew ---------------------------------------------------------------------

    @property
    def is_worse(self) -> bool:
        """True if it has what it was not told with."""
        return bool(self.untold) or self.calls >= self.worse_at

    def tell(self, now: int) -> None:
        """It is told as news: what it has is told by that."""
        if self.worse_at:
            self.worse += 1
            self.news = self._news()
        self.worse_at = self.worse_at or max(1, self.calls)
        while self.worse_at <= self.calls:
            self.worse_at *= WORSE_TIMES
        self.traits.update(dict.fromkeys(self.untold))
        self.untold.clear()
        self.told_ns, self.told_calls = now, self.calls

    def _note(self, page: PageAlert) -> None:
        """The reason and the tools of a page are those of the group."""
        for trait in _traits(page):
            if trait in self.traits or trait in self.untold:
                continue
            if len(self.traits) + len(self.untold) >= TRAITS_MAX:
                self.unnamed += 1
            else:
                self.untold[trait] = page.key.session.id

    def _forget_untold(self) -> None:
        """A page was taken back: what it alone had is not told."""
        if self.untold:
            left = set(chain.from_iterable(map(_traits, self.firing.values())))
            self.untold = {each: of for each, of in self.untold.items() if each in left}

    def _news(self) -> str:
        """What is new, in a sentence."""
        if not self.untold:
            return f"{self.calls} calls, where it was {self.told_calls} when last told."
        named: dict[str, list[str]] = {}
        for trait, session in islice(self.untold.items(), NEWS_MAX):
            named.setdefault(session, []).append(printable(_in_words(trait), 80))
        found = [
            f"{', '.join(traits)} in session {printable(of)}" for of, traits in named.items()
        ]
        if len(self.untold) > NEWS_MAX:
            found.append(f"{len(self.untold) - NEWS_MAX} more")
        return f"New: {'; '.join(found)}."


def _in_words(trait: str) -> str:
    """A reason without its underlines, or a tool."""
    what, _, name = trait.partition(" ")
    return name.replace("_", " ") if what == "reason" else trait


def _traits(page: PageAlert) -> Iterator[str]:
    """The reason and the tools of a page."""
    yield "reason " + page.key.reason
    for tool in page.tools:
        yield "tool " + tool


Deliver = Callable[[AlertGroup, int, bool], None]
"""Takes a group, the time, and whether it is news: just raised, worse or resolved, not repeated."""


class AlertGroups:
    """All groups of the process.

    Args:
        deliver: takes groups that were raised, have become worse, were repeated or resolved.
        repeat_ns: a group that fires is delivered again so often.
        resolve_ns: a group without a page that fires is over when there was no such harm for so long.
        namespaced: whether /metrics has the label `namespace`.
        per_minute: so many groups are told anew in a minute.
    """

    def __init__(
        self,
        deliver: Deliver,
        repeat_ns: int,
        resolve_ns: int,
        *,
        namespaced: bool = True,
        per_minute: int = 60,
    ) -> None:
        self.groups: dict[GroupKey, AlertGroup] = {}
        """Firing groups, in the order of their last delivery."""
        self._deliver = deliver
        self._repeat_ns, self._resolve_ns = repeat_ns, resolve_ns
        self._namespaced = namespaced
        self._of: dict[PageKey, AlertGroup] = {}
        """Group of each firing page."""
        self._quiet: dict[GroupKey, AlertGroup] = {}
        """Groups in which no page fires."""
        self._worse: dict[GroupKey, AlertGroup] = {}
        """Groups that will be news again when it is time."""
        self._told_apart_ns = min(MINUTE, repeat_ns)
        self._looked_ns = 0
        """When these were looked at."""
        self._pace = RateQuota(per_minute, MINUTE)
        self._unnamed = 0

    @property
    def unnamed(self) -> int:
        """Reasons and tools that were no news, since their groups remember no more."""
        return self._unnamed + sum(each.unnamed for each in self.groups.values())

    def has(self, news: Verdict | ReferenceAlarm) -> bool:
        """True if a page of this is a part of an alert that fires."""
        return self._key(news) in self.groups

    def take(self, pages: Sequence[PageAlert], now: int, _news: bool) -> None:
        """Pages as the pager delivers them."""
        for page in pages:
            if page.ended_ns:
                self._end(page, now)
            else:
                self._add(page, now)

    def _key(self, news: Verdict | ReferenceAlarm) -> GroupKey:
        namespace = news.session.namespace if self._namespaced else ""
        return GroupKey(alert_name(news), news.agent, news.spec, namespace, news.severity)

    def _add(self, page: PageAlert, now: int) -> None:
        group = self._of.get(page.key)
        if group is not None:
            group.add(page)
            self._tell_if_worse(group, now)
            return
        key = self._key(page.verdict)
        group = self.groups.get(key)
        is_new = group is None
        if group is None:
            group = AlertGroup(
                key=key,
                worst=page,
                since_ns=page.since_ns,
                last_ns=page.last_ns,
                delivered_ns=now,
            )
        group.add(page)
        self._of[page.key] = group
        self._quiet.pop(key, None)
        if is_new:
            self.groups[key] = group
            group.tell(now)
            self._deliver(group, now, True)
        else:
            self._tell_if_worse(group, now)

    def _tell_if_worse(self, group: AlertGroup, now: int) -> bool:
        """A group that has become worse is told anew: at once, or when it is time. True if it was."""
        key = group.key
        if not group.is_worse:
            self._worse.pop(key, None)
            return False
        self._worse[key] = group
        is_time = group.told_ns + self._told_apart_ns <= now
        if not is_time or not self._pace.takes(key.severity, key.namespace, now):
            return False
        del self._worse[key]
        group.tell(now)
        self._deliver(group, now, True)
        return True

    def _tell_worse(self, now: int) -> None:
        """Tells of those whose time has come."""
        self._pace.passes(now)
        if 0 <= now - self._looked_ns < SECOND:
            return
        self._looked_ns = now
        for group in list(self._worse.values()):
            self._tell_if_worse(group, now)

    def _end(self, page: PageAlert, now: int) -> None:
        group = self._of.pop(page.key, None)
        if group is None:
            return
        group.remove(page)
        if group.firing:
            return
        if group.calls <= 0 or group.last_ns + self._resolve_ns <= now:
            self._resolve(group, now)
            return
        self._quiet[group.key] = group
        if len(self._quiet) > QUIET_MAX:
            self._resolve(next(iter(self._quiet.values())), now)

    def _resolve(self, group: AlertGroup, now: int) -> None:
        group.ended_ns = now
        for groups in (self.groups, self._quiet, self._worse):
            groups.pop(group.key, None)
        self._unnamed += group.unnamed
        self._deliver(group, now, True)

    def tick(self, now: int) -> None:
        """Ends what has been quiet for long, repeats what fires."""
        quiet_since = now - self._resolve_ns
        for group in [each for each in self._quiet.values() if each.last_ns <= quiet_since]:
            self._resolve(group, now)
        self._tell_worse(now)
        before = now - self._repeat_ns
        for group in list(islice(self.groups.values(), REPEATED_AT_ONCE)):
            if group.delivered_ns > before:
                return
            group.delivered_ns = now
            for page in group.firing.values():
                group.add(page)
            self.groups[group.key] = self.groups.pop(group.key)
            if not self._tell_if_worse(group, now):
                self._deliver(group, now, False)


def as_group_alert(
    group: AlertGroup, links: AlertLinks, ends_ns: int, more: Mapping[str, str]
) -> dict[str, Any]:
    """The group as an alert of Alertmanager's API; it says what its worst session did.

    Args:
        group: the group.
        links: templates.
        ends_ns: when the receiver may take it as over, without hearing of it again.
        more: labels of every alert of this process.
    """
    key = group.key
    own = {name: printable(value, 128) for name, value in key._asdict().items()}
    labels = {**own_labels(own), **more}
    page = group.worst
    session = printable(page.key.session.id)
    found = call_annotations(page, links, labels, _since(group, session))
    found |= {
        "calls": str(group.calls),
        "sessions": str(group.sessions),
        "reasons": ", ".join(f"{reason} {n}" for reason, n in group.reasons.most_common() if n),
        "session": session,
    }
    if group.news:
        found["news"] = group.news
        found["summary"] += f" {group.news}"
    if group.sessions > 1:
        found["summary"] += f" {group.calls} such calls in {group.sessions} sessions."
    return {
        "labels": labels,
        "annotations": found,
        "startsAt": stamp(group.since_ns),
        "endsAt": stamp(group.ended_ns or ends_ns),
        "generatorURL": generator_link(page.verdict, links),
    }


def _since(group: AlertGroup, session: str) -> str:
    """How long it lasts, and how much it is."""
    text = f"Since {stamp(group.since_ns)}, {group.calls} such call(s) in {group.sessions} session(s)"
    if group.sessions <= 1:
        return f"{text}."
    return f"{text}; the worst is session {session}, with {group.worst.count} of them."
