"""OTLP/JSON to OTLP/protobuf, for next hops that take protobuf only (gRPC).

OTLP/JSON is protobuf's JSON, but for ids, which are hexadecimal. Fields that the official schema does not know are
lost: protobuf has no place for them. Half a surrogate pair, which JSON can hold and protobuf cannot, becomes `?`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from collector.receive.request import Signal

__all__ = ["TranscodeError", "to_protobuf"]

IDS: Final = frozenset(
    {"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"}
)
ESCAPE: Final = b"\\u"


class TranscodeError(Exception):
    """A body that cannot be converted."""


def to_protobuf(signal: Signal, body: bytes) -> bytes:
    """The request as protobuf.

    Raises:
        TranscodeError: the body has a value that the official schema does not allow.
    """
    try:
        found = json.loads(body)
        if not isinstance(found, dict):
            raise TranscodeError("expected an object")
        _prepare(found, scrub=ESCAPE in body)
        message = ParseDict(found, _request(signal), ignore_unknown_fields=True)
        return message.SerializeToString()
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise TranscodeError(str(error)) from error


def _request(signal: Signal) -> Message:
    """An empty request of the official schema, which is loaded with the first one."""
    if signal == "traces":
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

        return TracesData()
    if signal == "metrics":
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

        return MetricsData()
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

    return LogsData()


def _prepare(found: Any, *, scrub: bool) -> None:
    """Turns ids into base64, which protobuf's JSON has for bytes; with `scrub`, cleans all texts."""
    waiting = [found]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            for key in IDS & each.keys():
                each[key] = _base64(each[key])
            if scrub:
                _clean(each)
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _base64(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64encode(binascii.unhexlify(value)).decode()
    except ValueError as error:
        raise TranscodeError("an id is not hexadecimal") from error


def _clean(holder: dict[str, Any]) -> None:
    changed: Mapping[str, str] = {
        key: value.encode("utf-8", "replace").decode()
        for key, value in holder.items()
        if isinstance(value, str)
    }
    holder.update(changed)
