"""Access to the receivers: TLS, tokens, CORS, bounds and the log."""

from __future__ import annotations

import gzip
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.conformance.bodies import BODIES, PROTO_BODY
from tests.conformance.target import JSON, PROTO, Target, parse_status
from tests.end_to_end.certificates import Pair, authority, have_openssl, issue
from tests.end_to_end.service import ANYWHERE, BUILTIN_ONLY, eventually, run
from tests.end_to_end.traffic import as_proto

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service
    from tests.end_to_end.traffic import Rover

SECRET = "tkn-4f9c"  # only here
OTHER = "tkn-77aa"
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def target_of(service: Service, **options: object) -> Target:
    target = Target(grpc=service.addresses["grpc"], http=service.addresses["http"])
    return replace(target, **options)  # type: ignore[arg-type]


def settings(**given: object) -> dict[str, Any]:
    """Variables of the receiver's settings."""
    return {f"OFFRAILS_RECEIVER_{name.upper()}": str(value) for name, value in given.items()}


@pytest.fixture
def signer(tmp_path: Path) -> Pair:
    if not have_openssl():
        pytest.skip("the openssl program makes the certificates")
    return authority(tmp_path)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"# who may send\n\nblue: {SECRET}\n{OTHER}\n")
    return file


def serial(target: Target) -> str:
    """The serial number of the server's certificate."""
    with target.open(target.http) as connection:
        found = connection.getpeercert()  # type: ignore[attr-defined]
    return str(found["serialNumber"])


# --- TLS -------------------------------------------------------------------------------------


def test_tls_and_nothing_else(serve: Serve, signer: Pair, tmp_path: Path) -> None:
    """Both transports use TLS; plain text is refused and logged."""
    server = issue(signer, tmp_path, "server")
    service = serve(**settings(tls_cert=server.cert, tls_key=server.key))
    target = target_of(service, ca=signer.cert)

    assert target.call(PROTO_BODY) == b""
    assert target.request(PROTO_BODY).status == 200
    assert target_of(service).code(PROTO_BODY, timeout=5) is UNAVAILABLE
    with pytest.raises(OSError):  # noqa: PT011 - a reset or an end, as the kernel likes
        target_of(service).request(PROTO_BODY)


def test_mtls(serve: Serve, signer: Pair, tmp_path: Path) -> None:
    """With a client authority, only clients with its certificate are accepted."""
    server, client = issue(signer, tmp_path, "server"), issue(signer, tmp_path, "client")
    stranger = issue(authority(tmp_path, "other"), tmp_path, "stranger")
    service = serve(
        **settings(tls_cert=server.cert, tls_key=server.key, tls_client_ca=signer.cert)
    )
    known = target_of(service, ca=signer.cert, cert=client.together())

    assert known.call(PROTO_BODY) == b""
    assert known.request(PROTO_BODY).status == 200
    for cert in (None, stranger.together()):
        unknown = target_of(service, ca=signer.cert, cert=cert)
        assert unknown.code(PROTO_BODY, timeout=5) is UNAVAILABLE
        with pytest.raises((OSError, Exception)):
            unknown.request(PROTO_BODY)


def test_certificates_and_authorities_are_reloaded(
    serve: Serve, signer: Pair, tmp_path: Path
) -> None:
    """New connections get the new files without a restart; half a renewal changes nothing."""
    server, client = issue(signer, tmp_path, "server"), issue(signer, tmp_path, "client")
    trusted = tmp_path / "trusted.pem"
    shutil.copy(signer.cert, trusted)
    service = serve(**settings(tls_cert=server.cert, tls_key=server.key, tls_client_ca=trusted))
    old = target_of(service, ca=signer.cert, cert=client.together())
    before = serial(old)

    second = authority(tmp_path, "second")
    renewed = issue(second, tmp_path, "renewed")
    newcomer = issue(second, tmp_path, "newcomer")
    new = target_of(service, ca=second.cert, cert=newcomer.together())
    renewed.cert.replace(server.cert)
    eventually(lambda: serial(old) == before and service.events("certificate_not_reloaded"))
    renewed.key.replace(server.key)
    second.cert.replace(trusted)
    new = replace(new, ca=trusted)

    eventually(lambda: _takes(new))
    assert serial(new) != before
    eventually(lambda: new.code(PROTO_BODY, timeout=5) is grpc.StatusCode.OK)
    lenient = replace(old, ca=trusted)
    assert lenient.code(PROTO_BODY, timeout=5) is UNAVAILABLE
    assert not _takes(lenient)


