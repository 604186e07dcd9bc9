"""A running service takes new specs: by signal, by request, and when files change."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Serve
from tests.end_to_end.service import Service, eventually, request
from tests.end_to_end.traffic import Rover, send

SPEC = """id: farm_rover
version: "{version}"
match: {{service.name: farm-rover}}
alphabet: {{unlock: {{tool: unlock_safety}}, move: {{tool: move}}}}
golden: [[{golden}]]
"""


def write(file: Path, version: str, golden: str = "unlock, move") -> None:
    file.write_text(SPEC.format(version=version, golden=golden))


def versions(service: Service) -> set[str]:
    return {
        dict(labels)["version"]
        for name, labels in service.metrics()
        if name == "offrails_spec_info"
    }


def test_specs_are_taken_and_running_sessions_keep_theirs(serve: Serve, tmp_path: Path) -> None:
    """Reloads by request, signal and file change, and a refusal, during one session of one service."""
    file = tmp_path / "rover.yaml"
    write(file, "1")
    service = serve(
        "--specs", str(tmp_path), OFFRAILS_HISTORY="complete", OFFRAILS_RELOAD_WATCH="false"
    )
    old = Rover("old", 1).call("unlock_safety", {})
    send(service, old.spans)
    assert service.judgement("old")["spec_version"] == "1"

    write(file, "2", "move, unlock")
    reply = request(service.addresses["admin"], "POST", "/-/reload")
    assert (reply.status, reply.json()["changed"]) == (200, True)
    assert versions(service) == {"2"}

    write(file, "3", "move, unlock")
    service.process.send_signal(signal.SIGHUP)
    eventually(lambda: versions(service) == {"3"})

    file.write_text("id: [")
    assert request(service.addresses["admin"], "POST", "/-/reload").status == 422
    assert versions(service) == {"3"}
    assert service.metric("offrails_spec_last_reload_successful") == 0
    assert service.metric("offrails_spec_reloads_total", result="success") == 2
    assert service.metric("offrails_spec_reloads_total", result="failure") == 1
    assert service.metric("offrails_spec_load_errors_total") == 1
    assert service.metric("offrails_spec_last_reload_success_timestamp_seconds") > 1e9

    send(service, old.call("move", {}).spans[1:])
    send(service, Rover("new", 2).call("unlock_safety", {}).spans)
    assert service.judgement("new")["spec_version"] == "3"
    eventually(lambda: service.judgement("old")["calls"] == 2)
    judged = service.judgement("old")
    assert (judged["spec_version"], judged["harmful"], judged["accepting"]) == ("1", 0, True)
    [event] = service.logged("harmful_call")
    assert (event["session"], event["spec_version"]) == ("new", "3")
    assert len(service.logged("specs_reloaded", 2)) == 2
    assert service.logged("specs_not_reloaded")[0]["specs_kept"] == 1


def test_a_changed_file_is_taken(serve: Serve, tmp_path: Path) -> None:
    """A changed file is loaded within seconds, without a request."""
    file = tmp_path / "rover.yaml"
    write(file, "1")
    service = serve("--specs", str(tmp_path))
    write(file, "2")
    eventually(lambda: versions(service) == {"2"})
    assert service.logged("specs_reloaded")[-1]["trigger"] == "change"


@pytest.fixture
def doomed() -> Iterator[Callable[..., Service]]:
    """Starts services that are killed."""
    started: list[Service] = []

    def start(*arguments: str, **variables: str) -> Service:
        started.append(Service(arguments, variables))
        return started[-1].wait_ready()

    yield start
    for service in started:
        service.kill()


def test_running_sessions_go_over_to_a_corrected_spec(
    doomed: Callable[..., Service], tmp_path: Path
) -> None:
    """The answer counts them; harm that the correction allows is taken back, also after kill -9, and no more is raised."""
    specs = tmp_path / "specs"
    specs.mkdir()
    file = specs / "rover.yaml"
    write(file, "1")
    arguments = ("--specs", str(specs), "--state", str(tmp_path / "state"))
    quiet = {"OFFRAILS_HISTORY": "complete", "OFFRAILS_RELOAD_WATCH": "false"}
    service = doomed(*arguments, **quiet)
    rover, other = Rover("wrong", 1).calls("move"), Rover("other", 2).calls("unlock_safety")
    send(service, rover.spans + other.spans)
    assert service.judgement("wrong")["harmful"] == 1

    def reload(query: str = "") -> dict[str, int]:
        reply = request(service.addresses["admin"], "POST", f"/-/reload{query}")
        assert reply.status == 200, reply
        found: dict[str, int] = reply.json()["sessions"]
        return found

    write(file, "2", "move, unlock")
    assert reload() == {"kept": 2, "rejudged": 0}
    assert service.judgement("wrong")["spec_version"] == "1"
    assert service.logged("specs_reloaded")[-1]["sessions_kept"] == 2
    reply = request(service.addresses["admin"], "POST", "/-/reload?sessions=all")
    assert (reply.status, reply.json()["error"]) == (
        400,
        "sessions must be one of keep, rejudge",
    )

    assert reload("?sessions=rejudge") == {"kept": 0, "rejudged": 2}
    judged = {each["session"]: each for each in service.judgements()}
    assert {name: (each["spec_version"], each["harmful"]) for name, each in judged.items()} == {
        "wrong": ("2", 0),
        "other": ("2", 1),
    }
    service.kill()
    service = doomed(*arguments, **quiet)
    assert {each["session"]: each for each in service.judgements()} == judged
    send(service, rover.call("unlock_safety", {}).spans[1:])
    eventually(lambda: service.judgement("wrong")["calls"] == 2)
    assert service.judgement("wrong")["harmful"] == 0


def test_a_session_that_is_ended_goes_on_as_another(
    doomed: Callable[..., Service], tmp_path: Path
) -> None:
    """`{"ended": n}` for each namespace, 404 where none is live; what comes then is judged anew, also after kill -9."""
    specs = tmp_path / "specs"
    specs.mkdir()
    write(specs / "rover.yaml", "1")
    arguments = ("--specs", str(specs), "--state", str(tmp_path / "state"))
    quiet = {"OFFRAILS_HISTORY": "complete", "OFFRAILS_RELOAD_WATCH": "false"}
    service = doomed(*arguments, **quiet)
    rover = Rover("a b/c", 1).calls("move")
    send(service, rover.spans)
    send(
        service,
        Rover("a b/c", 2).calls("move").spans,
        resource={"service.name": "farm-rover", "service.namespace": "north"},
    )
    path = "/api/v1/sessions/a%20b%2Fc/end"

    def end(query: str = "", method: str = "POST", **headers: str) -> tuple[int, object]:
        address = service.addresses["admin"]
        reply = request(address, method, f"{path}{query}", headers=headers)
        return reply.status, reply.json()

    assert end(method="GET")[0] == 405
    assert end(origin=f"http://{service.addresses['admin']}")[0] == 403
    assert end("?name=x")[0] == 400
    assert end("?namespace=south")[0] == 404
    assert end("?namespace=north") == (200, {"ended": 1})
    assert end() == (200, {"ended": 1})
    assert end() == (404, {"error": "no such session is running", "session": "a b/c"})
    assert service.metric("offrails_sessions_ended_total", cause="operator") == 2
    [first, second] = service.logged("audit", 2)
    assert (first["action"], first["session"], first["ended"]) == ("end", "a b/c", 1)
    assert second["who"] == "127.0.0.1"

    service.kill()
    service = doomed(*arguments, **quiet)
    assert {each["ended"] for each in service.judgements("a b/c")} == {"operator"}
    send(service, rover.call("unlock_safety", {}).spans[1:])
    [judged] = eventually(
        lambda: [each for each in service.judgements("a b/c") if each["ended"] is None]
    )
    assert (judged["calls"], judged["joined"], judged["harmful"]) == (1, True, 0)
