"""The composition root: builds the service from its settings, starts it, stops it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collector.api.streams.verdict_feed import VerdictFeed
from collector.app.certificates import CertificateWatch
from collector.app.deadline import TimeBudget
from collector.app.decisions import build_decide, decided_calls
from collector.app.last_good import keeper_of
from collector.app.last_scrape import LastScrape
from collector.app.listeners import (
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
from collector.app.readiness import Readiness
from collector.app.running_sessions import RunningSessions
from collector.calls.decisions.prevented_calls import PreventedCall, PreventedCalls
from collector.calls.pipeline import Pipeline
from collector.calls.sessions.session_ids import RESOURCES_BYTES_MAX
from collector.config.field_types import OFF
from collector.config.first_minutes import until
from collector.config.settings.archive import ArchiveSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.record import RecordSettings
from collector.config.settings.sessions import SessionSettings
from collector.config.settings.settings import Settings
from collector.config.settings.state import StateSettings
from collector.config.settings.telemetry import RedactSettings, TelemetrySettings
from collector.config.spec_reload import Reloader, accepted
from collector.decide.service import DecideService
from collector.metrics.agent_calls import AgentCalls
from collector.metrics.memory import MemoryMetrics
from collector.metrics.service import Families, MetricsApp, MetricSource
from collector.net.health import Health
from collector.net.watched_files import UnusableFileError
from collector.receive.export import Consume, Export, RequestLimits
from collector.receive.memory_guard import MemoryGuard
from collector.receive.refusals import Refusals
from collector.receive.status import ExportStatus, Refusal
from collector.restart.run_mark import RunMark
from collector.restart.state_counters import StatefulParts
from collector.sinks.alerts import Alerts, links_of
from collector.sinks.log import LogSink
from collector.telemetry.clock import ClockWatch, Standstill, now_ns, steady_ns
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction, key_of, rules
from monitor.aggregate.totals import SessionFinished
from monitor.engine import Monitor
from monitor.limits import NAMES_BYTES_MAX, SECOND, Limits
from monitor.records import ReferenceAlarm, Verdict
from monitor.spec.spec import Spec

if TYPE_CHECKING:
    from collector.api.archive.archive_feed import ArchiveFeed
    from collector.archive.reader import ArchiveReader
    from collector.archive.store import ArchiveBounds
    from collector.archive.writer import ArchiveWriter
    from collector.forward.next_hops import NextHops
    from collector.metrics.otlp_push import OtlpPush
    from collector.metrics.otlp_traces import OtlpTraces
    from collector.online_judges.judge_feed import JudgeFeed
    from collector.online_judges.judge_thread import JudgeThread
    from collector.restart.kept_state import KeptState
    from collector.sinks.recorder import Recorder
    from collector.state.last_good_specs import CompiledSpecs
    from collector.state.records import OperatorRecord

__all__ = ["App", "instance_of", "limits_of", "owner_of", "redaction_of"]

RECOVERING = "recovering"
"""Why the service is not ready while it goes through its journal."""

CLOSE_SECONDS = 4.5
"""Time from the closing of the receivers to the end of the process."""
OPEN_SHARE = 0.4
"""Share of `CLOSE_SECONDS` that open requests may take."""
REST_SHARE = 0.8
"""Share of the remaining time that each further step may take."""
PAUSE_NS = 5 * SECOND
"""Senders wait longer than this for an answer, and so does the kernel's queue of connections."""
TICK_SECONDS = 0.25
"""How late a final verdict or the end of a session may be noticed."""


BESIDE_SHARE: Final = 8
"""Part of the bytes of sessions that tool names may take beside them, and what resources say; so both follow from the
memory limit."""