def _takes(target: Target) -> bool:
    try:
        return target.request(PROTO_BODY).status == 200
    except OSError:
        return False
    except Exception:  # noqa: BLE001 - http.client has errors of its own for an early end
        return False


# --- tokens ----------------------------------------------------------------------------------


def test_a_token_is_asked_for(serve: Serve, tokens: Path) -> None:
    """Without a valid token: 401 with a Status and the scheme, or UNAUTHENTICATED; no body is read."""
    service = serve(**settings(auth_bearer_tokens_file=tokens))
    for token in ("", "wrong", SECRET[:-1], SECRET + "x", "blue", f"blue: {SECRET}"):
        target = target_of(service, token=token)
        for body, kind in ((PROTO_BODY, PROTO), (b"{", JSON)):
            reply = target.request(body, kind)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert reply.headers["content-type"] == kind
            assert parse_status(reply)[0] == 16
        assert target.code(PROTO_BODY) is grpc.StatusCode.UNAUTHENTICATED
    for token in (SECRET, OTHER):
        target = target_of(service, token=token)
        assert target.request(PROTO_BODY).status == 200
        assert target.call(PROTO_BODY) == b""
    assert service.metric("offrails_ingest_spans_total") == 4
    health = "/grpc.health.v1.Health/Check"
    assert target_of(service).call(b"", health) == b"\x08\x01"


def test_tokens_are_reloaded_and_never_told(serve: Serve, tokens: Path) -> None:
    """An added token works, a removed one does not, and no output holds any token."""
    service = serve(**settings(auth_bearer_tokens_file=tokens), OFFRAILS_LOG_LEVEL="debug")
    old, new = target_of(service, token=SECRET), target_of(service, token="tkn-new")
    assert old.request(PROTO_BODY).status == 200

    tokens.write_text("green: tkn-new\n")
    eventually(lambda: new.request(PROTO_BODY).status == 200)
    assert old.request(PROTO_BODY).status == 401
    tokens.write_text("green: tkn-new\na b c\n")
    eventually(
        lambda: (new.request(PROTO_BODY).status, service.events("tokens_not_reloaded"))[1]
    )
    assert new.request(PROTO_BODY).status == 200

    told = (
        "\n".join(service.out + service.err) + service.get("/metrics", "metrics").body.decode()
    )
    assert not any(secret in told for secret in (SECRET, OTHER, "tkn-new"))


