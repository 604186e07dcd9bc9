"""What the API answers about agents and specs over time: `/api/v1/agents`, `/specs`, `/timeline`, `/versions`, `/overview`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from collector.api.access import Access
from collector.api.overview.overview import GroupSums, Overview, as_json
from collector.api.overview.overview_query import OverviewQuery
from collector.api.session_query import Place, SessionQuery
from collector.api.shared_answers import SharedAnswers
from collector.api.spec_view import head
from collector.archive.record import HOUR_NS, NO_FIGURES, FigureGroup, VerdictLabels
from collector.net.asgi import Send, send_json
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.spec.spec import Spec

__all__ = ["OverviewAnswers"]

SHOWN_MAX: Final = 50
"""Agents, and specs, in an overview; the lists of each have all."""
WORST_MAX: Final = 5
PAGES_MAX: Final = 20
"""Pages in which the worst sessions are looked for."""
LABELS_NS: Final = 30 * 24 * HOUR_NS
"""Age of the last call of sessions whose labels count for a spec's precision."""

Shape = Callable[[GroupSums], Awaitable[dict[str, Any]]]


class OverviewAnswers:
    """Answers by the first part of the path below `/api/v1/`; each takes `NAMES` as parameters.

    Args:
        overview: adds up.
        ranked: lists sessions, the worst ones among them; once for all who ask for the same.
        monitor: has the specs in use.
        redaction: what is shown of names.
        clock: Unix nanoseconds.
        past: True if an archive is kept.
    """

    def __init__(
        self,
        overview: Overview,
        ranked: Callable[[SessionQuery], Awaitable[dict[str, Any]]],
        monitor: Monitor,
        redaction: Redaction,
        clock: Callable[[], int],
        *,
        past: bool,
    ) -> None:
        self._overview = overview
        self._ranked = ranked
        self._monitor = monitor
        self._redaction = redaction
        self._clock = clock
        self._past = past
        self._labels = SharedAnswers(self._counted)
        self._shapes: Mapping[str, Shape] = {
            "agents": self._agents,
            "specs": self._specs,
            "timeline": self._timeline,
            "versions": self._versions,
            "overview": self._whole,
        }

    async def send(
        self, send: Send, what: str, query: Mapping[str, str], access: Access
    ) -> None:
        """Answers one of the paths."""
        try:
            asked = self._asked(what, query, access)
        except ValueError as problem:
            await send_json(send, 400, {"error": str(problem)})
            return
        found = await self._overview.get(asked)
        await send_json(send, 200, {**(await self._shapes[what](found)), **self._about(found)})

    def _asked(self, what: str, query: Mapping[str, str], access: Access) -> OverviewQuery:
        """Reads a request.

        Raises:
            ValueError: a sentence.
        """
        name, original = self._redaction.name, self._redaction.original
        asked = OverviewQuery.read(
            query, self._clock(), lambda given: name(original(given)), access
        )
        if what == "versions" and not (asked.search.agent or asked.search.spec):
            raise ValueError("versions are of one agent or one spec: name it")
        return asked

    def _about(self, found: GroupSums) -> dict[str, Any]:
        search = found.query.search
        return {
            "since": search.since * HOUR_NS,
            "until": search.until * HOUR_NS,
            "step": found.query.step,
            **({"archive_error": found.problem} if found.problem else {}),
        }

    async def _agents(self, found: GroupSums) -> dict[str, Any]:
        return {"agents": found.agents()}

    async def _timeline(self, found: GroupSums) -> dict[str, Any]:
        return {"steps": found.timeline()}

    async def _versions(self, found: GroupSums) -> dict[str, Any]:
        return {"versions": found.versions()}

    async def _specs(self, found: GroupSums) -> dict[str, Any]:
        specs, problem = await self._labelled(found, self._all_specs(found))
        return {"specs": specs, **({"archive_error": problem} if problem else {})}

    async def _labelled(
        self, found: GroupSums, specs: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], str]:
        """The same specs with what people say of their verdicts, and why nothing is known of it."""
        counts, problem = await self._labels.get(found.query)
        none = VerdictLabels()
        return [{**each, **_labels(counts.get(each["id"], none))} for each in specs], problem

    async def _counted(self, query: OverviewQuery) -> tuple[dict[str, VerdictLabels], str]:
        return await self._overview.label_counts(query, self._clock() - LABELS_NS)

    async def _whole(self, found: GroupSums) -> dict[str, Any]:
        agents, specs = found.agents(), self._all_specs(found)
        matched = [each for each in specs if each["sessions"]]
        worst = await self._worst_of(found)
        shown, _ = await self._labelled(found, matched[:SHOWN_MAX])
        return {
            "archive": self._past,
            "live": self._monitor.sessions if found.query.access.namespaces is None else None,
            "total": as_json(found.total()),
            "agents": agents[:SHOWN_MAX],
            "agents_more": max(0, len(agents) - SHOWN_MAX),
            "specs": shown,
            "specs_more": max(0, len(matched) - SHOWN_MAX),
            "unmatched": [
                each["id"] for each in specs if not each["sessions"] and each["in_use"]
            ],
            "unjudged": found.unjudged()[:SHOWN_MAX],
            "steps": found.timeline(),
            "reasons": found.named("reason"),
            "tools": found.named("tool"),
            "severities": found.named("severity"),
            "worst": self._redaction.shown(worst),
        }

    async def _worst_of(self, found: GroupSums) -> list[dict[str, Any]]:
        """The worst sessions. A page that is short had no time to look further: others go on from there."""
        query = self._worst(found)
        rows: list[dict[str, Any]] = []
        for _ in range(PAGES_MAX):
            page = await self._ranked(query)
            rows += page["sessions"]
            names = {(each["namespace"], each["session"], each["started"]) for each in rows}
            if len(names) >= WORST_MAX or page["next"] is None:
                break
            place = Place.read(page["next"], query.sort)
            query = query._replace(limit=WORST_MAX - len(names), after=place)
        return rows

    def _worst(self, found: GroupSums) -> SessionQuery:
        search, original = found.query.search, self._redaction.original
        return SessionQuery(
            "severity",
            WORST_MAX,
            agent=original(search.agent),
            spec=original(search.spec),
            namespace=None if search.namespace is None else original(search.namespace),
            only="harmful",
            since=search.since * HOUR_NS,
            until=search.until * HOUR_NS,
            spec_version=search.spec_version,
            service_version=search.service_version,
            access=found.query.access,
        )

    def _all_specs(self, found: GroupSums) -> list[dict[str, Any]]:
        """Specs in use and specs of past sessions, the most harmed first."""
        in_use = {
            self._redaction.name(judge.spec.id): judge.spec
            for judge in self._monitor.binder.judges.values()
        }
        wanted = found.query.search.spec
        rows: list[dict[str, Any]] = []
        for spec, group, figures in found.specs():
            known = in_use.pop(spec, None)
            said = self._head(known) if known is not None else _gone(spec, group)
            rows.append({**said, "in_use": known is not None, **as_json(figures)})
        none = as_json(NO_FIGURES)
        rows += [
            {**self._head(spec), "in_use": True, **none}
            for name, spec in in_use.items()
            if wanted in ("", name)
        ]
        return rows

    def _head(self, spec: Spec) -> dict[str, Any]:
        said: dict[str, Any] = self._redaction.shown(head(spec))
        return said


def _labels(found: VerdictLabels) -> dict[str, Any]:
    return {"labels": found._asdict(), "precision": found.precision}


def _gone(spec: str, last: FigureGroup) -> dict[str, Any]:
    """What is known of a spec that is no longer in use, by its latest group."""
    return {"id": spec, "version": last.spec_version, "kind": last.kind, "mode": last.mode}
