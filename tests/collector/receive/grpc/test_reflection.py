"""Server reflection describes the services of the gRPC port."""

from __future__ import annotations

from typing import Any

import pytest

from collector.decode.protobuf.message_classes import BYTES, INT32, STRING, build
from collector.receive.grpc.reflection import answer

PACKAGE = "opentelemetry.proto.collector.trace.v1"
_M: Any = build(
    "offrails.test_reflection",
    {
        "Request": [("symbol", 4, STRING, False), ("list", 7, STRING, False)],
        "Response": [
            ("files", 4, "Files", False),
            ("services", 6, "Services", False),
            ("error", 7, "Error", False),
        ],
        "Files": [("protos", 1, BYTES, True)],
        "Services": [("services", 1, "Service", True)],
        "Service": [("name", 1, STRING, False)],
        "Error": [("code", 1, INT32, False)],
    },
)


def asked(**request: str) -> Any:
    raw = _M["Request"](**request).SerializeToString()
    return _M["Response"].FromString(answer(raw))


@pytest.mark.parametrize(
    "symbol",
    [
        f"{PACKAGE}.TraceService",
        f"{PACKAGE}.TraceService.Export",
        f"{PACKAGE}.TraceService/Export",
        f"{PACKAGE}.ExportTraceServiceRequest",
        "opentelemetry.proto.trace.v1.Span.Event",
        "grpc.health.v1.Health",
        "grpc.health.v1.Health.Check",
        "grpc.health.v1.HealthCheckResponse.ServingStatus",
    ],
)
def test_symbols_are_resolved(symbol: str) -> None:
    """Services, methods and messages resolve to their files and the imports of these."""
    found = asked(symbol=symbol)
    assert found.files.protos
    assert not found.error.code


@pytest.mark.parametrize(
    "symbol",
    [f"{PACKAGE}.TraceService.Import", "grpc.health.v1.Health.Nothing", "nothing", "."],
)
def test_unknown_symbols_are_not_found(symbol: str) -> None:
    """The error has gRPC's code NOT_FOUND."""
    assert asked(symbol=symbol).error.code == 5


def test_the_health_service_is_listed() -> None:
    """The health service is listed beside the three of the collector."""
    names = [each.name for each in asked(list="*").services.services]
    assert "grpc.health.v1.Health" in names
    assert len(names) == 4
