"""`specs_on_error: start`: with bad specs or settings the process lives, is not ready, and alerts."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Serve
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import Service, eventually, request, run
from tests.end_to_end.traffic import Rover, send

SPEC = """id: farm_rover
version: "1"
match: {service.name: farm-rover}
alphabet: {unlock: {tool: unlock_safety}, move: {tool: move}}
golden: [[unlock, move]]
"""
START = {"OFFRAILS_SPECS_ON_ERROR": "start"}


def status(address: str, path: str) -> int:
    try:
        return request(address, "GET", path).status
    except OSError:
        return 0


@pytest.fixture
def place() -> str:
    """A free address, since a service in standby does not print where it listens."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def standing_by(place: str, request: pytest.FixtureRequest) -> Iterator[Service]:
    """A service that cannot start, with the variables of its test."""
    variables = {**START, "OFFRAILS_METRICS": place, **request.param}
    service = Service(variables=variables)
    service.addresses["metrics"] = place
    yield service
    service.kill()


def test_a_bad_spec_is_left_out(serve: Serve, tmp_path: Path) -> None:
    """The sound spec judges; the service is unready and says why, until the bad one is mended."""
    (tmp_path / "rover.yaml").write_text(SPEC)
    bad = tmp_path / "bad.yaml"
    bad.write_text("id: [")
    service = serve(
        "--specs", str(tmp_path), OFFRAILS_HISTORY="complete", OFFRAILS_SPECS_ON_ERROR="start"
    )
    assert service.get("/-/healthy", "metrics").status == 200
    ready = service.get("/-/ready", "metrics")
    assert (ready.status, ready.body) == (503, b"not ready: specs refused\n")
    assert service.metric("offrails_spec_last_reload_successful") == 0
    assert service.metric("offrails_spec_load_errors_total") == 1
    assert service.metric("offrails_standby") == 0
    assert [each["level"] for each in service.logged("spec_finding")] == ["error"]
    send(service, Rover("s", 1).call("move", {}).spans)
    assert service.judgement("s")["harmful"] == 1

    bad.unlink()
    eventually(lambda: service.get("/-/ready", "metrics").status == 200)
    assert service.metric("offrails_spec_last_reload_successful") == 1


def harmful(service: Service, session: str, number: int) -> int:
    """Harmful calls of a new session that moves without unlocking first."""
    send(service, Rover(session, number).call("move", {}).spans)
    found: int = service.judgement(session)["harmful"]
    return found


LOOSE = SPEC.replace("golden: [[unlock, move]]", "golden: [[move]]")
"""Under it, moving at once is no harm."""


@pytest.mark.parametrize("folder", ["OFFRAILS_SPECS_LAST_GOOD", "OFFRAILS_STATE_DIR"])
def test_the_last_good_specs_outlive_a_restart(
    serve: Serve, tmp_path: Path, folder: str
) -> None:
    """Good start, spec broken, restart: calls are judged by the old spec. Mended, the new one is used."""
    (tmp_path / "specs").mkdir()
    rover, other = tmp_path / "specs" / "rover.yaml", tmp_path / "specs" / "other.yaml"
    rover.write_text(SPEC)
    kept = tmp_path / "kept" / "last-good-specs"
    variables = {"OFFRAILS_HISTORY": "complete", **START, folder: str(kept.parent)}
    first = serve("--specs", str(rover.parent), program=None, wait=True, **variables)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert harmful(first, "before", 1) == 1
    assert first.stop() == 0

    rover.write_text("id: [")
    other.write_text(SPEC.replace("farm_rover", "other"))  # sound, and not in use before
    for number, when in enumerate(("after", "later"), 2):
        service = serve("--specs", str(rover.parent), program=None, wait=True, **variables)
        ready = service.get("/-/ready", "metrics")
        assert ready.status == 503
        assert ready.body == b"not ready: specs refused, the last good ones are in use\n"
        assert service.out[0].endswith("specs=1")
        [used] = service.logged("last_good_specs_used")
        assert used["fault"].startswith(f"{rover}:")
        assert (used["errors"], used["specs"]) == (1, 1)
        assert 0 <= used["age_seconds"] < 60
        assert service.metric("offrails_spec_last_reload_successful") == 0
        assert service.metric("offrails_spec_last_reload_success_timestamp_seconds") > 0
        assert harmful(service, when, number) == 1
        if when == "after":
            assert service.stop() == 0

    other.unlink()
    rover.write_text(LOOSE)
    eventually(lambda: service.get("/-/ready", "metrics").status == 200)
    assert service.metric("offrails_spec_last_reload_successful") == 1
    assert harmful(service, "mended", 9) == 0
    eventually(lambda: b"golden: [[move]]" in kept.read_bytes())