def test_the_name_of_the_token_keeps_tenants_apart(
    serve: Serve, tokens: Path, rover: Callable[..., Rover]
) -> None:
    """The same session id of two senders is two sessions. No sender can claim another's name."""
    service = serve(
        "--specs",
        "dfa_specs",
        **settings(auth_bearer_tokens_file=tokens),
        OFFRAILS_HISTORY="complete",
    )
    session = rover().calls("unlock_safety", "move")
    plain = as_proto(session.spans)
    claims = {"service.name": "farm-rover", "offrails.sender": "blue"}
    forged = as_proto(rover(session.session).calls("water").spans, resource=claims)

    for token, body in ((SECRET, plain), (OTHER, forged)):
        assert target_of(service, token=token).request(body).status == 200

    found = {each["namespace"]: each["calls"] for each in service.judgements(session.session)}
    assert found == {"blue": 2, "unnamed": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "there is no token in it"),
        (b"# nobody\n", "there is no token in it"),
        (b"ok: fine\nna/me: tkn\n", "line 2: expected TOKEN or NAME: TOKEN"),
        (b"a b c\n", "line 1: expected"),
        (b"\xff\xfe\n", "expected UTF-8 text"),
    ],
)
def test_bad_token_files_end_the_start(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    """Exit 2 and one line, which does not show the file's contents."""
    file = tmp_path / "tokens"
    if content is not None:
        file.write_bytes(content)

    ended = run("serve", **settings(auth_bearer_tokens_file=file), **ANYWHERE)

    assert ended.returncode == 2
    variable = "OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE"
    key = "receiver.auth.bearer.tokens_file"
    assert ended.stderr.startswith(f"offrails: {variable}: {key}: {file}: ")
    assert said in ended.stderr
    assert "tkn" not in ended.stderr.replace(str(file), "")


def test_bad_certificates_end_the_start(tmp_path: Path) -> None:
    """Exit 2 and one sentence that names the file."""
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    for cert, key in ((tmp_path / "missing.pem", "receiver.tls.cert"), (junk, "receiver.tls")):
        ended = run("serve", **settings(tls_cert=cert, tls_key=junk), **ANYWHERE)
        assert ended.returncode == 2
        assert ended.stderr.startswith(f"offrails: OFFRAILS_RECEIVER_TLS_CERT: {key}: {cert}")
        assert ended.stderr.count("\n") == 1


def test_a_public_bind_without_protection_is_a_warning(serve: Serve, tokens: Path) -> None:
    """The warning names the listener and what is missing. On the loopback there is none."""
    service = serve("--http", "0.0.0.0:0")
    guarded = serve("--http", "0.0.0.0:0", **settings(auth_bearer_tokens_file=tokens))

    (event,) = service.logged("open_to_others")
    assert (event["listener"], event["level"]) == ("http", "warning")
    assert event["missing"] == ["receiver.tls", "receiver.auth or receiver.tls.client_ca"]
    assert [each["missing"] for each in guarded.logged("open_to_others")] == [["receiver.tls"]]


def test_each_token_has_its_share(serve: Serve, tokens: Path) -> None:
    """One sender's flood is refused as retryable; the others' requests are accepted."""
    limits = {f"auth_bearer_limits_{name}": 0.5 for name in ("requests_per_second",)}
    service = serve(**settings(auth_bearer_tokens_file=tokens, **limits))
    blue, other = (target_of(service, token=token) for token in (SECRET, OTHER))

    assert blue.request(PROTO_BODY).status == 200
    for content_type in (PROTO, JSON):
        reply = blue.request(BODIES["json" if content_type == JSON else "pb"], content_type)
        assert reply.status == 429
        assert reply.headers["retry-after"] in {"1", "2"}
        assert "share" in parse_status(reply)[1]
    error = blue.refused(PROTO_BODY)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert b"RetryInfo" in dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert other.call(PROTO_BODY) == b""

    throttled = partial(service.metric, "offrails_requests_throttled_total")
    assert throttled(sender="blue", reason="requests_rate") == 3
    assert throttled(sender="unnamed") == 0
    eventually(lambda: blue.request(PROTO_BODY).status == 200)


def test_the_share_of_bytes(serve: Serve, tokens: Path) -> None:
    """Bytes a second are paid on credit by both transports; bytes in flight are one's own."""
    service = serve(
        **settings(auth_bearer_tokens_file=tokens, max_request_bytes=50_000),
        **settings(
            auth_bearer_limits_bytes_per_second=1_000, auth_bearer_limits_inflight_bytes=2_000
        ),
    )
    blue, other = (target_of(service, token=token) for token in (SECRET, OTHER))
    large = bytes([0x9A, 0x06, 0xE0, 0x5D]) + b"x" * 12_000  # an unknown field

    assert blue.call(large) == b""
    reply = blue.request(PROTO_BODY)
    assert reply.status == 429
    assert 8 <= int(reply.headers["retry-after"]) <= 12
    with hold(other, 49_000, 48_000):
        eventually(lambda: other.code(large) is grpc.StatusCode.RESOURCE_EXHAUSTED)
    throttled = partial(service.metric, "offrails_requests_throttled_total")
    assert throttled(sender="blue", reason="bytes_rate") == 1
    assert throttled(sender="unnamed") >= 1


# --- the other listeners -----------------------------------------------------------------------


def _over_tls(service: Service, listener: str, path: str, ca: Path, cert: Path | None) -> int:
    """The status of a GET from one of them."""
    target = Target(http=service.addresses[listener], ca=ca, cert=cert)
    return target.request(None, None, method="GET", path=path).status


def test_metrics_and_admin_have_certificates_of_their_own(
    serve: Serve, signer: Pair, tmp_path: Path
) -> None:
    """One has TLS, the other mTLS, and the OTLP ports stay as they were."""
    server, client = issue(signer, tmp_path, "server"), issue(signer, tmp_path, "client")
    pair = {"CERT": str(server.cert), "KEY": str(server.key)}
    given: dict[str, Any] = {
        f"OFFRAILS_METRICS_TLS_{name}": each for name, each in pair.items()
    }
    given |= {f"OFFRAILS_ADMIN_TLS_{name}": each for name, each in pair.items()}
    service = serve(**given, OFFRAILS_ADMIN_TLS_CLIENT_CA=str(signer.cert))

    assert target_of(service).request(PROTO_BODY).status == 200
    assert _over_tls(service, "metrics", "/metrics", signer.cert, None) == 200
    assert _over_tls(service, "admin", "/api/v1/seen", signer.cert, client.together()) == 200
    with pytest.raises(OSError):  # noqa: PT011 - an alert of TLS, or an end
        _over_tls(service, "admin", "/api/v1/seen", signer.cert, None)
    for listener in ("metrics", "admin"):
        with pytest.raises((OSError, HTTPException)):
            service.get("/-/ready", listener)


def test_certificates_of_the_other_listeners_are_reloaded(
    serve: Serve, signer: Pair, tmp_path: Path
) -> None:
    """They are reloaded without a restart, like the receiver's."""
    server = issue(signer, tmp_path, "server")
    given: dict[str, Any] = {
        "OFFRAILS_METRICS_TLS_CERT": str(server.cert),
        "OFFRAILS_METRICS_TLS_KEY": str(server.key),
    }
    service = serve(**given)
    target = Target(http=service.addresses["metrics"], ca=signer.cert)
    before = serial(target)
    renewed = issue(signer, tmp_path, "renewed")
    renewed.key.replace(server.key)
    renewed.cert.replace(server.cert)
    eventually(lambda: serial(target) != before)


def test_bad_certificates_name_their_section(tmp_path: Path) -> None:
    """Exit 2 and one sentence, whichever listener it is."""
    for section in ("metrics_tls", "admin_tls"):
        variables = {
            f"OFFRAILS_{section.upper()}_{name}": str(tmp_path / "no")
            for name in ("CERT", "KEY")
        }
        ended = run("serve", **variables, **ANYWHERE)
        assert ended.returncode == 2
        assert f"_CERT: {section}.cert: " in ended.stderr


def test_an_open_api_is_a_warning(serve: Serve) -> None:
    """The admin API without a token is logged as a warning."""
    service = serve("--admin", "0.0.0.0:0")
    (event,) = service.logged("open_to_others")
    assert (event["listener"], event["missing"]) == ("admin", ["admin_tls.client_ca"])


# --- CORS ------------------------------------------------------------------------------------


def test_cors(serve: Serve, tokens: Path) -> None:
    """Pages of the origins may send, errors included; others are granted nothing."""
    origins = "https://*.farm.example,https://one.example"
    service = serve(**settings(cors_origins=origins, auth_bearer_tokens_file=tokens))
    stranger, known = target_of(service), target_of(service, token=SECRET)
    asked = {"Access-Control-Request-Method": "POST"}

    for origin in ("https://a.farm.example", "https://one.example"):
        preflight = stranger.request(
            None, None, method="OPTIONS", headers={"Origin": origin, **asked}
        )
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == origin
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        for target, status in ((stranger, 401), (known, 200)):
            reply = target.request(PROTO_BODY, headers={"Origin": origin})
            assert reply.status == status
            assert reply.headers["access-control-allow-origin"] == origin
            assert reply.headers["vary"] == "origin"
    for origin in ("https://evil.example", "https://farm.example.evil", "null"):
        preflight = stranger.request(
            None, None, method="OPTIONS", headers={"Origin": origin, **asked}
        )
        assert "access-control-allow-origin" not in preflight.headers
        assert known.request(PROTO_BODY, headers={"Origin": origin}).status == 403


BAD_ORIGIN = {"Origin": "https://evil.example"}
REBOUND = {"Host": "evil.example:4318", "Origin": "http://evil.example:4318"}


def test_pages_of_other_sites(serve: Serve) -> None:
    """Requests from another site's page are refused, even under a DNS name that points here."""
    service = serve(
        OFFRAILS_RECEIVER_NAMES="Ours.example", OFFRAILS_METRICS_NAMES="ours.example"
    )
    target = target_of(service)
    body = b'{"resourceSpans": []}'

    def sent(content_type: str, **headers: str) -> int:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return target.request(body, content_type, headers=headers).status

    for headers in (BAD_ORIGIN, {"Origin": "null"}, REBOUND, {"Host": "evil.example"}):
        assert sent(JSON, **headers) == 403
    own = {"Origin": f"http://{service.addresses['http']}", "Host": service.addresses["http"]}
    for headers in (own, {"Host": "ours.example:80"}, {"Host": "192.0.2.1"}, {"Host": "x"}):
        assert sent(JSON, **headers) == 200

    assert service.get("/metrics", "metrics", Host="evil.example").status == 403
    assert service.get("/-/healthy", "metrics", Host="evil.example").status == 200
    for host in ("localhost:9464", "192.0.2.1:9464", "[2001:db8::1]", "OURS.example"):
        assert service.get("/metrics", "metrics", Host=host).status == 200


# --- bounds ----------------------------------------------------------------------------------


@pytest.fixture
def held(serve: Serve) -> Iterator[tuple[Service, list[socket.socket]]]:
    """A service with room for two requests or 100 kB, and connections to close."""
    service = serve(
        **settings(max_request_bytes=50_000, max_inflight_bytes=100_000),
        **settings(max_inflight_requests=3),
    )
    connections: list[socket.socket] = []
    yield service, connections
    for connection in connections:
        connection.close()


def hold(target: Target, length: int, sent: int) -> socket.socket:
    """A request whose body does not come to its end."""
    connection = target.open(target.http)
    head = target.head(length, "Expect: 100-continue")
    connection.sendall(head)
    assert connection.recv(100).startswith(b"HTTP/1.1 100")
    connection.sendall(b"x" * sent)
    return connection


def test_too_many_requests_at_once(held: tuple[Service, list[socket.socket]]) -> None:
    """503 with Retry-After, UNAVAILABLE with RetryInfo; and room again when they have ended."""
    service, connections = held
    target = target_of(service)
    connections += [hold(target, 100, 1) for _ in range(3)]

    reply = target.request(PROTO_BODY)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert "busy" in parse_status(reply)[1]
    error = target.refused(PROTO_BODY)
    assert error.code() is UNAVAILABLE
    assert b"RetryInfo" in dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert service.metric("offrails_ingest_spans_total") == 0

    for connection in connections:
        connection.close()
    eventually(lambda: target.request(PROTO_BODY).status == 200)
    assert target.call(PROTO_BODY) == b""


def test_too_many_bytes_at_once(held: tuple[Service, list[socket.socket]]) -> None:
    """A request that does not fit beside the others is refused as retryable, and fits later."""
    service, connections = held
    target = target_of(service)
    connections += [hold(target, 50_000, 49_900) for _ in range(2)]
    large = bytes([0x9A, 0x06, 0xE0, 0x5D]) + b"x" * 12_000  # an unknown field

    eventually(lambda: target.request(large).status == 503)
    assert target.code(large) is UNAVAILABLE
    for connection in connections:
        connection.close()
    eventually(lambda: target.request(large).status == 200)


def test_slow_clients_are_sent_away(serve: Serve) -> None:
    """Headers or a body that are late get 408 with a Status, and other clients are served."""
    service = serve(**settings(head_seconds=1, body_seconds=1))
    target = target_of(service)
    silent = target.open(target.http)
    in_head = target.open(target.http)
    in_head.sendall(b"POST /v1/traces HTTP/1.1\r\nHost:")
    in_body = hold(target, 100, 1)
    channel = target.channel()
    stream = channel.stream_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
    with ThreadPoolExecutor(1) as pool:
        gone = pool.submit(in_body.recv, 10_000)
        call = stream.future(iter(gone.result, None), timeout=20)
        assert target.request(PROTO_BODY).status == 200
        assert silent.recv(1000) == b""
        assert in_head.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert gone.result().startswith(b"HTTP/1.1 408 ")
    call.cancel()
    channel.close()
    for connection in (silent, in_head, in_body):
        connection.close()


def test_a_silent_grpc_stream_is_ended(serve: Serve) -> None:
    """A call whose message does not come in time is DEADLINE_EXCEEDED."""
    service = serve(**settings(body_seconds=0.5))
    target = target_of(service)
    channel = target.channel()
    call = channel.stream_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
    silent, never = socket.socketpair()
    with silent, never:
        never.settimeout(5)
        future = call.future(iter(lambda: never.recv(1), b""), timeout=20)
        assert future.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "in time" in future.details()
    channel.close()


def test_a_crowd_of_idle_connections_makes_room(serve: Serve) -> None:
    """Beyond the bound, the connection that was silent longest is closed, and new clients are served."""
    service = serve(**settings(max_connections=20))
    target = target_of(service)
    idle = [target.open(target.http) for _ in range(60)]
    for _ in range(5):
        assert target.request(PROTO_BODY).status == 200
    assert idle[0].recv(10) == b""
    for connection in idle:
        connection.close()


def test_other_protocols_are_named_once(serve: Serve) -> None:
    """gRPC or TLS on the HTTP port is a sentence in the log, however often it comes."""
    service = serve()
    wrong = target_of(service, grpc=service.addresses["http"])
    for _ in range(3):
        assert wrong.code(PROTO_BODY, timeout=5) is UNAVAILABLE
        with wrong.open(wrong.http) as connection:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40))
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")

    eventually(lambda: len(service.events("foreign_protocol")) >= 2)
    named = [event["protocol"] for event in service.events("foreign_protocol")]
    assert sorted(named) == ["http2", "tls"]
    assert wrong.request(gzip.compress(PROTO_BODY), headers={"Content-Encoding": "gzip"})


