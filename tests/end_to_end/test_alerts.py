"""From a span to a page: directly, through Alertmanager, and by scrape and rule."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector.clock import now_ns
from collector.prometheusrule import RULES
from tests.end_to_end.service import SPECS, Service, eventually, request
from tests.end_to_end.traffic import Rover, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

CRITICAL = "AgentCriticalHarmfulCall"


class Pages:
    """A receiver of webhooks; it notes when each page came."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, dict[str, Any]]] = []
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                pages.taken.append((time.monotonic(), json.loads(body)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def of(self, session: str, status: str = "firing") -> list[tuple[float, dict[str, Any]]]:
        """When alerts of a session came, and what they said."""
        return [
            (at, alert)
            for at, payload in self.taken
            for alert in payload["alerts"]
            if alert["labels"].get("session") == session and alert["status"] == status
        ]

    def named(self, name: str, **labels: str) -> list[dict[str, Any]]:
        return [
            alert
            for _, payload in list(self.taken)
            for alert in payload["alerts"]
            if {"alertname": name, **labels}.items() <= alert["labels"].items()
        ]


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages()
    yield made
    made.close()


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """The rover's task in `mode: page`, as a user sets it; the policy stays in shadow."""
    folder = tmp_path / "specs"
    folder.mkdir()
    for file in SPECS.glob("*.yaml"):
        text = file.read_text()
        if file.stem == "farm_rover":
            text = text.replace("mode: shadow", "mode: page")
        (folder / file.name).write_text(text)
    return folder


def _sdk_call(service: Service, session: str, *tools: str) -> float:
    """A real SDK sends the calls, each at once; returns when the last one had ended."""
    url = f"http://{service.addresses['http']}/v1/traces"
    provider = TracerProvider(resource=Resource({"service.name": "farm-rover"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=url)))
    tracer = provider.get_tracer("rover")
    ended = 0.0
    for tool in tools:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.conversation.id": session,
            "gen_ai.agent.name": "rover",
        }
        with tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes):
            pass
        ended = time.monotonic()
    provider.shutdown()
    return ended


def test_a_page_within_a_second(serve: Serve, pages: Pages, specs: Path) -> None:
    """A critical call that a real SDK sends is at the webhook in less than a second."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
    )

    took = []
    for session in ("direct-1", "direct-2", "direct-3"):
        began = time.monotonic()
        _sdk_call(service, session, "unlock_safety", "water")
        at, alert = eventually(partial(pages.of, session))[0]
        took.append(at - began)

    print(f"span to webhook, with 0.5 s to settle: {min(took):.3f} s")
    assert min(took) < 1
    assert alert["labels"]["alertname"] == CRITICAL
    assert alert["labels"]["reason"] == "out_of_order"
    assert "Skipped: move, scan, open_valve." in alert["annotations"]["description"]
    assert service.metric("offrails_alerts_sent_total", sink="webhook", result="ok") >= 1


def test_a_revised_call_pages_nobody(serve: Serve, pages: Pages, specs: Path) -> None:
    """What looks wrong because it came first, and is put right at once, is no page."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
    )
    session = Rover("turned", 7).calls("unlock_safety", "move", "scan", "open_valve")

    send(service, session.spans[3:])
    send(service, session.spans[:3])
    send(service, Rover("wrong", 8).calls("made_up_tool").spans)
    eventually(lambda: pages.of("wrong"))
    eventually(lambda: service.metric("offrails_alerts_withheld_total", reason="revised"))

    time.sleep(0.6)  # the time to settle, and a little: nothing may come in it
    assert pages.of("turned") == []


