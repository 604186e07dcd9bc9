"""Tokens of the admin listener: who may read sessions and reload specs, and what is logged."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from collector.api.openapi import admin_routes
from collector.client.api_client import NoAnswerError, ask
from collector.telemetry.clock import now_ns
from monitor.limits import SECOND
from tests.end_to_end.conftest import Serve
from tests.end_to_end.service import SPECS, Service, eventually, request, run
from tests.end_to_end.traffic import Rover, send

PATHS = (
    "/",
    "/api/v1/sessions",
    "/api/v1/about",
    "/api/v1/verdicts",
    "/api/v1/events",
    "/nowhere",
)


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "farm_rover.yaml").write_text((SPECS / "farm_rover.yaml").read_text())
    return folder


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text("# who is on call\nada: t-1\nbob: t-2\n")
    return file


@pytest.fixture
def service(serve: Serve, tokens: Path, specs: Path) -> Service:
    return serve("--specs", str(specs), OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE=str(tokens))


def _basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


def test_nothing_without_a_token_but_health(service: Service) -> None:
    """Page, API, streams and reload answer 401 and say how to ask; probes need no token."""
    for path in PATHS:
        for headers in ({}, {"authorization": "Bearer t-3"}, {"authorization": "Basic !"}):
            reply = service.get(path, **headers)
            assert reply.status == 401, path
            assert reply.headers["www-authenticate"].startswith(("Bearer", "Basic"))
            assert b"t-3" not in reply.body
    assert request(service.addresses["admin"], "POST", "/-/reload").status == 401
    assert service.get("/-/healthy").status == service.get("/-/ready").status == 200
    assert service.events("specs_reloaded") == []


@pytest.mark.parametrize("authorization", ["Bearer t-1", _basic("t-2")])
def test_a_token_opens_it(service: Service, authorization: str) -> None:
    """As a program sends it, and as a browser does, which asked its user for a password."""
    for path in ("/", "/api/v1/sessions", "/api/v1/about"):
        assert service.get(path, authorization=authorization).status == 200
    assert service.get("/nowhere", authorization=authorization).status == 404


def test_tokens_change_while_it_runs(service: Service, tokens: Path) -> None:
    """A token that is taken out of the file opens nothing any more."""
    tokens.write_text("eve: t-9\n")
    eventually(lambda: service.get("/api/v1/about", authorization="Bearer t-9").status == 200)
    assert service.get("/api/v1/about", authorization="Bearer t-1").status == 401


def test_verbs_send_the_token(service: Service, tmp_path: Path) -> None:
    """`init` reads the service with its token; without one it says which option it takes."""
    send(service, Rover("by-token", 1).calls("move").spans)
    own = tmp_path / "token"
    own.write_text("t-1\n")
    address = service.addresses["admin"]
    with pytest.raises(NoAnswerError, match="--token-file"):
        ask(address, "/api/v1/seen")
    assert ask(address, "/api/v1/seen", own)["agents"]
    with pytest.raises(NoAnswerError, match="No such file"):
        ask(address, "/api/v1/seen", tmp_path / "none")
    done = run("init", "--from", address, "--token-file", str(own))
    assert (done.returncode, "move" in done.stdout) == (0, True), done.stderr


def test_reload_and_accept_leave_an_audit_line(service: Service, specs: Path) -> None:
    """Each reload and each accepted call is logged once, with who did it and the expiry."""
    file = specs / "farm_rover.yaml"
    entry = "accept:\n  - {symbol: water, state: unlocked, who: ada, why: dry field, until: 2999-12-31}\n"
    file.write_text(file.read_text() + entry)
    headers = {"authorization": "Bearer t-2"}
    for _ in range(2):
        reply = request(service.addresses["admin"], "POST", "/-/reload", headers=headers)
        assert reply.status == 200, reply
    lines = eventually(lambda: (found := service.events("audit"))[2:] and found)
    accepted = [line for line in lines if line["action"] == "accept"]
    assert [(a["who"], a["why"], a["symbol"], a["state"], a["until"]) for a in accepted] == [
        ("ada", "dry field", "water", "unlocked", "2999-12-31")
    ]
    reloads = [
        line for line in lines if line["action"] == "reload" and line["trigger"] == "request"
    ]
    assert [(line["who"], line["success"]) for line in reloads] == [("bob", True)] * 2
    assert all("time" in line or "timestamp" in line or "ts" in line for line in lines)


# --- roles, namespaces, a proxy ----------------------------------------------------------------

OPERATOR, VIEWER, TENANT = (
    {"authorization": f"Bearer {each}"} for each in ("t-1", "t-2", "t-3")
)


@pytest.fixture
def guarded(serve: Serve, tmp_path: Path, specs: Path) -> Service:
    """ada is an operator, as nothing is said of her; bob reads all, and eve what is of the south."""
    file = tmp_path / "tokens"
    file.write_text("ada: t-1\nbob: t-2\neve: t-3\nsam: t-4\n")
    service = serve(
        "--specs",
        str(specs),
        "--show-arguments",
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE=str(file),
        OFFRAILS_ADMIN_AUTH_ROLES="bob=viewer,eve=viewer,zoe=operator",
        OFFRAILS_ADMIN_AUTH_NAMESPACES="eve=south,sam=south/prod",
    )
    for number, namespace in enumerate(("north", "south", "south/prod", "southern")):
        tenant, _, environment = namespace.partition("/")
        resource = {"service.name": "farm-rover", "service.namespace": tenant}
        if environment:
            resource["deployment.environment.name"] = environment
        send(
            service,
            Rover(f"s-{namespace}", number).calls("water").spans,
            resource=resource,
        )
    return service


def _post(
    service: Service, path: str, headers: dict[str, str]
) -> tuple[int, dict[str, object]]:
    reply = request(service.addresses["admin"], "POST", path, headers=headers)
    found: dict[str, object] = reply.json()
    return reply.status, found


def test_a_viewer_reads_and_changes_nothing(guarded: Service) -> None:
    """Reload and end answer 403 with the role that they need; all that is read is as for an operator."""
    for path in ("/-/reload", "/-/reload?sessions=rejudge", "/api/v1/sessions/s-north/end"):
        status, answer = _post(guarded, path, VIEWER)
        assert (status, answer["role"]) == (403, "operator")
        assert answer["error"] == "this needs the role operator; bob has viewer"
    for path in (*PATHS[:3], "/api/v1/seen", "/api/v1/sessions/s-north"):
        read = [guarded.get(path, **who).body for who in (VIEWER, OPERATOR)]
        if path == "/api/v1/about":  # which alone says who asks
            assert b'"role":"operator"' in read[1]
            read[0] = read[0].replace(b'"role":"viewer"', b'"role":"operator"')
        assert read[0] == read[1]
    assert guarded.events("specs_reloaded") == []
    assert _post(guarded, "/api/v1/sessions/s-north/end", OPERATOR) == (200, {"ended": 1})
    assert _post(guarded, "/-/reload", OPERATOR)[0] == 200


def test_a_namespace_hides_all_others(guarded: Service) -> None:
    """Every list, stream and count has what is of the namespace and below it, and nothing of another one."""
    seen = {"s-south", "s-south/prod"}
    whole = guarded.get("/api/v1/sessions", **TENANT).json()["sessions"]
    assert {each["session"] for each in whole} == seen
    short = guarded.get("/api/v1/sessions?steps=0", **TENANT).json()
    assert {each["session"] for each in short["sessions"]} == seen
    assert (short["matching"], short["live"]) == (2, 2)
    assert guarded.get("/api/v1/sessions?steps=0", **VIEWER).json()["live"] == 4
    assert guarded.get("/api/v1/sessions?namespace=north", **TENANT).json()["sessions"] == []
    agents = guarded.get("/api/v1/seen", **TENANT).json()
    assert {each["namespace"] for each in agents["agents"]} == {"south", "south/prod"}
    assert agents["scopes"] == []
    for name, status in (("s-north", 404), ("s-southern", 404), ("s-south", 200)):
        assert guarded.get(f"/api/v1/sessions/{name}", **TENANT).status == status
        assert guarded.get(f"/api/v1/trails/{name}", **TENANT).status == status
    own = {"authorization": "Bearer t-4"}
    [only] = guarded.get("/api/v1/sessions", **own).json()["sessions"]
    assert only["session"] == "s-south/prod"
    assert _post(guarded, "/api/v1/sessions/s-south/end", own)[0] == 404
    assert _post(guarded, "/api/v1/sessions/s-south%2Fprod/end", own)[0] == 200
    status, answer = _post(guarded, "/-/reload", own)
    assert (status, answer["role"]) == (403, "operator")
    assert "all namespaces" in str(answer["error"])


def test_streams_have_what_is_of_the_namespace(guarded: Service) -> None:
    """Verdicts and changes of others do not reach who may not see them."""
    with (
        _stream(guarded, "/api/v1/verdicts") as verdicts,
        _stream(guarded, "/api/v1/events") as changes,
    ):
        assert verdicts.readline() == b"\n"
        while changes.readline() != b"event: hello\n":
            pass
        for number, tenant in ((7, "north"), (8, "south")):
            resource = {"service.name": "farm-rover", "service.namespace": tenant}
            spans = Rover(f"new-{tenant}", number).calls("water").spans
            send(guarded, spans, resource=resource)
        while not (line := verdicts.readline()).strip():
            pass
        assert json.loads(line)["session"] == "new-south"
        while not (line := changes.readline()).startswith(b'data: {"sessions":[["'):
            pass
        assert json.loads(line.removeprefix(b"data: "))["sessions"] == [["south", "new-south"]]


@contextmanager
def _stream(service: Service, path: str) -> Iterator[http.client.HTTPResponse]:
    """What eve reads."""
    connection = http.client.HTTPConnection(service.addresses["admin"], timeout=20)
    with closing(connection):
        connection.request("GET", path, headers=TENANT)
        with connection.getresponse() as answer:
            yield answer


def test_who_reads_arguments_is_noted(guarded: Service) -> None:
    """One audit line a reader and session in a minute; none for lists without arguments, and none where nothing was found."""
    for who in (VIEWER, TENANT):
        for _ in range(3):
            guarded.get("/api/v1/sessions/s-south", **who)
        guarded.get("/api/v1/sessions?steps=0", **who)
        guarded.get("/api/v1/sessions/s-north-west", **who)
    guarded.get("/api/v1/sessions?agent=x", **VIEWER)
    lines = guarded.logged("audit", 3)
    assert [(line["action"], line["who"], line["what"]) for line in lines] == [
        ("read_arguments", "bob", "s-south"),
        ("read_arguments", "eve", "s-south"),
        ("read_arguments", "bob", "sessions?agent=x"),
    ]


def test_a_role_that_no_token_has_is_told(guarded: Service) -> None:
    """A misspelt name limits nobody, so the token that was meant would be an operator's."""
    [warning] = guarded.logged("admin_names_without_token")
    assert warning["names"] == ["zoe"]


