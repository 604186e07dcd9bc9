"""What the monitor is to hear of a request: kept in order, and heard together.

A call goes through more code than a processor holds at a time, from its bytes to its verdict. So the
spans of a request go through it side by side, a part of the way after another: read, then joined
(`pipeline`), then judged. What the monitor hears, and in which order, is the same as if each had gone
all the way alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mypy_extensions import mypyc_attr

from collector.calls.call import Call
from collector.decode.span import Span
from collector.dialects.answers import answer_of
from monitor.engine import Monitor
from monitor.records import Named, SessionKey, ToolCall, Verdict

__all__ = ["Batch", "Failed"]


@mypyc_attr(acyclic=True)
class _Entry:
    """A call, or what a span that is none tells of a session."""

    __slots__ = ("attributes", "call", "doubted", "key", "named", "of", "start_ns")

    def __init__(self) -> None:
        self.call: ToolCall | None = None
        self.of: Call | None = None
        self.key: SessionKey | None = None
        self.named: Named | None = None
        self.attributes: Mapping[str, Any] | None = None
        self.start_ns = 0
        self.doubted = False


class Failed:
    """An error of the monitor's, and the call that it could not take; None for what was no call."""

    __slots__ = ("call", "error", "of")

    def __init__(self, error: Exception, of: Call | None, call: ToolCall | None) -> None:
        self.error = error
        self.of = of
        self.call = call


class Batch:
    """Calls and news that wait to be heard, of one request at a time.

    Args:
        monitor: who hears them.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._entries: list[_Entry] = []
        """Those that wait, and behind them those that are free: they are made once."""
        self._count = 0
        """How many wait."""
        self._answers: list[Span] = []
        self._answered: list[SessionKey] = []
        """Spans that may have answered in the end, and their sessions: when they are heard is all the same."""
        self.failed: list[Failed] = []
        """What the monitor could not take, since somebody last emptied this list."""
        self._verdicts: list[Verdict] = []
        self._now = 0
        self._quiet = True
        self._at_once = True
        """Nothing waits: there is nobody to be heard together with."""

    def open(self, now: int, verdicts: list[Verdict], *, quiet: bool, at_once: bool) -> None:
        """A request begins, received at `now` (Unix nanoseconds), whose verdicts go there.

        `quiet` as in `Monitor.observe`; `at_once` for one of a single span.
        """
        self._now, self._verdicts, self._quiet = now, verdicts, quiet
        self._at_once = at_once

    @property
    def monitor(self) -> Monitor:
        """The monitor, once it has heard all: for whatever is no entry of the batch."""
        if self._count or self._answers:
            self.flush()
        return self._monitor

    def observe(self, of: Call, call: ToolCall, named: Named | None, *, doubted: bool) -> None:
        """A call is to be judged, as it is known now: see `Monitor.observe`."""
        if self._at_once:
            self._observe(of, call, named, doubted)
            return
        entry = self._next()
        entry.of, entry.call, entry.named, entry.doubted = of, call, named, doubted

    def learn(
        self, key: SessionKey, named: Named | None, attributes: Mapping[str, Any], start_ns: int
    ) -> None:
        """A span that is no call tells more of a session: see `Monitor.learn`."""
        if self._at_once:
            self._learn(key, named, attributes, start_ns)
            return
        entry = self._next()
        entry.call = None
        entry.key, entry.named, entry.attributes = key, named, attributes
        entry.start_ns = start_ns

    def answer(self, key: SessionKey, span: Span) -> None:
        """What the agent said in the end, if its session is compared with others."""
        if self._at_once:
            self._answer(key, span)
            return
        self._answered.append(key)
        self._answers.append(span)

    def flush(self) -> None:
        """All of them, in order; what the monitor cannot take keeps it from no other."""
        count, self._count = self._count, 0
        for place in range(count):
            entry = self._entries[place]
            call, of, named, key, attributes = (
                entry.call,
                entry.of,
                entry.named,
                entry.key,
                entry.attributes,
            )
            entry.call = entry.of = entry.named = entry.key = entry.attributes = None
            if call is not None and of is not None:
                self._observe(of, call, named, entry.doubted)
            elif key is not None and attributes is not None:
                self._learn(key, named, attributes, entry.start_ns)
        if self._answers:
            self._flush_answers()

    def _next(self) -> _Entry:
        """The next one that waits."""
        place = self._count
        self._count = place + 1
        if place == len(self._entries):
            self._entries.append(_Entry())
        return self._entries[place]

    def _observe(self, of: Call, call: ToolCall, named: Named | None, doubted: bool) -> None:
        try:
            news = self._monitor.observe(
                call, self._now, named, quiet=self._quiet, doubted=doubted
            )
        except Exception as error:  # noqa: BLE001
            of.judged = None
            self.failed.append(Failed(error, of, call))
            return
        if news:
            self._verdicts += news

    def _learn(
        self, key: SessionKey, named: Named | None, attributes: Mapping[str, Any], start_ns: int
    ) -> None:
        try:
            news = self._monitor.learn(
                key, self._now, named=named, attributes=attributes, start_ns=start_ns
            )
        except Exception as error:  # noqa: BLE001
            self.failed.append(Failed(error, None, None))
            return
        if news:
            self._verdicts += news

    def _flush_answers(self) -> None:
        for place, span in enumerate(self._answers):
            self._answer(self._answered[place], span)
        self._answers.clear()
        self._answered.clear()

    def _answer(self, key: SessionKey, span: Span) -> None:
        try:
            if self._monitor.is_compared(key):
                answer = answer_of(span)
                if answer is not None:
                    self._monitor.answered(key, (*answer[:3], hash(answer.text)))
        except Exception as error:  # noqa: BLE001
            self.failed.append(Failed(error, None, None))
