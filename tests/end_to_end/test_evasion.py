"""Odd spans over the wire: their harm is reported, or the session counts what was not judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from tests.end_to_end.traffic import GOLDEN, message, send

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from tests.end_to_end.service import Service
    from tests.end_to_end.traffic import Rover

NAME = "gen_ai.tool.name"


def _told(span: Span, key: str, value: AnyValue) -> None:
    span.attributes.append(KeyValue(key=key, value=value))


def _without(span: Span, *keys: str) -> None:
    kept = [each for each in span.attributes if each.key not in keys]
    del span.attributes[:]
    span.attributes.extend(kept)


def _named_in_a_list(span: Span) -> None:
    _without(span, NAME)
    _told(
        span, NAME, AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="explode")]))
    )


def _named_by_the_span(span: Span) -> None:
    _without(span, NAME)
    _told(span, NAME, AnyValue(string_value=""))


def _named_twice(span: Span) -> None:
    _told(span, NAME, AnyValue(string_value="scan"))


def _another_service(span: Span) -> None:
    _told(span, "service.name", AnyValue(string_value="somebody"))


def _a_chat(span: Span) -> None:
    _without(span, "gen_ai.operation.name")
    _told(span, "gen_ai.operation.name", AnyValue(string_value="chat"))


def _known_ids(span: Span) -> None:
    span.span_id = KNOWN


KNOWN = b"known-id"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_named_in_a_list, ""),
        (_named_by_the_span, ""),
        (_named_twice, "ambiguous_tool"),
        (_another_service, ""),
        (_a_chat, "operation_conflict"),
        (_known_ids, "id_reused"),
    ],
)
def test_a_call_that_hides_is_judged(
    shared: Service, rover: Callable[..., Rover], change: Callable[[Any], None], reason: str
) -> None:
    """The unknown tool is found harmful, and the doubt is counted."""
    session = rover().calls(*GOLDEN[:1], "explode")
    made = message(session.spans)
    first, odd = made.resource_spans[0].scope_spans[0].spans
    first.span_id = KNOWN
    change(odd)
    before = shared.metric("offrails_coverage_total", reason=reason) if reason else 0

    reply = shared.post(made.SerializeToString(), "application/x-protobuf")
    found = shared.judgement(session.session)

    assert (reply.status, reply.body) == (200, b"")
    harmful = [step["tool"] for step in found["steps"] if step["kind"] == "harmful"]
    assert "explode" in harmful
    if reason:
        assert found["coverage"]["not_judged"][reason] == 1
        assert shared.metric("offrails_coverage_total", reason=reason) == before + 1


def test_what_is_sent_again_is_no_evasion(shared: Service, rover: Callable[..., Rover]) -> None:
    """An exporter that repeats its request makes no harm and no doubt."""
    session = rover().calls(*GOLDEN)
    for _ in range(2):
        send(shared, session.spans, "http_proto")
    found = shared.judgement(session.session)
    assert (found["calls"], found["harmful"]) == (len(GOLDEN), 0)
    assert set(found["coverage"]["not_judged"]) <= {"duplicate"}
