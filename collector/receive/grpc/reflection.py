"""gRPC server reflection, by which tools such as grpcurl learn what may be called.

grpc.reflection.v1 and v1alpha, which are the same on the wire; off unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from collector.decode.protobuf.message_classes import BYTES, INT32, STRING, build
from collector.receive.status_codes import ExportStatus

__all__ = ["METHODS", "answer"]

METHODS: Final = frozenset(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo".encode()
    for version in ("v1", "v1alpha")
)


def _health_file() -> FileDescriptor:
    """grpc/health/v1/health.proto, of the health service as it is served here."""
    kinds = FieldDescriptorProto
    file = FileDescriptorProto(
        name="grpc/health/v1/health.proto", package="grpc.health.v1", syntax="proto3"
    )
    request = file.message_type.add(name="HealthCheckRequest")
    request.field.add(
        name="service", number=1, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_STRING
    )
    response = file.message_type.add(name="HealthCheckResponse")
    response.field.add(
        name="status",
        number=1,
        label=kinds.LABEL_OPTIONAL,
        type=kinds.TYPE_ENUM,
        type_name=".grpc.health.v1.HealthCheckResponse.ServingStatus",
    )
    status = response.enum_type.add(name="ServingStatus")
    for number, name in enumerate(("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")):
        status.value.add(name=name, number=number)
    methods = file.service.add(name="Health").method
    for name in ("Check", "Watch"):
        methods.add(
            name=name,
            input_type=".grpc.health.v1.HealthCheckRequest",
            output_type=".grpc.health.v1.HealthCheckResponse",
            server_streaming=name == "Watch",
        )
    pool = DescriptorPool()
    pool.Add(file)
    return pool.FindFileByName(file.name)


FILES: Final = (
    trace_service_pb2.DESCRIPTOR,
    metrics_service_pb2.DESCRIPTOR,
    logs_service_pb2.DESCRIPTOR,
    _health_file(),
)
NOT_FOUND: Final = ExportStatus.NOT_FOUND.value.grpc

_MESSAGES: Final = build(
    "offrails.reflection",
    {
        "Request": [("file", 3, STRING, False), ("symbol", 4, STRING, False)],
        "Response": [
            ("request", 2, BYTES, False),
            ("files", 4, "Files", False),
            ("services", 6, "Services", False),
            ("error", 7, "Error", False),
        ],
        "Files": [("protos", 1, BYTES, True)],
        "Services": [("services", 1, "Service", True)],
        "Service": [("name", 1, STRING, False)],
        "Error": [("code", 1, INT32, False), ("message", 2, STRING, False)],
    },
)


def answer(raw: bytes) -> bytes:
    """Answer a ServerReflectionRequest.

    Raises:
        DecodeError: it is none.
    """
    request = _MESSAGES["Request"].FromString(raw)
    response = _MESSAGES["Response"](request=raw)
    wanted = request.file or request.symbol
    if not wanted:  # what is left of the choices: list_services
        names = sorted(name for file in FILES for name in _services(file))
        response.services.services.extend(_MESSAGES["Service"](name=name) for name in names)
    elif (file := _find(request.file, request.symbol)) is not None:
        response.files.protos.extend(_with_imports(file).values())
    else:
        response.error.code = NOT_FOUND
        response.error.message = f"not found: {wanted[:200]}"
    serialised: bytes = response.SerializeToString()
    return serialised


def _services(file: FileDescriptor) -> Iterator[str]:
    return (service.full_name for service in file.services_by_name.values())


def _find(file_name: str, symbol: str) -> FileDescriptor | None:
    for file in FILES:
        try:
            if file_name:
                return file.pool.FindFileByName(file_name)
            return file.pool.FindFileContainingSymbol(symbol)
        except KeyError:
            found = None if file_name else _of_method(file, symbol)
            if found is not None:
                return found
    return None


def _of_method(file: FileDescriptor, symbol: str) -> FileDescriptor | None:
    """The file, if the symbol is a method of one of its services: pools find all but those."""
    service, _, method = symbol.replace("/", ".").rpartition(".")
    for each in file.services_by_name.values():
        if each.full_name == service and method in each.methods_by_name:
            return file
    return None


def _with_imports(file: FileDescriptor) -> dict[str, bytes]:
    """A file and all it imports, by name."""
    found = {file.name: file.serialized_pb}
    for other in file.dependencies:
        found |= _with_imports(other)
    return found
