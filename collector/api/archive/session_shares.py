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
    NO_FIGURES,
    FigureGroup,
    Figures,
    HarmShare,
    SessionShare,
)
from collector.calls.decisions.prevented_calls import PreventedCall
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import POSSIBLE
from monitor.session.report.harms import harms
from monitor.session.report.judgement_object import not_judged
from monitor.session.session import Session

__all__ = ["SessionShares", "group_of"]

_WITHOUT_POSSIBLE: Final = bytes(mark for mark in range(256) if not mark & POSSIBLE)


class SessionShares(NamedTuple):
    """All that one session adds."""

    shares: tuple[SessionShare, ...]
    harms: tuple[HarmShare, ...]

    @classmethod
    def of(
        cls,
        session: Session,
        text_of: Callable[[int], str],
        name: Callable[[str], str],
        denied: Sequence[PreventedCall] = (),
    ) -> SessionShares:
        """Counts a session.

        Args:
            session: live or ended.
            text_of: maps the number of a tool to its name.
            name: what is shown of a name.
            denied: its calls that were denied and not made.
        """
        version = service_version(session)
        by_group: dict[FigureGroup, _Count] = {}
        for each in session.judgements:
            group = group_of(session, each, name, version)
            by_group.setdefault(group, _Count()).add(session, each, text_of)
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


class _Count:
    """Of the judgements of one group."""

    __slots__ = ("calls", "folded", "harmful", "lost", "possible", "prevented", "rate", "told")

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        """Calls by the hour in which they began; those that are kept no longer count in the hour of the first."""
        self.possible: Counter[int] = Counter()
        self.harmful: dict[bytes, int] = {}
        """Span of a harmful call that is kept -> its hour."""
        self.folded: Counter[int] = Counter()
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
            found.calls |= each.calls
            found.possible |= each.possible
            found.folded |= each.folded
            found.harmful |= each.harmful
            found._score(each.rate, each.lost)
            found.prevented += each.prevented
            found.told |= each.told
        return found

    def add(
        self, session: Session, judgement: Judgement, text_of: Callable[[int], str]
    ) -> None:
        """Adds a judgement: one of several parts of the session under the same spec."""
        log, tally, first = judgement.log, judgement.head.tally, session.started_ns // HOUR_NS
        hours = None
        if first != session.last_ns // HOUR_NS:
            hours = [log.at(place) // HOUR_NS for place in range(len(log))]
        self.calls[first] += judgement.folded
        self._count(self.calls, hours, first, len(log))
        marks = log.marks()
        if marks.translate(None, _WITHOUT_POSSIBLE):
            found = [place for place, mark in enumerate(marks) if mark & POSSIBLE]
            self._count(
                self.possible, hours and [hours[each] for each in found], first, len(found)
            )
        if judgement.judge.spec.kind != "reference" and tally.harmful_steps:
            self._add_harms(judgement, hours, first, text_of)
        if judgement.judge.scored and judgement.head.exact:
            self._score(tally.harm_rate, 1.0 - tally.prefix_crit)

    @staticmethod
    def _count(into: Counter[int], hours: Iterable[int] | None, first: int, count: int) -> None:
        if hours is None:
            into[first] += count
        else:
            into.update(hours)

    def _add_harms(
        self,
        judgement: Judgement,
        hours: Sequence[int] | None,
        first: int,
        text_of: Callable[[int], str],
    ) -> None:
        told = [*harms(judgement, text_of)]
        for harm in told:
            place = harm.step - judgement.folded - 1
            span = judgement.log.span_id(place)
            self.harmful[span] = hours[place] if hours is not None else first
            self.told |= {
                ("reason", harm.reason.value),
                ("tool", text_of(harm.tool)),
                ("severity", harm.severity),
            }
        self.folded[first] += max(0, judgement.head.tally.harmful_steps - len(told))

    def _score(self, rate: float | None, lost: float) -> None:
        if rate is not None:
            self.rate = rate if self.rate is None else max(self.rate, rate)
            self.lost = max(self.lost, lost)

    @property
    def is_harmed(self) -> bool:
        return bool(self.harmful) or self.folded.total() > 0

    def shares(self, group: FigureGroup, last: int, unjudged: int) -> Iterator[SessionShare]:
        """What the group gets, by hour; `last` is the hour of the session's last call."""
        harmful = self.folded + Counter(self.harmful.values())
        hours = {
            hour: NO_FIGURES._replace(
                calls=count, harmful=harmful[hour], possible=self.possible[hour]
            )
            for hour, count in self.calls.items()
            if count
        }
        whole = Figures(
            sessions=1,
            harmed=int(self.is_harmed),
            scored=int(self.rate is not None),
            harm_rate=self.rate or 0.0,
            prefix_crit=0.0 if self.rate is None else 1.0 - self.lost,
            calls=0,
            harmful=0,
            possible=0,
            prevented=self.prevented,
            not_judged=unjudged,
        )
        hours[last] = hours.get(last, NO_FIGURES).plus(whole)
        for hour, figures in sorted(hours.items()):
            yield SessionShare(hour, group, figures)

    def harms(
        self, group: FigureGroup, last: int, name: Callable[[str], str]
    ) -> Iterator[HarmShare]:
        """The reasons, tools and severities of its harmful calls."""
        for what, text in sorted(self.told):
            yield HarmShare(last, group, what, name(text))
