"""The output of both decoders: spans whose attribute values are decoded on demand.

A span's list of attribute keys is its `shape`. A reader finds the places of its keys once per shape
and decodes only the values at these places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from mypy_extensions import mypyc_attr

from collector.decode.native_readers import all_came_as, came_as, recurring_at, text_at

__all__ = [
    "ATTRIBUTES_MAX",
    "FIELDS",
    "KEY_MAX",
    "NAME_MAX",
    "REJECTED",
    "Codec",
    "MalformedBodyError",
    "OverBound",
    "Rejects",
    "Resource",
    "Span",
    "SpanBatch",
    "SpanEvent",
    "UnjudgedSpansError",
    "id_fault",
    "is_sampled",
    "key_fault",
    "name_fault",
]

ZERO_TRACE_ID: Final = bytes(16)
ZERO_SPAN_ID: Final = bytes(8)
PARENT_ID_SIZES: Final = frozenset({0, 8})

NAME_MAX: Final = 8_192
"""Characters of a span's name. Some names contain a whole prompt."""
KEY_MAX: Final = 2_048
"""Characters of an attribute's key. The longest known ones have 150: flattened messages."""
ATTRIBUTES_MAX: Final = 16_384
"""Attributes of one span. SDKs stop at 128 by default; flattened messages need more."""
SERVICES_MAX: Final = 16
"""Services of rejected spans that one request keeps apart."""

REJECTED: Final = ("bad_id", "bad_name", "over_bound")
"""Why a span is left out by itself: labels of the counter `spans_rejected`."""

SpanEvent = tuple[str, dict[str, Any], int]
"""Name, attributes, time in Unix nanoseconds."""


class MalformedBodyError(Exception):
    """The body is not the message it claims to be; no span of it was used."""


class OverBound(Exception):  # noqa: N818 - an outcome: that span alone is left out
    """The span is over a bound."""


class UnjudgedSpansError(Exception):
    """Internal errors kept spans of a request from being judged; its other spans are judged.

    The duplicate filter does not hold these spans, so they are judged if they are sent again.

    Args:
        spans: number of spans that were not judged.
        errors: type name of an error -> how often it was raised.
    """

    def __init__(self, spans: int, errors: dict[str, int]) -> None:
        super().__init__(f"{spans} spans could not be judged")
        self.spans = spans
        self.errors = errors


class Resource:
    """The sender of spans: one object for equal resources while these are cached.

    Identity may key a cache. Equal attributes may still have two objects, as the cache of resources is
    bounded.
    """

    __slots__ = ("__weakref__", "attributes")

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self.attributes = attributes

    def __repr__(self) -> str:
        return f"Resource({self.attributes!r})"


