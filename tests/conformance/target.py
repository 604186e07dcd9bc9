"""The receiver under test, as a client sees it: two addresses, perhaps TLS, perhaps a token."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from grpc import StatusCode

from collector.decode.protobuf.message_classes import INT32, STRING, build

__all__ = ["JSON", "PROTO", "Reply", "Target", "parse_status"]

PROTO, JSON = "application/x-protobuf", "application/json"
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TIMEOUT_SECONDS = 20

_STATUS: Any = build(
    "offrails.conformance",
    {"Status": [("code", 1, INT32, False), ("message", 2, STRING, False)]},
)["Status"]


class Reply(NamedTuple):
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def parse_status(reply: Reply) -> tuple[int, str]:
    """The google.rpc.Status in an answer, by the answer's own media type."""
    if reply.headers.get("content-type", "").startswith(PROTO):
        parsed = _STATUS.FromString(reply.body)
        return parsed.code, parsed.message
    assert reply.headers.get("content-type", "").startswith(JSON), reply
    document = json.loads(reply.body)
    return document.get("code", 0), document.get("message", "")


class _Connection(HTTPConnection):
    """On a socket that is open already."""

    def __init__(self, opened: socket.socket) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self.sock = opened


@dataclass(frozen=True)
class Target:
    """Where to send.

    Args:
        grpc: HOST:PORT or unix:PATH; "" where there is none.
        http: the same.
        ca: PEM of the authority of the server's certificate; with it TLS is spoken.
        cert: PEM with the client's certificate and key, for mTLS.
        token: a bearer token.
        limit: of one request, in bytes.
    """

    grpc: str = ""
    http: str = ""
    ca: Path | None = None
    cert: Path | None = None
    token: str = ""
    limit: int = 64 << 20

    def open(self, address: str, protocol: str = "http/1.1") -> socket.socket:
        """A connection of raw bytes, inside of TLS where that is spoken."""
        plain = self.open_plain(address)
        if self.ca is None:
            return plain
        context = ssl.create_default_context(cafile=str(self.ca))
        context.check_hostname = False
        context.set_alpn_protocols([protocol])
        if self.cert is not None:
            context.load_cert_chain(self.cert)
        return context.wrap_socket(plain, server_hostname="localhost")

    def open_plain(self, address: str) -> socket.socket:
        if address.startswith("unix:"):
            plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            plain.settimeout(TIMEOUT_SECONDS)
            plain.connect(address.removeprefix("unix:"))
            return plain
        host, port = address.rsplit(":", 1)
        return socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_SECONDS)

    def connection(self) -> HTTPConnection:
        """For several HTTP requests on one connection."""
        return _Connection(self.open(self.http))

    def request(
        self,
        body: bytes | Iterable[bytes] | None,
        content_type: str | None = PROTO,
        *,
        method: str = "POST",
        path: str = "/v1/traces",
        headers: Mapping[str, str] | None = None,
        connection: HTTPConnection | None = None,
    ) -> Reply:
        """One HTTP request."""
        sent = dict(headers or {})
        if content_type is not None:
            sent["Content-Type"] = content_type
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        used = connection or self.connection()
        try:
            used.request(method, path, body, sent)
            answer = used.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, names, answer.read())
        finally:
            if connection is None:
                used.close()

    def head(self, length: int | None, *lines: str, content_type: str = PROTO) -> bytes:
        """The head of a POST of raw bytes."""
        fixed = ["POST /v1/traces HTTP/1.1", "Host: x", f"Content-Type: {content_type}"]
        if self.token:
            fixed.append(f"Authorization: Bearer {self.token}")
        if length is not None:
            fixed.append(f"Content-Length: {length}")
        return "\r\n".join([*fixed, *lines, "", ""]).encode()

    def channel(self) -> Any:
        """A gRPC channel that shares no connection with others."""
        options: list[tuple[str, Any]] = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_send_message_length", -1),
        ]
        if self.ca is None:
            return grpc.insecure_channel(self.grpc, options)
        key = self.cert.read_bytes() if self.cert else None
        credentials = grpc.ssl_channel_credentials(self.ca.read_bytes(), key, key)
        options.append(("grpc.ssl_target_name_override", "localhost"))
        return grpc.secure_channel(self.grpc, credentials, options)

    def metadata(self) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}")] if self.token else []

    def call(
        self, body: bytes, method: str = TRACES, *, channel: Any = None, **options: Any
    ) -> bytes:
        """One gRPC call of raw bytes."""
        used = channel or self.channel()
        options.setdefault("timeout", TIMEOUT_SECONDS)
        try:
            answer: bytes = used.unary_unary(method)(body, metadata=self.metadata(), **options)
            return answer
        finally:
            if channel is None:
                used.close()

    def code(self, body: bytes, method: str = TRACES, **options: Any) -> StatusCode:
        """The status code of a gRPC call."""
        try:
            self.call(body, method, **options)
        except grpc.RpcError as error:
            found: StatusCode = error.code()
            return found
        return StatusCode.OK

    def refused(self, body: bytes, method: str = TRACES, **options: Any) -> Any:
        """The error of a gRPC call that must fail."""
        try:
            answer = self.call(body, method, **options)
        except grpc.RpcError as error:
            return error
        raise AssertionError(f"expected an error, was answered {answer!r}")
