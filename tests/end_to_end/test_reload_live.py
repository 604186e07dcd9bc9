"""A running service takes new specs: by signal, by request, and when files change."""

from __future__ import annotations

import signal
from pathlib import Path

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
