"""Every query of every board on a real Prometheus, after mixed traffic of a real monitor."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from collector.telemetry.clock import now_ns
from grafana.boards import BOARDS
from grafana.panels import Board, board_json
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import SPECS, Service, eventually, request
from tests.end_to_end.test_divergence_live import Made, reference
from tests.end_to_end.traffic import GOLDEN, Rover, as_json, send

pytestmark = pytest.mark.timeout(240)

PROMETHEUS = shutil.which("prometheus")
RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules" / "offrails.yml"
CHOSEN = {
    "$__rate_interval": "20s",
    "$__range": "60s",
    "$job": ".+",
    "$instance": ".+",
    "$agent": ".+",
    "$spec": ".+",
}


class Prometheus:
    """A real Prometheus that scrapes one monitor four times a second."""

    def __init__(self, folder: Path, metrics: str) -> None:
        assert PROMETHEUS is not None
        self.at = now_ns() / 1e9
        self._write(folder, metrics)
        self.address = f"127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.address}",
                "--enable-feature=exemplar-storage",
                "--log.level=error",
            ],
            stderr=subprocess.DEVNULL,
        )

    def _write(self, folder: Path, metrics: str) -> None:
        rules = yaml.safe_load(RULES.read_text())
        for group in rules["groups"]:
            group["interval"] = "1s"
        (folder / "rules.yml").write_text(yaml.safe_dump(rules))
        scrape = {"job_name": "offrails", "static_configs": [{"targets": [metrics]}]}
        often = {"scrape_interval": "250ms", "evaluation_interval": "1s"}
        settings = {"global": often, "rule_files": ["rules.yml"], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))

    def ask(self, query: str) -> list[Any]:
        """The result of a query at the instant `at`, which must not be an error."""
        path = f"/api/v1/query?{urlencode({'query': query, 'time': self.at})}"
        reply = request(self.address, "GET", path)
        assert reply.status == 200, (query, reply.body)
        found: list[Any] = reply.json()["data"]["result"]
        return found

    def scraped_after(self, instant: float) -> Callable[[], bool]:
        """Whether there is a scrape of later; then its instant is the one that is asked about."""

        def scraped() -> bool:
            self.at = now_ns() / 1e9
            found = self.ask("timestamp(up)")
            return bool(found) and float(found[0]["value"][1]) > instant

        return scraped

    def ready(self) -> bool:
        try:
            return request(self.address, "GET", "/-/ready").status == 200
        except OSError:
            return False


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scraped good, bad and ended sessions, and a monitor that received malformed requests."""
    if PROMETHEUS is None:
        pytest.skip("there is no prometheus here (apt-get install prometheus)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        service = _monitor(tmp_path_factory.mktemp("monitor"))
        server = Prometheus(tmp_path_factory.mktemp("prometheus"), service.addresses["metrics"])
        try:
            eventually(server.ready)
            started = time.monotonic()
            for number in range(1, 80):
                _traffic(service, number)
                # Sessions end meanwhile: every panel is asked about one instant, now and in the tests.
                eventually(server.scraped_after(now_ns() / 1e9))
                if number > 8 and not any(unanswered(server, board) for board in BOARDS):
                    break
            assert time.monotonic() - started < 50
            yield server
        finally:
            server.process.terminate()
            server.process.wait(10)
            service.kill()


def _monitor(folder: Path) -> Service:
    """A monitor whose sessions end soon, and that pages into a file."""
    text = (SPECS / "farm_rover.yaml").read_text().replace("id: farm_rover", "id: paging")
    (folder / "paging.yaml").write_text(text.replace("mode: shadow", "mode: page"))
    made: tuple[Made, ...] = tuple((tool, {}) for tool in GOLDEN)
    reference(folder, "farm-rover", made)
    variables = {
        "OFFRAILS_HISTORY": "complete",
        "OFFRAILS_SESSIONS_IDLE_SECONDS": "2",
        "OFFRAILS_ALERTS_JSONL": str(folder / "alerts.jsonl"),
        "OFFRAILS_ALERTS_SETTLE_SECONDS": "0",
    }
    places = ("--specs", str(SPECS), "--specs", str(folder))
    return Service(places, variables).wait_ready()


def _traffic(service: Service, number: int) -> None:
    """Good and bad sessions, calls out of order, duplicates, unmatched calls, malformed requests, and questions."""
    send(service, Rover(f"good-{number}", 4 * number).calls(*GOLDEN).spans)
    bad = Rover(f"bad-{number}", 4 * number + 1).calls("unlock_safety", "water", "fly", "move")
    send(service, bad.spans)
    send(service, bad.spans[:1])
    late = Rover(f"late-{number}", 4 * number + 2).calls(*GOLDEN)
    send(service, late.spans[3:])
    send(service, late.spans[:3])
    other = Rover(f"other-{number}", 4 * number + 3).calls("search").spans
    send(service, other, resource={"service.name": "errands"})
    assert service.post(as_json([replace(other[0], trace_id=b"")])).status == 200
    assert service.post(b"{").status == 400
    for tool in ("unlock_safety", "water"):
        _ask(service, f"asked-{number}", tool)


def _ask(service: Service, session: str, tool: str) -> None:
    """An agent asks before a call."""
    body = {"session": session, "service": "farm-rover", "tool": tool, "arguments": {}}
    reply = request(
        service.addresses["decide"],
        "POST",
        "/api/v1/decide",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    assert reply.status == 200, reply


def unanswered(server: Prometheus, board: Board) -> list[tuple[str, str]]:
    """Title and query of each panel without data, except those that may be empty."""
    return [
        (panel.title, target.expr)
        for row in board.rows
        for panel in row.panels
        for target in panel.targets
        if not server.ask(chosen(target.expr)) and not panel.may_be_empty
    ]


def chosen(query: str) -> str:
    for name, value in CHOSEN.items():
        query = query.replace(name, value)
    return query


@pytest.mark.parametrize("board", BOARDS, ids=[board.uid for board in BOARDS])
def test_every_panel_has_an_answer(prometheus: Prometheus, board: Board) -> None:
    """No query fails, and none is empty unless its panel says that it may be."""
    assert unanswered(prometheus, board) == []


@pytest.mark.parametrize("board", BOARDS, ids=[board.uid for board in BOARDS])
def test_variables_and_annotations_run(prometheus: Prometheus, board: Board) -> None:
    """Each variable has values, each annotation's query is one."""
    made = board_json(board)
    for variable in board.variables:
        series, label = variable.query.removeprefix("label_values(").rstrip(")").rsplit(", ", 1)
        assert prometheus.ask(f"count by ({label}) ({chosen(series)})"), variable
    for annotation in made["annotations"]["list"]:
        prometheus.ask(chosen(annotation["expr"]))
