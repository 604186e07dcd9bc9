"""What a session adds to the figures of its agents and specs, hour by hour.

Under each spec the calls are those of its judgements. An agent's calls are the same calls under each of its specs: so it has as
many as the spec that saw most of them, and those are harmful that any spec calls harmful.

Example: a session of two calls is judged by a task, which calls the first harmful, and by a policy, which calls both harmful.
The task has two calls, one harmful; the policy two, both harmful; the agent two, both harmful.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from collector.api.list_fields import agent_of, service_version
from collector.archive.record import (
    AGENT,
    HOUR_NS,
    FigureGroup,
    Figures,
    HarmShare,
    SessionShare,
)
from collector.calls.decisions.prevented_calls import PreventedCall
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import POSSIBLE
from monitor.session.report.harms import Harm
from monitor.session.report.judgement_object import not_judged
from monitor.session.session import Session

__all__ = ["SessionShares", "group_of"]

_ByHour = dict[int, int]

_WITHOUT_POSSIBLE: Final = bytes(mark for mark in range(256) if not mark & POSSIBLE)


class SessionShares(NamedTuple):
    """All that one session adds."""

    shares: tuple[SessionShare, ...]
    harms: tuple[HarmShare, ...]

    @classmethod
    def of(
        cls,
        session: Session,
        judgements: Iterable[tuple[Judgement, Sequence[Harm]]],
        text_of: Callable[[int], str],
        name: Callable[[str], str],
        denied: Sequence[PreventedCall] = (),
    ) -> SessionShares:
        """Counts a session.

        Args:
            session: live or ended.
            judgements: of the session, with the harmful calls of their logs.
            text_of: maps the number of a tool to its name.
            name: what is shown of a name.
            denied: its calls that were denied and not made.
        """
        version = service_version(session)
        by_group: dict[FigureGroup, _Count] = {}
        for each, harmful in judgements:
            group = group_of(session, each, name, version)
            by_group.setdefault(group, _Count()).add(session, each, harmful, text_of)
        for group, count in by_group.items():
            count.prevented = sum(name(each.found.spec) == group.spec for each in denied)
        agents: dict[FigureGroup, list[_Count]] = {}
        for group, count in by_group.items():
            agents.setdefault(_of_agent(group), []).append(count)
        unjudged = sum(not_judged(session).values())
        last = session.last_ns // HOUR_NS
        counted = [*by_group.items()]
        counted += [(group, _Count.over(counts)) for group, counts in agents.items()]
        return cls(
            tuple(
                each for group, count in counted for each in count.shares(group, last, unjudged)
            ),
            tuple(each for group, count in counted for each in count.harms(group, last, name)),
        )


def group_of(
    session: Session, judgement: Judgement, name: Callable[[str], str], version: str
) -> FigureGroup:
    """The group of a judgement, by the names that are shown."""
    spec = judgement.judge.spec
    return FigureGroup(
        spec.kind if spec.id else "",
        name(session.key.namespace),
        name(agent_of(session, judgement)),
        name(spec.id),
        name(spec.version) if spec.id else "",
        name(version),
        spec.mode if spec.id else "",
    )


def _of_agent(group: FigureGroup) -> FigureGroup:
    return group._replace(kind=AGENT, spec="", spec_version="", mode="")


def _count(into: _ByHour, hour: int, count: int) -> None:
    if count > 0:
        into[hour] = into.get(hour, 0) + count


def _raise(into: _ByHour, other: _ByHour) -> None:
    """Takes the greater count of each hour."""
    for hour, count in other.items():
        into[hour] = max(count, into.get(hour, 0))


class _Count:
    """Of the judgements of one group."""

    __slots__ = ("calls", "folded", "harmful", "lost", "possible", "prevented", "rate", "told")

    def __init__(self) -> None:
        self.calls: _ByHour = {}
        """Calls by the hour in which they began; those that are kept no longer count in the hour of the first."""
        self.possible: _ByHour = {}
        self.harmful: dict[bytes, int] = {}
        """Span of a harmful call that is kept -> its hour."""
        self.folded: _ByHour = {}
        """Harmful calls that are kept no longer."""
        self.rate: float | None = None
        """The worst HarmRate; None without scores."""
        self.lost = 0.0
        """1 - the worst PrefixCrit."""
        self.prevented = 0
        self.told: set[tuple[Literal["reason", "tool", "severity"], str]] = set()

    @classmethod
    def over(cls, counts: Sequence[_Count]) -> _Count:
        """Of the same calls under several specs."""
        if len(counts) == 1:
            return counts[0]
        found = cls()
        for each in counts:
            _raise(found.calls, each.calls)
            _raise(found.possible, each.possible)
            _raise(found.folded, each.folded)
            found.harmful |= each.harmful
            found._score(each.rate, each.lost)
            found.prevented += each.prevented
            found.told |= each.told
        return found

    def add(
        self,
        session: Session,
        judgement: Judgement,
        harmful: Sequence[Harm],
        text_of: Callable[[int], str],
    ) -> None:
        """Adds a judgement: one of several parts of the session under the same spec."""
        log, tally, first = judgement.log, judgement.head.tally, session.started_ns // HOUR_NS
        hours = None
        if first != session.last_ns // HOUR_NS:
            hours = [log.at(place) // HOUR_NS for place in range(len(log))]
        _count(self.calls, first, judgement.folded)
        if hours is None:
            _count(self.calls, first, len(log))
        else:
            for hour, count in Counter(hours).items():
                _count(self.calls, hour, count)
        marks = log.marks()
        if marks.translate(None, _WITHOUT_POSSIBLE):
            for place, mark in enumerate(marks):
                if mark & POSSIBLE:
                    _count(self.possible, first if hours is None else hours[place], 1)
        if judgement.judge.spec.kind != "reference" and tally.harmful_steps:
            self._add_harms(judgement, harmful, hours, first, text_of)
        if judgement.judge.scored and judgement.head.exact:
            self._score(tally.harm_rate, 1.0 - tally.prefix_crit)

    def _add_harms(
        self,
        judgement: Judgement,
        harmful: Sequence[Harm],
        hours: Sequence[int] | None,
        first: int,
        text_of: Callable[[int], str],
    ) -> None:
        for harm in harmful:
            place = harm.step - judgement.folded - 1
            span = judgement.log.span_id(place)
            self.harmful[span] = hours[place] if hours is not None else first
        for tool, reason, severity in {each[1:] for each in harmful}:
            self.told.add(("reason", reason.value))
            self.told.add(("tool", text_of(tool)))
            self.told.add(("severity", severity))
        _count(self.folded, first, judgement.head.tally.harmful_steps - len(harmful))

    def _score(self, rate: float | None, lost: float) -> None:
        if rate is not None:
            self.rate = rate if self.rate is None else max(self.rate, rate)
            self.lost = max(self.lost, lost)

    @property
    def is_harmed(self) -> bool:
        return bool(self.harmful or self.folded)

    def shares(self, group: FigureGroup, last: int, unjudged: int) -> Iterator[SessionShare]:
        """What the group gets, by hour; `last` is the hour of the session's last call."""
        harmful = dict(self.folded)
        for hour in self.harmful.values():
            harmful[hour] = harmful.get(hour, 0) + 1
        for hour in sorted({*self.calls, last}):
            is_last = hour == last
            scored = is_last and self.rate is not None
            figures = Figures(
                sessions=int(is_last),
                harmed=int(is_last and self.is_harmed),
                scored=int(scored),
                harm_rate=self.rate or 0.0 if scored else 0.0,
                prefix_crit=1.0 - self.lost if scored else 0.0,
                calls=self.calls.get(hour, 0),
                harmful=harmful.get(hour, 0) if hour in self.calls else 0,
                possible=self.possible.get(hour, 0) if hour in self.calls else 0,
                prevented=self.prevented if is_last else 0,
                not_judged=unjudged if is_last else 0,
            )
            yield SessionShare(hour, group, figures)

    def harms(
        self, group: FigureGroup, last: int, name: Callable[[str], str]
    ) -> Iterator[HarmShare]:
        """The reasons, tools and severities of its harmful calls."""
        for what, text in sorted(self.told):
            yield HarmShare(last, group, what, name(text))
