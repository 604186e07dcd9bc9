"""A secret in an agent's arguments is nowhere shown, sent, logged or recorded."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.end_to_end.loopback import Loopback, Quiet
from tests.end_to_end.service import SPECS, Service, eventually
from tests.end_to_end.traffic import Rover, as_proto, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

SECRET, PIN = "hunter2", 99_431_337
SESSION = f"chat with {SECRET}"
TRANSPORTS: Any = ("grpc", "http_proto", "http_json")
PATHS = (
    "/api/v1/sessions",
    "/api/v1/sessions?steps=0",
    "/api/v1/seen",
    "/api/v1/specs",
    "/api/v1/about",
    f"/api/v1/sessions/{quote(SESSION)}",
    f"/api/v1/trails/{quote(SESSION)}",
    "/",
)


class Sink(Loopback):
    """Takes whatever is posted."""

    def __init__(self) -> None:
        self.taken: dict[str, bytes] = {}
        taken = self.taken

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                taken[self.path] = taken.get(self.path, b"") + body
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        super().__init__(Handler)


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


class Stream:
    """Reads an endless answer of the admin listener beside the test."""

    def __init__(self, service: Service, path: str) -> None:
        self.said = b""
        self._connection = HTTPConnection(service.addresses["admin"], timeout=20)
        self._connection.request("GET", path)
        self._answer = self._connection.getresponse()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while piece := self._answer.read1():
            self.said += piece

    def close(self) -> None:
        """Once the service has ended the answer."""
        self._reader.join(20)
        self._answer.close()
        self._connection.close()


def _specs(folder: Path) -> Path:
    folder.mkdir()
    text = (SPECS / "farm_rover.yaml").read_text()
    text = text.replace("mode: shadow", "mode: page")
    limited = "water: {tool: water, arguments: {liters: {max: 20}}}"
    assert "\n  water: {tool: water}\n" in text
    (folder / "farm_rover.yaml").write_text(text.replace("water: {tool: water}", limited))
    return folder


def _session(session: str, number: int) -> Rover:
    rover = Rover(session, number, start_ns=time.time_ns())
    told: dict[str, Any] = {"gen_ai.agent.name": f"agent {SECRET}"}
    said = {"password": SECRET, "pin": PIN, f"key {SECRET}": [f"x{SECRET}x", {"deep": SECRET}]}
    rover.call("unlock_safety", said, **told)
    told["gen_ai.tool.call.id"] = SECRET
    rover.call(f"tool {SECRET}", said, error=True, **told)
    rover.call("water", {"liters": f"{SECRET} {'x' * 99}"}, **told)
    return rover.span(f"chat {SECRET}", {"gen_ai.output.messages": f"hi {SECRET}"})


@pytest.mark.parametrize("rule", ["REPLACE", "HASH"])
def test_a_secret_is_nowhere(serve: Serve, sink: Sink, tmp_path: Path, rule: str) -> None:
    """It is not in the API, streams, pages, lines, events, metrics, logs or the recording."""
    kept, jsonl = tmp_path / "kept", tmp_path / "verdicts.jsonl"
    rules: dict[str, Any] = {f"OFFRAILS_REDACT_{rule}": rf"{SECRET},{str(PIN)[:4]}\d+"}
    service = serve(
        "--specs",
        str(_specs(tmp_path / "specs")),
        **rules,
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SHOW_ARGUMENTS="true",
        OFFRAILS_RECORD_FOLDER=str(kept),
        OFFRAILS_ALERTS_JSONL=str(jsonl),
        OFFRAILS_ALERTS_WEBHOOK_URL=f"{sink.url}/hook",
        OFFRAILS_ALERTS_ALERTMANAGER=sink.url,
        OFFRAILS_ALERTS_OTLP_ENDPOINT=sink.url,
        OFFRAILS_ALERTS_SESSION_URL="https://x.example/{session}/{namespace}",
        OFFRAILS_SESSIONS_WINDOW_SECONDS="0.1",
        OFFRAILS_SESSIONS_IDLE_SECONDS="2",
        OFFRAILS_LOG_LEVEL="debug",
    )
    streams = [Stream(service, f"/api/v1/{name}") for name in ("verdicts", "events")]
    for number, transport in enumerate(TRANSPORTS, 1):
        send(service, _session(f"{SESSION} {transport}", number).spans, transport)
    send(service, _session(SESSION, 9).spans)
    service.post(as_proto(_session(SESSION, 10).spans)[:-7], "application/x-protobuf")
    service.post(f'{{"resourceSpans": "{SECRET}"}}'.encode())

    eventually(lambda: {"/hook", "/api/v2/alerts", "/v1/logs"} <= sink.taken.keys())
    eventually(lambda: jsonl.exists() and b"harmful" in jsonl.read_bytes())
    eventually(lambda: b"event: change" in streams[1].said and b"harmful" in streams[0].said)
    service.logged("agent_seen")
    shown = {path: service.get(path) for path in PATHS}
    shown["/metrics"] = service.get("/metrics", "metrics")
    service.logged("session_finished")
    sessions = {each["session"] for each in service.judgements()}
    found = [service.judgements(session) for session in sessions]
    assert service.stop() == 0
    for stream in streams:
        stream.close()
    recorded = b"".join(gzip.decompress(file.read_bytes()) for file in kept.glob("*.gz"))

    everything = {
        **{path: reply.body for path, reply in shown.items()},
        **sink.taken,
        "verdicts": streams[0].said,
        "events": streams[1].said,
        "jsonl": jsonl.read_bytes(),
        "log": "\n".join(service.err).encode(),
        "recording": recorded,
    }
    for name, text in everything.items():
        assert SECRET.encode() not in text, name
        assert str(PIN).encode() not in text, name
    assert {reply.status for reply in shown.values()} == {200}
    for name in ("verdicts", "jsonl", "log", "/hook", "/api/v2/alerts", "/v1/logs"):
        assert b"is not a number (at most 20)" in everything[name], name
    assert len(sessions) == 4, "hidden names stay different"
    assert all(found), "sessions can be asked for by what is shown of them"
    assert b"unlock_safety" in recorded
    assert shown["/api/v1/sessions"].body.count(b"[redacted") > 8


def test_by_default_nothing_is_hidden_and_no_argument_shown(serve: Serve) -> None:
    """Arguments are dropped once judged: no answer has them, no line, no metric."""
    service = serve(OFFRAILS_HISTORY="complete", OFFRAILS_LOG_LEVEL="debug")
    send(service, _session("plain", 1).spans)
    assert service.judgement("plain")["steps"][0]["arguments"] is None
    texts = [service.get(path).body for path in PATHS[:3]]
    texts += [service.get("/metrics", "metrics").body, "\n".join(service.err).encode()]
    for text in texts:
        assert str(PIN).encode() not in text
        assert f"x{SECRET}x".encode() not in text