@pytest.mark.parametrize("listener", ["metrics", "admin", "http"])
def test_the_port_that_is_spoken_to_is_named(serve: Serve, listener: str) -> None:
    """TLS on a port without TLS gets 400, and the log names the port."""
    service = serve()
    wrong = target_of(service, http=service.addresses[listener])
    with wrong.open(wrong.http) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40))
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")

    (event,) = service.logged("foreign_protocol")
    name = "HTTP" if listener == "http" else listener
    assert event["reason"] == f"TLS was spoken on the {name} port, which has no TLS"


@BUILTIN_ONLY
def test_http_on_the_grpc_port_is_named(serve: Serve) -> None:
    """A sender of HTTP sees why, the log has one sentence and the counter every connection."""
    service = serve()
    wrong = target_of(service, http=service.addresses["grpc"])
    for _ in range(3):
        answer = wrong.request(PROTO_BODY)
        assert answer.status == 400
        assert b"gRPC over HTTP/2 is spoken here" in answer.body

    (event,) = service.logged("foreign_protocol")
    assert event["protocol"] == "http1"
    assert "receiver.http" in event["reason"]
    assert service.metric("offrails_foreign_protocol_total", protocol="http1") == 3
    assert wrong.code(PROTO_BODY, timeout=5) is grpc.StatusCode.OK


