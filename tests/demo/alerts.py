"""`make demo-alerts`: a rover does harm: the page comes directly and by Alertmanager, and once.

Starts the service with the rover's task in `mode: page`, a receiver that prints pages, and, where
they are installed, the real Prometheus and Alertmanager with the files of `deploy/`. Everything is
on free ports of the loopback and ends by itself.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tests.demo.tied import end_by_signals
from tests.end_to_end.alerting import quick
from tests.end_to_end.loopback import Loopback, Quiet, free_port
from tests.end_to_end.service import SPECS, Service, eventually, request
from tests.end_to_end.traffic import Rover, send

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules" / "offrails.yml"
RULE_SECONDS = 25
"""How long the slow way may take here, with a scrape a second."""


def main() -> int:
    """Runs the demo; 0 when every page came."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder)
        pages = stack.enter_context(_pages())
        manager = stack.enter_context(_manager(home, pages.url))
        service = stack.enter_context(_service(home, pages.url, manager))
        prometheus = stack.enter_context(_prometheus(home, service, manager))
        print(f"offrails    http://{service.addresses['metrics']}/metrics")
        print(f"Prometheus  {prometheus or 'not installed'}")
        print(f"Alertmanager  {manager or 'not installed'}\n")
        print("The rover waters before it has looked, which its spec rates critical.")
        pages.began = time.monotonic()
        send(service, Rover("field-7", 1).calls("unlock_safety", "water").spans)
        eventually(lambda: pages.by("direct"))
        if manager:
            eventually(lambda: pages.by("manager"))
        if prometheus:
            print("By scrape and rule it takes until the call is final (10 s), and a scrape.")
            eventually(lambda: _twin(manager), RULE_SECONDS)
            print(
                "  The rule's alert fires. The page is out already: Alertmanager tells nobody again."
            )
        print("\nThe session goes quiet and ends: the page is resolved.")
        eventually(lambda: pages.by("resolved"), 2 * RULE_SECONDS)
    return 0


class Pages(Loopback):
    """A receiver that prints what it gets."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seen: set[str] = set()
        pages = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                pages.take(self.path, json.loads(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        super().__init__(Handler)

    def by(self, way: str) -> bool:
        return way in self.seen

    def take(self, path: str, payload: dict[str, Any]) -> None:
        after = time.monotonic() - self.began
        for alert in payload["alerts"]:
            labels = alert["labels"]
            if labels["alertname"] == "AgentMonitorWatchdog":
                continue
            way = "rules" if labels.get("source") == "rules" else path.strip("/")
            way = "manager" if way == "page" else way
            self.seen.add("resolved" if alert["status"] == "resolved" else way)
            print(f"  {after:6.2f} s  {alert['status']:8}  {way:8}  {labels['alertname']}")
            if way == "direct" and alert["status"] == "firing":
                print(f"            {alert['annotations']['description']}")


@contextmanager
def _pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.close()


@contextmanager
def _service(home: Path, url: str, manager: str) -> Iterator[Service]:
    specs = home / "specs"
    specs.mkdir()
    text = (SPECS / "farm_rover.yaml").read_text().replace("mode: shadow", "mode: page")
    (specs / "farm_rover.yaml").write_text(text)
    service = Service(
        ("--specs", str(specs)),
        {
            "OFFRAILS_HISTORY": "complete",
            "OFFRAILS_ALERTS_WEBHOOK_URL": f"{url}/direct",
            "OFFRAILS_SESSIONS_IDLE_SECONDS": "20",
            "OFFRAILS_ALERTS_RESOLVE_SECONDS": "30",
            **({"OFFRAILS_ALERTS_ALERTMANAGER": f"http://{manager}"} if manager else {}),
        },
    )
    try:
        yield service.wait_ready()
    finally:
        service.stop()


@contextmanager
def _daemon(home: Path, program: str, *arguments: str) -> Iterator[None]:
    log = (home / f"{Path(program).name}.log").open("wb")
    with log, subprocess.Popen([program, *arguments], stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def _manager(home: Path, url: str) -> Iterator[str]:
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        yield ""
        return
    config = yaml.safe_load((ROOT / "deploy/alertmanager/alertmanager.yml").read_text())
    config["receivers"] = [
        {"name": each["name"], "webhook_configs": [{"url": f"{url}/{each['name']}"}]}
        for each in config["receivers"]
    ]
    config["route"]["routes"][1]["group_interval"] = "1s"
    file = home / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    place = f"127.0.0.1:{free_port()}"
    with _daemon(
        home,
        program,
        f"--config.file={file}",
        f"--storage.path={home / 'manager'}",
        f"--web.listen-address={place}",
        "--cluster.listen-address=",
    ):
        eventually(lambda: _ready(place))
        yield place


@contextmanager
def _prometheus(home: Path, service: Service, manager: str) -> Iterator[str]:
    program = shutil.which("prometheus")
    if program is None or not manager:
        yield ""
        return
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    rules = home / "rules.yml"
    rules.write_text(quick(RULES.read_text()))  # else the demo would take minutes
    config["rule_files"] = [str(rules)]
    config["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [manager]}]
    target = [service.addresses["metrics"]]
    config["scrape_configs"][0]["static_configs"] = [{"targets": target}]
    file = home / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    place = f"127.0.0.1:{free_port()}"
    with _daemon(
        home,
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={home / 'tsdb'}",
        f"--web.listen-address={place}",
        "--enable-feature=exemplar-storage",
    ):
        eventually(lambda: _ready(place))
        yield f"http://{place}"


def _twin(manager: str) -> bool:
    """True if the rule's alert is at Alertmanager and is inhibited there."""
    wanted = {"alertname": "AgentCriticalHarmfulCall", "source": "rules"}
    return any(
        wanted.items() <= alert["labels"].items() and alert["status"]["state"] == "suppressed"
        for alert in request(manager, "GET", "/api/v2/alerts").json()
    )


def _ready(place: str) -> bool:
    try:
        return request(place, "GET", "/-/ready").status == 200
    except OSError:
        return False


if __name__ == "__main__":
    end_by_signals()
    sys.exit(main())
