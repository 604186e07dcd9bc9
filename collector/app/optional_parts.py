"""Parts that a service has only where its settings ask for them. What is off is not loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.calls.pipeline import Pipeline
from collector.config.settings.archive import ArchiveSettings
from collector.config.settings.record import RecordSettings
from collector.config.settings.sessions import SessionSettings
from collector.config.settings.settings import Settings
from collector.config.settings.state import StateSettings
from collector.config.settings.telemetry import TelemetrySettings
from collector.metrics.service import Families
from collector.net.watched_files import UnusableFileError
from collector.telemetry.counters import Stats
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.limits import SECOND

if TYPE_CHECKING:
    from collector.api.archive.archive_feed import ArchiveFeed
    from collector.archive.pruning import ArchiveBounds
    from collector.archive.reader import ArchiveReader
    from collector.archive.writer import ArchiveWriter
    from collector.forward.next_hops import NextHops
    from collector.metrics.otlp_push import OtlpPush
    from collector.metrics.otlp_traces import OtlpTraces
    from collector.online_judges.judge_feed import JudgeFeed
    from collector.online_judges.judge_thread import JudgeThread
    from collector.restart.kept_state import KeptState
    from collector.sinks.recorder import Recorder

__all__ = [
    "archive_of",
    "forwarding_of",
    "judges_of",
    "judges_thread_of",
    "push_of",
    "recorder_of",
    "state_of",
    "traces_of",
]


def recorder_of(
    settings: RecordSettings, clock: Callable[[], int], stats: Stats
) -> Recorder | None:
    """The recorder that is set up; None if nothing is to be recorded, and nothing is loaded."""
    if settings.folder is None:
        return None
    from collector.sinks import recorder

    return recorder.recorder_of(settings, clock, stats.recorded)


def push_of(
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


def forwarding_of(
    settings: Settings, monitor: Monitor, stats: Stats, clock: Callable[[], int]
) -> NextHops | None:
    """The next hops that are set up; None without any, and nothing is loaded."""
    if not settings.forward:
        return None
    from collector.forward import next_hops

    return next_hops.forwarding_of(settings.forward, stats, clock, monitor.harm_rate)


def traces_of(settings: TelemetrySettings, clock: Callable[[], int]) -> OtlpTraces | None:
    """The push of own traces; None if they are off, and nothing is loaded."""
    if not settings.traces:
        return None
    from collector.metrics.otlp_traces import OtlpTraces

    return OtlpTraces(settings, clock)


def state_of(
    settings: StateSettings, sessions: SessionSettings, clock: Callable[[], int]
) -> KeptState | None:
    """The state that outlives the process; None if none is kept, and nothing is loaded."""
    if settings.dir is None or settings.durability == "off":
        return None
    from collector.restart.kept_state import KeptState

    return KeptState(settings, sessions, clock)


def archive_of(
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
    from collector.archive.pruning import ArchiveBounds

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


def judges_of(
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


def judges_thread_of(
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
