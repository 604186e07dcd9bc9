"""`offrails doctor` against services that are well, closed, at another port, or not offrails."""

from __future__ import annotations

import json
import secrets
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collector.client.doctor import sender
from collector.receive.listener.address import Address
from tests.end_to_end.certificates import authority, have_openssl, issue
from tests.end_to_end.service import run

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

HEADERS = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20tkn-1"}


def port(service: Service, name: str) -> str:
    return service.addresses[name].rsplit(":", 1)[1]


@pytest.mark.parametrize(("listener", "lines"), [("grpc", 1), ("http", 2)])
def test_a_port_that_is_well(shared: Service, listener: str, lines: int) -> None:
    """Exit 0, a line for each transport that is spoken there, and one that says where the other is; nothing is judged."""
    ended = run("doctor", shared.addresses[listener], "--admin", shared.addresses["admin"])

    assert ended.returncode == 0, ended
    *spoken, other = ended.stdout.splitlines()
    assert ended.stdout.count("ok    ") == len(spoken) == lines
    assert other.startswith(f"--    {'http' if listener == 'grpc' else 'grpc'}")
    assert (
        f"set OTEL_EXPORTER_OTLP_PROTOCOL={'grpc' if listener == 'grpc' else 'http/protobuf'}"
        in other
    )
    assert not any("doctor" in str(each) for each in shared.judgements())
    assert ended.stderr == "", "its history is complete"


def test_until_when_sessions_may_be_older(serve: Serve) -> None:
    """`doctor` says what the API says of it: until idle time has passed from the start."""
    service = serve()
    history = service.get("/api/v1/about").json()["history"]
    assert (history["complete"], history["off_by"]) == (False, "OFFRAILS_HISTORY=complete")

    ended = run("doctor", service.addresses["http"], "--admin", service.addresses["admin"])

    assert ended.returncode == 0, ended
    when = datetime.fromtimestamp(history["joined_until"] / 1e9, UTC)
    assert f"until {when:%Y-%m-%dT%H:%M:%SZ}, a session may have begun" in ended.stderr


def test_unix_sockets(serve: Serve, tmp_path: Path) -> None:
    """Each transport has its own socket; for the wrong one, the right one is named."""
    service = serve("--grpc", f"unix:{tmp_path}/g", "--http", f"unix:{tmp_path}/h")

    ended = run("doctor", service.addresses["grpc"])

    first, *rest = ended.stdout.splitlines()
    assert first.startswith("ok    grpc")
    assert any("grpc is spoken there" in line for line in rest)


def test_a_token_is_missing(serve: Serve, tmp_path: Path) -> None:
    """It names the setting for the token; with that, all is well."""
    (tmp_path / "tokens").write_text("tkn-1\n")
    file = str(tmp_path / "tokens")
    service = serve(OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE=file)
    for listener in ("grpc", "http"):
        without = run("doctor", service.addresses[listener])
        assert without.returncode == 1
        assert "OTEL_EXPORTER_OTLP_HEADERS" in without.stdout
        assert ("status 401: expected" in without.stdout) == (listener == "http")
        assert run("doctor", service.addresses[listener], **HEADERS).returncode == 0


def test_tls_is_missing(serve: Serve, tmp_path: Path) -> None:
    """Plain text to a port with TLS is named; with the authority's certificate, all is well."""
    if not have_openssl():
        pytest.skip("the openssl program makes the certificates")
    signer = authority(tmp_path)
    server = issue(signer, tmp_path, "server")
    service = serve(
        OFFRAILS_RECEIVER_TLS_CERT=str(server.cert), OFFRAILS_RECEIVER_TLS_KEY=str(server.key)
    )
    for listener in ("grpc", "http"):
        without = run("doctor", service.addresses[listener])
        assert without.returncode == 1
        assert "TLS is spoken there" in without.stdout
        endpoint = f"https://localhost:{port(service, listener)}"
        untrusted = run("doctor", endpoint)
        assert untrusted.returncode == 1
        assert "OTEL_EXPORTER_OTLP_CERTIFICATE=FILE" in untrusted.stdout
        ended = run("doctor", endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(signer.cert))
        assert ended.returncode == 0, ended


def test_the_other_listeners_are_named(serve: Serve, tmp_path: Path) -> None:
    """If spans go to the metrics or admin port, it says so, with TLS and without."""
    service = serve()
    for listener in ("metrics", "admin"):
        ended = run("doctor", service.addresses[listener])
        assert ended.returncode == 1
        assert f"the {listener} listener is there, and ready" in ended.stdout
        assert "receiver.http" in ended.stdout
    if not have_openssl():
        return
    signer = authority(tmp_path)
    server = issue(signer, tmp_path, "server")
    given = {"CERT": str(server.cert), "KEY": str(server.key)}
    guarded = serve(**{f"OFFRAILS_ADMIN_TLS_{name}": file for name, file in given.items()})  # type: ignore[arg-type]
    assert "TLS is spoken there" in run("doctor", guarded.addresses["admin"]).stdout
    endpoint = f"https://localhost:{port(guarded, 'admin')}"
    ended = run("doctor", endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE=str(signer.cert))
    assert "the admin listener is there, and ready" in ended.stdout


