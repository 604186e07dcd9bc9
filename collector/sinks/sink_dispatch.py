"""All that leaves the process when a call is harmful: pages, lines and events, each by its queue.

`deliver` is what the pipeline calls: it decides and puts in, and never waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from collector.config.masking import masked_url
from collector.config.settings.alerts import AlertSettings
from collector.sinks.alert.alert_groups import AlertGroup, AlertGroups, as_group_alert
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.alert.page_alert import PageAlert, as_alert
from collector.sinks.alert.pager import Pager, PageRules
from collector.sinks.alertmanager import Alertmanager
from collector.sinks.event import as_event, is_news
from collector.sinks.http_client import HttpSender
from collector.sinks.jsonl import JsonLines
from collector.sinks.otlp_logs import (
    OtlpLogs,
    of_alarm,
    of_judgement,
    of_session,
    of_verdict,
)
from collector.sinks.printable_text import stamp
from collector.sinks.queue import Backoff, SinkQueue
from collector.sinks.webhook import Webhook
from collector.telemetry.clock import Standstill
from collector.telemetry.counters import MetricReading
from collector.telemetry.duration_histogram import DurationHistogram
from collector.telemetry.logs import log
from collector.telemetry.tracing import Tracer
from monitor.aggregate.totals import SessionFinished
from monitor.records import ReferenceAlarm, Verdict

__all__ = ["AlertJournal", "SinkDispatch"]

SECOND = 1_000_000_000
TICK_SECONDS = 0.05
"""How late a settled call may page."""

KEPT_FOR = 4
"""An Alertmanager that gets no alert again for so many repeats takes it as over."""

MANAGER_BACKOFF = Backoff(most_seconds=0.25)
"""Pauses short enough that, after an outage of Alertmanager, a direct alert arrives before those of
Prometheus, which sends each minute: a rule's alert that has fired for longer than its
`group_wait` (deploy/alertmanager) does not wait."""

FIRES, ENDED = b"f", b"e"
"""What the key of an alert begins with."""

LOGGED_SESSIONS = 20
"""Sessions of undelivered pages that the log names."""


class AlertJournal(Protocol):
    """A journal, as far as alerts are written to it."""

    def settled(self, sink: str, keys: list[bytes]) -> None:
        """Messages have left the queue of a sink."""
        ...

    def settling(self, now: int) -> None:
        """Calls that settled are about to page."""
        ...


NO_END = "0001-01-01T00:00:00Z"
"""How Alertmanager's webhook says that an alert has not ended."""