def test_a_page_is_resolved(serve: Serve, pages: Pages, specs: Path) -> None:
    """A revision after it was raised, or the end of the session, takes the page back."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
        OFFRAILS_ALERTS_SETTLE_SECONDS="0.05",
        OFFRAILS_SESSIONS_IDLE_SECONDS="1",
    )
    session = Rover("late", 7).calls("unlock_safety", "move", "scan")
    send(service, session.spans[1:2])
    eventually(lambda: pages.of("late"))
    send(service, session.spans[:1])
    eventually(lambda: pages.of("late", "resolved"))

    send(service, Rover("idle", 9).calls("water").spans)
    eventually(lambda: pages.of("idle", "resolved"))

    assert service.metric("offrails_alerts_firing") == 0


def test_shadow_specs_are_counted_and_page_nobody(serve: Serve, pages: Pages) -> None:
    """As shipped every spec is in shadow: the metrics say what would have paged."""
    service = serve(OFFRAILS_HISTORY="complete", OFFRAILS_ALERTS_WEBHOOK_URL=pages.url)
    send(service, Rover("shadow", 5).calls("made_up_tool").spans)

    eventually(lambda: service.metric("offrails_harmful_calls_provisional_total"))
    time.sleep(0.2)
    assert pages.taken == []
    assert service.metric("offrails_spec_info", mode="shadow") >= 1


def test_a_dead_webhook_leaves_ingest_alone(serve: Serve, specs: Path) -> None:
    """A receiver that hangs costs a bounded queue and a count; calls are judged as ever."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        service = serve(
            "--specs",
            str(specs),
            OFFRAILS_HISTORY="complete",
            OFFRAILS_ALERTS_WEBHOOK_URL=f"http://127.0.0.1:{port}",
            OFFRAILS_ALERTS_QUEUE="5",
            OFFRAILS_ALERTS_TIMEOUT_SECONDS="0.3",
            OFFRAILS_DRAIN_SECONDS="0.2",
        )
        took = []
        for number in range(40):
            spans = Rover(f"s{number}", number + 1).calls("made_up_tool").spans
            began = time.monotonic()
            send(service, spans)
            took.append(time.monotonic() - began)
        eventually(lambda: service.metric("offrails_alerts_sent_total", result="dropped") >= 30)

    assert sorted(took)[20] < 0.1
    assert service.metric("offrails_calls_total", verdict="harmful") == 40
    assert service.metric("offrails_alert_queue_length", sink="webhook") <= 5


def test_tail_shows_verdicts_as_they_come(serve: Serve) -> None:
    """`offrails tail URL` shows harmless calls as well, and ends with the service."""
    service = serve(OFFRAILS_HISTORY="complete")
    url = f"http://{service.addresses['admin']}"
    command = [sys.executable, "-m", "collector", "tail", url, "--spec", "farm_rover", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shown:
        assert shown.stdout is not None
        found: list[dict[str, Any]] = []
        stream = shown.stdout
        reader = threading.Thread(
            target=lambda: found.extend(json.loads(line) for line in stream), daemon=True
        )
        reader.start()
        numbers = iter(range(10, 1_000))

        def seen() -> bool:
            number = next(numbers)
            session = Rover(f"tail-{number}", number).calls("unlock_safety", "water")
            send(service, session.spans)
            time.sleep(0.05)
            return {"progress", "harmful"} <= {each["kind"] for each in found}

        eventually(seen)
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 5
        assert shown.wait(10) == 0
        reader.join(5)


# --- the real Prometheus and Alertmanager -------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Daemon:
    """A program of Debian's packages, on the loopback."""

    def __init__(self, program: str, log: Path, *arguments: str) -> None:
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [program, *arguments], stdout=self._log, stderr=self._log, cwd=log.parent
        )

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _ready(address: str) -> bool:
    try:
        return request(address, "GET", "/-/ready").status == 200
    except OSError:
        return False