class Codec(Protocol):
    """Decodes the raw parts of a span; one per encoding."""

    def keys(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        """Return the attribute keys, one per value, in order of the wire."""

    def value(self, raw: Any) -> Any:
        """Decode one raw attribute value.

        The result is a str, bool, int, float, bytes, list, dict (kvlist), or None if the value is unset,
        over the bound or unreadable.
        """

    def name(self, raw: Any) -> Any:
        """Decode a recurring value, such as a tool's name; the result is cached."""

    def is_large(self, raw: Any) -> bool:
        """True for a raw value, or a raw event, that is over the bound."""

    def events(self, raw: Any) -> list[SpanEvent]:
        """Decode the raw events; unreadable ones are left out."""


FIELDS: Final = (
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    "start_ns",
    "end_ns",
    "status",
    "resource",
    "scope",
    "dropped",
    "shape",
    "values",
    "codec",
    "events",
    "sampled",
)
"""Fields of a span, in the order of its constructor."""


@mypyc_attr(acyclic=True)
class Span:
    """One span. Times are Unix nanoseconds, ids raw bytes; `values` and `events` are undecoded.

    The raw parts keep the whole request in memory: store decoded values, not the span.
    """

    __slots__ = FIELDS

    def __init__(
        self,
        trace_id: bytes,
        span_id: bytes,
        parent_span_id: bytes,
        name: str,
        kind: int,
        start_ns: int,
        end_ns: int,
        status: int,
        resource: Resource,
        scope: str,
        dropped: int,
        shape: tuple[str, ...],
        values: Sequence[Any],
        codec: Codec,
        events: Any,
        sampled: bool = False,
    ) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        """b"" for a root."""
        self.name = name
        self.kind = kind
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.status = status
        """0 unset, 1 ok, 2 error."""
        self.resource = resource
        self.scope = scope
        self.dropped = dropped
        """dropped_attributes_count."""
        self.shape = shape
        """The attribute keys in order. Shapes are shared, so equal ones are mostly one object."""
        self.values = values
        """Raw values, parallel to the keys of `shape`; read them by `attribute` or the codec."""
        self.codec = codec
        self.events = events
        self.sampled = sampled
        """True if the trace state shows that only a share of such traces is kept."""

    def but(self, **changes: Any) -> Span:
        """A copy of the span with some fields changed."""
        fields = {name: getattr(self, name) for name in FIELDS}
        return Span(**{**fields, **changes})

    def attribute(self, index: int) -> Any:
        """Decode the value at `index` of the shape."""
        found = text_at(self.values, index) if text_at is not None else None
        return found if found is not None else self.codec.value(self.values[index])

    def recurring(self, index: int) -> Any:
        """Decode a recurring value, such as a tool's name; the result is cached."""
        found = recurring_at(self.values, index) if recurring_at is not None else None
        return found if found is not None else self.codec.name(self.values[index])

    def came_as(self, index: int, raw: Any) -> bool:
        """True if the raw value at `index` equals `raw`."""
        if came_as is not None:
            return came_as(self.values, index, raw)
        return bool(self.values[index] == raw)

    def all_came_as(self, known: tuple[tuple[int, Any], ...]) -> bool:
        """True if `came_as` holds for each (index, raw)."""
        if all_came_as is not None:
            return all_came_as(self.values, known)
        values = self.values
        for index, raw in known:  # noqa: SIM110 - `all` makes a generator
            if values[index] != raw:
                return False
        return True

    def attributes(self) -> dict[str, Any]:
        """Decode all attributes; of duplicate keys the last wins."""
        return dict(
            zip(self.codec.keys(self.shape), map(self.codec.value, self.values), strict=True)
        )

    def span_events(self) -> list[SpanEvent]:
        """Decode the events: (name, attributes, time_ns) each."""
        return self.codec.events(self.events) if self.events else []


class Rejects:
    """Counts the rejected spans of one request and keeps the first fault."""

    __slots__ = ("message", "reasons", "services")

    def __init__(self) -> None:
        self.message = ""
        """The first fault, "" if none."""
        self.reasons: dict[str, int] = {}
        """Reason (of `REJECTED`) -> number of spans."""
        self.services: set[str] = set()
        """`service.name` of their senders, at most `SERVICES_MAX`; "" for any."""

    @property
    def count(self) -> int:
        """All rejected spans."""
        return sum(self.reasons.values())

    def add(self, place: str, fault: str, reason: str, resource: Resource) -> None:
        if not self.reasons:
            self.message = f"{place}: {fault}"
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        service = resource.attributes.get("service.name")
        self._sent_by({service if isinstance(service, str) else ""})

    def _sent_by(self, services: set[str]) -> None:
        self.services |= services
        if len(self.services) > SERVICES_MAX:
            self.services = {""}

    def join(self, other: Rejects) -> None:
        """Add the rejected spans of another part of the request."""
        self.message = self.message or other.message
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        self._sent_by(other.services)


class SpanBatch:
    """The spans of one request."""

    __slots__ = ("rejects", "spans")

    def __init__(self, spans: list[Span], rejects: Rejects) -> None:
        self.spans = spans
        self.rejects = rejects
        """The spans that were left out."""

    @property
    def rejected(self) -> int:
        return self.rejects.count

    @property
    def message(self) -> str:
        return self.rejects.message


def is_sampled(trace_state: str) -> bool:
    """True if a W3C trace state marks head sampling: OpenTelemetry's `th`, or the older `p`.

    `ot=th:c` and `ot=p:2` keep a quarter of all traces, `ot=th:0` keeps all of them.
    """
    if "ot=" not in trace_state:
        return False
    for member in trace_state.split(","):
        vendor, _, fields = member.strip().partition("=")
        if vendor == "ot":
            marks = dict(field.partition(":")[::2] for field in fields.split(";"))
            return bool(marks.get("th", "").strip("0") or marks.get("p", "").strip("0"))
    return False


def id_fault(trace_id: bytes, span_id: bytes, parent_span_id: bytes) -> str:
    """Say what is wrong with a span's ids (trace.proto: 16, 8 and 8 bytes, not all zero); or ""."""
    if len(trace_id) != len(ZERO_TRACE_ID):
        return f"trace id has {len(trace_id)} bytes, expected 16"
    if trace_id == ZERO_TRACE_ID:
        return "trace id is all zero"
    if len(span_id) != len(ZERO_SPAN_ID):
        return f"span id has {len(span_id)} bytes, expected 8"
    if span_id == ZERO_SPAN_ID:
        return "span id is all zero"
    if len(parent_span_id) not in PARENT_ID_SIZES:
        return f"parent span id has {len(parent_span_id)} bytes, expected 0 or 8"
    return ""


def name_fault(name: str) -> str:
    """Say what is wrong with a span's name; or ""."""
    return f"name has more than {NAME_MAX} characters" if len(name) > NAME_MAX else ""


def key_fault(keys: tuple[str, ...]) -> str:
    """Say what is wrong with the keys of a span's attributes; or ""."""
    if len(keys) > ATTRIBUTES_MAX:
        return f"more than {ATTRIBUTES_MAX} attributes"
    for key in keys:
        if len(key) > KEY_MAX:
            return f"an attribute's key has more than {KEY_MAX} characters"
    return ""