def test_nobody_and_nothing_there() -> None:
    """A closed port and a silent one give exit 1 and a reason; a bad endpoint gives exit 2."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = run("doctor", f"127.0.0.1:{taken.getsockname()[1]}")

    assert closed.returncode == 1
    assert closed.stdout.count("cannot connect") == 3
    assert run("doctor", "127.0.0.1:port").returncode == 2
    other = run("doctor", "ftp://127.0.0.1")
    assert (other.returncode, other.stdout) == (2, "")
    assert "ftp://127.0.0.1: expected [http[s]://]HOST[:PORT] or unix:PATH" in other.stderr
    missing = run("doctor", "https://127.0.0.1:1", OTEL_EXPORTER_OTLP_CERTIFICATE="/no/such")
    assert missing.returncode in {1, 2}


def test_the_environment_of_exporters() -> None:
    """Endpoint and headers are read as exporters read them."""
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example:4318/",
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x, a = b",
    }

    who = sender(None, environ)

    assert who.addresses == {
        "grpc": Address("collector.example", 4317),
        "http": Address("collector.example", 4318),
    }
    assert who.tls
    assert who.headers == {"authorization": "Bearer x", "a": "b"}
    assert sender("h:5", {}).addresses == dict.fromkeys(("grpc", "http"), Address("h", 5))


@pytest.mark.parametrize(
    ("protocol", "listener"),
    [("http/protobuf", "grpc"), ("http/json", "grpc"), ("grpc", "http")],
)
def test_the_protocol_of_the_exporter_goes_to_the_port_it_names(
    shared: Service, protocol: str, listener: str
) -> None:
    """A protocol that is not spoken at that port fails, and the answer names the port for it; so for traces alone."""
    other = "http" if listener == "grpc" else "grpc"
    for variable in ("", "TRACES_"):
        given = {
            f"OTEL_EXPORTER_OTLP_{variable}ENDPOINT": f"http://{shared.addresses[listener]}/v1/traces"
            if variable
            else f"http://{shared.addresses[listener]}",
            f"OTEL_EXPORTER_OTLP_{variable}PROTOCOL": protocol,
        }
        ended = run("doctor", "--admin", shared.addresses["admin"], **given)
        assert ended.returncode == 1, ended
        assert ended.stdout.count("FAIL  ") == 1
        assert f"{listener} is spoken there, not {other}" in ended.stdout
        assert f"({4318 if other == 'http' else 4317} by default)" in ended.stdout

    right = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    ended = run(
        "doctor", shared.addresses[other], "--admin", shared.addresses["admin"], **right
    )
    assert (ended.returncode, ended.stdout.count("ok    ")) == (0, 1), ended


def test_an_endpoint_with_the_path_of_traces_is_named(shared: Service) -> None:
    """The exporter adds the path to one variable, and does not add it to the other."""
    address, http = shared.addresses["http"], {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    for name, path in (("ENDPOINT", "/v1/traces"), ("TRACES_ENDPOINT", "")):
        given = {f"OTEL_EXPORTER_OTLP_{name}": f"http://{address}{path}"}
        ended = run("doctor", **http, **given)
        assert ended.returncode == 1, ended
        assert "spans are taken at /v1/traces, and the exporter posts to /" in ended.stdout


def test_the_usual_ports_are_told_apart() -> None:
    """An endpoint that names a usual port serves one transport: the other one's port is named beside it."""
    assert sender("http://h:4317", {}).addresses["http"] == Address("h", 4318)
    with_protocol = sender("http://h:4317", {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"})
    assert with_protocol.addresses["http"] == Address("h", 4317)
    with pytest.raises(ValueError, match=r"PROTOCOL: expected grpc, .*, not 'http'"):
        sender(None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http"})


def test_spans_without_a_tool_call_are_told(serve: Serve) -> None:
    """Its own spans are no traffic and no `no_dialect`; of others it names the scopes, and what to turn on."""
    service = serve(OFFRAILS_HISTORY="complete")
    address, admin = service.addresses["http"], ("--admin", service.addresses["admin"])

    assert "note" not in run("doctor", address, *admin).stdout
    assert service.get("/api/v1/seen").json()["scopes"] == []
    assert service.metric("offrails_coverage_total", reason="no_dialect") == 0

    _send(service, "web", **{"http.request.method": "GET"})
    said = run("doctor", address, *admin).stdout
    assert "no span so far was a tool call; their scopes: web\n" in said
    assert "none is of an agent or a model" in said

    _send(service, "llm", **{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    said = run("doctor", address, *admin).stdout
    assert "their scopes: web, llm\n" in said
    assert "some spans are of agents or models" in said

    _send(service, "llm", **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"})
    assert "note" not in run("doctor", address, *admin).stdout
    said = run("doctor", address, *admin, OTEL_SERVICE_NAME="other").stdout
    assert "no tool call of service 'other' (OTEL_SERVICE_NAME) was seen so far" in said
    assert "seen were: unknown (docs/" in said


def _send(service: Service, scope: str, **attributes: str) -> None:
    """One span of that scope, over HTTP as JSON."""
    span = {
        "traceId": secrets.token_hex(16),
        "spanId": secrets.token_hex(8),
        "name": "made",
        "kind": 1,
        "startTimeUnixNano": str(time.time_ns()),
        "endTimeUnixNano": str(time.time_ns()),
        "attributes": [
            {"key": key, "value": {"stringValue": each}} for key, each in attributes.items()
        ],
    }
    body = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [span]}]}]}
    reply = service.post(json.dumps(body).encode())
    assert reply.status == 200
