"""`offrails doctor` against services that are well, closed, at another port, or not offrails."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collector.client.doctor import sender
from collector.receive.address import Address
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
    """Exit 0, a line for each transport that is spoken there; nothing is judged."""
    ended = run("doctor", shared.addresses[listener], "--admin", shared.addresses["admin"])

    assert ended.returncode == 0, ended
    assert ended.stdout.count("ok    ") == len(ended.stdout.splitlines()) == lines
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
