"""One alert for all that one agent does wrong under one spec. No sockets, no clock: `now` is an argument.

Idea: the pager raises a page for each session and reason. An agent that goes on being bad begins new sessions
all the time, and each would be another message to whoever is on call. So pages of one agent, spec and severity
are one alert, with counts and its worst session. Its labels never change while it fires, so that Alertmanager
tells of it once, groups it with the rules' alerts, and takes what follows as news of the same alert.

The life of a group:

    first page -> firing, delivered again each minute with the newest counts -> resolved
                                                     no page fires, and no such harm for `resolve`

- A page that ends because its session ended leaves the group firing for `resolve` from the last harm: the
  next session of the agent does not raise it anew.
- A page that is taken back, or is told under another severity, leaves as if it had never been. With the last
  such page the group is over at once.

Invariants:

- A page that fires is in one group. The group counts its calls anew when it is delivered again.
- A group that was delivered as firing is delivered as resolved, unless the process ends first.
- There are no more groups than pages that fire, and groups that wait for their end: the pager bounds the former,
  `QUIET_MAX` the latter.

Example: rover waters before it unlocks, in a session every ten seconds, for eight minutes. That is one alert
AgentCriticalHarmfulCall with agent rover, posted nine times with rising counts, and one message; it is resolved
35 minutes after the last such call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from collector.sinks.alert import (
    Links,
    PageAlert,
    PageKey,
    alert_name,
    call_annotations,
    generator_link,
    own_labels,
    printable,
    stamp,
)
from monitor.records import Raised, SessionKey, Verdict

__all__ = ["QUIET_MAX", "AlertGroup", "AlertGroups", "GroupKey", "as_group_alert"]

SECOND = 1_000_000_000

QUIET_MAX = 1_000
"""Groups that wait for their end; beyond it the one that is quiet for longest ends at once."""

REPEATED_AT_ONCE = 64
"""Groups repeated in one tick."""


class GroupKey(NamedTuple):
    """What makes two pages one alert."""

    alertname: str
    agent: str
    spec: str
    namespace: str
    """"" where /metrics has no such label: the alert has the labels of the rules' alerts."""
    severity: str


@dataclass(slots=True, eq=False)
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
    """By page that fires, how many of its calls are in `calls`."""
    calls: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Calls by reason."""
    sessions: int = 0
    """All that ever had a page in it; one that comes again counts again."""
    pages_of: Counter[SessionKey] = field(default_factory=Counter)
    """Pages that fire, by session."""
    ended_ns: int = 0
    """0 while it fires."""

    def add(self, page: PageAlert) -> None:
        """A page fires, or fires on."""
        key = page.key
        if key not in self.counted:
            self.sessions += not self.pages_of[key.session]
            self.pages_of[key.session] += 1
        self._count(key.reason, page.count - self.counted.get(key, 0))
        self.firing[key], self.counted[key] = page, page.count
        self.last_ns = max(self.last_ns, page.last_ns)
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
        if self.worst.key == key:
            self.worst = max(
                self.firing.values(), key=lambda each: each.count, default=self.worst
            )

    def _count(self, reason: str, calls: int) -> None:
        self.calls += calls
        self.reasons[reason] += calls


Deliver = Callable[[AlertGroup, int, bool], None]
"""Takes a group, the time, and whether it is news: just raised or resolved, not repeated."""


class AlertGroups:
    """All groups of the process.

    Args:
        deliver: takes groups that were raised, repeated or resolved.
        repeat_ns: a group that fires is delivered again so often.
        resolve_ns: a group without a page that fires is over when there was no such harm for so long.
        namespaced: whether /metrics has the label `namespace`.
    """

    def __init__(
        self,
        deliver: Deliver,
        repeat_ns: int,
        resolve_ns: int,
        *,
        namespaced: bool = True,
    ) -> None:
        self.groups: dict[GroupKey, AlertGroup] = {}
        """Those that fire, in the order in which they were last delivered."""
        self._deliver = deliver
        self._repeat_ns, self._resolve_ns = repeat_ns, resolve_ns
        self._namespaced = namespaced
        self._of: dict[PageKey, AlertGroup] = {}
        """By page that fires, the group that it is in."""
        self._quiet: dict[GroupKey, AlertGroup] = {}
        """Groups in which no page fires."""

    def has(self, news: Verdict | Raised) -> bool:
        """True where a page of this is a part of an alert that fires."""
        return self._key(news) in self.groups

    def take(self, pages: Sequence[PageAlert], now: int, _news: bool) -> None:
        """Pages as the pager delivers them."""
        for page in pages:
            if page.ended_ns:
                self._end(page, now)
            else:
                self._add(page, now)

    def _key(self, news: Verdict | Raised) -> GroupKey:
        namespace = news.session.namespace if self._namespaced else ""
        return GroupKey(alert_name(news), news.agent, news.spec, namespace, news.severity)

    def _add(self, page: PageAlert, now: int) -> None:
        group = self._of.get(page.key)
        if group is not None:
            group.add(page)
            return
        key = self._key(page.verdict)
        group = self.groups.get(key)
        is_new = group is None
        if group is None:
            group = AlertGroup(key, page, page.since_ns, page.last_ns, now)
        group.add(page)
        self._of[page.key] = group
        self._quiet.pop(key, None)
        if is_new:
            self.groups[key] = group
            self._deliver(group, now, True)

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
        self.groups.pop(group.key, None)
        self._quiet.pop(group.key, None)
        self._deliver(group, now, True)

    def tick(self, now: int) -> None:
        """Ends what has been quiet for long, repeats what fires."""
        quiet_since = now - self._resolve_ns
        for group in [each for each in self._quiet.values() if each.last_ns <= quiet_since]:
            self._resolve(group, now)
        before = now - self._repeat_ns
        for group in list(islice(self.groups.values(), REPEATED_AT_ONCE)):
            if group.delivered_ns > before:
                return
            group.delivered_ns = now
            for page in group.firing.values():
                group.add(page)
            self.groups[group.key] = self.groups.pop(group.key)
            self._deliver(group, now, False)


def as_group_alert(
    group: AlertGroup, links: Links, ends_ns: int, more: Mapping[str, str]
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