def test_last_good_specs_that_cannot_be_used(serve: Serve, tmp_path: Path) -> None:
    """A damaged file is logged, and the service starts with the sound specs; a folder that cannot be written is logged."""
    rover, bad = tmp_path / "rover.yaml", tmp_path / "bad.yaml"
    rover.write_text(SPEC)
    kept = tmp_path / "kept"
    variables = {**START, "OFFRAILS_SPECS_LAST_GOOD": str(kept)}
    kept.write_text("")  # a file where the folder is to be
    first = serve("--specs", str(rover), program=None, wait=True, **variables)
    [told] = first.logged("specs_not_kept")
    assert told["file"] == str(kept / "last-good-specs")
    assert first.stop() == 0

    kept.unlink()
    kept.mkdir()
    (kept / "last-good-specs").write_bytes(b"torn")
    bad.write_text("id: [")
    second = serve(
        "--specs", str(rover), "--specs", str(bad), program=None, wait=True, **variables
    )
    assert second.logged("last_good_specs_unusable")
    assert second.out[0].endswith("specs=1")
    assert second.get("/-/ready", "metrics").body == b"not ready: specs refused\n"


def test_no_spec_at_all(serve: Serve, tmp_path: Path) -> None:
    """If the folder is missing, such as an unmounted volume, the service starts without specs."""
    service = serve("--specs", str(tmp_path / "missing"), OFFRAILS_SPECS_ON_ERROR="start")
    assert service.out[0].endswith("specs=0")
    assert service.get("/-/ready", "metrics").status == 503
    assert service.metric("offrails_spec_last_reload_successful") == 0


def test_by_default_the_service_ends(tmp_path: Path) -> None:
    """By default bad specs end the program."""
    (tmp_path / "bad.yaml").write_text("id: [")
    assert run("serve", "--specs", str(tmp_path)).returncode == 2


@pytest.mark.parametrize(
    "standing_by", [{"OFFRAILS_SESSIONS_MAX": "many"}], indirect=True, ids=["setting"]
)
def test_a_bad_setting(standing_by: Service, place: str) -> None:
    """The process lives and logs the fault. SIGTERM ends it like the service."""
    eventually(lambda: status(place, "/-/healthy") == 200)
    assert request(place, "GET", "/-/ready").status == 503
    assert standing_by.metric("offrails_standby") == 1
    [told] = standing_by.logged("standing_by")
    assert "OFFRAILS_SESSIONS_MAX" in told["reason"]
    assert standing_by.stop() == 0


def test_it_starts_once_it_can(tmp_path: Path, place: str) -> None:
    """An address in use and a folder that is not there: the next try begins the service."""
    file = tmp_path / "settings.yaml"
    file.write_text("specs_on_error: start\nsessions: {max: many}\n")
    service = Service(("--config", str(file)), {"OFFRAILS_METRICS": place})
    try:
        eventually(lambda: status(place, "/-/healthy") == 200)
        file.write_text("specs_on_error: start\n")
        service.process.send_signal(signal.SIGHUP)  # do not wait for the next try
        service.wait_ready()
        assert service.get("/-/ready", "metrics").status == 200
        assert service.metric("offrails_standby") == 0
    finally:
        service.kill()


def test_an_address_in_use(place: str) -> None:
    """If another process has the port, the process stands by and logs the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        variables = {
            **START,
            "OFFRAILS_METRICS": place,
            "OFFRAILS_HTTP": f"127.0.0.1:{port}",
        }
        service = Service(variables=variables)
        try:
            eventually(
                lambda: status(place, "/-/healthy") == 200 and service.events("standing_by")
            )
            assert str(port) in service.events("standing_by")[0]["reason"]
        finally:
            service.kill()
