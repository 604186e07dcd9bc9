"""Spans that may mean several calls: all readings of a span as a call, and the reasons to count.

No known instrumentation writes such spans, so plans keep ordinary spans out of this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from collector.decode.span import Span
from collector.dialects.choose import unclear_fields
from collector.dialects.event_calls import tells_of_call
from collector.dialects.names.session_and_agent_keys import is_served
from collector.dialects.names.span_name import LENGTH_MAX, span_name
from collector.dialects.plan import ReadPlan
from collector.dialects.read import TOO_LONG, SpanReading, read, read_as
from collector.dialects.unknown_dialect import SPOKEN, SPOKEN_BEGINS, TOOL_BY_NAME

__all__ = ["READINGS_MAX", "SpanAmbiguity", "ambiguity_of", "may_be_ambiguous"]

READINGS_MAX: Final = 8
"""Readings of one span that are judged. Further ones are only counted."""

_SPOKEN: Final = span_name(SPOKEN)


class SpanAmbiguity:
    """All readings of a span, and the reasons to count."""

    __slots__ = ("readings", "reasons")

    def __init__(self) -> None:
        self.readings: list[SpanReading] = []
        """Each is a call that the span may mean; no two are equal."""
        self.reasons: list[str] = []
        """Reasons of `coverage`, each once."""

    def count(self, reason: str) -> None:
        """Adds a reason to count for this span."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    def add(self, reading: SpanReading) -> None:
        """Adds a reading."""
        if len(self.readings) >= READINGS_MAX:
            return
        if not any(_is_same(reading, known) for known in self.readings):
            self.readings.append(reading)


def may_be_ambiguous(span: Span, plan: ReadPlan, reading: SpanReading | None) -> bool:
    """True if `ambiguity_of` may find more than the one reading."""
    if plan.doubtful or (span.events and tells_of_call(span, reading)):
        return True
    if reading is not None:
        return False
    if plan.unclear is not None or (not plan.foreign and span.name.startswith(SPOKEN_BEGINS)):
        return True
    if len(span.name) <= LENGTH_MAX:
        plan.untold = span.name
    return False


def ambiguity_of(span: Span, plan: ReadPlan, reading: SpanReading | None) -> SpanAmbiguity:
    """All ways to read a span, the one there is first.

    Args:
        span: as it came.
        plan: of its shape.
        reading: what `read` has made of it.
    """
    ambiguity = SpanAmbiguity()
    _add_all(ambiguity, span, plan, reading)
    if plan.twins and _is_doubled(span, plan):
        ambiguity.count("ambiguous_attribute")
        for twin in plan.twins:
            _add_all(ambiguity, span, twin, read(span, twin) if twin.calls else None)
    if len({each.tool for each in ambiguity.readings}) > 1:
        ambiguity.count("ambiguous_tool")
    if span.events and tells_of_call(span, reading):
        ambiguity.count("call_in_event")
    return ambiguity


def _add_all(
    ambiguity: SpanAmbiguity, span: Span, plan: ReadPlan, reading: SpanReading | None
) -> None:
    if reading is None:
        _add_unclear(ambiguity, span, plan)
        return
    ambiguity.add(reading)
    if reading is not TOO_LONG:
        for name in _texts(span, plan.rivals):
            if name != reading.tool and not is_served(reading.tool, name):
                ambiguity.add(_named(span, plan, name))


def _add_unclear(ambiguity: SpanAmbiguity, span: Span, plan: ReadPlan) -> None:
    """Adds readings of a span that no dialect reads as a call, from whatever names a tool there."""
    unclear = plan.unclear
    spoken = _SPOKEN.find(span.name) or ""
    if unclear is None:
        if spoken:
            ambiguity.count("operation_conflict")
        return
    if unclear.known:
        ambiguity.count("look_alike")
        return
    odd = list(_odd_texts(span, plan.names))
    names = [*_texts(span, plan.names), *([spoken] if spoken else []), *odd]
    if not names and TOOL_BY_NAME in plan.says and span.name:
        names = [span.name]
    if not names:
        ambiguity.count("unnamed_tool")
        return
    if not plan.says:
        ambiguity.count("look_alike" if unclear.parts else "operation_conflict")
        if not unclear.given:
            return
    for name in names:
        ambiguity.add(_named(span, plan, name))


def _named(span: Span, plan: ReadPlan, tool: str) -> SpanReading:
    """The span as a call of this tool, by the nearest dialect."""
    for fields in plan.calls:
        if fields.tool is not None:
            return read_as(span, plan, fields, tool)
    return read_as(span, plan, unclear_fields(span), tool)


def _is_same(one: SpanReading, other: SpanReading) -> bool:
    return one.tool == other.tool and (
        one.arguments == other.arguments or one.arguments is None or other.arguments is None
    )


def _is_doubled(span: Span, plan: ReadPlan) -> bool:
    """True if a key that decides on the reading is duplicated, with different values."""
    values = span.values
    return any(
        values[places[0]] != values[other] for places in plan.doubled for other in places[1:]
    )


def _texts(span: Span, places: Iterable[int]) -> Iterable[str]:
    for at in places:
        value = span.attribute(at)
        if isinstance(value, str) and value:
            yield value


def _odd_texts(span: Span, places: Iterable[int]) -> Iterable[str]:
    for at in places:
        value = span.attribute(at)
        if not isinstance(value, str):
            yield from _spelt(value)


def _spelt(value: Any) -> Iterable[str]:
    """Names in a value that is no string: bytes, a number, or a list of these."""
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        if text:
            yield text
    elif isinstance(value, list):
        for each in value[:READINGS_MAX]:
            if not isinstance(each, list):
                yield from _spelt(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