class SinkDispatch:
    """The sinks of one process.

    Args:
        settings: the section `alerts`.
        links: where what an alert is about is shown.
        quiet_ns: a page is over when its session did no more such harm for so long.
        clock: Unix nanoseconds.
        instance: of this process. It is an annotation: monitors that see the same spans send one alert.
        namespaced: whether /metrics has the label `namespace`.
        tracer: makes spans of deliveries; None if own traces are off.
    """

    def __init__(
        self,
        settings: AlertSettings,
        links: AlertLinks,
        quiet_ns: int,
        clock: Callable[[], int],
        instance: str = "",
        *,
        namespaced: bool = True,
        tracer: Tracer | None = None,
    ) -> None:
        self._clock = clock
        self._repeat_ns = int(settings.repeat_seconds * SECOND)
        resolve_ns = int(settings.resolve_seconds * SECOND)
        # It outlives a restart: what comes after it is news of the same alert.
        self._lasts_ns = max(KEPT_FOR * self._repeat_ns, resolve_ns)
        self._labels = settings.labels
        self._instance = instance
        self._joined = settings.joined
        self._links = links
        timeout, room = settings.timeout_seconds, settings.queue
        managers = [
            (url, Alertmanager(url, timeout, settings.alertmanager_http))
            for url in settings.alertmanager
        ]
        self._managers = [
            SinkQueue(each, room, MANAGER_BACKOFF, tracer=tracer, place=_place(url))
            for url, each in managers
        ]
        hook, lines, endpoint = settings.webhook, settings.jsonl, settings.otlp_endpoint
        hooks = (
            [Webhook(hook.url, hook.secret.get_secret_value(), timeout, settings.webhook_http)]
            if hook.url
            else []
        )
        self._hooks = [
            SinkQueue(each, room, tracer=tracer, lump=1, place=_place(hook.url))
            for each in hooks
        ]
        self._lines = (
            [SinkQueue(JsonLines(lines), room, tracer=tracer, place=str(lines))]
            if lines
            else []
        )
        logs = [OtlpLogs(endpoint, timeout, settings.otlp_http)] if endpoint else []
        self._logs = [
            SinkQueue(each, room, tracer=tracer, place=_place(endpoint)) for each in logs
        ]
        self._senders = [each.sender for _, each in managers] + [each.sender for each in hooks]
        self._prepared: list[HttpSender | OtlpLogs] = [*self._senders, *logs]
        rules = PageRules(
            settle_ns=int(settings.settle_seconds * SECOND),
            repeat_ns=self._repeat_ns,
            quiet_ns=quiet_ns,
            per_minute=settings.pages_per_minute,
            possible=settings.joined == "page",
        )
        self._groups: AlertGroups | None = None
        if settings.group_by == "agent":
            self._groups = AlertGroups(
                self._put_group,
                self._repeat_ns,
                resolve_ns,
                namespaced=namespaced,
                per_minute=settings.pages_per_minute,
            )
            self.pager = Pager(rules, self._groups.take, self._groups.has)
        else:
            self.pager = Pager(rules, self._put)
        self._ticker: asyncio.Task[None] | None = None
        self._kept: AlertJournal | None = None
        self._is_keyed = False
        """True if messages have keys, by which a journal knows them."""

    @property
    def queues(self) -> list[SinkQueue]:
        return [*self._managers, *self._hooks, *self._lines, *self._logs]

    # --- what comes in -------------------------------------------------------------------------

    def deliver(self, verdicts: Sequence[Verdict]) -> None:
        """New verdicts and revisions, as they are given."""
        if not self.queues:
            return
        now = self._clock()
        news = [verdict for verdict in verdicts if is_news(verdict, self._joined)]
        if self._managers or self._hooks:
            self.pager.consider(news, now)
        for verdict in news:
            key = self._key(verdict) if self._is_keyed else b""
            for queue in self._lines:
                queue.put(as_event(verdict), key)
            for queue in self._logs:
                queue.put(of_verdict(verdict, now), key)

    def alarm(self, raised: ReferenceAlarm) -> None:
        """An alarm of a reference that a session raises, or takes back."""
        if not self.queues:
            return
        now = self._clock()
        if self._managers or self._hooks:
            self.pager.alarm(raised, now)
        key = self._key(raised) if self._is_keyed else b""
        for queue in self._lines:
            queue.put(as_event(raised), key)
        for queue in self._logs:
            queue.put(of_alarm(raised, now), key)

    def ended(self, events: Sequence[SessionFinished]) -> None:
        """Sessions that are over."""
        now = self._clock()
        self.pager.ended(events, now)
        for queue in self._logs:
            for event in events:
                key = self._key(event) if self._is_keyed else b""
                for score in of_session(event, now):
                    queue.put(score, key)

    def judged(self, found: Mapping[str, Any]) -> None:
        """What a model says of a session: an event for the log, and no page."""
        for queue in self._logs:
            queue.put(of_judgement(found))

    # --- what goes out -------------------------------------------------------------------------

    def _put(self, pages: Sequence[PageAlert], now: int, news: bool) -> None:
        for page in pages:
            alert = as_alert(page, self._links, now + self._lasts_ns, self._labels)
            self._send(alert, news=news, ended=bool(page.ended_ns))

    def _put_group(self, group: AlertGroup, now: int, news: bool) -> None:
        alert = as_group_alert(group, self._links, now + self._lasts_ns, self._labels)
        ended = bool(group.ended_ns)
        if news and group.worse and not ended:
            before = {**_staged(alert, group.worse - 1), "endsAt": stamp(now)}
            self._send_managers(before, news=True, ended=True)
        self._send(alert, news=news, ended=ended, worse=group.worse)

    def _send(self, alert: dict[str, Any], *, news: bool, ended: bool, worse: int = 0) -> None:
        """To all receivers; what only goes on is repeated to Alertmanager alone."""
        if self._instance:
            alert["annotations"]["monitor"] = self._instance
        self._send_managers(_staged(alert, worse), news=news, ended=ended)
        if news:
            key = self._key_of(alert, ended=ended)
            for queue in self._hooks:
                queue.put(_for_hook(alert, ended=ended), key)

    def _send_managers(self, alert: dict[str, Any], *, news: bool, ended: bool) -> None:
        key = self._key_of(alert, ended=ended) if news else b""
        for queue in self._managers:
            if news:
                queue.put(alert, key)
            else:
                queue.offer(alert)

    def _key_of(self, alert: dict[str, Any], *, ended: bool) -> bytes:
        """What a journal knows the message by; empty without one."""
        if not self._is_keyed:
            return b""
        return (ENDED if ended else FIRES) + _digest(sorted(alert["labels"].items()))

    # --- what outlives the process -------------------------------------------------------------

    def keep(self, kept: AlertJournal) -> None:
        """Tells a journal what leaves, from now on."""
        self._kept, self._is_keyed = kept, True
        for queue in self.queues:
            queue.settled = kept.settled

    def hold(self) -> None:
        """The time of an earlier process is gone through again: nothing is sent meanwhile."""
        self._is_keyed = True
        for queue in self.queues:
            queue.hold()

    def kept(self) -> dict[str, object]:
        """Objects that know what pages, and what was delivered."""
        return {"pager": self.pager, "groups": self._groups}

    def waiting(self) -> dict[str, list[tuple[bytes, Any]]]:
        """Messages that have not left yet, with their keys, by the ids of their queues."""
        return {queue.id: queue.waiting() for queue in self.queues}

    def waited_before(self, waiting: Mapping[str, Sequence[tuple[bytes, Any]]]) -> None:
        """These messages of an earlier process had not left yet."""
        for queue in self.queues:
            for key, message in waiting.get(queue.id, ()):
                queue.put(message, key)

    def settled_before(self, sink: str, keys: Sequence[bytes]) -> None:
        """An earlier process has sent these messages of a sink, or given them up."""
        for queue in self.queues:
            if queue.id == sink:
                queue.drop_held(keys)

    def release(self) -> None:
        """Comes back to the present: sends what the earlier process has not."""
        ends = stamp(self._clock() + self._lasts_ns)
        for queue in self.queues:
            for key, message in queue.release():
                if queue in self._managers and key.startswith(FIRES):
                    message["endsAt"] = ends
                queue.put(message, key)

    def flush(self, now: int) -> None:
        """No more calls are to come: what settles pages at once."""
        self.pager.flush(now)

    def tick(self, now: int) -> None:
        """Time has passed: what has settled pages, what fires is repeated, what is quiet ends."""
        self.pager.tick(now)
        if self._groups is not None:
            self._groups.tick(now)

    def _key(self, what: Verdict | ReferenceAlarm | SessionFinished) -> bytes:
        """What a line or an event is known by: the same when it is judged again."""
        return _digest(what)

    # --- its life ------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Reads certificates and credentials of all sinks, off the event loop.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        for each in self._prepared:
            await each.prepare()

    def start(self) -> None:
        """Begins to send, in the running loop."""
        for queue in self.queues:
            queue.start()
        if self._managers or self._hooks:
            self._ticker = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        standstill = Standstill()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if standstill.is_over():
                self.step()

    def step(self) -> None:
        """What is due by now, which a journal is told before."""
        now, due_ns = self._clock(), self.pager.due_ns
        if self._kept is not None and due_ns is not None and due_ns <= now:
            self._kept.settling(now)
        self.tick(now)

    async def hurry(self, seconds: float) -> None:
        """Sends what settles at once, and waits until all that waits has left, as far as the time allows."""
        if self._ticker is not None:
            self.flush(self._clock())
        await asyncio.gather(*(queue.empty(seconds) for queue in self.queues))

    async def stop(self, grace_seconds: float) -> None:
        """Sends what settles and what waits, as far as the time allows, and logs what is left."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
            self.flush(self._clock())
        self._log_waiting()
        await asyncio.gather(*(queue.stop(grace_seconds) for queue in self.queues))
        await asyncio.gather(*(sender.close() for sender in self._senders))

    def _log_waiting(self) -> None:
        """One line for the pages that found no room in their minute: nobody gets them now."""
        waiting = list(self.pager.waiting.values())
        if waiting:
            log.warning(
                "pages_undelivered",
                pages=len(waiting),
                sessions=[page.key.session.id for page in waiting[:LOGGED_SESSIONS]],
            )

    # --- metrics --------------------------------------------------------------------------------

    def readings(self) -> Iterator[MetricReading]:
        """The metrics of alerts; those of several Alertmanagers are one."""
        named: dict[str, list[SinkQueue]] = {}
        for queue in self.queues:
            named.setdefault(queue.name, []).append(queue)
        yield MetricReading(
            "alerts_sent",
            [
                ((name, result), sum(queue.results[result] for queue in queues))
                for name, queues in named.items()
                for result in ("ok", "failed", "dropped")
            ],
        )
        yield from _by_sink(named)
        withheld = sorted(self.pager.withheld.items())
        withheld += [("unnamed", self._groups.unnamed)] if self._groups is not None else []
        yield MetricReading(
            "alerts_withheld", [((reason,), count) for reason, count in withheld]
        )
        yield MetricReading("alerts_firing", [((), len(self.pager.firing))])
        groups = [((), len(self._groups.groups))] if self._groups is not None else []
        yield MetricReading("alert_groups_firing", groups)


def _digest(what: object) -> bytes:
    return blake2b(repr(what).encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _place(url: str) -> str:
    """Where a sink is, without its path, which may be a secret."""
    return masked_url(url, path=True)


def _by_sink(named: dict[str, list[SinkQueue]]) -> Iterator[MetricReading]:
    rows = [((name,), queues) for name, queues in named.items()]
    yield MetricReading(
        "alert_retries", [(n, sum(q.retries for q in each)) for n, each in rows]
    )
    yield MetricReading("alert_queue_length", [(n, sum(map(len, each))) for n, each in rows])
    yield MetricReading(
        "alert_queue_capacity", [(n, sum(q.capacity for q in each)) for n, each in rows]
    )
    yield MetricReading("alert_delivery_seconds", [(n, _latency(each)) for n, each in rows])


def _latency(queues: Sequence[SinkQueue]) -> DurationHistogram:
    """The observations of several queues in one histogram."""
    found = DurationHistogram(queues[0].latency.buckets)
    for queue in queues:
        found.add(queue.latency)
    return found


def _staged(alert: dict[str, Any], worse: int) -> dict[str, Any]:
    """The alert as Alertmanager gets it: with another label for each time it became worse, since it tells of new labels alone."""
    if not worse:
        return alert
    return {**alert, "labels": {**alert["labels"], "worse": str(worse)}}


def _for_hook(alert: dict[str, Any], *, ended: bool) -> dict[str, Any]:
    status = "resolved" if ended else "firing"
    return {**alert, "status": status, "endsAt": alert["endsAt"] if ended else NO_END}
