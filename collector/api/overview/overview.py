"""The figures of agents and specs over days: those of the archive, and of sessions that it does not have yet.

Invariant: a session counts once. What the monitor has and the archive, too, counts as the archive has it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from collector.api.archive.session_shares import SessionShares
from collector.api.denied_calls import prevented_of
from collector.api.overview.overview_query import OverviewQuery
from collector.api.shared_answers import SharedAnswers
from collector.archive.record import (
    AGENT,
    HOUR_NS,
    NO_FIGURES,
    FigureGroup,
    Figures,
    VerdictLabels,
)
from collector.calls.decisions.prevented_calls import PreventedCalls
from monitor.engine import Monitor
from monitor.session.report.harms import harms
from monitor.session.session import Session

if TYPE_CHECKING:
    from collector.api.archive.past_sessions import PastSessions
    from collector.api.archive.written_sessions import WrittenSessions

__all__ = ["GroupSums", "Overview", "as_json"]

_LUMP: Final = 50
"""Sessions counted before other tasks get their turn."""
TRIES: Final = 3
"""Times that sums are read again where sessions were written meanwhile: a session is to count once."""
ROWS_MAX: Final = 1_000
"""Agents, or specs, of one answer."""
NAMED_MAX: Final = 20
"""Reasons, and tools, of one answer."""


class GroupSums(NamedTuple):
    """What was found: figures by step and group, and sessions by reason, tool and severity."""

    query: OverviewQuery
    figures: dict[tuple[int, FigureGroup], Figures]
    harms: dict[tuple[FigureGroup, str, str], int]
    problem: str = ""
    """Why nothing of the archive is in it."""

    def total(self) -> Figures:
        """The sum over agents, or over those of the spec that is asked for."""
        total = NO_FIGURES
        for (_, group), found in self.figures.items():
            if self._leads(group):
                total = total.plus(found)
        return total

    def agents(self) -> list[dict[str, Any]]:
        """A row an agent, the most harmed first."""
        rows = self._by(lambda group: (group.namespace, group.agent))
        return [
            {"namespace": namespace, "agent": agent, **as_json(found)}
            for (namespace, agent), found in rows
        ]

    def specs(self) -> list[tuple[str, FigureGroup, Figures]]:
        """Specs that judged sessions, with the latest group of each."""
        found: dict[str, Figures] = {}
        last: dict[str, tuple[int, FigureGroup]] = {}
        for (step, group), figures in self.figures.items():
            if group.kind != AGENT and group.spec:
                found[group.spec] = found.get(group.spec, NO_FIGURES).plus(figures)
                last[group.spec] = max(last.get(group.spec, (-1, group)), (step, group))
        return [
            (spec, last[spec][1], figures)
            for spec, figures in sorted(found.items(), key=lambda pair: _worst_first(pair[1]))
        ]

    def versions(self) -> list[dict[str, Any]]:
        """A row a version: of the spec that is asked for, else of the agent."""
        name = "spec_version" if self.query.search.spec else "service_version"
        steps: defaultdict[str, set[int]] = defaultdict(set)
        for step, group in self.figures:
            if self._leads(group):
                steps[getattr(group, name)].add(step)
        return [
            {
                "version": version,
                "first": self._begin(min(steps[version])),
                "last": self._begin(max(steps[version]) + 1),
                **as_json(found),
                **{
                    f"{what}s": self.named(what, **{name: version})
                    for what in ("reason", "tool")
                },
            }
            for (version,), found in self._by(lambda group: (getattr(group, name),))
        ]

    def timeline(self) -> list[dict[str, Any]]:
        """A row a step, empty ones, too."""
        by_step: defaultdict[int, Figures] = defaultdict(lambda: NO_FIGURES)
        for (step, group), found in self.figures.items():
            if self._leads(group):
                by_step[step] = by_step[step].plus(found)
        search, begins = self.query.search, self.query.begins
        first = search.step_of(search.since)
        return [
            {
                "begin": begin,
                "end": begin + search.step * HOUR_NS,
                **as_json(by_step[first + place]),
            }
            for place, begin in enumerate(begins)
        ]

    def named(self, what: str, **of: str) -> list[dict[str, Any]]:
        """The most frequent reasons, tools or severities: sessions with a harmful call that has it; `of` narrows the groups."""
        counts: Counter[str] = Counter()
        for (group, kind, name), sessions in self.harms.items():
            if kind == what and self._leads(group) and of.items() <= group._asdict().items():
                counts[name] += sessions
        rows = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return [{"name": name, "sessions": count} for name, count in rows[:NAMED_MAX] if count]

    def unjudged(self) -> list[dict[str, Any]]:
        """Agents with sessions that no spec matches."""
        found: dict[tuple[str, str], Figures] = {}
        for (_, group), figures in self.figures.items():
            if group.kind != AGENT and not group.spec:
                key = group.namespace, group.agent
                found[key] = found.get(key, NO_FIGURES).plus(figures)
        rows = sorted(found.items(), key=lambda pair: (-pair[1].calls, pair[0]))
        return [
            {
                "namespace": namespace,
                "agent": agent,
                "sessions": each.sessions,
                "calls": each.calls,
            }
            for (namespace, agent), each in rows[:ROWS_MAX]
            if each.sessions > 0
        ]

    def _leads(self, group: FigureGroup) -> bool:
        """True for groups that are added up: a session is in one of them for each of its agents."""
        search = self.query.search
        by_spec = bool(search.spec or search.spec_version)
        return (group.kind != AGENT and bool(group.spec)) if by_spec else group.kind == AGENT

    def _by(
        self, key_of: Callable[[FigureGroup], tuple[str, ...]]
    ) -> list[tuple[tuple[str, ...], Figures]]:
        found: dict[tuple[str, ...], Figures] = {}
        for (_, group), figures in self.figures.items():
            if self._leads(group):
                key = key_of(group)
                found[key] = found.get(key, NO_FIGURES).plus(figures)
        rows = sorted(found.items(), key=lambda pair: (_worst_first(pair[1]), pair[0]))
        return rows[:ROWS_MAX]

    def _begin(self, step: int) -> int:
        search = self.query.search
        return (step * search.step - search.offset) * HOUR_NS


class Overview(SharedAnswers[OverviewQuery, GroupSums]):
    """Adds up the archive's sums and the sessions that only the monitor has.

    Args:
        monitor: has the sessions of now.
        shown: what is shown of a name.
        denied: calls that were denied before they were made.
        past: the archive; None if none is kept.
        written: the monitor's sessions that the archive has, too.
    """

    def __init__(
        self,
        monitor: Monitor,
        shown: Callable[[str], str],
        denied: PreventedCalls,
        past: PastSessions | None = None,
        written: WrittenSessions | None = None,
    ) -> None:
        super().__init__(self._found)
        self._monitor = monitor
        self._shown = shown
        self._denied = denied
        self._past = past
        self._written = written

    async def label_counts(
        self, query: OverviewQuery, since: int
    ) -> tuple[dict[str, VerdictLabels], str]:
        """By spec, what people say of sessions that it found harmful since then, and why there is none."""
        if self._past is None:
            return {}, ""
        return await self._past.label_counts(query.search, since)

    async def _found(self, query: OverviewQuery) -> GroupSums:
        found, done = await self._of_archive(query)
        for number, session in enumerate(self._sessions(query, done), 1):
            self._add(found, session)
            if number % _LUMP == 0:
                await asyncio.sleep(0)
        return found

    async def _of_archive(self, query: OverviewQuery) -> tuple[GroupSums, int]:
        """What the archive has, and how many sessions were written by then."""
        if self._past is None:
            return GroupSums(query, {}, {}), 0
        for _ in range(TRIES):
            done = self._done
            sums, harms, problem = await self._past.sums(query.search)
            if done == self._done:
                break
        figures = {(step, group): each for step, group, each in sums}
        return GroupSums(
            query,
            figures,
            {(group, what, name): each for group, what, name, each in harms},
            problem,
        ), done

    @property
    def _done(self) -> int:
        return 0 if self._written is None else self._written.done()

    def _sessions(self, query: OverviewQuery, done: int) -> Iterator[Session]:
        """Sessions of that time that the archive did not have when so many were written."""
        written = self._written
        since, until = query.search.since * HOUR_NS, query.search.until * HOUR_NS
        for session, _ in groupby(
            self._monitor.reader.open_judgements(), key=lambda pair: pair[0]
        ):
            if (
                (written is None or not written.has(session.key, done))
                and query.access.sees(session.key.namespace)
                and since <= session.last_ns
                and session.started_ns < until
            ):
                yield session

    def _add(self, found: GroupSums, session: Session) -> None:
        search = found.query.search
        denied, text_of = (
            prevented_of(self._denied, session.key),
            self._monitor.reader.tool_name,
        )
        judgements = ((each, [*harms(each, text_of)]) for each in session.judgements)
        counted = SessionShares.of(session, judgements, text_of, self._shown, denied)
        for hour, group, figures in counted.shares:
            if search.takes(hour, group):
                place = search.step_of(hour), group
                found.figures[place] = found.figures.get(place, NO_FIGURES).plus(figures)
        for hour, group, what, name in counted.harms:
            if search.takes(hour, group):
                key = group, what, name
                found.harms[key] = found.harms.get(key, 0) + 1


def as_json(found: Figures) -> dict[str, Any]:
    """Figures as the API shows them; HarmRate and PrefixCrit are means over sessions with scores, null without any."""
    scored = found.scored
    return {
        "sessions": found.sessions,
        "harmed_sessions": found.harmed,
        "scored_sessions": scored,
        "harm_rate": _mean(found.harm_rate, scored),
        "prefix_crit": _mean(found.prefix_crit, scored),
        "calls": found.calls,
        "harmful": found.harmful,
        "possible": found.possible,
        "prevented": found.prevented,
        "not_judged": found.not_judged,
    }


def _mean(total: float, count: int) -> float | None:
    return min(1.0, max(0.0, total / count)) if count > 0 else None


def _worst_first(found: Figures) -> tuple[int, ...]:
    return -found.harmed, -found.harmful, -found.possible, -found.calls
