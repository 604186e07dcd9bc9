"""From the end of a session to its judgements: who is chosen, what is handed over, and where judgements go.

Idea: the end of a session leaves a note. A task looks at one session between two turns of others, and hands those that
are chosen to the thread of the judges. So neither a burst of ends nor a slow endpoint holds up a span.

Invariant: a judgement by a model is a record of its own. It is shown, kept, counted and sent as an event; no verdict
comes of it, and no page.

Example: 5,000 sessions end in one tick, one with harm. They are noted in a millisecond. The one is handed over, and
the spans of the others go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from collector.api.denied_calls import mark_overruled, prevented
from collector.archive.record import SessionName
from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.calls.pipeline import Pipeline
from collector.online_judges.judge_counts import JudgeCounts
from collector.online_judges.judge_job import JudgeJob
from collector.online_judges.judge_panel import PanelAnswer
from collector.online_judges.judge_thread import JudgeThread
from collector.online_judges.judgement_store import JudgementStore
from collector.online_judges.session_choice import SessionChoice
from collector.online_judges.span_keeper import SpanKeeper, TraceKey
from collector.telemetry.counters import MetricReading
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction
from collector.transcripts.span_shares import SessionId
from monitor.engine import Monitor
from monitor.limits import SECOND
from monitor.records import SessionKey
from monitor.session.session import Session

__all__ = ["JudgeFeed"]

ENDED_MAX: Final = 20_000
"""Ended sessions that may wait to be looked at."""
BESIDE_MAX: Final = 32
"""Other sessions of the same traces that are looked at, to tell whose a span is."""
LOG_NS: Final = 60 * SECOND
"""Shortest time between two lines on judgements without an answer."""

Deliver = Callable[[Mapping[str, Any]], None]


class JudgeFeed:
    """Hands ended sessions to judges, and passes on what they say.

    Args:
        monitor: has the sessions.
        pipeline: knows whose traces are.
        redaction: what is taken out of all that is handed over.
        denied: calls that were denied before they were made.
        choice: which sessions are judged.
        keeper: has their spans.
        clock: Unix nanoseconds.
    """

    def __init__(
        self,
        monitor: Monitor,
        pipeline: Pipeline,
        redaction: Redaction,
        denied: PreventedCalls,
        choice: SessionChoice,
        keeper: SpanKeeper,
        clock: Callable[[], int],
    ) -> None:
        self.counts = JudgeCounts()
        self.store = JudgementStore()
        self.keeper = keeper
        self.deliver: list[Deliver] = []
        """Who else takes judgements, as they are shown."""
        self._monitor = monitor
        self._pipeline = pipeline
        self._redaction = redaction
        self._denied = denied
        self._choice = choice
        self._clock = clock
        self._thread: JudgeThread | None = None
        self._ended: deque[SessionKey] = deque()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._logged_ns = 0

    # --- its life --------------------------------------------------------------------------------

    def start(self, thread: JudgeThread) -> None:
        """Begins to hand sessions to these judges, in the running loop."""
        self._thread = thread
        thread.start()
        self._tasks = [
            asyncio.create_task(self._run()),
            asyncio.create_task(self.keeper.run()),
        ]

    async def stop(self, seconds: float) -> None:
        """Gives up what waits, within the time."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        if self._thread is not None:
            left = len(self._ended) + self._thread.waiting
            if left:
                log.warning("sessions_not_judged", sessions=left, reason="the service stops")
            await asyncio.to_thread(self._thread.stop, seconds)

    def tick(self, now: int) -> None:
        """Time went on: what was kept for too long goes."""
        self.keeper.tick(now)

    # --- ends of sessions ------------------------------------------------------------------------

    def ended(self, key: SessionKey) -> None:
        """A session has ended."""
        if self._ended and self._ended[-1] == key:  # under another spec
            return
        if len(self._ended) >= ENDED_MAX:
            self.counts.dropped["queue_full"] += 1
            return
        self._ended.append(key)
        self._news.set()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            while self._ended:
                key = self._ended.popleft()
                try:
                    self._look_at(key)
                except Exception as error:  # noqa: BLE001 - a session that cannot be shown is lost alone
                    self._lose(error)
                await asyncio.sleep(0)
            self._news.clear()

    def _look_at(self, key: SessionKey) -> None:
        session = self._latest(key)
        if session is None or self._thread is None:
            return
        traces = _traces(session)
        reason = self._choice.reason(session)
        if not reason:
            self.keeper.release(each for each in traces if not self._is_live(each))
        elif self._thread.put(self._job(session, reason, traces)):
            self.counts.sessions += 1
        else:
            self.counts.dropped["queue_full"] += 1

    def _latest(self, key: SessionKey) -> Session | None:
        """The latest session of this id, if it has ended."""
        named = self._monitor.reader.named(key.id, key.namespace)
        sessions = [session for session, _ in groupby(named, key=lambda pair: pair[0])]
        if any(session.ended is None for session in sessions):
            return None
        return max(sessions, key=lambda each: each.started_ns, default=None)

    def _is_live(self, trace: TraceKey) -> bool:
        """Whether a session with calls in the trace goes on."""
        keys = self._pipeline.sessions_of(trace[1].hex(), trace[0])
        return any(self._monitor.reader.live_named(key.id, key.namespace) for key in keys)

    def _job(self, session: Session, reason: str, traces: Sequence[TraceKey]) -> JudgeJob:
        name = self._redaction.askable
        key = session.key
        return JudgeJob(
            name=SessionName(name(key.namespace), name(key.id), session.started_ns),
            agent=name(session.agent),
            reason=reason,
            judged=self._objects(key, session.started_ns),
            beside=self._beside(key, traces),
            spans=self.keeper.spans_of(traces),
        )

    def _beside(
        self, key: SessionKey, traces: Sequence[TraceKey]
    ) -> dict[SessionId, list[dict[str, Any]]]:
        """Judgement objects of other sessions with calls in these traces."""
        found = dict.fromkeys(
            other
            for trace in traces
            for other in self._pipeline.sessions_of(trace[1].hex(), trace[0])
            if other != key
        )
        name = self._redaction.askable
        return {
            (name(other.namespace), name(other.id)): self._objects(other)
            for other in list(found)[:BESIDE_MAX]
        }

    def _objects(self, key: SessionKey, begun: int | None = None) -> list[dict[str, Any]]:
        """The judgement objects of a session, as they are shown."""
        found = [
            each
            for each in self._monitor.find(key.id, key.namespace)
            if begun in (None, each["started"])
        ]
        mark_overruled(found, self._denied, key.id)
        denied = prevented(self._denied, key.id, key.namespace)
        return [self._redaction.shown({**each, "prevented": denied}) for each in found]

    # --- what judges say -------------------------------------------------------------------------

    def judged(self, job: JudgeJob, answer: PanelAnswer) -> None:
        """One judgement, of a session or of a canary that came with it: this one is counted alone."""
        self.counts.add(answer, job.agent)
        if answer.record.outcome == "failed":
            self._log(answer.record.why)
        if answer.canary is not None:
            return
        found = self._shown(job, answer)
        self.store.add(found)
        self.counts.dropped["forgotten"] = self.store.forgotten
        for deliver in self.deliver:
            deliver(found)

    def _shown(self, job: JudgeJob, answer: PanelAnswer) -> dict[str, Any]:
        record = answer.record
        return {
            **record.as_json(),
            "namespace": job.name.namespace,
            "begun": job.name.begun,
            "agent": job.agent,
            "reason": job.reason,
            "judged_at": self._clock(),
            "disputed": record.disputed,
            "canaries": self.counts.canaries.of(record.judge, record.model),
        }

    def failed(self, job: JudgeJob, error: Exception) -> None:  # noqa: ARG002 - of the protocol
        """A session could not be judged, for a fault of ours."""
        self._lose(error)

    def _lose(self, error: Exception) -> None:
        self.counts.dropped["error"] += 1
        self._log(type(error).__name__, error)

    def _log(self, why: str, error: Exception | None = None) -> None:
        """A line, unless the last one is young."""
        now = self._clock()
        if not self._logged_ns or now - self._logged_ns >= LOG_NS:
            self._logged_ns = now
            log.warning("judging_failing", reason=why, exc_info=error)

    def of(self, name: SessionName, last: int) -> list[Mapping[str, Any]]:
        """The judgements of a session, as they are shown."""
        return self.store.of(name, last)

    def readings(self) -> Iterator[MetricReading]:
        """The metrics of judges."""
        yield from self.counts.readings()
        yield from self.keeper.readings()
        waiting = self._thread.waiting if self._thread is not None else 0
        yield MetricReading("judge_queue_length", [((), len(self._ended) + waiting)])


def _traces(session: Session) -> list[TraceKey]:
    """The traces of a session's calls, as far as steps are kept."""
    found = dict.fromkeys(
        judgement.log.row(place).trace_id
        for judgement in session.judgements
        for place in range(len(judgement.log))
    )
    return [(session.key.namespace, trace) for trace in found]
