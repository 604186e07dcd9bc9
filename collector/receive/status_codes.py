"""What becomes of a request, and its status codes: one table for gRPC and HTTP.

Sections are those of the OTLP specification (docs/specification.md); the mapping between gRPC
codes and HTTP statuses follows the Collector's (otlpreceiver, internal/errors).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from collector.decode.protobuf.message_classes import BYTES, INT32, INT64, STRING, build

__all__ = [
    "GRPC_NAMES",
    "Code",
    "ExportStatus",
    "Refusal",
    "retry_seconds",
    "status_bytes",
    "status_message",
]


class Code(NamedTuple):
    """The codes of a status."""

    grpc: int
    http: int
    retryable: bool


class ExportStatus(Enum):
    """What becomes of a request. Retryable: sending the same bytes again may succeed."""

    # OTLP/gRPC and OTLP/HTTP Response, "Full Success" and "Partial Success": both are OK / 200.
    OK = Code(0, 200, retryable=False)
    # "Failures" / "Bad Data": MUST NOT be retried; 400, INVALID_ARGUMENT.
    MALFORMED = Code(3, 400, retryable=False)
    # OTLP/HTTP Request (2026): over the limit, also after decompression, MUST be 413;
    # OTLP/gRPC: RESOURCE_EXHAUSTED without RetryInfo is not retryable.
    TOO_LARGE = Code(8, 413, retryable=False)
    # RFC 9110 15.5.16, for media types and for content codings (15.5.16, 12.5.3).
    UNSUPPORTED_MEDIA = Code(3, 415, retryable=False)
    # RFC 9110 15.5.6: MUST carry Allow.
    METHOD_NOT_ALLOWED = Code(12, 405, retryable=False)
    NOT_FOUND = Code(5, 404, retryable=False)
    UNAUTHENTICATED = Code(16, 401, retryable=False)
    PERMISSION_DENIED = Code(7, 403, retryable=False)
    # OTLP/gRPC Throttling: retryable only with RetryInfo; OTLP/HTTP Throttling: 429 with
    # Retry-After.
    THROTTLED = Code(8, 429, retryable=True)
    # RFC 9110 15.5.9: the request did not arrive in time.
    TIMEOUT = Code(4, 408, retryable=False)
    # The same sections: UNAVAILABLE / 503.
    UNAVAILABLE = Code(14, 503, retryable=True)
    # An error of ours, which the same bytes would cause again.
    INTERNAL = Code(13, 500, retryable=False)


GRPC_NAMES: Final = {
    0: "OK",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    16: "UNAUTHENTICATED",
}
"""Names of the gRPC codes in the table above."""

RETRY_SECONDS: Final = 5
"""Default time after which a sender may retry."""


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """A request is refused. Nothing of it was judged, and the response has the reason.

    Args:
        status: any but `OK`.
        message: for the sender, a sentence.
        retry_seconds: sent if the status is retryable.
    """

    def __init__(
        self, status: ExportStatus, message: str, retry_seconds: int = RETRY_SECONDS
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_seconds = retry_seconds
        self.noted = False
        """True once it is known that the calls of its request may be missing (`collector.receive.refusal_gaps`)."""


# google.rpc.Status and its details, whose official classes live in packages we do not need.
_RPC: Final = build(
    "offrails.rpc",
    {
        "Status": [
            ("code", 1, INT32, False),
            ("message", 2, STRING, False),
            ("details", 3, "Any", True),
        ],
        "Any": [("type_url", 1, STRING, False), ("value", 2, BYTES, False)],
        "RetryInfo": [("retry_delay", 1, "Duration", False)],
        "Duration": [("seconds", 1, INT64, False), ("nanos", 2, INT32, False)],
    },
)
RETRY_INFO_URL: Final = "type.googleapis.com/google.rpc.RetryInfo"


def status_bytes(refusal: Refusal) -> bytes:
    """A serialised google.rpc.Status, with RetryInfo if the status is retryable."""
    code = refusal.status.value
    status = _RPC["Status"](code=code.grpc, message=refusal.message)
    if code.retryable:
        delay = _RPC["Duration"](seconds=refusal.retry_seconds)
        info = _RPC["RetryInfo"](retry_delay=delay).SerializeToString()
        status.details.add(type_url=RETRY_INFO_URL, value=info)
    serialised: bytes = status.SerializeToString()
    return serialised


def status_message(body: bytes) -> str | None:
    """The message of a serialised google.rpc.Status; None if the bytes are not one."""
    try:
        message: str = _RPC["Status"].FromString(body).message
    except DecodeError:
        return None
    return message


def retry_seconds(body: bytes) -> float | None:
    """The delay of the RetryInfo in a serialised google.rpc.Status, at least 0; None if there is none."""
    try:
        for detail in _RPC["Status"].FromString(body).details:
            if detail.type_url == RETRY_INFO_URL:
                delay = _RPC["RetryInfo"].FromString(detail.value).retry_delay
                return max(0.0, float(delay.seconds + delay.nanos / 1e9))
    except DecodeError:
        return None
    return None
