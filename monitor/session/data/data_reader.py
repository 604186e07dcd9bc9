"""Reads what calls say to rules over data, keeps it in their sessions, and gives calls their tokens.

Idea: a session under a spec with such rules has one more step on the way of a call. What the call says is kept, then its
token is found by what was seen before it. Sessions under other specs never come here.
"""

from __future__ import annotations

from typing import Final

from monitor.alphabet.alphabet import OwnFacts
from monitor.records import Evidence, ToolCall
from monitor.session.data.call_records import Times, asking_call, source_call
from monitor.session.data.data_facts import carried_fact, data_facts
from monitor.session.data.seen_values import AskingCall, SeenValues
from monitor.session.data.session_data import SessionData
from monitor.session.judge.judge import Judge
from monitor.visibility.cause import Effect, effect_of
from monitor.visibility.sight import MILLISECOND, Sight

__all__ = ["DataReader"]

_NOTHING: Final = SessionData()
_NONE_SEEN: Final = SeenValues()
"""What a session has seen that has seen nothing. Nobody changes them."""

_NO_SYMBOLS: Final = OwnFacts(None, None, failed=False)
"""What a call says under a reference, which has no symbols."""


class DataReader:
    """Keeps what calls say. All judges here have rules over data (`Judge.data`)."""

    def __init__(self) -> None:
        self.dropped = 0
        """Records of calls, of which values were taken, that went for a bound."""

    def take(self, data: SessionData, judge: Judge, call: ToolCall, times: Times) -> None:
        """Keeps what a call says under a spec, in what its session has seen."""
        assert judge.data is not None
        seen, rules = data.of(judge), judge.data
        times = seen.as_received(call.span_id, _rounded(times))
        tool, sure = rules.source(call.tool)
        source = None
        if tool:
            each = judge.each
            things = each.of_call(call.tool, call.arguments) if each is not None else None
            source = source_call(call, tool, rules.sources[tool], times, things, sure=sure)
        if source is not None:
            self.dropped += seen.add(source)
        else:
            seen.remove(call.span_id)
        if rules.asks(call.tool):
            seen.ask(_asking(judge, call, times))
        else:
            seen.forget((call.span_id,))

    def drop(self, data: SessionData, judge: Judge, call: ToolCall) -> None:
        """Forgets what a call said: it is none, or another one."""
        seen = data.seen.get(judge)
        if seen is not None:
            seen.remove(call.span_id)
            seen.forget((call.span_id,))

    def move(self, moved: SessionData, target: SessionData) -> None:
        """What one session has seen is another's."""
        self.dropped += target.absorb(moved)

    def token(
        self, data: SessionData | None, judge: Judge, call: ToolCall, times: Times, sight: Sight
    ) -> int:
        """The token of a call that asks, by what is known now. Nothing is kept."""
        data = data or _NOTHING
        return self.token_of(data, judge, _record(data, judge, call, times), sight)

    def token_of(
        self, data: SessionData, judge: Judge, asking: AskingCall, sight: Sight
    ) -> int:
        """The token of a call that asks, by its record."""
        facts = self._facts(data, judge, asking, sight)
        return judge.spec.alphabet.completed(asking.call.tool, asking.own, facts)

    def carried(
        self, data: SessionData | None, judge: Judge, call: ToolCall, times: Times, sight: Sight
    ) -> bool | None:
        """Whether a write carries what an earlier result gave it, under a reference that asks; None: that is not known."""
        data = data or _NOTHING
        return self.carried_by(data, judge, _record(data, judge, call, times), sight)

    def carried_by(
        self, data: SessionData, judge: Judge, asking: AskingCall, sight: Sight
    ) -> bool | None:
        """The same, by the record of the call."""
        assert judge.data is not None
        (condition,) = judge.data.asks(asking.call.tool)
        seen = data.seen.get(judge) or _NONE_SEEN
        return carried_fact(condition, asking, data, seen, sight)

    def facts(
        self, data: SessionData | None, judge: Judge, call: ToolCall, sight: Sight
    ) -> dict[str, bool | None]:
        """The facts of a call that was taken; none if it does not ask."""
        data = data or _NOTHING
        asking = _known(data, judge, call)
        return {} if asking is None else self._facts(data, judge, asking, sight)

    def _facts(
        self, data: SessionData, judge: Judge, asking: AskingCall, sight: Sight
    ) -> dict[str, bool | None]:
        assert judge.data is not None
        seen = data.seen.get(judge) or _NONE_SEEN
        return data_facts(judge.data, asking, data, seen, sight)


def _known(data: SessionData, judge: Judge, call: ToolCall) -> AskingCall | None:
    """The record of a call that asks, if it was taken."""
    seen = data.seen.get(judge)
    return seen.asking.get(call.span_id) if seen is not None else None


def _record(data: SessionData, judge: Judge, call: ToolCall, times: Times) -> AskingCall:
    """The record of a call that asks; made for one that was not taken."""
    return _known(data, judge, call) or _asking(judge, call, _rounded(times))


def _asking(judge: Judge, call: ToolCall, times: Times) -> AskingCall:
    assert judge.data is not None
    conditions, remembered = judge.data.asks(call.tool), judge.data.remembered
    return asking_call(call, conditions, remembered, _own(judge, call), times, judge.each)


def _own(judge: Judge, call: ToolCall) -> OwnFacts:
    if judge.comparison is not None:
        return _NO_SYMBOLS
    is_told = not call.doubts or effect_of(call.doubts) is not Effect.OUTCOME
    return judge.spec.alphabet.own(
        call.tool,
        call.arguments,
        call.error and is_told,
        call.returned,
        ended=is_told and call.evidence is Evidence.EXECUTED,
    )


def _rounded(times: Times) -> Times:
    """The times with the receipt as logs keep it, and sights compare it."""
    at, begin_ns, received_ns = times
    return at, begin_ns, received_ns - received_ns % MILLISECOND
