"""Buffers one request's monitor events and applies them in order; collects the verdicts that come of them.

Idea: a call needs more code, from its bytes to its verdict, than a processor's cache holds. So the spans of a
request take each step together: all are read, then all are joined (`pipeline`), then all are judged here.

Invariant: the monitor receives the same events in the same order as if each span had taken all steps alone.
Calls and learnt attributes wait in the buffer. Every other event (`amend`, `retract`, `rekey`, `doubt`, and
whatever goes through the property `monitor`) flushes the buffer first.

Example: a request holds call A, call B, and a span that tells A's arguments. The buffer holds A and B; before
`amend(A)` reaches the monitor, both are observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from collector.calls.call.call import LogicalCall
from collector.decode.span import Span
from collector.dialects.answers import answer_of
from collector.dialects.values.messages import user_texts
from monitor.aggregate.consistency_sample import digest_of
from monitor.engine import Monitor
from monitor.records import AgentName, Proof, SessionKey, ToolCall, Verdict, built
from monitor.visibility.gap import Gap

__all__ = ["EventBatch", "MonitorFailure"]


class _Observed(NamedTuple):
    """A call to observe."""

    of: LogicalCall | None
    call: ToolCall
    named: AgentName | None
    doubted: bool
    proof: Proof | None


class _Learnt(NamedTuple):
    """What another span tells of a session."""

    key: SessionKey
    named: AgentName | None
    attributes: Mapping[str, Any]
    start_ns: int


class MonitorFailure:
    """An error of the monitor, and the call it could not take; None for an event that was no call."""

    __slots__ = ("call", "error", "of")

    def __init__(self, error: Exception, of: LogicalCall | None, call: ToolCall | None) -> None:
        self.error = error
        self.of = of
        self.call = call


class EventBatch:
    """The monitor events of one request at a time.

    Args:
        monitor: receives them.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._entries: list[_Observed | _Learnt] = []
        """Events that wait."""
        self._answers: list[tuple[SessionKey, Span]] = []
        """Spans that may hold an agent's final answer, and their sessions. Their order does not matter."""
        self._heard: list[tuple[SessionKey, Span]] = []
        """The same of spans that may hold what the user said."""
        self.failed: list[MonitorFailure] = []
        """Events the monitor could not take; the pipeline empties the list."""
        self._verdicts: list[Verdict] = []
        self._now = 0
        self._quiet = True
        self._at_once = True
        """Do not buffer: the request has a single span."""

    def open(self, now: int, *, quiet: bool, at_once: bool) -> None:
        """Begins a request, received at `now` (Unix nanoseconds).

        `quiet` as in `Monitor.observe`; `at_once` for a request of a single span.
        """
        self._now, self._verdicts, self._quiet = now, [], quiet
        self._at_once = at_once

    def close(self) -> list[Verdict]:
        """Ends the request; returns its verdicts, in the order the monitor gave them."""
        verdicts, self._verdicts = self._verdicts, []
        return verdicts

    @property
    def monitor(self) -> Monitor:
        """The monitor, after all buffered events: for events that the batch does not know."""
        if self._entries or self._answers or self._heard:
            self.flush()
        return self._monitor

    # --- buffered ---------------------------------------------------------------------------

    def observe(
        self,
        of: LogicalCall | None,
        call: ToolCall,
        named: AgentName | None,
        *,
        doubted: bool,
        proof: Proof | None = None,
    ) -> None:
        """Has a call judged, as it is known now: see `Monitor.observe`.

        `of` are its spans; None for a call that was decided before any span told of it.
        """
        entry: _Observed = built(_Observed, (of, call, named, doubted, proof))
        self._entries.append(entry)
        if self._at_once:
            self.flush()

    def learn(
        self,
        key: SessionKey,
        named: AgentName | None,
        attributes: Mapping[str, Any],
        start_ns: int,
    ) -> None:
        """Tells the monitor what a span that is no call says of its session: see `Corrections.learn`."""
        entry: _Learnt = built(_Learnt, (key, named, attributes, start_ns))
        self._entries.append(entry)
        if self._at_once:
            self.flush()

    def answer(self, key: SessionKey, span: Span) -> None:
        """Reads an agent's final answer from a span, if its session is compared with others."""
        self._answers.append((key, span))
        if self._at_once:
            self.flush()

    def hear(self, key: SessionKey, span: Span) -> None:
        """Reads what the user said from a span of a model or an agent: see `Corrections.hear`."""
        self._heard.append((key, span))
        if self._at_once:
            self.flush()

    # --- at once, behind what is buffered -----------------------------------------------------

    def amend(self, old: ToolCall, new: ToolCall, named: AgentName | None) -> None:
        """Replaces a call by what is known of it now: see `Corrections.amend`."""
        self._verdicts += self.monitor.corrections.amend(old, new, self._now, named)

    def retract(self, call: ToolCall) -> None:
        """Takes a call back that was judged twice, or in another session: see `Corrections.retract`."""
        self._verdicts += self.monitor.corrections.retract(call)

    def doubt(self, key: SessionKey, *, doubted: bool) -> None:
        """The first calls of a session may be missing, or are not: see `Corrections.doubt`."""
        self._verdicts += self.monitor.corrections.doubt(key, doubted=doubted)

    def doubt_clock(self, call: ToolCall, behind_ns: int) -> None:
        """The clock of a call is behind that of another span: see `Corrections.doubt_clock`."""
        self._verdicts += self.monitor.corrections.doubt_clock(call, behind_ns, self._now)

    def prove(self, key: SessionKey, proof: Proof) -> None:
        """A trace of a session proves that it is new, or does no longer: see `Corrections.prove`."""
        self._verdicts += self.monitor.corrections.prove(key, proof)

    def note_gap(self, gap: Gap) -> None:
        """Calls may be missing: see `Gaps.note`."""
        self.monitor.gaps.note(gap)

    def lift_gap(self, gap: Gap) -> None:
        """They are not: see `Gaps.lift`."""
        self.monitor.gaps.lift(gap)

    def flush(self) -> None:
        """Applies all buffered events in order. An event that fails does not stop the others."""
        entries, self._entries = self._entries, []
        for entry in entries:
            try:
                if isinstance(entry, _Observed):
                    news = self._monitor.observe(
                        entry.call,
                        self._now,
                        entry.named,
                        quiet=self._quiet,
                        doubted=entry.doubted,
                        proof=entry.proof,
                    )
                else:
                    news = self._monitor.corrections.learn(
                        entry.key,
                        self._now,
                        named=entry.named,
                        attributes=entry.attributes,
                        start_ns=entry.start_ns,
                    )
            except Exception as error:  # noqa: BLE001
                of, call = entry[:2] if isinstance(entry, _Observed) else (None, None)
                if of is not None:
                    of.judged = None
                self.failed.append(MonitorFailure(error, of, call))
                continue
            if news:
                self._verdicts += news
        if self._answers:
            self._flush_answers()
        if self._heard:
            self._flush_heard()

    def _flush_heard(self) -> None:
        heard, self._heard = self._heard, []
        for key, span in heard:
            try:
                texts = user_texts(span.attributes(), span.span_events())
                if texts:
                    self._verdicts += self._monitor.corrections.hear(
                        key, texts, span.start_ns, self._now
                    )
            except Exception as error:  # noqa: BLE001
                self.failed.append(MonitorFailure(error, None, None))

    def _flush_answers(self) -> None:
        answers, self._answers = self._answers, []
        for key, span in answers:
            try:
                if self._monitor.reader.is_compared(key):
                    answer = answer_of(span)
                    if answer is not None:
                        self._monitor.corrections.answered(
                            key, (*answer[:3], digest_of(answer.text))
                        )
            except Exception as error:  # noqa: BLE001
                self.failed.append(MonitorFailure(error, None, None))
