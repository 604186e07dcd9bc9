"""A receiver of pages, and the real Prometheus and Alertmanager where they are installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.end_to_end.loopback import Loopback, Quiet, free_port
from tests.end_to_end.service import SPECS, Service, eventually, request

__all__ = [
    "CRITICAL",
    "Pages",
    "Prometheus",
    "alertmanager",
    "paging_specs",
    "quick",
    "sdk_calls",
]

CRITICAL = "AgentCriticalHarmfulCall"
DEPLOY = Path(__file__).parents[2] / "deploy"
CONFIG = DEPLOY / "alertmanager" / "alertmanager.yml"
RULES = DEPLOY / "prometheus" / "rules" / "offrails.yml"


class Pages(Loopback):
    """A receiver of webhooks; it notes when each page came."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, dict[str, Any]]] = []
        pages = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                pages.taken.append((time.monotonic(), json.loads(body)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        super().__init__(Handler)

    def of(
        self, session: str, status: str = "firing", way: str = ""
    ) -> list[tuple[float, dict[str, Any]]]:
        """When alerts of a session came, and their texts.

        Args:
            session: its id.
            status: firing or resolved.
            way: direct, manager, or "" for both.
        """
        return [
            (at, alert)
            for at, payload in list(self.taken)
            for alert in payload["alerts"]
            if _session(alert) == session
            and alert["status"] == status
            and way in ("", "direct" if payload["receiver"] == "offrails" else "manager")
        ]

    def named(
        self, name: str, status: str = "firing", **labels: str
    ) -> list[tuple[float, dict[str, Any]]]:
        """When alerts of a name came, and what they said."""
        return [
            (at, alert)
            for at, payload in list(self.taken)
            for alert in payload["alerts"]
            if {"alertname": name, **labels}.items() <= alert["labels"].items()
            and alert["status"] == status
        ]


def _session(alert: dict[str, Any]) -> str | None:
    """The session of an alert; an agent's alert names its worst session beside its labels."""
    found = alert["labels"].get("session") or alert["annotations"].get("session")
    return found if found is None else str(found)


def paging_specs(folder: Path) -> Path:
    """The bundled specs, with the rover's task in `mode: page`."""
    specs = folder / "specs"
    specs.mkdir()
    for file in SPECS.glob("*.yaml"):
        text = file.read_text()
        if file.stem == "farm_rover":
            text = text.replace("mode: shadow", "mode: page")
        (specs / file.name).write_text(text)
    return specs


def sdk_calls(service: Service, session: str, *tools: str, agent: str = "rover") -> float:
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
            "gen_ai.agent.name": agent,
        }
        # Taken while the last span is open: what its export takes is a part of what is measured.
        with tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes):
            ended = time.monotonic()
    provider.shutdown()
    return ended


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


def is_ready(address: str) -> bool:
    try:
        return request(address, "GET", "/-/ready").status == 200
    except OSError:
        return False


@contextmanager
def alertmanager(folder: Path, hook: str) -> Iterator[str]:
    """The real Alertmanager with our routes and inhibition, quicker, and one webhook for all."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("Alertmanager is not installed")
    config = yaml.safe_load(CONFIG.read_text())
    config["receivers"] = [
        {
            "name": receiver["name"],
            "webhook_configs": [{"url": f"{hook}/{receiver['name']}"}],
        }
        for receiver in config["receivers"]
    ]
    config["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    config["route"]["routes"][1] |= {"group_interval": "1s"}
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    daemon = Daemon(
        program,
        folder / "alertmanager.log",
        f"--config.file={file}",
        f"--storage.path={folder / 'manager'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    )
    try:
        eventually(lambda: is_ready(address), 20)
        yield address
    finally:
        daemon.stop()


def quick(rules: str) -> str:
    """The rules for a scrape a second: a runaway has to last 2 s, a critical call lasts 10 s.

    The others keep their `for`: on a busy machine a scrape of a second may well fail.
    """
    found = yaml.safe_load(rules)
    for group in found["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            if rule.get("alert") == "AgentSessionRunaway":
                rule["for"] = "2s"
            rule.pop("keep_firing_for", None)
            if rule.get("alert") == CRITICAL:
                rule["expr"] = rule["expr"].replace("2m", "10s").replace("120", "10")
    return yaml.safe_dump(found)


class Prometheus:
    """The real Prometheus, which scrapes a service each second, under our rules.

    Args:
        folder: for its files.
        service: what is scraped.
        manager: Alertmanager's address.
    """

    def __init__(self, folder: Path, service: Service, manager: str) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("Prometheus is not installed")
        (folder / "rules.yml").write_text(quick(RULES.read_text()))
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yml")],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
            "scrape_configs": [
                {
                    "job_name": "offrails",
                    "static_configs": [{"targets": [service.addresses["metrics"]]}],
                }
            ],
        }
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        self.address = f"127.0.0.1:{free_port()}"
        self._daemon = Daemon(
            program,
            folder / "prometheus.log",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={self.address}",
            "--enable-feature=exemplar-storage",
        )

    def wait(self) -> Prometheus:
        eventually(lambda: is_ready(self.address), 20)
        return self

    def stop(self) -> None:
        self._daemon.stop()

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of its API, which must not be an error."""
        reply = request(self.address, "GET", f"/api/v1/{path}?{urlencode(query)}")
        assert reply.status == 200, (query, reply.body)
        return reply.json()["data"]

    def query(self, text: str) -> list[Any]:
        """The result of an instant query."""
        found: list[Any] = self.ask("query", query=text)["result"]
        return found