def test_a_proxy_says_who_it_is(serve: Serve, specs: Path) -> None:
    """Its headers are believed from its addresses alone, once, and with a role; groups have roles and namespaces, too."""
    proxied: dict[str, Any] = {
        "OFFRAILS_ADMIN_AUTH_PROXY_HEADER": "X-User",
        "OFFRAILS_ADMIN_AUTH_PROXY_ROLES_HEADER": "X-Groups",
        "OFFRAILS_ADMIN_AUTH_ROLES": "sre=operator,farmers=viewer",
        "OFFRAILS_ADMIN_AUTH_NAMESPACES": "farmers=north",
    }
    there, elsewhere = (
        serve("--specs", str(specs), OFFRAILS_ADMIN_AUTH_PROXY_FROM=each, **proxied)
        for each in ("10.0.0.0/8,127.0.0.0/8", "10.0.0.0/8")
    )
    for service in (there, elsewhere):
        assert service.get("/api/v1/about").status == 401
        assert service.get("/-/ready").status == 200
    operator = {"x-user": "ann", "x-groups": "staff, sre"}
    assert elsewhere.get("/api/v1/about", **operator).status == 401
    assert _post(there, "/-/reload", operator)[0] == 200
    assert there.logged("audit")[0]["who"] == "ann"
    for groups, status in (("viewer", 403), ("farmers", 403), ("operator", 200)):
        answer = _post(there, "/-/reload", {"x-user": "bo", "x-groups": groups})
        assert answer[0] == status, groups
    for groups, status in (("viewer", 200), ("farmers", 200), ("staff", 403), ("", 403)):
        named = {"x-user": "bo", "x-groups": groups}
        assert there.get("/api/v1/about", **named).status == status
    assert there.get("/api/v1/about", **{"x-groups": "sre"}).status == 401
    with closing(http.client.HTTPConnection(there.addresses["admin"], timeout=20)) as twice:
        twice.putrequest("GET", "/api/v1/about")
        for value in ("ann", "eve"):
            twice.putheader("x-user", value)
        twice.putheader("x-groups", "sre")
        twice.endheaders()
        assert twice.getresponse().status == 401


