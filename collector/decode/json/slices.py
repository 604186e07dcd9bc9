"""Cuts a large JSON request into several small ones, as `protobuf/slices` does for protobuf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from collector.decode.protobuf.slices import PARTS_MAX, REPEATED_SHARE
from collector.decode.span import MalformedBodyError

__all__ = ["SLICE_BYTES", "SliceStart", "json_slices"]

SLICE_BYTES: Final = 64 << 10
"""A quarter of what a slice of protobuf has: JSON takes many times as long to decode."""
OBJECTS_MAX: Final = 500_000
OBJECT_BYTES_MIN: Final = 16
"""More than OBJECTS_MAX objects are accepted only if they have at least this mean size. Objects of exporters have
twice as many bytes; empty ones would take 40 times the memory of their text."""
ITEM_BYTES: Final = 80
"""Memory of one span that is not decoded yet, with its place in a list."""

_ABSENT: Final = msgspec.Raw()


class _Scope(msgspec.Struct, rename="camel"):
    scope: msgspec.Raw = _ABSENT
    schema_url: msgspec.Raw = _ABSENT
    spans: list[msgspec.Raw] | None = None


class _Resource(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = _ABSENT
    schema_url: msgspec.Raw = _ABSENT
    scope_spans: list[_Scope] | None = None
    snake: list[_Scope] | None = msgspec.field(default=None, name="scope_spans")


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[_Resource] | None = None
    snake: list[_Resource] | None = msgspec.field(default=None, name="resource_spans")


class SliceStart(NamedTuple):
    """Where a slice of a JSON request begins."""

    resource: int
    scope: int
    span: int

    def __str__(self) -> str:
        return (
            f"from resourceSpans[{self.resource}].scopeSpans[{self.scope}]"
            f".spans[{self.span}] on"
        )


_scan: Final = msgspec.json.Decoder(_Request).decode


def json_slices(
    body: bytes, size: int = SLICE_BYTES, hold: Callable[[int], None] | None = None
) -> Iterator[tuple[SliceStart, bytes]]:
    """Cut a JSON request of traces into slices; each comes with its place.

    Args:
        body: the request.
        size: approximate bytes of a slice.
        hold: called with the bytes of the list of spans, which lives until the last slice is cut.

    Raises:
        MalformedBodyError: not JSON, or the envelopes are not those of traces.
    """
    objects = body.count(b"{")
    if objects > OBJECTS_MAX and objects * OBJECT_BYTES_MIN > len(body):
        raise MalformedBodyError(
            f"{objects} objects in {len(body)} bytes: too many for their size"
        )
    try:
        request = _scan(body)
    except RecursionError as error:
        raise MalformedBodyError("JSON is nested too deeply") from error
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise MalformedBodyError(f"not an ExportTraceServiceRequest: {error}") from error
    resources = request.resource_spans if request.resource_spans is not None else request.snake
    if hold is not None:
        hold(ITEM_BYTES * sum(map(_parts, resources or ())))
    for number, resource in enumerate(resources or ()):
        yield from _json_resource(number, resource, size)


def _parts(group: _Resource) -> int:
    """The number of objects of a resource: itself, its scopes and its spans."""
    scopes = group.scope_spans if group.scope_spans is not None else group.snake
    return 1 + sum(1 + len(scope.spans or ()) for scope in scopes or ())


def _json_resource(
    number: int, group: _Resource, size: int
) -> Iterator[tuple[SliceStart, bytes]]:
    head = _members(resource=group.resource, schemaUrl=group.schema_url)
    scopes = group.scope_spans if group.scope_spans is not None else group.snake
    if not scopes:
        yield SliceStart(number, 0, 0), _json_request(head, b"")
    for place, scope in enumerate(scopes or ()):
        inner = _members(scope=scope.scope, schemaUrl=scope.schema_url)
        most = max(size, REPEATED_SHARE * (len(head) + len(inner)))
        for first, spans in _runs(scope.spans or [], most, PARTS_MAX * most // size):
            text = b'{%s"spans":[%s]}' % (inner, b",".join(spans))
            yield SliceStart(number, place, first), _json_request(head, text)


def _runs(spans: list[msgspec.Raw], most: int, count: int) -> Iterator[tuple[int, list[bytes]]]:
    """Spans in runs of about `most` bytes, each with the index of its first span; at least one run."""
    begun, size = 0, 0
    run: list[bytes] = []
    for number, span in enumerate(spans):
        run.append(bytes(memoryview(span)))
        size += len(run[-1])
        if size >= most or len(run) >= count:
            yield begun, run
            begun, size, run = number + 1, 0, []
    if run or not spans:
        yield begun, run


def _members(**given: msgspec.Raw) -> bytes:
    """The present members of an object as JSON, each followed by a comma."""
    texts = {name.encode(): bytes(memoryview(raw)) for name, raw in given.items()}
    return b"".join(b'"%s":%s,' % (name, text) for name, text in texts.items() if text)


def _json_request(head: bytes, scopes: bytes) -> bytes:
    return b'{"resourceSpans":[{%s"scopeSpans":[%s]}]}' % (head, scopes)
