"""Who is told of verdicts, alarms, refused calls and ends of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from collector.api.streams.verdict_feed import VerdictFeed
from collector.app.fault_counter import FaultCounter
from collector.calls.decisions.prevented_calls import PreventedCall
from collector.sinks.log import LogSink
from collector.sinks.sink_dispatch import SinkDispatch
from collector.telemetry.redaction import Redaction
from monitor.aggregate.totals import SessionFinished
from monitor.records import ReferenceAlarm, SessionKey, Verdict

if TYPE_CHECKING:
    from collector.api.archive.archive_feed import ArchiveFeed
    from collector.forward.next_hops import NextHops

__all__ = ["Deliveries"]


class Deliveries:
    """Hands each of them to all sinks. One that fails keeps it from no other, and from no sender.

    Args:
        redaction: what is taken out of all that is shown.
        alerts: pages.
        sink: the log.
        feed: the streams of the API.
        annotated: the next hops, if they take the verdicts of all calls to annotate spans; else None.
        faults: counts a sink that fails.
    """

    def __init__(
        self,
        redaction: Redaction,
        alerts: SinkDispatch,
        sink: LogSink,
        feed: VerdictFeed,
        annotated: NextHops | None,
        faults: FaultCounter,
    ) -> None:
        self._redaction = redaction
        self._alerts = alerts
        self._sink = sink
        self._feed = feed
        self._annotated = annotated
        self._faults = faults
        self.archive: ArchiveFeed | None = None
        self.judge: Callable[[SessionKey], None] | None = None
        """Has models judge a session that has ended; None if none is asked."""
        self.is_past = False
        """True while the time of an earlier process is gone through again: only what pages is told."""

    def verdicts(self, verdicts: Sequence[Verdict]) -> None:
        """Pages first: the rest can wait a microsecond."""
        if self._annotated is not None:
            self._each((self._annotated.take,), verdicts)
        if self.archive is not None and not self.is_past:
            self._each((self.archive.deliver,), verdicts)
        if self._redaction:
            verdicts = [self._redaction.named(verdict) for verdict in verdicts]
        self._each((self._alerts.deliver,), verdicts)
        if not self.is_past:
            self._each((self._sink.deliver, self._feed.deliver), verdicts)

    def alarm(self, raised: ReferenceAlarm) -> None:
        """What references say, which needs no verdict."""
        raised = self._redaction.named(raised)
        self._each((self._alerts.alarm,), raised)
        if not self.is_past:
            self._each((self._sink.alarm,), raised)
            self._each((self._feed.deliver,), (raised,))

    def denied(self, denied: PreventedCall) -> None:
        """A call that was denied before it was made."""
        if self.is_past:
            return
        denied = self._redaction.named(denied)
        self._each((self._sink.denied,), denied)
        self._each((self._feed.deliver,), (denied,))

    def finished(self, finished: Sequence[SessionFinished]) -> None:
        """Sessions that have ended."""
        named = [self._redaction.named(each) for each in finished]
        self._each((self._alerts.ended, self._sink.finished), named)
        if self.judge is not None and not self.is_past:
            for each in finished:
                self.judge(each.session)

    def _each(self, sinks: Iterable[Callable[[Any], None]], what: Any) -> None:
        for sink in sinks:
            try:
                sink(what)
            except Exception as error:  # noqa: BLE001
                self._faults.report("a sink failed", error)
