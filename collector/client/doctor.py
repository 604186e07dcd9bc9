"""`offrails doctor`: sends a test span over each transport, and says what is missing.

The span is no tool call, so nothing is judged. What senders read from their environment is read here
too: OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL, _HEADERS, _CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY, and
before each the one for traces alone (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT). Where the protocol is named, it alone is
tried, at the very address that an exporter would use.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from collector.dialects.names.session_and_agent_keys import DOCTOR_SCOPE
from collector.net.http_client import options, proxy_of, reason
from collector.receive.listener.address import Address, parse_address
from collector.receive.listener.protocol_detection import PREFACE
from collector.receive.status_codes import status_message

__all__ = ["ProbeTarget", "TransportCheck", "api_beside", "examine", "run", "sender"]

TIMEOUT_SECONDS: Final = 5
PORTS: Final = {"grpc": 4317, "http": 4318}
API_PORT: Final = 4319
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
PROTO, JSON = "application/x-protobuf", "application/json"
TRACES: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PREFIX: Final = "OTEL_EXPORTER_OTLP_"
TRACES_PATH: Final = "/v1/traces"
PROTOCOLS: Final = {"grpc": "grpc", "http/protobuf": "http_proto", "http/json": "http_json"}
"""Values of OTEL_EXPORTER_OTLP_PROTOCOL -> the transport."""


class TransportCheck(NamedTuple):
    """What came of one transport."""

    transport: str
    address: str
    problem: str
    """"" if all is well."""
    hint: str = ""
    """What to do about the problem."""
    is_untried: bool = False
    """True if nothing was sent; `hint` says why."""

    def __str__(self) -> str:
        if self.is_untried:
            return f"--    {self.transport:<10} {self.address}: {self.hint}"
        if not self.problem:
            return f"ok    {self.transport:<10} {self.address}: the test span was taken"
        hint = f"\n      {self.hint}" if self.hint else ""
        return f"FAIL  {self.transport:<10} {self.address}: {self.problem}{hint}"


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """Where to send, and with what."""

    addresses: Mapping[str, Address]
    """grpc and http."""
    tls: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    protocol: str = ""
    """A key of `PROTOCOLS`; "" if none is named."""
    path: str = TRACES_PATH
    """Path to which an exporter over HTTP posts."""
    port: int | None = None
    """The port that the endpoint names."""


def sender(endpoint: str | None, environ: Mapping[str, str]) -> ProbeTarget:
    """Return what an exporter would use for an endpoint: [http[s]://]HOST[:PORT], or unix:PATH.

    Without a port, the two usual ones; with one of these and no protocol, that transport's is it and the
    other's is the usual. A protocol that is named goes to the port that is named.

    Raises:
        ValueError: a sentence.
    """
    of_traces = environ.get(f"{PREFIX}TRACES_ENDPOINT")
    given = endpoint or of_traces or environ.get(f"{PREFIX}ENDPOINT") or "127.0.0.1"
    protocol = _variable(environ, "PROTOCOL")
    if protocol and protocol not in PROTOCOLS:
        raise ValueError(
            f"{PREFIX}PROTOCOL: expected {', '.join(PROTOCOLS)}, not {protocol[:40]!r}"
        )
    files = {
        name: Path(file) if (file := _variable(environ, variable)) else None
        for name, variable in (
            ("ca", "CERTIFICATE"),
            ("cert", "CLIENT_CERTIFICATE"),
            ("key", "CLIENT_KEY"),
        )
    }
    return ProbeTarget(
        _addresses(given, protocol),
        given.startswith("https:") or files["ca"] is not None,
        dict(_headers(_variable(environ, "HEADERS"))),
        **files,
        protocol=protocol,
        path=_path(given, is_whole=not endpoint and bool(of_traces)),
        port=None if given.startswith("unix:") else _split(given).port,
    )


def _variable(environ: Mapping[str, str], name: str) -> str:
    """A variable of exporters; the one for traces alone comes first."""
    return environ.get(f"{PREFIX}TRACES_{name}") or environ.get(f"{PREFIX}{name}") or ""


def _path(given: str, *, is_whole: bool) -> str:
    """Where an exporter over HTTP posts to: it adds the path of traces, unless the endpoint is that of traces alone."""
    if given.startswith("unix:"):
        return TRACES_PATH
    path = _split(given).path
    return path or "/" if is_whole else path.rstrip("/") + TRACES_PATH


def api_beside(who: ProbeTarget) -> str | None:
    """Where the API of a service on this machine is by default; None for one on another: it keeps its API to itself."""
    address = who.addresses["grpc"]
    if address.path:
        return f"127.0.0.1:{API_PORT}"
    return str(Address(address.host, API_PORT)) if address.host in LOOPBACK else None


def _addresses(given: str, protocol: str = "") -> dict[str, Address]:
    if given.startswith("unix:"):
        return dict.fromkeys(PORTS, parse_address(given))
    parts = _split(given)
    if parts.scheme not in ("", "http", "https"):
        raise ValueError(f"{given}: expected [http[s]://]HOST[:PORT] or unix:PATH")
    try:
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError as error:
        raise ValueError(f"{given}: {error}") from None
    if port is None or (not protocol and port in PORTS.values()):
        return {name: Address(host, usual) for name, usual in PORTS.items()}
    return dict.fromkeys(PORTS, Address(host, port))


def _split(given: str) -> SplitResult:
    return urlsplit(given if "://" in given else f"//{given}")


def _headers(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            yield name.strip().lower(), unquote(value.strip())


def examine(who: ProbeTarget) -> Iterator[TransportCheck]:
    """Send a span by gRPC, HTTP with protobuf, and HTTP with JSON; by the protocol that is named, if one is."""
    checks: dict[str, tuple[str, Callable[[ProbeTarget], TransportCheck]]] = {
        "grpc": ("grpc", _by_grpc),
        "http_proto": ("http", lambda who: _by_http(who, PROTO)),
        "http_json": ("http", lambda who: _by_http(who, JSON)),
    }
    if who.protocol:
        transport = PROTOCOLS[who.protocol]
        yield checks[transport][1](who)._replace(transport=transport)
        return
    one_port = len(set(who.addresses.values())) == 1 and not who.addresses["grpc"].path
    spoken = _spoken(who, who.addresses["grpc"]) if one_port else None
    for transport, (kind, check) in checks.items():
        if spoken not in PORTS or spoken == kind:
            yield check(who)._replace(transport=transport)
    named = spoken or next((name for name, port in PORTS.items() if port == who.port), None)
    if named in PORTS and not who.addresses["grpc"].path:
        yield _untried(named, who.addresses[named])


def _untried(spoken: str, address: Address) -> TransportCheck:
    """The other transport does not go to a port that is named: an exporter's endpoint serves one of them."""
    (other,) = PORTS.keys() - {spoken}
    return TransportCheck(
        other, str(address), "", f"is {spoken}'s: {_PORT_OF[other]}", is_untried=True
    )


def _by_grpc(who: ProbeTarget) -> TransportCheck:
    import grpc

    address = who.addresses["grpc"]
    found = TransportCheck("grpc", str(address), "")
    proxy = _proxy(who, address)
    if proxy is None and (why := _unreachable(address)):
        return found._replace(problem=why, hint=_REACH)
    arguments = [("grpc.enable_http_proxy", int(proxy is not None))]
    with (
        grpc.secure_channel(str(address), _credentials(who), arguments)
        if who.tls
        else grpc.insecure_channel(str(address), arguments)
    ) as channel:
        used: Any = channel
        try:
            used.unary_unary(TRACES)(
                _span(), timeout=TIMEOUT_SECONDS, metadata=list(who.headers.items())
            )
        except grpc.RpcError as error:
            code, details = error.code(), error.details() or ""
            hint = _GRPC_HINTS.get(code.name, "")
            if code is grpc.StatusCode.UNAVAILABLE and "busy" not in details:
                hint = _wrong_protocol(who, address, "grpc")
            return found._replace(problem=f"{code.name}: {details[:200]}", hint=hint)
    return found


def _credentials(who: ProbeTarget) -> Any:
    import grpc

    ca, key, cert = (
        file.read_bytes() if file is not None else None for file in (who.ca, who.key, who.cert)
    )
    return grpc.ssl_channel_credentials(ca, key, cert)


def _by_http(who: ProbeTarget, content_type: str) -> TransportCheck:
    address = who.addresses["http"]
    found = TransportCheck("http", str(address), "")
    if _proxy(who, address) is None and (why := _unreachable(address)):
        return found._replace(problem=why, hint=_REACH)
    body = _span() if content_type == PROTO else _json_span()
    try:
        status, text = _post(who, address, body, content_type)
    except OSError as error:
        problem = f"no answer in HTTP: {error.strerror}"
        return found._replace(problem=problem, hint=_wrong_protocol(who, address, "http"))
    if status == HTTPStatus.OK:
        return found
    if status == HTTPStatus.NOT_FOUND and (ours := _observer(who, address)):
        return found._replace(problem=ours, hint=_OBSERVER)
    hint = _HTTP_HINTS.get(status, "")
    if status == HTTPStatus.NOT_FOUND and who.path != TRACES_PATH:
        hint = _PATH.format(who.path)
    if status == HTTPStatus.BAD_REQUEST and _spoken(who, address) == "grpc":
        hint = _other("grpc")
    return found._replace(problem=f"status {status}: {text[:200]}", hint=hint)


def _observer(who: ProbeTarget, address: Address) -> str:
    """Which of our other listeners is there; "" if it is none of them."""
    try:
        ready = _ask(who, address, "GET", "/-/ready")[1].strip()
        status = _ask(who, address, "GET", "/api/v1/about")[0]
    except OSError:
        return ""
    if ready != "ready" and not ready.startswith("not ready"):
        return ""
    admin = status in (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED)  # it may ask for a token
    return f"the {'admin' if admin else 'metrics'} listener is there, and {ready}"


def _post(
    who: ProbeTarget, address: Address, body: bytes, content_type: str
) -> tuple[int, str]:
    return _ask(who, address, "POST", who.path, body, {"content-type": content_type})


def _ask(
    who: ProbeTarget,
    address: Address,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """The status and the text of one answer.

    Raises:
        OSError: there was none.
    """
    import httpx

    base = _url(who, address)
    made = options(
        base,
        timeout_seconds=TIMEOUT_SECONDS,
        proxy=_proxy(who, address),
        context=_context(who) if who.tls else None,
        headers=who.headers,
    )
    if address.path:
        made["transport"] = httpx.HTTPTransport(uds=address.path, verify=made["verify"])
    try:
        with httpx.Client(**made) as client:
            answer = client.request(method, base + path, content=body, headers=headers)
    except httpx.HTTPError as error:
        raise OSError(errno.EPROTO, reason(error)) from error
    content, text = answer.content, None
    if answer.headers.get("content-type") == PROTO:
        text = status_message(content)
    if text is None:
        text = content.decode("utf-8", "replace")
    return answer.status_code, "".join(letter for letter in text if letter.isprintable())


def _url(who: ProbeTarget, address: Address) -> str:
    """Where HTTP is spoken; a Unix socket has no place of its own."""
    scheme = "https" if who.tls else "http"
    return f"{scheme}://localhost" if address.path else f"{scheme}://{address}"


def _proxy(who: ProbeTarget, address: Address) -> str | None:
    """The proxy on the way, which senders find in their environment, too."""
    return None if address.path else proxy_of(_url(who, address))


def _context(who: ProbeTarget) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(who.ca) if who.ca else None)
    if who.cert is not None:
        context.load_cert_chain(who.cert, who.key)
    return context


def _open(
    who: ProbeTarget, address: Address, *, tls: bool, protocols: Sequence[str] = ("http/1.1",)
) -> socket.socket:
    if address.path:
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(TIMEOUT_SECONDS)
        plain.connect(address.path)
    else:
        plain = socket.create_connection((address.host, address.port), TIMEOUT_SECONDS)
    if not tls:
        return plain
    context = _context(who)
    context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(plain, server_hostname=address.host or "localhost")


def _unreachable(address: Address) -> str:
    """Why nobody can be reached there; "" if somebody can."""
    try:
        _open(ProbeTarget({}), address, tls=False).close()
    except OSError as error:
        return f"cannot connect: {error.strerror or error}"
    return ""


def _wrong_protocol(who: ProbeTarget, address: Address, wanted: str) -> str:
    """What is spoken there instead, as a hint."""
    spoken = _spoken(who, address)
    if spoken == "tls":
        return "TLS is spoken there: use https:// and OTEL_EXPORTER_OTLP_CERTIFICATE"
    if who.tls:
        return _UNTRUSTED
    if spoken not in (None, wanted):
        return _other(spoken)
    return "something that is not OTLP listens there"


def _spoken(who: ProbeTarget, address: Address) -> str | None:
    """The protocol of a port, by how it answers a request in HTTP/1.1: grpc, http, tls, None."""
    if agreed := who.tls and _agreed(who, address):
        return "grpc" if agreed == "h2" else "http"
    answer = _answer(who, address, _HTTP1)
    if answer.startswith(b"HTTP/1.1 400"):  # which a gRPC server may answer, too
        answer = _answer(who, address, _HTTP2) or answer
    if answer.startswith(b"HTTP/1.1"):
        return "http"
    if len(answer) >= 9 and answer[3] == 4:  # an HTTP/2 frame: SETTINGS
        return "grpc"
    if not who.tls and _speaks_tls(address):
        return "tls"
    return None


def _agreed(who: ProbeTarget, address: Address) -> str | None:
    """The protocol that TLS agrees on; None if it does not."""
    try:
        with _open(who, address, tls=True, protocols=("h2", "http/1.1")) as connection:
            assert isinstance(connection, ssl.SSLSocket)
            return connection.selected_alpn_protocol()
    except OSError:
        return None


def _answer(who: ProbeTarget, address: Address, asked: bytes) -> bytes:
    """The first bytes that come back; none where there are none."""
    try:
        with _open(who, address, tls=who.tls) as connection:
            connection.sendall(asked)
            return connection.recv(64)
    except OSError:
        return b""


def _speaks_tls(address: Address) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # only whether; nothing is sent
    try:
        with _open(ProbeTarget({}), address, tls=False) as plain:
            context.wrap_socket(plain).close()
    except OSError:
        return False
    return True


def _other(spoken: str) -> str:
    """What to do where the other transport is spoken."""
    (wanted,) = PORTS.keys() - {spoken}
    return f"{spoken} is spoken there, not {wanted}: {_PORT_OF[wanted]}"


_PORT_OF: Final = {
    "grpc": "gRPC has a port of its own (4317 by default); for this one, set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    "http": "HTTP has a port of its own (4318 by default); for this one, set OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
}
_PATH: Final = (
    "spans are taken at /v1/traces, and the exporter posts to {}: OTEL_EXPORTER_OTLP_ENDPOINT has no path, "
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT the whole one"
)
_UNTRUSTED: Final = (
    "is TLS spoken there, with a certificate for that name that has not expired, of an authority that is trusted: "
    "by the system, or by OTEL_EXPORTER_OTLP_CERTIFICATE=FILE?"
)
_HTTP1: Final = b"POST /v1/traces HTTP/1.1\r\nHost: doctor\r\nContent-Length: 0\r\n\r\n"
_HTTP2: Final = PREFACE + b"\0\0\0\4\0\0\0\0\0"
"""The preface, and empty settings."""
_REACH: Final = "is the service running, on this address, and does no firewall stand between?"
_OBSERVER: Final = "spans are sent to the OTLP listeners: receiver.grpc and receiver.http"
_SET_HEADERS: Final = 'set OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20TOKEN"'
_BUSY: Final = "it is alive and full; senders try again by themselves"
_GRPC_HINTS: Final = {
    "UNAUTHENTICATED": _SET_HEADERS,
    "UNIMPLEMENTED": "gRPC is spoken there, but not OTLP for traces",
    "UNAVAILABLE": _BUSY,
    "DEADLINE_EXCEEDED": "it does not answer in time",
}
_HTTP_HINTS: Final = {
    401: _SET_HEADERS,
    404: "HTTP is spoken there, but not OTLP for traces",
    415: "that encoding is not taken there",
    429: _BUSY,
    503: _BUSY,
}


def _ids() -> tuple[bytes, bytes]:
    return secrets.token_bytes(16), secrets.token_bytes(8)


def _span() -> bytes:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "offrails-doctor"
    trace_id, span_id = _ids()
    scope = group.scope_spans.add()
    scope.scope.name = DOCTOR_SCOPE
    scope.spans.add(trace_id=trace_id, span_id=span_id, name="offrails doctor", kind=1)
    return request.SerializeToString()


def _json_span() -> bytes:
    trace_id, span_id = _ids()
    span = {
        "traceId": trace_id.hex(),
        "spanId": span_id.hex(),
        "name": "offrails doctor",
        "kind": 1,
    }
    name = {"key": "service.name", "value": {"stringValue": "offrails-doctor"}}
    scope = {"scope": {"name": DOCTOR_SCOPE}, "spans": [span]}
    group = {"resource": {"attributes": [name]}, "scopeSpans": [scope]}
    return json.dumps({"resourceSpans": [group]}).encode()


def run(endpoint: str | None) -> bool:
    """Print the findings; True if all is well.

    Raises:
        ValueError: a sentence: the endpoint, or a file of the environment, cannot be used.
    """
    found = []
    try:
        for finding in examine(sender(endpoint, os.environ)):
            print(finding, flush=True)  # noqa: T201 - this is the verb's output
            found.append(finding)
    except (FileNotFoundError, PermissionError) as error:
        raise ValueError(f"{error.filename}: {error.strerror}") from error
    return not any(finding.problem for finding in found)
