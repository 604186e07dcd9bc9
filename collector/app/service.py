"""The composition root: builds the service from its settings, starts it, stops it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from collector.api.streams.verdict_feed import VerdictFeed
from collector.app.deadline import TimeBudget
from collector.app.deliveries import Deliveries
from collector.app.derived_settings import (
    BESIDE_SHARE,
    instance_of,
    limits_of,
    mark_of,
    owner_of,
    redaction_of,
)
from collector.app.fault_counter import FaultCounter
from collector.app.last_good import keeper_of
from collector.app.listening.certificates import CertificateWatch
from collector.app.listening.decisions import build_decide, decided_calls
from collector.app.listening.last_scrape import LastScrape
from collector.app.listening.listeners import (
    ConnectionMetrics,
    Server,
    build_admission,
    build_observer,
    build_receivers,
    capacity_of,
    metrics_guard,
    namespace_keys,
    warn_if_few,
    warn_if_open,
)
from collector.app.notices import Notices
from collector.app.optional_parts import (
    archive_of,
    forwarding_of,
    judges_of,
    judges_thread_of,
    push_of,
    recorder_of,
    state_of,
    traces_of,
)
from collector.app.readiness import Readiness
from collector.app.running_sessions import RunningSessions
from collector.app.ticker import ClockChanges, Pauses, Step, Ticker
from collector.calls.pipeline import Pipeline
from collector.calls.sessions.session_ids import RESOURCES_BYTES_MAX
from collector.config.field_types import OFF
from collector.config.first_minutes import until
from collector.config.settings.settings import Settings
from collector.config.spec_reload import Reloader, accepted
from collector.decide.service import DecideService
from collector.metrics.agent_calls import AgentCalls
from collector.metrics.memory import MemoryMetrics
from collector.metrics.service import Families, MetricsApp, MetricSource
from collector.net.health import Health
from collector.net.watched_files import as_set
from collector.receive.admission import Admission
from collector.receive.export import Consume, Export, RequestLimits
from collector.receive.memory_guard import MemoryGuard
from collector.receive.refusal_gaps import RefusalGaps
from collector.restart.state_counters import StatefulParts
from collector.sinks.alert.alert_links import links_of
from collector.sinks.log import LogSink
from collector.sinks.sink_dispatch import SinkDispatch
from collector.telemetry.clock import ClockWatch, now_ns, steady_ns
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.spec.spec import Spec

if TYPE_CHECKING:
    from collector.restart.kept_state import KeptState
    from collector.state.last_good_specs import CompiledSpecs
    from collector.state.records import OperatorRecord

__all__ = ["App"]

RECOVERING = "recovering"
"""Why the service is not ready while it goes through its journal."""

CLOSE_SECONDS = 4.5
"""Time from the closing of the receivers to the end of the process."""
OPEN_SHARE = 0.4
"""Share of `CLOSE_SECONDS` that open requests may take."""
REST_SHARE = 0.8
"""Share of the remaining time that each further step may take."""


class App:
    """The running service. Everything happens on one event loop, so nothing needs a lock.

    The parts that other parts are given have names without an underscore: `monitor`, `pipeline`, `stats`, `state`, `archive`,
    `alerts`, `forwarding`, `traces`, `decisions`, `health`, `last_scrape`. None stands for a part that the settings leave out.
    """

    def __init__(
        self,
        settings: Settings,
        specs: Iterable[Spec],
        clock: Callable[[], int] = now_ns,
        steady: Callable[[], int] = steady_ns,
        memory: MemoryGuard | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        """The service, not started yet.

        Args:
            settings: all of them.
            specs: compiled, sound.
            clock: Unix nanoseconds.
            steady: nanoseconds of a clock that nobody sets.
            memory: what refuses requests before the limit; None for no limit.
            redaction: what is taken out of all that is shown; None: made from the settings.
        """
        self.settings = settings
        self.addresses: dict[str, str] = {}
        self._log = log
        self._memory = memory
        self._steady = steady
        self.state = state_of(settings.state, settings.sessions, clock)
        # A clock of somebody's own is right whatever it says, unless there is another beside it.
        is_own = clock is not now_ns and steady is steady_ns
        watch = None if is_own else ClockWatch(clock, steady)
        self._clock = clock if self.state is None else self.state.clock
        self.health = Health()
        self.stats = Stats()
        self.stats.log_lines_dropped = self._log.dropped
        self._faults = FaultCounter(self.stats)
        self._redaction = redaction_of(settings.redact) if redaction is None else redaction
        self._mark = mark_of(settings)
        self.monitor = self._build_monitor(specs)
        self._build_telling()
        self.pipeline = self._build_pipeline()
        self._build_keepers()
        admission = self._build_receivers()
        self._build_spec_reload()
        self.decisions = self._build_decisions()
        self.pauses = Pauses(steady, self.monitor)
        self._servers: dict[str, Server] = dict(self._receivers)
        """All listeners, by name."""
        self._certificates = CertificateWatch(self._servers)
        self.last_scrape: LastScrape | None = None
        """None if nobody can scrape."""
        families = self._build_families(admission)
        self._push = push_of(settings.telemetry, families, self._redaction, self._clock)
        self._observers = self._build_observers(families)
        self._servers |= self._observers
        self._ticker = self._build_ticker(
            ClockChanges(watch, self.monitor, self.state, self.stats)
        )
        self._watcher: asyncio.Task[None] | None = None

    # --- its parts -----------------------------------------------------------------------------

    def _build_monitor(self, specs: Iterable[Spec]) -> Monitor:
        """The judging; its history is not complete where a process ran before."""
        limits = limits_of(self.settings)
        if self._mark is not None and self._mark.has_predecessor:
            limits = replace(limits, history_complete=False)
            self._log.info("history_not_complete", reason="a process ran here before")
        return Monitor(
            specs,
            limits,
            started_ns=self._clock() if self.state is None else self.state.started_ns,
            show=self._redaction.value,
            digest_key=self._redaction.digest_key,
        )

    def _build_telling(self) -> None:
        """Who is told of verdicts: pages, the log, streams of the API, next hops."""
        settings, clock = self.settings, self._clock
        self._sink = LogSink(self._log, settings.log, clock, settings.alerts.joined)
        self.traces = traces_of(settings.telemetry, clock)
        self._tracer = self.traces.tracer if self.traces is not None else None
        self.alerts = SinkDispatch(
            settings.alerts,
            links_of(settings),
            self.monitor.limits.idle_ns,
            clock,
            instance_of(settings.metrics),
            namespaced=self._is_namespaced,
            tracer=self._tracer,
        )
        self._feed = VerdictFeed(self.attend)
        self.forwarding = forwarding_of(settings, self.monitor, self.stats, clock)
        is_annotated = self.forwarding is not None and self.forwarding.annotates
        self._annotated = self.forwarding if is_annotated else None
        self._deliveries = Deliveries(
            self._redaction, self.alerts, self._sink, self._feed, self._annotated, self._faults
        )
        self.monitor.on_alarm(self._deliveries.alarm)

    @property
    def _is_namespaced(self) -> bool:
        return self.settings.metrics_namespace_label != "never"

    def _build_pipeline(self) -> Pipeline:
        """The way from spans to calls."""
        settings, sessions = self.settings, self.settings.sessions
        pipeline = Pipeline(
            self.monitor,
            self.stats,
            self._deliveries.verdicts,
            session_keys=sessions.id_attributes,
            namespace_keys=namespace_keys(settings),
            agent_keys=sessions.agent_attributes,
            requested=sessions.requested,
            by_answer=sessions.group_by_answer,
            span_keys=sessions.span_attributes_bind,
            arguments_bytes_max=sessions.max_argument_bytes,
            spans_bytes_max=sessions.max_span_bytes,
            resources_bytes_max=min(RESOURCES_BYTES_MAX, sessions.max_bytes // BESIDE_SHARE),
            decided=decided_calls(settings),
            denied=self._deliveries.denied,
        )
        pipeline.quiet = self._annotated is None
        self._notices = Notices(
            self.monitor, pipeline.inventory, self._sink, self.stats, self._clock
        )
        return pipeline

    def _build_keepers(self) -> None:
        """What is kept of sessions and of requests: the archive, the judges' sessions, the recording."""
        settings, pipeline, clock = self.settings, self.pipeline, self._clock
        self.archive = archive_of(
            settings.archive,
            owner_of(settings.receiver),
            self.monitor,
            self._redaction,
            pipeline.decision_records,
            clock,
        )
        self._judges = judges_of(settings, self.monitor, pipeline, self._redaction, clock)
        if self._judges is not None:
            self._deliveries.judge = self._judges.ended
            self._judges.deliver.append(self.alerts.judged)
            if self.archive is not None:
                self._judges.deliver.append(self.archive.judged)
        self._deliveries.archive = self.archive
        self._recorder = recorder_of(settings.record, clock, self.stats)
        if self._recorder is not None:
            self._recorder.hide(self._redaction.rules)

    def _build_receivers(self) -> Admission:
        """The listeners for telemetry, and what they hand requests to. Returns what lets requests in."""
        settings, receiver = self.settings, self.settings.receiver
        consume: Consume = self.pipeline.consume
        if self._judges is not None:
            consume = self._judges.keeper.after(consume)
        gaps = self.monitor.gaps
        self.export = Export(
            consume,
            self.stats,
            self._clock if self.state is None else self.state.clock.present,
            self._request_limits,
            self._recorder.record if self._recorder is not None else None,
            self._tracer,
            self.forwarding,
            self.state.journal if self.state is not None else None,
            RefusalGaps(gaps.note, gaps.lift, self.monitor.limits.window_ns),
        )
        admission = build_admission(receiver, self.stats, self._memory)
        if self._memory is not None:
            self._memory.relieve = self._relieve
        self._capacity = capacity_of(settings)
        self._receivers = build_receivers(
            receiver, self.export, admission, self._capacity.receiver
        )
        return admission

    @property
    def _request_limits(self) -> RequestLimits:
        receiver = self.settings.receiver
        return RequestLimits(receiver.max_request_bytes, receiver.max_attribute_bytes)

    def _build_spec_reload(self) -> None:
        """What reads the specs again, and what becomes of sessions that run then."""
        settings, state = self.settings, self.state
        self._keep_specs = keeper_of(settings, self._clock)
        self._running = RunningSessions(
            self.monitor,
            self._clock,
            self._deliveries.verdicts,
            self._deliveries.finished,
            state.journal.keep_operated if state is not None else None,
        )
        self.reloader = Reloader(
            settings.specs,
            self.use,
            self._log,
            self._clock,
            tracer=self._tracer,
            keep=self._keep_specs,
            running=self._running.after_reload,
        )
        in_use = self._specs_in_use()
        self.reloader.loaded(len(in_use), accepted(in_use))

    def _specs_in_use(self) -> list[Spec]:
        return [judge.spec for judge in self.monitor.binder.judges.values()]

    def _build_decisions(self) -> DecideService:
        """What answers before calls, and its listener where it is on."""
        settings = self.settings
        decisions = DecideService(
            self.pipeline,
            self.monitor,
            self._clock,
            self.state.journal if self.state is not None else None,
            self._sink.question_without_spec,
        )
        if settings.decide.listen != OFF:
            self._receivers["decide"] = build_decide(
                settings,
                decisions,
                self.stats,
                self._faults.of_decision,
                self._capacity.receiver,
                self._memory,
            )
        return decisions

    def _build_families(self, admission: Admission) -> Families:
        """All metrics; the state that is kept counts on."""
        held = MemoryMetrics(
            self.monitor.kept.memory, self.pipeline.memory, self.decisions.memory
        )
        if self._memory is not None:
            self._memory.held = held.total
        sources: list[MetricSource | None] = [
            held,
            admission,
            ConnectionMetrics(self._servers),
            self._certificates,
            AgentCalls(self.pipeline.inventory, namespaced=self._is_namespaced),
            self.alerts,
            self.decisions,
            self._tracer,
            self.forwarding,
            self.archive.writer if self.archive is not None else None,
            self._judges,
        ]
        if self.state is not None:
            self._wire_state(self.state)
            sources += [self.state.journal, self.state.snapshots]
        there = [source for source in sources if source is not None]
        families = Families(self.monitor, self.stats, self.reloader.reloads, there)
        if self.state is not None:
            families.since = self.state.since
        return families

    def _wire_state(self, state: KeptState) -> None:
        """The state that is kept is of these parts."""
        again = Export(
            self.pipeline.consume,
            self.stats,
            self._clock,
            self._request_limits,
            is_timed=False,
        )
        state.wire(
            self.monitor,
            self.stats,
            again,
            StatefulParts(self.alerts, self.reloader.reloads, self.decisions, self.forwarding),
            self,
            self.settings,
            self._memory,
            {
                "monitor": self.monitor.kept.state,
                "pipeline": self.pipeline,
                **self.alerts.kept(),
            },
        )

    def _build_observers(self, families: Families) -> dict[str, Server]:
        """The metrics and the admin listener, where they are on."""
        settings = self.settings
        found: dict[str, Server] = {}
        if settings.metrics != OFF:
            app = MetricsApp(
                families,
                self.health,
                self._redaction,
                metrics_guard(settings),
                self._tracer,
            )
            self.last_scrape = LastScrape(
                app, settings.last_scrape_seconds, self._calls, self._finalise
            )
            found["metrics"] = build_observer(
                "metrics", app, settings, self._capacity.observer, self.stats
            )
        if settings.admin != OFF:
            # Loaded here: where it is off, it costs nothing.
            from collector.app.listening.admin import build_admin

            admin = build_admin(
                settings,
                self.monitor,
                self.pipeline.inventory,
                self.health,
                self._redaction,
                self.reloader,
                self._feed,
                self.addresses,
                denied=self.pipeline.decision_records,
                scopes=self.pipeline.scopes,
                follow=self.pipeline.sessions_of,
                end=self._running.end,
                feed_of_archive=self.archive,
                judged=self._judges.of if self._judges is not None else None,
            )
            found["admin"] = build_observer(
                "admin", admin, settings, self._capacity.observer, self.stats
            )
        return found

    def _build_ticker(self, changes: ClockChanges) -> Ticker:
        """What time brings, in the order in which it is done."""
        readiness = Readiness(self.settings.ready, self.health, self.stats, self.alerts.queues)
        going_on: list[Step] = [
            self._note_time,
            self.pipeline.tick,
            self.decisions.tick,
            self._end_sessions,
            self._sink.tick,
            self._notices.tick,
            lambda _now: readiness.tick(self._steady()),
            self._certificates.tick,
        ]
        if self._judges is not None:
            going_on.append(self._judges.tick)
        if self.state is not None:
            snapshots = self.state.snapshots
            going_on.append(lambda _now: snapshots.tick())
        if self._memory is not None:
            memory = self._memory
            going_on.append(lambda _now: memory.tick())
        watching: list[Step] = [changes.tick, self.pauses.tick]
        if self._mark is not None:
            mark = self._mark
            watching.append(lambda _now: mark.tick())
        work = self.monitor.gaps.look_at_some
        return Ticker(self._clock, self._steady, watching, going_on, work, self._faults)

    @property
    def young_until(self) -> str:
        """Until when a session may have begun before the start; "" if the history is complete."""
        found = self.monitor.gaps.joined_until_ns()
        return until(found) if found > self._clock() else ""

    def attend(self, anybody: bool) -> None:
        """Somebody looks on at verdicts as they come, or nobody does: without, only news is worded."""
        self.pipeline.quiet = not anybody and self._annotated is None

    def use(self, specs: Sequence[Spec]) -> bool:
        """Sessions that begin from now on are judged under these specs, all of which are sound."""
        if self.health.ready:  # else it stops, which no spec changes
            self.health.reason = ""
        changed = self.monitor.use(specs)
        if changed:
            self.pipeline.specs_changed()
            self._notices.specs_changed()
            if self.state is not None and not self._deliveries.is_past:
                self.state.use(specs)
        return changed

    def start_without(self, refused: int, before: CompiledSpecs | None = None) -> None:
        """Spec files were refused: the service is not ready until all are read without an error.

        Args:
            refused: errors in them.
            before: specs of an earlier process that are in use in their place.
        """
        self.reloader.started_without(refused, 0 if before is None else before.at_ns)
        self.health.reason = "specs refused"
        if before is not None:
            self.health.reason += ", the last good ones are in use"
            if self.state is not None:
                self.state.heads.texts = before.texts

    async def start(self) -> dict[str, str]:
        """Binds all listeners and returns their addresses by name.

        Raises:
            AddressInUse: nothing stays open then, nor after any other error.
        """
        try:
            await self.alerts.prepare()
            if self._recorder is not None:
                with as_set("record.folder", self.settings.record.folder):
                    self._recorder.start()
            if (lines := self.settings.alerts.jsonl) is not None:
                with as_set("alerts.jsonl", lines):
                    lines.open("ab").close()
            if self.traces is not None:
                await self.traces.start()
            if self.forwarding is not None:
                await self.forwarding.prepare()
            if self.archive is not None:
                self.archive.listen()
            judges = judges_thread_of(
                self._judges, self.settings, self._redaction, self._steady
            )
            if self.state is not None:
                await self.recover(self.state)
            if self.archive is not None:
                with as_set("archive.dir", self.settings.archive.dir):
                    self.archive.start()
            if self._judges is not None and judges is not None:
                self._judges.start(judges)
            self.pauses.begin()
            for name, server in self._servers.items():
                if name not in self.addresses:
                    self.addresses[name] = await server.start()
            if self.forwarding is not None:
                await asyncio.to_thread(self._refuse_loops)
        except BaseException:
            await self.stop()
            raise
        warn_if_open(self.settings, self.addresses)
        warn_if_few(self.settings.receiver, self._capacity)
        self.alerts.start()
        if self.forwarding is not None:
            self.forwarding.start()
        if self._push is not None:
            self._push.start()
        self._ticker.start()
        if self.settings.reload.watch and self.settings.specs:
            self._watcher = asyncio.create_task(self.reloader.watch())
        if self._keep_specs is not None and self.reloader.reloads.last_succeeded:
            in_use = self._specs_in_use()
            await asyncio.to_thread(self._keep_specs, in_use)
        self.health.ready = True
        return self.addresses

    def _refuse_loops(self) -> None:
        from collector.forward.own_listener import refuse_loops

        refuse_loops(self.settings.forward, self.addresses)

    # --- the state of an earlier process -------------------------------------------------------

    async def recover(self, state: KeptState) -> None:
        """Goes through the journal. Health is answered meanwhile, and /metrics says that it is too early.

        Senders are answered, too: what they send is kept, and judged in its turn. Only where next hops get verdicts with the
        spans, senders wait.
        """
        self.health.is_early = True
        watched = self._servers.get("metrics")
        if watched is not None:
            self.addresses["metrics"] = await watched.start()
        specs = self._specs_in_use()
        is_early = state.has_past and self._annotated is None
        if not is_early:
            self.health.reason = self.health.reason or RECOVERING
        self._deliveries.is_past = True
        self.alerts.hold()
        early = Stats()
        try:
            await state.recover(specs, partial(self._receive, early) if is_early else None)
        finally:
            self._deliveries.is_past = False
        self.export.judge_now(self.stats)
        self.stats.add_early(early)
        self.alerts.keep(state.journal)
        self.alerts.release()
        self.pipeline.inventory.new.clear()
        self.health.is_early = False
        if self.health.reason == RECOVERING:
            self.health.reason = ""

    async def _receive(self, early: Stats) -> None:
        """Opens the receivers of telemetry, while what came before is still to be judged: `early` counts meanwhile."""
        self.export.judge_later(early)
        for name, server in self._receivers.items():
            if name != "decide":
                self.addresses[name] = await server.start()
        if self.forwarding is not None:
            await asyncio.to_thread(self._refuse_loops)
            self.forwarding.start()
        self.health.ready = True
        self._log.info("receiving", judged="later", **self.addresses)

    def tick_again(self, now: int) -> None:
        """Time went on, in an earlier process."""
        self.pipeline.tick(now)
        self._end_sessions(now)
        self.alerts.tick(now)

    def operated_again(self, done: OperatorRecord) -> None:
        """What an operator did with sessions, in an earlier process."""
        self._running.again(done.action, done.session, done.namespace)

    def use_again(self, specs: Sequence[Spec]) -> None:
        """Specs that were in use, in an earlier process."""
        if self.monitor.use(specs):
            self.pipeline.specs_changed()

    # --- time ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Time has passed."""
        self._ticker.step()

    def _note_time(self, now: int) -> None:
        """Counters and the time go to the journal, before what the time brings."""
        if self.state is not None:
            is_busy = self.monitor.sessions > 0 or len(self.pipeline.decided) > 0
            self.state.tick(now, is_busy)

    def _end_sessions(self, now: int) -> None:
        """What time brings to sessions goes to the sinks."""
        finished = self.monitor.tick(now)
        news = self.monitor.news()
        if news:
            self._deliveries.verdicts(news)
        self._deliveries.finished(finished)

    def _relieve(self) -> None:
        """Memory is scarce: what is shown alone goes, and what is known only so that it need not be read again."""
        if self.settings.show_arguments:
            self.monitor.kept.relieve()
        self.pipeline.relieve()
        self.decisions.relieve()

    async def stop(self) -> None:
        """Ends so that nothing is lost which can be kept.

        As long as it waits for others it receives as ever. From the moment when the receivers close it takes
        `CLOSE_SECONDS` at most, since senders give up after 10 s.
        """
        self.health.ready = False
        self.health.reason = "stopping"
        await self._before_close()
        await self._close(TimeBudget(CLOSE_SECONDS))

    async def _before_close(self) -> None:
        """Waits until the next process can go on, or until pages have left and counters are scraped."""
        if self.state is not None:
            await self.state.before_close()
            return
        waits = [self.alerts.hurry(self.settings.drain_seconds)]
        if self.last_scrape is not None:
            self.last_scrape.begin()
            waits.append(self.last_scrape.wait())
        await asyncio.gather(*waits)

    async def _close(self, deadline: TimeBudget) -> None:
        """Receives no more, judges what is on its way, and delivers what it can by the deadline."""
        grace = self.settings.drain_seconds
        open_ones = [
            self._receivers[name] for name in self.addresses if name in self._receivers
        ]
        receiving = deadline.share(grace, OPEN_SHARE)
        await asyncio.gather(*(server.stop(receiving) for server in open_ones))
        await self._ticker.stop()
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        if self.state is None:
            self._finalise()
        else:
            self.state.stop(self._clock())  # the next process goes on
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.stop)
        self._feed.close()
        left = deadline.share(grace, REST_SHARE)
        parts: list[Awaitable[None]] = [self.alerts.stop(left)]
        if self.last_scrape is not None:
            parts.append(self.last_scrape.wait_for_rest(left))
        if self.forwarding is not None:
            parts.append(self.forwarding.stop(left))
        if self._push is not None:
            parts.append(self._push.stop(left))
        if self._judges is not None:
            parts.append(self._judges.stop(left))
        if self.archive is not None:
            parts.append(self.archive.stop(left, is_over=self.state is None))
        await asyncio.gather(*parts)
        self._sink.close()
        watched = [self._observers[name] for name in self.addresses if name in self._observers]
        left = deadline.share(grace, REST_SHARE)
        await asyncio.gather(*(server.stop(left) for server in watched))
        if self.traces is not None:
            await self.traces.stop(deadline.share(grace, REST_SHARE))
        if self.state is not None:
            await self.state.close()

    def _finalise(self) -> None:
        """Verdicts so far become final, and what that brings goes to the sinks."""
        now = self._clock()
        try:
            self.monitor.finalise(now)
            self._deliveries.verdicts(self.monitor.news())
        except Exception as error:  # noqa: BLE001
            self._faults.report("verdicts could not become final", error)

    def _calls(self) -> int:
        """Tool calls so far."""
        counts = self.stats.counts
        return sum(count for key, count in counts.items() if key[0] == "calls")
