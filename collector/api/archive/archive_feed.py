"""What goes into the archive, and when: sessions at their end and, while they live, at their harms.

Idea: a call costs nothing here. The end of a session and a harmful verdict leave a note; a task builds the rows of a few
sessions at a time, and other tasks run between them. So a burst of ends holds up no span.

Invariants:

- What is noted is bounded; beyond it, sessions are lost to the archive alone, and counted.
- A live session is built again for its harms at most `HARMED_AT_ONCE` times a quarter of a second, all together.

Example: 5,000 sessions end in one tick. They are noted in a millisecond, and built within the next seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from collector.api.archive.past_sessions import PastSessions
from collector.api.archive.session_shares import SessionShares, group_of
from collector.api.archive.written_sessions import WrittenSessions
from collector.api.denied_calls import mark_overruled, prevented_of
from collector.api.list_fields import ListedHarms, service_version, summary, things_of
from collector.archive.record import (
    ArchivedJudgement,
    ArchivedSession,
    ModelJudgement,
    SessionName,
    SortKeys,
)
from collector.archive.writer import ArchiveWriter
from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.telemetry.json_text import as_json
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.records import SEVERITIES, Kind, SessionKey, Verdict
from monitor.session.judgement.judgement import Judgement
from monitor.session.report.harms import harms
from monitor.session.session import Session

__all__ = ["ArchiveFeed", "archived"]

ENDED_MAX: Final = 20_000
"""Ended sessions that may wait to be built."""
HARMED_MAX: Final = 10_000
"""Live sessions with news that may wait; the rest is written at their end."""
HARMED_AT_ONCE: Final = 4
AT_ONCE: Final = 4
"""Sessions that are built before other tasks have their turn."""
IDS_MAX: Final = 1_000
"""Spans of a session by which it is found."""
HARMED_SECONDS: Final = 0.25
CROWDED_SECONDS: Final = 0.05
LAST_SECONDS: Final = 0.5
"""Time for live sessions at the stop of a process without a journal."""


class ArchiveFeed:
    """Builds rows of sessions, and hands them to the writer.

    Args:
        writer: writes them.
        past: answers from what is written.
        monitor: has the sessions.
        redaction: what is taken out of all that is written.
        denied: calls that were denied before they were made.
    """

    def __init__(
        self,
        writer: ArchiveWriter,
        past: PastSessions,
        monitor: Monitor,
        redaction: Redaction,
        denied: PreventedCalls,
    ) -> None:
        self.writer = writer
        self.past = past
        self._monitor = monitor
        self._redaction = redaction
        self._denied = denied
        self._ended: deque[Session] = deque()
        self._harmed: OrderedDict[SessionKey, None] = OrderedDict()
        self._news = asyncio.Event()
        self.written = WrittenSessions(monitor.reader.has, lambda: writer.done)
        self._tasks: list[asyncio.Task[None]] = []

    # --- notes ---------------------------------------------------------------------------------

    def ended(self, session: Session) -> None:
        """A session has ended."""
        if len(self._ended) >= ENDED_MAX:
            # Before the start a journal is gone through: its earliest ends were written when they came.
            if not self._tasks:
                self._ended.popleft()
            else:
                self.writer.dropped["queue_full"] += 1
                return
        self._ended.append(session)
        self._news.set()

    def _is_behind(self) -> bool:
        return bool(self._ended)

    def deliver(self, verdicts: Sequence[Verdict]) -> None:
        """New verdicts and revisions."""
        for verdict in verdicts:
            if verdict.kind is Kind.HARMFUL and len(self._harmed) < HARMED_MAX:
                self._harmed[verdict.session] = None

    def judged(self, found: Mapping[str, Any]) -> None:
        """What a model says of a session, as it is shown."""
        name = SessionName(found["namespace"], found["session"], found["begun"])
        judge, model, at = found["judge"], found["model"], found["judged_at"]
        self.writer.put(ModelJudgement(name, judge, model, at, as_json(found)))

    # --- its life ------------------------------------------------------------------------------

    def listen(self) -> None:
        """Takes ends of sessions from now on, also those that a journal brings before the start."""
        self._monitor.reader.on_end(self.ended, self._is_behind)

    def start(self) -> None:
        """Begins to write, in the running loop; what an earlier process may not have written comes first.

        Raises:
            OSError: the folder cannot be used, or another process uses it.
        """
        self.writer.start()
        monitor, name = self._monitor, self._redaction.name
        self.writer.settle(
            [(name(key.namespace), name(key.id)) for key in monitor.reader.live_sessions()]
        )
        for session in _ended_ones(monitor):
            self.ended(session)
        self.listen()
        self._tasks = [
            asyncio.create_task(self._note_live()),
            asyncio.create_task(self._run()),
            asyncio.create_task(self._look_at_harms()),
        ]

    async def stop(self, seconds: float, *, is_over: bool) -> None:
        """Writes what is noted, as far as the time allows.

        Args:
            seconds: the time.
            is_over: True if no later process goes on with the live sessions: they are written, too, the most recent first.
        """
        if not self._tasks:
            return
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._monitor.reader.on_end(None)
        loop = asyncio.get_running_loop()
        until = loop.time() + min(seconds / 2, LAST_SECONDS)
        for session in self._last_ones(is_over=is_over):
            if loop.time() > until:
                break
            self._put(session)
        await asyncio.to_thread(self.writer.stop, seconds / 2)
        self.past.reader.close()

    def _last_ones(self, *, is_over: bool) -> Iterator[Session]:
        yield from self._ended
        if is_over:
            for session, _ in groupby(self._monitor.reader.open_judgements(), key=_session_of):
                if session.ended is None:
                    yield session

    async def _note_live(self) -> None:
        """Live sessions that an earlier process has written; a database that does not answer holds up no start."""
        original = self._redaction.original
        for known in await asyncio.to_thread(self.past.live):
            key = SessionKey(original(known.namespace), original(known.session))
            if self._monitor.reader.has(key):
                self.written.note(key, 0)

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            while self._ended:
                if self.writer.is_crowded:
                    await asyncio.sleep(CROWDED_SECONDS)
                    continue
                for _ in range(min(AT_ONCE, len(self._ended))):
                    session = self._ended.popleft()
                    if session.ended is not None:  # else it goes on, and ends again
                        self._put(session)
                await asyncio.sleep(0)
            self._news.clear()

    async def _look_at_harms(self) -> None:
        while True:
            await asyncio.sleep(HARMED_SECONDS)
            for _ in range(min(HARMED_AT_ONCE, len(self._harmed))):
                key, _none = self._harmed.popitem(last=False)
                for session, _pairs in groupby(
                    self._monitor.reader.named(key.id, key.namespace), key=_session_of
                ):
                    if session.ended is None:
                        self._put(session)

    def _put(self, session: Session) -> None:
        try:
            record = archived(session, self._monitor, self._redaction, self._denied)
        except Exception:  # noqa: BLE001 - a session that cannot be shown is lost alone
            self.writer.dropped["error"] += 1
            return
        number = self.writer.put(record)
        if number:
            self.written.note(session.key, number)


def _session_of(pair: tuple[Session, Judgement]) -> Session:
    return pair[0]


def _ended_ones(monitor: Monitor) -> list[Session]:
    """Ended sessions that are still shown, the earliest first."""
    found = groupby(monitor.reader.open_judgements(), key=_session_of)
    return [session for session, _ in found if session.ended is not None][::-1]


def archived(
    session: Session,
    monitor: Monitor,
    redaction: Redaction,
    denied: PreventedCalls,
) -> ArchivedSession:
    """A session as the archive keeps it: what the API shows of it now."""
    judgements = sorted(session.judgements, key=lambda each: (each.judge.spec.id, each.part))
    text_of = monitor.reader.tool_name
    walks = [each.walk() for each in judgements]
    harmful = [[*harms(each, text_of)] for each in judgements]
    objects = [
        monitor.reader.as_object(session, each, walked)
        for each, walked in zip(judgements, walks, strict=True)
    ]
    mark_overruled(objects, denied, session.key.id)
    version = service_version(session)
    listed = map(ListedHarms, harmful, walks)
    rows = [
        _row(session, each, found, its, monitor, redaction, version)
        for each, found, its in zip(judgements, objects, listed, strict=True)
    ]
    steps = [step for found in objects for step in found["steps"][:IDS_MAX]]
    shares = SessionShares.of(
        session,
        zip(judgements, harmful, strict=True),
        text_of,
        redaction.name,
        prevented_of(denied, session.key),
    )
    return ArchivedSession(
        name=SessionName(
            redaction.askable(session.key.namespace),
            redaction.askable(session.key.id),
            session.started_ns,
        ),
        last=session.last_ns,
        touched=session.touched_ns,
        ended=session.ended,
        keys=_keys(objects, rows),
        traces=tuple({bytes.fromhex(step["trace_id"]) for step in steps}),
        spans=tuple({bytes.fromhex(step["span_id"]) for step in steps}),
        judgements=tuple(rows),
        shares=shares.shares,
        harms=shares.harms,
    )


def _row(
    session: Session,
    judgement: Judgement,
    found: Mapping[str, Any],
    listed: ListedHarms,
    monitor: Monitor,
    redaction: Redaction,
    version: str,
) -> ArchivedJudgement:
    name, text_of = redaction.name, monitor.reader.tool_name
    short = redaction.shown(summary(session, judgement, text_of, listed))
    kinds = {(harm.tool, harm.reason, harm.severity): None for harm in listed.harms}
    told = {
        (name(text_of(tool)), reason.value, severity): None for tool, reason, severity in kinds
    }
    severities = {str(harm.step): harm.severity for harm in listed.harms}
    whole = redaction.shown({**found, "severities": severities})
    return ArchivedJudgement(
        group=group_of(session, judgement, name, version),
        harmful=short["harmful"] or 0,
        harms=tuple(told),
        tools=tuple(dict.fromkeys(step["tool"] for step in whole["steps"])),
        summary=as_json(short),
        object=as_json(whole),
        things=things_of(judgement, name),
    )


def _keys(objects: Sequence[Mapping[str, Any]], rows: Sequence[ArchivedJudgement]) -> SortKeys:
    scored = [each for each in objects if each["harm_rate"] is not None]
    told = [SEVERITIES.index(severity) + 1 for row in rows for _, _, severity in row.harms]
    return SortKeys(
        max(told, default=0),
        max((row.harmful for row in rows), default=0),
        max((each["harm_rate"] for each in scored), default=0.0),
        max((1.0 - each["prefix_crit"] for each in scored), default=0.0),
        max((_risk(each) for each in objects), default=-1.0),
    )


def _risk(found: Mapping[str, Any]) -> float:
    risk = found.get("risk")
    return -1.0 if risk is None else float(risk)
