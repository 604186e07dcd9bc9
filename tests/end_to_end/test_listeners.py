"""The listeners: addresses, health, the API's paths, and counters that nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.end_to_end.service import ANYWHERE, OFFRAILS, eventually, request, run
from tests.end_to_end.traffic import GOLDEN, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service
    from tests.end_to_end.traffic import Rover

Rovers = Callable[..., "Rover"]


def test_counters_move_without_readers(serve: Serve, rover: Rovers) -> None:
    """Nobody asks the API, and the first scrape has the calls already; the final ones follow."""
    service = serve(
        "--specs",
        "dfa_specs/farm_rover.yaml",
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SESSIONS_WINDOW_SECONDS="0.1",
        OFFRAILS_ADMIN="off",
    )
    labels = {"agent": "farm-rover", "spec": "farm_rover"}

    send(service, rover().calls("unlock_safety", "water", "move").spans)

    assert service.metric("offrails_calls_total", verdict="harmful", **labels) == 1
    assert service.metric("offrails_calls_total", verdict="progress", **labels) == 2
    raised = {"reason": "out_of_order", "severity": "critical", **labels}
    assert service.metric("offrails_harmful_calls_provisional_total", **raised) == 1
    assert service.metric("offrails_harm_rate", **labels) == pytest.approx(1 / 3, abs=1e-12)
    # N = 3, beta = 0.5: the weights of the three steps are 1, 0.5 and 0.25, the second is lost.
    assert service.metric("offrails_prefix_crit", **labels) == pytest.approx(1.25 / 1.75)
    eventually(lambda: service.metric("offrails_harmful_calls_total", **raised) == 1)


def test_counters_of_harm_start_at_zero(serve: Serve, rover: Rovers) -> None:
    """Every reason and severity a spec can give is there before it happens."""
    service = serve(OFFRAILS_HISTORY="complete")

    send(service, rover().calls("unlock_safety").spans)
    found = service.metrics()

    zeros = [
        dict(labels)
        for (name, labels), value in found.items()
        if name == "offrails_harmful_calls_total" and value == 0
    ]
    for severity in ("warning", "critical"):
        for reason in ("out_of_order", "unknown_tool", "repeated", "after_final"):
            wanted = {
                "agent": "farm-rover",
                "spec": "farm_rover",
                "reason": reason,
                "severity": severity,
            }
            assert wanted in zeros


def test_receiver_counters(serve: Serve, rover: Rovers) -> None:
    """Requests, spans, bytes, duplicates and the two latencies are counted per transport."""
    service = serve(OFFRAILS_HISTORY="complete")
    spans = rover().calls(*GOLDEN).spans

    for transport in ("grpc", "http_proto", "http_json"):
        send(service, spans, transport)

    for transport, code in (("grpc", "OK"), ("http_proto", "200"), ("http_json", "200")):
        labels = {"transport": transport, "signal": "traces", "code": code}
        assert service.metric("offrails_ingest_requests_total", **labels) == 1
        accepted = {"transport": transport, "result": "accepted"}
        assert service.metric("offrails_ingest_spans_total", **accepted) == 6
        assert service.metric("offrails_ingest_bytes_total", transport=transport) > 500
        count = service.metric("offrails_verdict_latency_seconds_count", transport=transport)
        assert count == 1
    assert service.metric("offrails_spans_dropped_total", reason="duplicate") == 12
    assert service.metric("offrails_span_lag_seconds_count") == 6


def test_metrics_in_both_formats(shared: Service) -> None:
    """OpenMetrics when it is asked for, the text format otherwise."""
    plain = shared.get("/metrics", "metrics")
    accept = "application/openmetrics-text; version=1.0.0"
    open_metrics = shared.get("/metrics", "metrics", accept=accept)

    assert plain.headers["content-type"].startswith("text/plain")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.body.endswith(b"# EOF\n")


def test_health(shared: Service) -> None:
    """The metrics and the admin listener both answer both health paths."""
    for listener in ("metrics", "admin"):
        assert shared.get("/-/healthy", listener)[::2] == (200, b"healthy\n")
        assert shared.get("/-/ready", listener)[::2] == (200, b"ready\n")


@pytest.mark.parametrize(
    "session",
    [
        "plain",
        "with space",
        "a/b//c",
        "/leading and trailing/",
        "ünï/ço∂é 🚜",
        "100%2F",
        "?q=1&x#y",
        "a+b",
        "..",
        "semi;colon,comma",
        "new\nline",
        "x" * 1_000,
    ],
)
def test_session_ids_are_percent_encoded(shared: Service, rover: Rovers, session: str) -> None:
    """Whatever text an agent calls its session, its path finds it and no other."""
    made = rover(session).calls("unlock_safety")

    send(shared, made.spans)

    assert shared.judgement(session)["session"] == session


def test_unknown_sessions_and_paths(shared: Service) -> None:
    """Unknown paths get 404 with a reason, and writes to read-only ones 405."""
    unknown = shared.get(f"/api/v1/sessions/{quote('no/such', safe='')}")
    nowhere = shared.get("/api/v2")
    posted = request(shared.addresses["admin"], "POST", "/api/v1/sessions", b"")

    assert (unknown.status, unknown.json()["session"]) == (404, "no/such")
    assert nowhere.status == 404
    assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")


def test_the_list_can_be_narrowed(shared: Service, rover: Rovers) -> None:
    """`limit`, `agent`, `spec` and `namespace` choose among all judgements; the newest first."""
    older, newer = rover().calls("unlock_safety"), rover().calls("unlock_safety")
    place = {"service.name": "farm-rover", "service.namespace": "narrow"}
    send(shared, older.spans, resource=place)
    send(shared, newer.spans, resource=place)

    def named(**query: str) -> list[str]:
        return [each["session"] for each in shared.judgements(**query)]

    everything = {"namespace": "narrow", "spec": "farm_rover"}
    assert named(**everything) == [newer.session, older.session]
    assert named(**everything, limit="1") == [newer.session]
    assert named(**everything, agent="nobody") == []
    assert shared.get("/api/v1/sessions?limit=many").status == 400


def test_each_listener_can_be_off(serve: Serve, rover: Rovers) -> None:
    """`off` opens no port, and the ready line says so."""
    service = serve("--grpc", "off", "--metrics", "off", OFFRAILS_HISTORY="complete")
    session = rover().calls("unlock_safety")

    send(service, session.spans)

    assert service.addresses["grpc"] == service.addresses["metrics"] == "off"
    assert "specs=0" in service.out[0]
    assert service.judgements(session.session)[0]["spec"] is None


def test_unix_sockets(serve: Serve, rover: Rovers, tmp_path: Path) -> None:
    """Every listener takes unix:PATH, and the sockets are removed at the end."""
    names = ("grpc", "http", "metrics", "admin", "decide")
    paths = {name: tmp_path / name for name in names}
    options = [part for name, path in paths.items() for part in (f"--{name}", f"unix:{path}")]
    service = serve("--specs", "dfa_specs", *options, OFFRAILS_HISTORY="complete")
    session = rover().calls("unlock_safety", "water")

    send(service, session.spans[:1], "grpc")
    send(service, session.spans[1:], "http_proto")

    assert service.addresses == {name: f"unix:{path}" for name, path in paths.items()}
    assert service.judgement(session.session)["harmful"] == 1
    assert service.metric("offrails_harm_rate", spec="farm_rover") == 0.5
    assert service.stop() == 0
    assert [name for name, path in paths.items() if path.exists()] == []


def test_grpc_off_does_not_import_grpc(serve: Serve, rover: Rovers) -> None:
    """With gRPC off, the service runs even if grpc cannot be imported."""
    program = [
        OFFRAILS[0],
        "-c",
        "import sys; sys.modules['grpc'] = None\n"
        "from collector.cli.main import main; sys.exit(main(sys.argv[1:]))",
    ]
    service = serve("--specs", "dfa_specs", "--grpc", "off", program=program)
    session = rover().calls("water")

    send(service, session.spans, "http_proto")

    assert service.judgement(session.session)["calls"] == 1


@pytest.mark.parametrize("listener", ["grpc", "http", "metrics", "admin"])
def test_a_used_port_is_a_sentence(shared: Service, listener: str) -> None:
    """Exit 1 and one line with the address; no traceback, and nothing on standard output."""
    taken = shared.addresses[listener]
    ended = run("serve", f"--{listener}", taken, **ANYWHERE)

    assert ended.returncode == 1
    assert ended.stderr == f"offrails: address already in use: {taken}\n"
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--http", "192.0.2.1:0"), "cannot listen on 192.0.2.1:0"),
        (("--grpc", "192.0.2.1:0"), "cannot listen on 192.0.2.1:0"),
        (("--admin", "unix:/nonexistent/folder/socket"), "cannot listen on unix:/nonexistent"),
        (("--http", "no.such.host.invalid:0"), "cannot listen on no.such.host.invalid:0"),
    ],
)
def test_an_address_that_cannot_be_bound(option: tuple[str, str], said: str) -> None:
    """Exit 1 and a sentence for addresses that are not ours."""
    ended = run("serve", *option, **ANYWHERE)

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"offrails: {said}")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("record:\n  folder: {file}/in", "2:3: record.folder: {file}/in: Not a directory"),
        ("alerts:\n  jsonl: {file}/in", "2:3: alerts.jsonl: {file}/in: Not a directory"),
        ("alerts:\n  jsonl: /", "2:3: alerts.jsonl: /: Is a directory"),
        (
            "receiver:\n  tls:\n    cert: {file}\n    key: {file}.no",
            "4:5: receiver.tls.key: {file}.no: No such file or directory",
        ),
        (
            "receiver:\n  tls:\n    cert: {file}\n    key: {file}",
            "2:3: receiver.tls: {file}, {file}: [SSL]",
        ),
        (
            "admin_tls:\n  cert: {file}.no\n  key: {file}",
            "2:3: admin_tls.cert: {file}.no: No such file or directory",
        ),
        (
            "receiver: {{auth: {{bearer: {{tokens_file: {file}}}}}}}",
            "1:28: receiver.auth.bearer.tokens_file: {file}: there is no token in it",
        ),
        (
            "redact:\n  hash: [a]\n  key_file: {file}.no",
            "3:3: redact.key_file: {file}.no: No such file or directory",
        ),
    ],
)
def test_a_file_that_a_setting_names_is_told_with_its_place(
    tmp_path: Path, given: str, said: str
) -> None:
    """Exit 2, and where the setting is: a bad file is a bad setting."""
    file, config = tmp_path / "file", tmp_path / "offrails.yaml"
    file.touch()
    config.write_text(given.format(file=file))

    ended = run("serve", "--config", str(config), **ANYWHERE)

    assert ended.stderr.startswith(f"offrails: {config}:{said.format(file=file)}")
    assert (ended.returncode, ended.stderr.count("\n"), ended.stdout) == (2, 1, "")


def test_an_option_that_names_a_folder_is_told_by_its_name(tmp_path: Path) -> None:
    """The error names the command-line option, not only the setting's key."""
    (tmp_path / "file").touch()
    ended = run("serve", "--record", str(tmp_path / "file" / "in"), OFFRAILS_GRPC="off")

    assert (ended.returncode, ended.stderr.startswith("offrails: --record: record.folder")) == (
        2,
        True,
    )
