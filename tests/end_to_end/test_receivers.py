"""Two replicas, one Alertmanager and the shipped receivers, against a loopback, give one page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.end_to_end.alerting import (
    CONFIG,
    CRITICAL,
    DEPLOY,
    Daemon,
    is_ready,
    paging_specs,
    sdk_calls,
)
from tests.end_to_end.loopback import Loopback, Quiet, free_port
from tests.end_to_end.service import Service, eventually, request

RECEIVERS = DEPLOY / "alertmanager" / "receivers.yml"
SECRETS = {"slack_url": "/slack", "pagerduty_key": "pd-key", "opsgenie_key": "og-key"}


class Vendors(Loopback):
    """PagerDuty, Opsgenie and Slack: keeps the requests with path and authorization."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, dict[str, Any]]] = []
        vendors = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                who = self.headers.get("authorization", "")
                vendors.taken.append((self.path, who, json.loads(body)))
                self.send_response(202 if "slack" not in self.path else 200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

        super().__init__(Handler)

    def of(self, path: str, text: str) -> list[tuple[str, dict[str, Any]]]:
        """The requests whose path begins so and whose body has this text."""
        return [
            (who, body)
            for found, who, body in list(self.taken)
            if found.startswith(path) and text in json.dumps(body)
        ]


def _configuration(vendors: Vendors, folder: Path) -> dict[str, Any]:
    """The shipped routes with the shipped receivers; the vendors' addresses and secrets are a test's."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    text = RECEIVERS.read_text()
    for name, secret in SECRETS.items():
        value = vendors.url + secret if secret.startswith("/") else secret
        (folder / name).write_text(value)
    text = text.replace("/etc/alertmanager/", f"{folder}/")
    config["receivers"] = yaml.safe_load(text)["receivers"]
    for receiver in config["receivers"]:
        for each in receiver.get("pagerduty_configs", ()):
            each["url"] = f"{vendors.url}/pagerduty"
        for each in receiver.get("opsgenie_configs", ()):
            each["api_url"] = f"{vendors.url}/opsgenie/"
        for each in receiver.get("webhook_configs", ()):
            each["url"] = f"{vendors.url}/watchdog"
    config["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    routes = config["route"]["routes"]
    pages = [each for each in routes if each.get("receiver") == "page"]
    for page in pages:
        page |= {"group_interval": "1s"}
    routes[:0] = [{**page, "receiver": "page-opsgenie", "continue": True} for page in pages]
    return config


class World(NamedTuple):
    """Two replicas of a monitor that both get every span, and where their pages end."""

    replicas: list[Service]
    vendors: Vendors
    manager: str

    def call(self, session: str) -> None:
        for replica in self.replicas:
            if replica.process.poll() is None:
                sdk_calls(replica, session, "unlock_safety", "water", agent=session)

    def incidents(self, session: str) -> list[dict[str, Any]]:
        """Events at PagerDuty about the session's agent."""
        return [body for _, body in self.vendors.of("/pagerduty", session)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("Alertmanager is not installed")
    folder = tmp_path_factory.mktemp("receivers")
    vendors = Vendors()
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(_configuration(vendors, folder)))
    manager = f"127.0.0.1:{free_port()}"
    daemon = Daemon(
        program,
        folder / "alertmanager.log",
        f"--config.file={file}",
        f"--storage.path={folder / 'manager'}",
        f"--web.listen-address={manager}",
        "--cluster.listen-address=",
    )
    specs = str(paging_specs(folder))
    settings = {
        "OFFRAILS_HISTORY": "complete",
        "OFFRAILS_ALERTS_ALERTMANAGER": f"http://{manager}",
    }
    replicas = [Service(("--specs", specs), settings) for _ in range(2)]
    try:
        eventually(lambda: is_ready(manager), 20)
        yield World([each.wait_ready() for each in replicas], vendors, manager)
    finally:
        for each in replicas:
            each.kill()
        daemon.stop()
        vendors.close()


def test_two_replicas_page_once_and_one_is_enough(world: World) -> None:
    """Both deliver the page, and the vendors have one incident. The same holds with one replica."""
    for session in ("both", "survivor"):
        world.call(session)
        delivered = [each for each in world.replicas if each.process.poll() is None]
        for replica in delivered:
            eventually(
                lambda: replica.metric("offrails_alerts_sent_total", sink="alertmanager") > 0  # noqa: B023
            )
        eventually(lambda: world.incidents(session))  # noqa: B023
        eventually(lambda: world.vendors.of("/opsgenie", session))  # noqa: B023
        world.replicas[0].kill()
    for session in ("both", "survivor"):
        events = world.incidents(session)
        assert len({event["dedup_key"] for event in events}) == 1
        assert {event["event_action"] for event in events} == {"trigger"}
        assert {event["routing_key"] for event in events} == {"pd-key"}
        payload = events[0]["payload"]
        assert (payload["severity"], payload["class"], payload["component"]) == (
            "critical",
            CRITICAL,
            session,
        )
        assert "called water" in payload["summary"]
        alerts = world.vendors.of("/opsgenie", session)
        assert {who for who, _ in alerts} == {"GenieKey og-key"}
        made = [body for _, body in alerts if "alias" in body]
        assert len({body["alias"] for body in made}) == 1
        assert made[0]["priority"] == "P1"


def test_a_warning_goes_to_slack_with_its_runbook(world: World) -> None:
    """A warning is a Slack message with a summary and a link."""
    alert = {
        "labels": {
            "alertname": "AgentHarmRateHigh",
            "severity": "warning",
            "agent": "slow",
            "spec": "s",
        },
        "annotations": {
            "summary": "slow is harmful often.",
            "runbook_url": "https://runbooks/a",
        },
    }
    headers = {"content-type": "application/json"}
    body = json.dumps([alert]).encode()
    assert request(world.manager, "POST", "/api/v2/alerts", body, headers).status == 200
    _, message = eventually(lambda: world.vendors.of("/slack", "slow is harmful often"))[0]
    (said,) = message["attachments"]
    assert (message["channel"], said["color"]) == ("#agents", "warning")
    assert said["title"].startswith("firing: AgentHarmRateHigh slow")
    assert "<https://runbooks/a|runbook>" in said["text"]


def test_amtool_takes_the_receivers(tmp_path: Path) -> None:
    """The shipped routes with the shipped receivers are a configuration; every route has its receiver."""
    amtool = shutil.which("amtool")
    if amtool is None:
        pytest.skip("amtool is not installed")
    config = yaml.safe_load(CONFIG.read_text())
    placeholders = {each["name"] for each in config["receivers"]}
    config["receivers"] = yaml.safe_load(RECEIVERS.read_text())["receivers"]
    assert placeholders <= {each["name"] for each in config["receivers"]}
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [amtool, "check-config", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