def test_connections_grow_old(serve: Serve) -> None:
    """After its maximum age a connection is closed with a response, so that load spreads again."""
    service = serve(**settings(keepalive_max_age_seconds=1))
    target = target_of(service)
    connection = target.connection()
    assert target.request(PROTO_BODY, connection=connection).headers.get("connection") is None

    def old() -> bool:
        reply = target.request(PROTO_BODY, connection=connection)
        return reply.headers.get("connection") == "close"

    eventually(old)
    connection.close()


def test_health_is_watched(serve: Serve) -> None:
    """A watcher gets SERVING at once and NOT_SERVING at the end; for an unknown service, SERVICE_UNKNOWN."""
    service = serve()
    with target_of(service).channel() as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        ours, unknown = watch(b"", timeout=20), watch(b"\x0a\x04nope", timeout=20)
        assert next(ours) == b"\x08\x01"
        assert next(unknown) == b"\x08\x03"
        service.terminate()
        assert [next(ours), next(unknown)] == [b"\x08\x02"] * 2
        assert list(ours) == []
        assert ours.code() is grpc.StatusCode.OK
        assert service.wait() == 0


@BUILTIN_ONLY
def test_reflection(serve: Serve) -> None:
    """Off by default; when it is on, it lists the services and gives their files."""
    method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    closed = target_of(serve())
    opened = target_of(serve(**settings(reflection="true")))
    list_services, by_symbol = (
        b"\x3a\x01*",
        b"\x22\x35" + b"opentelemetry.proto.collector.trace.v1.TraceService",
    )
    by_symbol = bytes([0x22, len(by_symbol) - 2]) + by_symbol[2:]

    with closed.channel() as channel:
        call = channel.stream_stream(method)(iter([list_services]), timeout=10)
        assert call.code() is grpc.StatusCode.UNIMPLEMENTED
    with opened.channel() as channel:
        sent = [list_services, by_symbol, b"\x22\x04nope"]
        listed, files, missing = channel.stream_stream(method)(iter(sent), timeout=10)
    assert b"opentelemetry.proto.collector.trace.v1.TraceService" in listed
    assert b"opentelemetry/proto/trace/v1/trace.proto" in files
    assert b"not found: nope" in missing