# --- every path of the document ------------------------------------------------------------------

_numbers = count(50)
SECRET = "hidden"
"""Stands in each name of the north: namespace, session, agent, tool, and in arguments."""


@pytest.fixture
def archived(serve: Serve, tmp_path: Path, specs: Path) -> Service:
    """Past and live sessions of two namespaces, one of each judged and one not; eve sees one of them."""
    file = tmp_path / "tokens"
    file.write_text("ada: t-1\nbob: t-2\neve: t-3\n")
    service = serve(
        "--specs",
        str(specs),
        "--show-arguments",
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ARCHIVE_DIR=str(tmp_path / "archive"),
        OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE=str(file),
        OFFRAILS_ADMIN_AUTH_ROLES="bob=viewer,eve=viewer",
        OFFRAILS_ADMIN_AUTH_NAMESPACES="eve=south",
    )
    for number, tenant in enumerate((SECRET, "south")):
        for place, agent in enumerate(("farm-rover", f"agent-{tenant}")):
            name = f"{tenant}-{place}"
            resource = {"service.name": agent, "service.namespace": tenant}
            rover = Rover(name, 2 * number + place + 1, start_ns=now_ns() - SECOND)
            rover.calls("water").call(f"tool-{tenant}", {"why": f"argument-{tenant}"})
            send(service, rover.spans, resource=resource)
        label = {"label": "right", "note": f"note-{tenant}"}
        path = f"/api/v1/sessions/{tenant}-0/label"
        reply = request(
            service.addresses["admin"],
            "POST",
            path,
            body=json.dumps(label).encode(),
            headers=OPERATOR,
        )
        assert reply.status == 200, reply
    eventually(
        lambda: service.get(f"/api/v1/sessions/{SECRET}-0", **OPERATOR).json().get("labels")
    )
    return service