def limits_of(settings: Settings) -> Limits:
    """The monitor's bounds, in its own units."""
    sessions = settings.sessions
    return Limits(
        window_ns=int(sessions.window_seconds * SECOND),
        idle_ns=int(sessions.idle_seconds * SECOND),
        remember_ns=int(sessions.remember_seconds * SECOND),
        hold_ns=int(sessions.hold_seconds * SECOND),
        sessions_max=sessions.max,
        sessions_bytes_max=sessions.max_bytes,
        names_bytes_max=min(NAMES_BYTES_MAX, sessions.max_bytes // BESIDE_SHARE),
        things_max=sessions.things_max,
        shared_things_max=sessions.shared_things_max,
        shared_things_bytes_max=sessions.max_shared_things_bytes,
        pairs_max=settings.metrics_pairs_max,
        agents_max=settings.metrics_agents_max,
        namespace_label=settings.metrics_namespace_label,
        history_complete=settings.history == "complete",
        keep_arguments=settings.show_arguments,
        confirm_ns=int(settings.decide.confirm_seconds * SECOND),
    )


def _mark_of(settings: Settings) -> RunMark | None:
    """The mark that a process ran; None if it is not asked for, or a journal says more."""
    if settings.history != "complete" or settings.history_mark is None or settings.state.dir:
        return None
    return RunMark(settings.history_mark, settings.sessions.idle_seconds)


def redaction_of(settings: RedactSettings) -> Redaction:
    """What is taken out of all that is shown.

    Raises:
        UnusableFileError: the key file cannot be used.
    """
    try:
        key = key_of(settings.key_file)
    except OSError as problem:
        file, why = str(settings.key_file), str(problem.strerror)
        raise UnusableFileError("redact.key_file", file, why, problem.errno) from problem
    return Redaction(rules(settings.replace, settings.hash, key), key)


def instance_of(metrics: str) -> str:
    """The label `instance` of direct alerts: as Prometheus has it, where it scrapes the host by name.

    Args:
        metrics: the address of the metrics listener.
    """
    host, _, port = metrics.rpartition(":")
    if metrics == OFF or metrics.startswith("unix:"):
        return socket.gethostname()
    if host in ("", "0.0.0.0", "[::]"):  # noqa: S104 - it is compared, not bound
        host = socket.gethostname()
    return f"{host}:{port}"


def owner_of(receiver: ReceiverSettings) -> str:
    """What tells this monitor's rows in a shared archive from those of others, also on this host; the same after a restart.

    Args:
        receiver: where it listens: no other process of the host does.
    """
    return " ".join((socket.gethostname(), receiver.http, receiver.grpc))


def _recorder_of(
    settings: RecordSettings, clock: Callable[[], int], stats: Stats
) -> Recorder | None:
    """The recorder that is set up; None if nothing is to be recorded, and nothing is loaded."""
    if settings.folder is None:
        return None
    from collector.sinks.recorder import recorder_of

    return recorder_of(settings, clock, stats.recorded)


def _push_of(
    settings: TelemetrySettings,
    families: Families,
    redaction: Redaction,
    clock: Callable[[], int],
) -> OtlpPush | None:
    """The push of own metrics; None if no endpoint is set, and nothing is loaded."""
    if not settings.otlp_endpoint:
        return None
    from collector.metrics.otlp_push import OtlpPush

    push = OtlpPush(settings, families, redaction, clock)
    families.add(push)
    return push


def _forwarding_of(
    settings: Settings, monitor: Monitor, stats: Stats, clock: Callable[[], int]
) -> NextHops | None:
    """The next hops that are set up; None without any, and nothing is loaded."""
    if not settings.forward:
        return None
    from collector.forward.next_hops import forwarding_of

    return forwarding_of(settings.forward, stats, clock, monitor.harm_rate)


def _traces_of(settings: TelemetrySettings, clock: Callable[[], int]) -> OtlpTraces | None:
    """The push of own traces; None if they are off, and nothing is loaded."""
    if not settings.traces:
        return None
    from collector.metrics.otlp_traces import OtlpTraces

    return OtlpTraces(settings, clock)


def _state_of(
    settings: StateSettings, sessions: SessionSettings, clock: Callable[[], int]
) -> KeptState | None:
    """The state that outlives the process; None if none is kept, and nothing is loaded."""
    if settings.dir is None or settings.durability == "off":
        return None
    from collector.restart.kept_state import KeptState

    return KeptState(settings, sessions, clock)


def _archive_of(
    settings: ArchiveSettings,
    owner: str,
    monitor: Monitor,
    redaction: Redaction,
    denied: PreventedCalls,
    clock: Callable[[], int],
) -> ArchiveFeed | None:
    """What goes into the archive; None if there is none, and nothing is loaded."""
    if not settings.is_on:
        return None
    from collector.api.archive.archive_feed import ArchiveFeed
    from collector.api.archive.past_sessions import PastSessions
    from collector.archive.store import ArchiveBounds

    bounds = ArchiveBounds(
        int(settings.keep * SECOND),
        int(settings.keep_harmful * SECOND),
        settings.sessions_max,
        settings.bytes_max,
    )
    writer, reader = _archive_at(settings, owner, bounds, clock)
    past = PastSessions(reader, monitor, redaction)
    return ArchiveFeed(writer, past, monitor, redaction, denied)


def _archive_at(
    settings: ArchiveSettings, owner: str, bounds: ArchiveBounds, clock: Callable[[], int]
) -> tuple[ArchiveWriter, ArchiveReader]:
    """Who writes and who reads the archive: in a folder, or in a database, whose client is loaded only then.

    Raises:
        UnusableFileError: the address cannot be read, or the extra is not installed.
    """
    if settings.dir is not None:
        from collector.archive.reader import ArchiveReader
        from collector.archive.writer import ArchiveWriter

        return ArchiveWriter(settings.dir, bounds, clock), ArchiveReader(settings.dir)
    url = settings.url.get_secret_value()
    try:
        from collector.archive.postgresql import PostgresReader, PostgresWriter, checked

        checked(url)
    except ImportError as problem:
        why = f"{problem}: pip install 'offrails[postgresql]'"
        raise UnusableFileError("archive.url", "PostgreSQL", why) from problem
    except ValueError as problem:
        raise UnusableFileError("archive.url", "PostgreSQL", str(problem)) from None
    return PostgresWriter(url, bounds, clock, owner), PostgresReader(url)


def _judges_of(
    settings: Settings,
    monitor: Monitor,
    pipeline: Pipeline,
    redaction: Redaction,
    clock: Callable[[], int],
) -> JudgeFeed | None:
    """What has models judge sessions that have ended; None if none is asked, and nothing is loaded."""
    if not settings.judges.is_on:
        return None
    from collector.online_judges.judge_setup import feed_of

    return feed_of(settings, monitor, pipeline, redaction, pipeline.decision_records, clock)


def _judges_thread_of(
    feed: JudgeFeed | None,
    settings: Settings,
    redaction: Redaction,
    steady: Callable[[], int],
) -> JudgeThread | None:
    """The judges; None if none is asked, and nothing is loaded.

    Raises:
        UnusableFileError: a setting cannot be used, or the extra is not installed.
    """
    if feed is None:
        return None
    from collector.online_judges.judge_setup import thread_of

    return thread_of(settings, feed, redaction, steady)


def _begin_archive(feed: ArchiveFeed, settings: ArchiveSettings) -> None:
    try:
        feed.start()
    except OSError as problem:
        folder, why = str(settings.dir), problem.strerror
        raise UnusableFileError("archive.dir", folder, why, problem.errno) from problem


def _begin(recorder: Recorder, settings: RecordSettings) -> None:
    try:
        recorder.start()
    except OSError as problem:
        folder, why = str(settings.folder), problem.strerror
        raise UnusableFileError("record.folder", folder, why, problem.errno) from problem


def _check_lines(file: Path | None) -> None:
    """Harmful verdicts are to be appended to a file: an error at the start, if that cannot be done."""
    if file is None:
        return
    try:
        file.open("ab").close()
    except OSError as problem:
        raise UnusableFileError(
            "alerts.jsonl", file, problem.strerror, problem.errno
        ) from problem


class App:
    """The running service. Everything happens on one event loop, so nothing needs a lock."""

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
        state = self._state = _state_of(settings.state, settings.sessions, clock)
        # A clock of somebody's own is right whatever it says, unless there is another beside it.
        is_own = clock is not now_ns and steady is steady_ns
        self._clock_watch = None if is_own else ClockWatch(clock, steady)
        if state is not None:
            clock = state.clock
        self._clock = clock
        self._is_past = False
        """True while the time of an earlier process is gone through again."""
        self._log = log
        self._health = Health()
        self._reported: set[tuple[str, str]] = set()
        stats = self._stats = Stats()
        stats.log_lines_dropped = self._log.dropped
        started_ns = clock() if state is None else state.started_ns
        limits = limits_of(settings)
        mark = self._mark = _mark_of(settings)
        if mark is not None and mark.has_predecessor:
            limits = replace(limits, history_complete=False)
            self._log.info("history_not_complete", reason="a process ran here before")
        self._redaction = redaction_of(settings.redact) if redaction is None else redaction
        self.monitor = Monitor(
            specs,
            limits,
            started_ns=started_ns,
            show=self._redaction.value,
            digest_key=self._redaction.digest_key,
        )
        self._sink = LogSink(self._log, settings.log, clock, settings.alerts.joined)
        self._traces = _traces_of(settings.telemetry, clock)
        tracer = self._tracer = self._traces.tracer if self._traces is not None else None
        self._alerts = Alerts(
            settings.alerts,
            links_of(settings),
            limits.idle_ns,
            clock,
            instance_of(settings.metrics),
            namespaced=settings.metrics_namespace_label != "never",
            tracer=tracer,
        )
        self._feed = VerdictFeed(self._attend)
        self.monitor.on_alarm(self._alarm)
        pipeline = Pipeline(
            self.monitor,
            stats,
            self._deliver,
            session_keys=settings.sessions.id_attributes,
            namespace_keys=namespace_keys(settings),
            agent_keys=settings.sessions.agent_attributes,
            requested=settings.sessions.requested,
            by_answer=settings.sessions.group_by_answer,
            span_keys=settings.sessions.span_attributes_bind,
            arguments_bytes_max=settings.sessions.max_argument_bytes,
            spans_bytes_max=settings.sessions.max_span_bytes,
            resources_bytes_max=min(
                RESOURCES_BYTES_MAX, settings.sessions.max_bytes // BESIDE_SHARE
            ),
            decided=decided_calls(settings),
            denied=self._denied,
        )
        receiver = settings.receiver
        bounds = RequestLimits(receiver.max_request_bytes, receiver.max_attribute_bytes)
        self._notices = Notices(self.monitor, pipeline.inventory, self._sink, stats, clock)
        self._memory = memory
        self._archive = _archive_of(
            settings.archive,
            owner_of(receiver),
            self.monitor,
            self._redaction,
            pipeline.decision_records,
            clock,
        )
        self._judges = _judges_of(settings, self.monitor, pipeline, self._redaction, clock)
        consume: Consume = pipeline.consume
        if self._judges is not None:
            consume = self._judges.keeper.after(consume)
            self._judges.deliver.append(self._alerts.judged)
            if self._archive is not None:
                self._judges.deliver.append(self._archive.judged)
        self._recorder = _recorder_of(settings.record, clock, stats)
        if self._recorder is not None:
            self._recorder.hide(self._redaction.rules)
        record = self._recorder.record if self._recorder is not None else None
        forwarding = self._forwarding = _forwarding_of(settings, self.monitor, stats, clock)
        is_annotated = forwarding is not None and forwarding.annotates
        self._annotated = forwarding if is_annotated else None
        """Takes the verdicts of all calls, to annotate spans; None if that is off."""
        pipeline.quiet = not is_annotated
        keep = state.journal if state is not None else None
        export = self.export = Export(
            consume,
            stats,
            clock if state is None else state.clock.present,
            bounds,
            record,
            tracer,
            self._forwarding,
            keep,
            Refusals(
                self.monitor.gaps.note, self.monitor.gaps.lift, self.monitor.limits.window_ns
            ),
        )
        admission = build_admission(settings.receiver, stats, memory)
        if memory is not None:
            memory.relieve = self._relieve
        self._capacity = capacity_of(settings)
        self._receivers = build_receivers(
            settings.receiver, export, admission, self._capacity.receiver
        )
        self._keep_specs = keeper_of(settings, clock)
        self._running = RunningSessions(
            self.monitor,
            clock,
            self._deliver,
            self._finished,
            state.journal.keep_operated if state is not None else None,
        )
        self.reloader = Reloader(
            settings.specs,
            self._use,
            self._log,
            clock,
            tracer=tracer,
            keep=self._keep_specs,
            running=self._running.after_reload,
        )
        in_use = [judge.spec for judge in self.monitor.binder.judges.values()]
        self.reloader.loaded(len(in_use), accepted(in_use))
        self._pipeline = pipeline
        self._decisions = DecideService(
            pipeline, self.monitor, clock, keep, self._sink.question_without_spec
        )
        if settings.decide.listen != OFF:
            self._receivers["decide"] = build_decide(
                settings,
                self._decisions,
                stats,
                self._fault_of_decision,
                self._capacity.receiver,
                memory,
            )
        self._steady = steady
        self._stepped_ns = 0
        """When the time was last looked at, by the steady clock; 0 before."""
        self._readiness = Readiness(settings.ready, self._health, stats, self._alerts.queues)
        self._servers = dict(self._receivers)
        """All listeners, by name."""
        self._certificates = CertificateWatch(self._servers)
        held = MemoryMetrics(self.monitor.kept.memory, pipeline.memory, self._decisions.memory)
        if memory is not None:
            memory.held = held.total
        more: list[MetricSource] = [
            held,
            admission,
            ConnectionMetrics(self._servers),
            self._certificates,
            AgentCalls(
                pipeline.inventory, namespaced=settings.metrics_namespace_label != "never"
            ),
            self._alerts,
            self._decisions,
        ]
        if tracer is not None:
            more.append(tracer)
        if self._forwarding is not None:
            more.append(self._forwarding)
        if self._archive is not None:
            more.append(self._archive.writer)
        if self._judges is not None:
            more.append(self._judges)
        if state is not None:
            more.append(state.journal)
            state.wire(
                self.monitor,
                stats,
                Export(pipeline.consume, stats, clock, bounds, is_timed=False),
                StatefulParts(
                    self._alerts, self.reloader.reloads, self._decisions, self._forwarding
                ),
                self,
                settings,
                memory,
                {
                    "monitor": self.monitor.kept.state,
                    "pipeline": pipeline,
                    **self._alerts.kept(),
                },
            )
            more.append(state.snapshots)
        self._last_scrape: LastScrape | None = None
        """None if nobody can scrape."""
        families = Families(self.monitor, stats, self.reloader.reloads, more)
        if state is not None:
            families.since = state.since
        self._push = _push_of(settings.telemetry, families, self._redaction, clock)
        self._observers = self._build_observers(families)
        self._servers |= self._observers
        self._ticker: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def young_until(self) -> str:
        """Until when a session may have begun before the start; "" if the history is complete."""
        found = self.monitor.gaps.joined_until_ns()
        return until(found) if found > self._clock() else ""

    def _build_observers(self, families: Families) -> dict[str, Server]:
        """The metrics and the admin listener, where they are on."""
        settings = self.settings
        found: dict[str, Server] = {}
        if settings.metrics != OFF:
            app = MetricsApp(
                families,
                self._health,
                self._redaction,
                metrics_guard(settings),
                self._tracer,
            )
            self._last_scrape = LastScrape(
                app, settings.last_scrape_seconds, self._calls, self._finalise
            )
            found["metrics"] = build_observer(
                "metrics", app, settings, self._capacity.observer, self._stats
            )
        if settings.admin != OFF:
            # Loaded here: where it is off, it costs nothing.
            from collector.app.admin import build_admin

            admin = build_admin(
                settings,
                self.monitor,
                self._pipeline.inventory,
                self._health,
                self._redaction,
                self.reloader,
                self._feed,
                self.addresses,
                denied=self._pipeline.decision_records,
                scopes=self._pipeline.scopes,
                follow=self._pipeline.sessions_of,
                end=self._running.end,
                feed_of_archive=self._archive,
                judged=self._judges.of if self._judges is not None else None,
            )
            found["admin"] = build_observer(
                "admin", admin, settings, self._capacity.observer, self._stats
            )
        return found

    def _deliver(self, verdicts: Sequence[Verdict]) -> None:
        """Pages first: the rest can wait a microsecond."""
        if self._annotated is not None:
            self._each((self._annotated.take,), verdicts)
        if self._archive is not None and not self._is_past:
            self._each((self._archive.deliver,), verdicts)
        if self._redaction:
            verdicts = [self._redaction.named(verdict) for verdict in verdicts]
        self._each((self._alerts.deliver,), verdicts)
        if not self._is_past:
            self._each((self._sink.deliver, self._feed.deliver), verdicts)

    def _alarm(self, raised: ReferenceAlarm) -> None:
        """The same for what references say, which needs no verdict."""
        raised = self._redaction.named(raised)
        self._each((self._alerts.alarm,), raised)
        if not self._is_past:
            self._each((self._sink.alarm,), raised)
            self._each((self._feed.deliver,), (raised,))

    def _denied(self, denied: PreventedCall) -> None:
        """The same for calls that are denied before they are made."""
        if self._is_past:
            return
        denied = self._redaction.named(denied)
        self._each((self._sink.denied,), denied)
        self._each((self._feed.deliver,), (denied,))

    def _fault_of_decision(self, error: Exception) -> Refusal:
        """An error of ours kept a question from being answered."""
        self._report("a decision could not be made", error)
        return Refusal(ExportStatus.INTERNAL, "internal error; see the service's log")

    def _each(self, sinks: Iterable[Callable[[Any], None]], what: Any) -> None:
        """Hands something to each sink: one that fails keeps it from no other, and from no sender."""
        for sink in sinks:
            try:
                sink(what)
            except Exception as error:  # noqa: BLE001
                self._report("a sink failed", error)

    def _attend(self, anybody: bool) -> None:
        self._pipeline.quiet = not anybody and self._annotated is None

    def _use(self, specs: Sequence[Spec]) -> bool:
        """Sessions that begin from now on are judged under these specs, all of which are sound."""
        if self._health.ready:  # else it stops, which no spec changes
            self._health.reason = ""
        changed = self.monitor.use(specs)
        if changed:
            self._pipeline.specs_changed()
            self._notices.specs_changed()
            if self._state is not None and not self._is_past:
                self._state.use(specs)
        return changed

    def start_without(self, refused: int, before: CompiledSpecs | None = None) -> None:
        """Spec files were refused: the service is not ready until all are read without an error.

        Args:
            refused: errors in them.
            before: specs of an earlier process that are in use in their place.
        """
        self.reloader.started_without(refused, 0 if before is None else before.at_ns)
        self._health.reason = "specs refused"
        if before is not None:
            self._health.reason += ", the last good ones are in use"
            if self._state is not None:
                self._state.heads.texts = before.texts

    async def start(self) -> dict[str, str]:
        """Binds all listeners and returns their addresses by name.

        Raises:
            AddressInUse: nothing stays open then, nor after any other error.
        """
        try:
            await self._alerts.prepare()
            if self._recorder is not None:
                _begin(self._recorder, self.settings.record)
            _check_lines(self.settings.alerts.jsonl)
            if self._traces is not None:
                await self._traces.start()
            if self._forwarding is not None:
                await self._forwarding.prepare()
            if self._archive is not None:
                self._archive.listen()
            judges = _judges_thread_of(
                self._judges, self.settings, self._redaction, self._steady
            )
            if self._state is not None:
                await self._recover(self._state)
            if self._archive is not None:
                _begin_archive(self._archive, self.settings.archive)
            if self._judges is not None and judges is not None:
                self._judges.start(judges)
            self._stepped_ns = self._steady()  # a pause counts from the first request on
            for name, server in self._servers.items():
                if name not in self.addresses:
                    self.addresses[name] = await server.start()
            if self._forwarding is not None:
                await asyncio.to_thread(self._refuse_loops)
        except BaseException:
            await self.stop()
            raise
        warn_if_open(self.settings, self.addresses)
        warn_if_few(self.settings.receiver, self._capacity)
        self._alerts.start()
        if self._forwarding is not None:
            self._forwarding.start()
        if self._push is not None:
            self._push.start()
        self._ticker = asyncio.create_task(self._tick())
        if self.settings.reload.watch and self.settings.specs:
            self._watcher = asyncio.create_task(self.reloader.watch())
        if self._keep_specs is not None and self.reloader.reloads.last_succeeded:
            in_use = [judge.spec for judge in self.monitor.binder.judges.values()]
            await asyncio.to_thread(self._keep_specs, in_use)
        self._health.ready = True
        return self.addresses

    def _refuse_loops(self) -> None:
        from collector.forward.own_listener import refuse_loops

        refuse_loops(self.settings.forward, self.addresses)

    # --- the state of an earlier process -------------------------------------------------------

    async def _recover(self, state: KeptState) -> None:
        """Goes through the journal. Health is answered meanwhile, and /metrics says that it is too early.

        Senders are answered, too: what they send is kept, and judged in its turn. Only where next hops get verdicts with the
        spans, senders wait.
        """
        self._health.is_early = True
        watched = self._servers.get("metrics")
        if watched is not None:
            self.addresses["metrics"] = await watched.start()
        specs = [judge.spec for judge in self.monitor.binder.judges.values()]
        is_early = state.has_past and self._annotated is None
        if not is_early:
            self._health.reason = self._health.reason or RECOVERING
        self._is_past = True
        self._alerts.hold()
        early = Stats()
        try:
            await state.recover(specs, partial(self._receive, early) if is_early else None)
        finally:
            self._is_past = False
        self.export.judge_now(self._stats)
        self._stats.add_early(early)
        self._alerts.keep(state.journal)
        self._alerts.release()
        self._pipeline.inventory.new.clear()
        self._health.is_early = False
        if self._health.reason == RECOVERING:
            self._health.reason = ""

    async def _receive(self, early: Stats) -> None:
        """Opens the receivers of telemetry, while what came before is still to be judged: `early` counts meanwhile."""
        self.export.judge_later(early)
        for name, server in self._receivers.items():
            if name != "decide":
                self.addresses[name] = await server.start()
        if self._forwarding is not None:
            await asyncio.to_thread(self._refuse_loops)
            self._forwarding.start()
        self._health.ready = True
        self._log.info("receiving", judged="later", **self.addresses)

    def tick_again(self, now: int) -> None:
        """Time went on, in an earlier process."""
        self._pipeline.tick(now)
        self._end_sessions(now)
        self._alerts.tick(now)

    def operated_again(self, done: OperatorRecord) -> None:
        """What an operator did with sessions, in an earlier process."""
        self._running.again(done.action, done.session, done.namespace)

    def use_again(self, specs: Sequence[Spec]) -> None:
        """Specs that were in use, in an earlier process."""
        if self.monitor.use(specs):
            self._pipeline.specs_changed()

    # --- time ----------------------------------------------------------------------------------

    async def _tick(self) -> None:
        standstill = Standstill(self._steady)
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._watch_time()
            if standstill.is_over():
                self._go_on()

    def step(self) -> None:
        """Time has passed: final verdicts and ends of sessions depend on it, so it must go on."""
        self._watch_time()
        self._go_on()

    def _watch_time(self) -> None:
        self._take_steps(self._look_at_clock, self._look_at_pauses, self._leave_mark)

    def _go_on(self) -> None:
        self._take_steps(
            self._note_time,
            self._pipeline.tick,
            self._decisions.tick,
            self._end_sessions,
            self._sink.tick,
            self._notices.tick,
            self._look_at_judges,
            self._look_at_readiness,
            self._look_at_snapshots,
            self._certificates.tick,
            self._return_memory,
        )

    def _take_steps(self, *steps: Callable[[int], None]) -> None:
        now = self._clock()
        for step in steps:
            try:
                step(now)
            except Exception as error:  # noqa: BLE001
                self._report("time could not go on", error)

    def _note_time(self, now: int) -> None:
        """Counters and the time go to the journal, before what the time brings."""
        if self._state is not None:
            is_busy = self.monitor.sessions > 0 or len(self._pipeline.decided) > 0
            self._state.tick(now, is_busy)

    def _end_sessions(self, now: int) -> None:
        """What time brings to sessions goes to the sinks."""
        finished = self.monitor.tick(now)
        news = self.monitor.news()
        if news:
            self._deliver(news)
        self._finished(finished)

    def _finished(self, finished: Sequence[SessionFinished]) -> None:
        """Ends of sessions go to the sinks."""
        named = [self._redaction.named(each) for each in finished]
        self._each((self._alerts.ended, self._sink.finished), named)
        if self._judges is not None and not self._is_past:
            for each in finished:
                self._judges.ended(each.session)

    def _look_at_clock(self, now: int) -> None:
        """A clock that was set ends no session, and is logged."""
        by = self._clock_watch.moved() if self._clock_watch is not None else 0
        if by:
            self._stats.count("clock_jumps")
            self._log.warning("clock_moved", seconds=round(by / SECOND, 3))
            if self._state is not None:
                self._state.clock_moved(by, now)
            self.monitor.clock_moved(by, now)

    def _leave_mark(self, _now: int) -> None:
        if self._mark is not None:
            self._mark.tick()

    def _look_at_pauses(self, now: int) -> None:
        """A process that was stopped for a while has let senders wait, who may have given up."""
        steady, before = self._steady(), self._stepped_ns
        self._stepped_ns = steady
        if before and steady - before >= PAUSE_NS:
            self._log.warning("paused", seconds=round((steady - before) / SECOND, 3))
            self.monitor.gaps.missed(now - (steady - before), now)

    def _look_at_judges(self, now: int) -> None:
        if self._judges is not None:
            self._judges.tick(now)

    def _look_at_snapshots(self, _now: int) -> None:
        if self._state is not None:
            self._state.snapshots.tick()

    def _relieve(self) -> None:
        """Memory is scarce: what is shown alone goes, and what is known only so that it need not be read again."""
        if self.settings.show_arguments:
            self.monitor.kept.relieve()
        self._pipeline.relieve()
        self._decisions.relieve()

    def _return_memory(self, _now: int) -> None:
        if self._memory is not None:
            self._memory.tick()

    def _look_at_readiness(self, _now: int) -> None:
        self._readiness.tick(self._steady())

    def _report(self, what: str, error: Exception) -> None:
        """Counts a fault of ours; the first of its type is logged."""
        name = type(error).__name__
        if (what, name) not in self._reported:
            self._reported.add((what, name))
            self._log.error(what, error=name, exc_info=error)
        self._stats.count("internal_errors", name)

    async def stop(self) -> None:
        """Ends so that nothing is lost which can be kept.

        As long as it waits for others it receives as ever. From the moment when the receivers close it takes
        `CLOSE_SECONDS` at most, since senders give up after 10 s.
        """
        self._health.ready = False
        self._health.reason = "stopping"
        await self._before_close()
        await self._close(TimeBudget(CLOSE_SECONDS))

    async def _before_close(self) -> None:
        """Waits until the next process can go on, or until pages have left and counters are scraped."""
        if self._state is not None:
            await self._state.before_close()
            return
        waits = [self._alerts.hurry(self.settings.drain_seconds)]
        if self._last_scrape is not None:
            self._last_scrape.begin()
            waits.append(self._last_scrape.wait())
        await asyncio.gather(*waits)

    async def _close(self, deadline: TimeBudget) -> None:
        """Receives no more, judges what is on its way, and delivers what it can by the deadline."""
        grace = self.settings.drain_seconds
        open_ones = [
            self._receivers[name] for name in self.addresses if name in self._receivers
        ]
        receiving = deadline.share(grace, OPEN_SHARE)
        await asyncio.gather(*(server.stop(receiving) for server in open_ones))
        for task in (self._ticker, self._watcher):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self._state is None:
            self._finalise()
        else:
            self._state.stop(self._clock())  # the next process goes on
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.stop)
        self._feed.close()
        left = deadline.share(grace, REST_SHARE)
        parts: list[Awaitable[None]] = [self._alerts.stop(left)]
        if self._last_scrape is not None:
            parts.append(self._last_scrape.wait_for_rest(left))
        if self._forwarding is not None:
            parts.append(self._forwarding.stop(left))
        if self._push is not None:
            parts.append(self._push.stop(left))
        if self._judges is not None:
            parts.append(self._judges.stop(left))
        if self._archive is not None:
            parts.append(self._archive.stop(left, is_over=self._state is None))
        await asyncio.gather(*parts)
        self._sink.close()
        watched = [self._observers[name] for name in self.addresses if name in self._observers]
        left = deadline.share(grace, REST_SHARE)
        await asyncio.gather(*(server.stop(left) for server in watched))
        if self._traces is not None:
            await self._traces.stop(deadline.share(grace, REST_SHARE))
        if self._state is not None:
            await self._state.close()

    def _finalise(self) -> None:
        """Verdicts so far become final, and what that brings goes to the sinks."""
        now = self._clock()
        try:
            self.monitor.finalise(now)
            self._deliver(self.monitor.news())
        except Exception as error:  # noqa: BLE001
            self._report("verdicts could not become final", error)

    def _calls(self) -> int:
        """Tool calls so far."""
        counts = self._stats.counts
        return sum(count for key, count in counts.items() if key[0] == "calls")