@pytest.fixture
def manager(tmp_path: Path, pages: Pages) -> Iterator[str]:
    """The real Alertmanager, with our routes and inhibition, and our webhook."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("Alertmanager is not installed")
    ours = Path(__file__).parents[2] / "deploy" / "alertmanager" / "alertmanager.yml"
    config = yaml.safe_load(ours.read_text())
    config["receivers"] = [
        {
            "name": receiver["name"],
            "webhook_configs": [{"url": f"{pages.url}/{receiver['name']}"}],
        }
        for receiver in config["receivers"]
    ]
    config["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    config["route"]["routes"][1] |= {"group_interval": "1s"}
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{_free_port()}"
    daemon = Daemon(
        program,
        tmp_path / "alertmanager.log",
        f"--config.file={file}",
        f"--storage.path={tmp_path / 'manager'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    )
    eventually(lambda: _ready(address), 20)
    yield address
    daemon.stop()


def _prometheus(tmp_path: Path, service: Service, manager: str) -> tuple[str, Daemon]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed")
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES.read_text().replace("interval: 30s", "interval: 1s"))
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
        "scrape_configs": [
            {
                "job_name": "offrails",
                "static_configs": [{"targets": [service.addresses["metrics"]]}],
            }
        ],
    }
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{_free_port()}"
    daemon = Daemon(
        program,
        tmp_path / "prometheus.log",
        f"--config.file={file}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage",
    )
    return address, daemon


def _query(address: str, path: str, **query: str) -> Any:
    from urllib.parse import urlencode

    reply = request(address, "GET", f"/api/v1/{path}?{urlencode(query)}")
    assert reply.status == 200, reply.body
    return reply.json()["data"]


def _through(service: Service, pages: Pages, number: int) -> float:
    """Seconds from a critical call of an agent of its own to the webhook."""
    agent: dict[str, Any] = {"gen_ai.agent.name": f"rover-{number}"}
    session = Rover(f"through-{number}", number)
    session.call("unlock_safety", {}, **agent).call("water", {}, **agent)
    began = time.monotonic()
    send(service, session.spans)
    return eventually(lambda: pages.of(session.session))[0][0] - began


def test_prometheus_and_alertmanager(
    serve: Serve, pages: Pages, specs: Path, manager: str, tmp_path: Path
) -> None:
    """Both ways to a page, every rule evaluated on mixed traffic, exemplars, inhibition."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_ALERTMANAGER=f"http://{manager}",
        OFFRAILS_SESSIONS_WINDOW_SECONDS="1",
    )
    address, daemon = _prometheus(tmp_path, service, manager)
    try:
        eventually(lambda: _ready(address), 20)
        took = [_through(service, pages, number) for number in (1, 2, 3)]
        print(f"span to webhook through Alertmanager, 0.5 s to settle: {min(took):.3f} s")
        assert min(took) < 1

        eventually(lambda: pages.named(CRITICAL, source="rules"), 25)

        eventually(
            lambda: _query(address, "query", query="agent_spec:offrails_calls:rate5m")["result"]
        )
        # Every expression of every rule, after traffic: none may be an error.
        for group in _query(address, "rules")["groups"]:
            for rule in group["rules"]:
                assert rule["health"] == "ok", (rule["name"], rule)
                _query(address, "query", query=rule["query"])
        found = eventually(
            lambda: _query(
                address,
                "query_exemplars",
                query="offrails_harmful_calls_total",
                start=str(now_ns() / 1e9 - 300),
                end=str(now_ns() / 1e9 + 5),
            )
        )
        assert {"trace_id", "span_id"} <= found[0]["exemplars"][0]["labels"].keys()

        # A warning about the same agent and spec is inhibited, one about another is not.
        alerts = [
            {"labels": {"alertname": "AgentHarmRateHigh", "severity": "warning", **labels}}
            for labels in (
                {"agent": "rover-1", "spec": "farm_rover"},
                {"agent": "other", "spec": "farm_rover"},
            )
        ]
        body = json.dumps(alerts).encode()
        reply = request(
            manager, "POST", "/api/v2/alerts", body, {"content-type": "application/json"}
        )
        assert reply.status == 200, reply.body
        states = {
            alert["labels"]["agent"]: alert["status"]["state"]
            for alert in request(manager, "GET", "/api/v2/alerts").json()
            if alert["labels"]["alertname"] == "AgentHarmRateHigh"
        }
        assert states["rover-1"] == "suppressed"
        eventually(lambda: pages.named("AgentHarmRateHigh", agent="other"))
        assert pages.named("AgentHarmRateHigh", agent="rover-1") == []
    finally:
        daemon.stop()