def _answer(service: Service, path: str, who: dict[str, str]) -> bytes:
    """What is answered; of a stream, what comes within two seconds, in which each namespace has a new call."""
    connection = http.client.HTTPConnection(service.addresses["admin"], timeout=20)
    with closing(connection):
        connection.request("GET", path, headers=who)
        answer = connection.getresponse()
        if path not in STREAMS:
            return answer.read()
        done = threading.Timer(2, connection.sock.shutdown, (2,))
        done.start()
        for tenant in (SECRET, "south"):
            resource = {"service.name": "farm-rover", "service.namespace": tenant}
            send(
                service,
                Rover(f"{tenant}-new", next(_numbers)).calls("water").spans,
                resource=resource,
            )
        found = b""
        with suppress(OSError, http.client.HTTPException):
            while part := answer.read1(4_096):
                found += part
        done.join()
        return found


STREAMS = ("/api/v1/verdicts", "/api/v1/events")


def test_no_path_of_the_document_tells_of_another_namespace(archived: Service) -> None:
    """Each list, stream, figure and count that the OpenAPI document names, so also those that it will name one day."""
    shared: set[str] = set()
    for path in (route.path for route in admin_routes() if route.method == "GET"):
        own = path.replace("{session}", "south-0")
        everything, part = (_answer(archived, own, who) for who in (OPERATOR, TENANT))
        assert SECRET.encode() not in part, path
        assert (b"south" in part) == (b"south" in everything), path
        if SECRET.encode() in everything:
            shared.add(path)
        if own != path:
            assert (
                archived.get(path.replace("{session}", f"{SECRET}-0"), **TENANT).status == 404
            )
    lists = {"sessions", "overview", "agents", "seen", "verdicts", "events"}
    assert {f"/api/v1/{each}" for each in lists} <= shared


def test_each_method_that_changes_something_needs_an_operator(archived: Service) -> None:
    """All methods but GET that the document names: 403 for a viewer, with the role that it needs."""
    paths = [each.path for each in admin_routes() if each.method == "POST"]
    assert len(paths) >= 3
    for path in paths:
        status, said = _post(archived, path.replace("{session}", "south-0"), VIEWER)
        assert (status, said["role"]) == (403, "operator"), path
