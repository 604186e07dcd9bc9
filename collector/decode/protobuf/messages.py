"""The standard messages that are decoded or encoded whole, with the official names and numbers.

The generated modules are not used, because they load the whole OTLP schema.
"""

from __future__ import annotations

from typing import Any, Final

from collector.decode.protobuf.message_classes import (
    BOOL,
    BYTES,
    DOUBLE,
    FIXED64,
    INT32,
    INT64,
    STRING,
    UINT32,
    Messages,
    build,
)

__all__ = [
    "OFFICIAL",
    "AnyValue",
    "Event",
    "InstrumentationScope",
    "KeyValue",
    "PartialSuccess",
    "ResourceMessage",
    "TraceResponse",
]

ONE: Final = False
MANY: Final = True

OFFICIAL: Final[Messages] = {
    # opentelemetry/proto/common/v1/common.proto
    "AnyValue": [
        ("string_value", 1, STRING, ONE),
        ("bool_value", 2, BOOL, ONE),
        ("int_value", 3, INT64, ONE),
        ("double_value", 4, DOUBLE, ONE),
        ("array_value", 5, "ArrayValue", ONE),
        ("kvlist_value", 6, "KeyValueList", ONE),
        ("bytes_value", 7, BYTES, ONE),
        ("string_value_strindex", 8, INT32, ONE),
    ],
    "ArrayValue": [("values", 1, "AnyValue", MANY)],
    "KeyValueList": [("values", 1, "KeyValue", MANY)],
    "KeyValue": [
        ("key", 1, STRING, ONE),
        ("value", 2, "AnyValue", ONE),
        ("key_strindex", 3, INT32, ONE),
    ],
    "InstrumentationScope": [
        ("name", 1, STRING, ONE),
        ("version", 2, STRING, ONE),
        ("attributes", 3, "KeyValue", MANY),
        ("dropped_attributes_count", 4, UINT32, ONE),
    ],
    "EntityRef": [
        ("schema_url", 1, STRING, ONE),
        ("type", 2, STRING, ONE),
        ("id_keys", 3, STRING, MANY),
        ("description_keys", 4, STRING, MANY),
    ],
    # opentelemetry/proto/resource/v1/resource.proto
    "Resource": [
        ("attributes", 1, "KeyValue", MANY),
        ("dropped_attributes_count", 2, UINT32, ONE),
        ("entity_refs", 3, "EntityRef", MANY),
    ],
    # opentelemetry/proto/trace/v1/trace.proto, message Span
    "Event": [
        ("time_unix_nano", 1, FIXED64, ONE),
        ("name", 2, STRING, ONE),
        ("attributes", 3, "KeyValue", MANY),
        ("dropped_attributes_count", 4, UINT32, ONE),
    ],
    # opentelemetry/proto/collector/trace/v1/trace_service.proto
    "ExportTraceServiceResponse": [("partial_success", 1, "ExportTracePartialSuccess", ONE)],
    "ExportTracePartialSuccess": [
        ("rejected_spans", 1, INT64, ONE),
        ("error_message", 2, STRING, ONE),
    ],
}
"""Message -> its fields."""

_CLASSES: Final = build("offrails.messages", OFFICIAL, {"AnyValue": "value"})

AnyValue: Any = _CLASSES["AnyValue"]
KeyValue: Any = _CLASSES["KeyValue"]
InstrumentationScope: Any = _CLASSES["InstrumentationScope"]
ResourceMessage: Any = _CLASSES["Resource"]
Event: Any = _CLASSES["Event"]
TraceResponse: Any = _CLASSES["ExportTraceServiceResponse"]
PartialSuccess: Any = _CLASSES["ExportTracePartialSuccess"]
