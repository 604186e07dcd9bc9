"""Every query of every board on a real Prometheus, after mixed traffic of a real monitor."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from grafana.boards import BOARDS
from grafana.panels import board_json
from tests.end_to_end.service import SPECS, Service, eventually, request
from tests.end_to_end.test_divergence_live import Made, reference
from tests.end_to_end.traffic import GOLDEN, Rover, send

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
NEEDED = (
    "offrails_path_correctness",
    "rate(offrails_calls_total[20s])",
    "offrails_efficiency",
    "rate(offrails_divergences_total[20s]) > 0",
    "offrails_consistency_divergence_point",
    "agent_spec:offrails_harm:ratio_rate5m",
)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


class Prometheus:
    """A real Prometheus that scrapes one monitor four times a second."""

    def __init__(self, folder: Path, metrics: str) -> None:
        assert PROMETHEUS is not None
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
        """The result of an instant query, which must not be an error."""
        path = f"/api/v1/query?{urlencode({'query': query})}"
        reply = request(self.address, "GET", path)
        assert reply.status == 200, (query, reply.body)
        found: list[Any] = reply.json()["data"]["result"]
        return found

    def ready(self) -> bool:
        try:
            return request(self.address, "GET", "/-/ready").status == 200
        except OSError:
            return False


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has seen sessions come, go wrong, and end."""
    if PROMETHEUS is None:
        pytest.skip("there is no prometheus here (apt-get install prometheus)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        variables = {"OFFRAILS_HISTORY": "complete", "OFFRAILS_SESSIONS_IDLE_SECONDS": "2"}
        made: tuple[Made, ...] = tuple((tool, {}) for tool in GOLDEN)
        usual = reference(tmp_path_factory.mktemp("specs"), "farm-rover", made)
        specs = ("--specs", str(SPECS), "--specs", str(usual))
        service = Service(specs, variables).wait_ready()
        server = Prometheus(tmp_path_factory.mktemp("prometheus"), service.addresses["metrics"])
        try:
            eventually(server.ready)
            started = time.monotonic()
            for number in range(1, 60):
                _traffic(service, number)
                if number > 8 and all(server.ask(query) for query in NEEDED):
                    break
                time.sleep(0.25)
            assert time.monotonic() - started < 30
            yield server
        finally:
            server.process.terminate()
            server.process.wait(10)
            service.kill()


def _traffic(service: Service, number: int) -> None:
    send(service, Rover(f"good-{number}", 2 * number).calls(*GOLDEN).spans)
    bad = Rover(f"bad-{number}", 2 * number + 1).calls("unlock_safety", "water", "fly", "move")
    send(service, bad.spans)


def chosen(query: str) -> str:
    for name, value in CHOSEN.items():
        query = query.replace(name, value)
    return query


@pytest.mark.parametrize("board", BOARDS, ids=[board.uid for board in BOARDS])
def test_every_panel_has_an_answer(prometheus: Prometheus, board: Any) -> None:
    """No query fails, and none is empty where the panel does not say that it may be."""
    empty = [
        (panel.title, target.expr)
        for row in board.rows
        for panel in row.panels
        for target in panel.targets
        if not prometheus.ask(chosen(target.expr)) and not panel.may_be_empty
    ]
    assert empty == []


@pytest.mark.parametrize("board", BOARDS, ids=[board.uid for board in BOARDS])
def test_variables_and_annotations_run(prometheus: Prometheus, board: Any) -> None:
    """Each variable has values, each annotation's query is one."""
    made = board_json(board)
    for variable in board.variables:
        series, label = variable.query.removeprefix("label_values(").rstrip(")").rsplit(", ", 1)
        assert prometheus.ask(f"count by ({label}) ({chosen(series)})"), variable
    for annotation in made["annotations"]["list"]:
        prometheus.ask(chosen(annotation["expr"]))
