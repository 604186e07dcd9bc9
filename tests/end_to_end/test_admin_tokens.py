"""Tokens of the admin listener: who may read sessions and reload specs, and what is logged."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from collector.client.api_client import NoAnswerError, ask
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
