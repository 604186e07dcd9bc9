"""Three monitors and five agents under the shipped rules, routes and inhibition, on a quicker clock.

A minute of the rules and of Alertmanager is `MINUTE` seconds here, and a scrape comes each second. So 37 minutes
of operation take some six. Nothing else differs from what is shipped: thresholds, expressions, labels and routes are
those of the files in `deploy`.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest
import yaml

from collector.telemetry.clock import now_ns
from tests.end_to_end.alerting import CONFIG, DEPLOY, RULES, Daemon, Pages, paging_specs
from tests.end_to_end.certificates import Pair, authority, issue
from tests.end_to_end.loopback import free_port
from tests.end_to_end.moody import Moody
from tests.end_to_end.service import Service, eventually, request
from tests.end_to_end.traffic import GOLDEN, Rover, as_json

__all__ = ["MINUTE", "Agent", "Fleet", "Monitor", "Notice", "pause", "quickened", "seconds"]

MINUTE: Final = 3
"""Seconds that stand for a minute."""

_UNITS: Final = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}
_PERIOD: Final = re.compile(r"(?<=\[)(\d+)([smhd])(?=\])|(?<=offset )(\d+)([smhd])\b")
_SINCE: Final = re.compile(r"(?<=time\(\) - )(\d+)")

_WATCHED: Final = """
id: watched
kind: task
mode: page
match: {gen_ai.agent.name: fig}
alphabet: {unlock_safety: {tool: unlock_safety}, move: {tool: move}}
golden: [[unlock_safety, move]]
idle: 5s
"""
"""A spec whose sessions may not stand still."""

_numbers = count(1)


def seconds(period: str) -> str:
    """A period of the rules on the quicker clock: at least a second."""
    return f"{max(1, round(int(period[:-1]) * _UNITS[period[-1]] * MINUTE))}s"


def quickened(rules: str) -> str:
    """The rule file on the quicker clock."""
    found = yaml.safe_load(rules)
    for group in found["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            expr = _PERIOD.sub(lambda at: seconds(at[0]), rule["expr"])
            rule["expr"] = _SINCE.sub(lambda at: str(int(at[0]) * MINUTE // 60), expr)
            for key in ("for", "keep_firing_for"):
                if key in rule:
                    rule[key] = seconds(rule[key])
    return yaml.safe_dump(found)


class Notice(NamedTuple):
    """A message that Alertmanager sent to somebody, or that a monitor sent itself."""

    at: float
    receiver: str
    status: str
    alerts: frozenset[tuple[str, str]]
    """Name of each firing alert, with its agent, or its instance where it is about a monitor."""


class Monitor:
    """One monitor, which can be killed, frozen and started again at its addresses.

    Args:
        name: of the monitor.
        specs: folder of its specs.
        variables: its settings.
    """

    def __init__(self, name: str, specs: Path, variables: dict[str, str]) -> None:
        self.name = name
        self.specs = specs
        self._places = {
            f"OFFRAILS_{each}": f"127.0.0.1:{free_port()}"
            for each in ("GRPC", "HTTP", "METRICS", "ADMIN", "DECIDE")
        }
        self._variables = variables
        self.instance = self._places["OFFRAILS_METRICS"]
        self.http = self._places["OFFRAILS_HTTP"]
        self.service = self.start()

    def start(self) -> Service:
        """Starts it, again or for the first time."""
        self.service = Service(
            ("--specs", str(self.specs)), {**self._variables, **self._places}
        ).wait_ready()
        return self.service

    def restart(self, whilst: Callable[[], int]) -> None:
        """A rollout: it stops in order, and another one begins.

        Args:
            whilst: sends a session, and gives the status. It is taken after SIGTERM, until the last scrape has come.
        """
        self.service.process.terminate()
        eventually(lambda: self.service.get("/-/ready").status == 503)
        assert whilst() == 200
        assert self.service.stop() == 0
        self.start()

    def delete_journal(self) -> None:
        """Somebody deletes the files of its journal."""
        for file in Path(self._variables["OFFRAILS_STATE_DIR"]).glob("journal-*"):
            file.unlink()

    def freeze(self, *, frozen: bool) -> None:
        """Stops its process where it is, or lets it go on."""
        self.service.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def fill_disk(self, *, full: bool) -> None:
        """Files of its process take nothing more, as on a full disk, or do again."""
        size = 0 if full else resource.RLIM_INFINITY
        resource.prlimit(
            self.service.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)
        )


class Agent:
    """An agent that works a session each second, in a thread; what it cannot send is lost.

    Args:
        name: of the agent.
        monitor: who watches it.
        token: how it shows who it is.
        busy: whether it works by itself.
    """

    def __init__(
        self, name: str, monitor: Monitor, token: str = "", *, busy: bool = True
    ) -> None:
        self.name = name
        self.monitor = monitor
        self.lost = 0
        """Requests that were not taken."""
        self.taken = 0
        self._headers = {"content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        if busy:
            self._thread.start()

    def _work(self) -> None:
        while not self._stopped.wait(1):
            self.run(*GOLDEN, arguments={})

    def run(self, *tools: str, arguments: Any = None) -> int:
        """One session with these calls; the status of the answer, 0 without one.

        Args:
            tools: of its calls.
            arguments: of each call; None: not on the wire.
        """
        made = Rover("", next(_numbers), "root", start_ns=now_ns() - 100_000_000)
        named: dict[str, Any] = {"gen_ai.agent.name": self.name}
        if (
            len(tools) == 1
        ):  # a call alone in its trace would be a tool that lost its context: nobody knows its conversation
            made.span("invoke_agent", {"gen_ai.operation.name": "invoke_agent", **named})
        for tool in tools:
            made.call(tool, arguments, **named)
        return self.send(as_json(made.spans))

    def send(self, body: bytes) -> int:
        """Sends one request; the status of the answer, 0 without one."""
        try:
            status = request(
                self.monitor.http, "POST", "/v1/traces", body, self._headers
            ).status
        except OSError:
            status = 0
        self.taken += status == 200
        self.lost += status != 200
        return status

    def stop(self) -> None:
        """It makes no further call by itself."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(30)


class Fleet:
    """Everything, and what was told of it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        for program in ("prometheus", "prometheus-alertmanager"):
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
        self._folder = folder
        self._stack = stack
        self.pages = Pages()
        stack.callback(self.pages.close)
        self.hook = Moody()
        """The webhook that the gateway pages by itself."""
        stack.callback(self.hook.close)
        self.certificates: dict[str, Pair] = {}
        """Of the sidecars' admin listeners, by name."""
        self._signer = authority(folder)
        self.manager = self._start_manager()
        self.monitors = {
            name: self._monitor(name) for name in ("gateway", "sidecar-a", "sidecar-b")
        }
        self.prometheus = self._start_prometheus()
        gateway, first, second = self.monitors.values()
        places = {
            "apple": gateway,
            "birch": gateway,
            "cedar": gateway,
            "dogwood": first,
            "elm": second,
        }
        self.agents = {name: Agent(name, each, "farm") for name, each in places.items()}
        for agent in self.agents.values():
            stack.callback(agent.stop)

    def _monitor(self, name: str) -> Monitor:
        settings = {
            "OFFRAILS_ALERTS_ALERTMANAGER": f"http://{self.manager}",
            "OFFRAILS_ALERTS_RESOLVE_SECONDS": str(35 * MINUTE),
        }
        if name == "gateway":
            tokens = self._folder / "tokens"
            tokens.write_text("farm:farm\nnoisy:noisy\n")
            tokens.chmod(0o600)
            settings |= {
                "OFFRAILS_LAST_SCRAPE_SECONDS": "5",
                "OFFRAILS_ALERTS_WEBHOOK_URL": self.hook.url,
                "OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE": str(tokens),
                "OFFRAILS_RECEIVER_AUTH_BEARER_LIMITS_REQUESTS_PER_SECOND": "10",
            }
        else:
            settings["OFFRAILS_STATE_DIR"] = str(self._folder / f"journal-{name}")
        if name == "sidecar-a":
            pair = self.certificates[name] = issue(self._signer, self._folder, name)
            settings["OFFRAILS_ADMIN_TLS_CERT"] = str(pair.cert)
            settings["OFFRAILS_ADMIN_TLS_KEY"] = str(pair.key)
        (self._folder / name).mkdir()
        specs = paging_specs(self._folder / name)
        (specs / "watched.yaml").write_text(_WATCHED)
        made = Monitor(name, specs, settings)
        self._stack.callback(lambda: made.service.kill())  # noqa: PLW0108 - of the process that is there then
        return made

    def _start_manager(self) -> str:
        config = yaml.safe_load(CONFIG.read_text())
        for each in config["receivers"]:
            each["webhook_configs"] = [{"url": f"{self.pages.url}/{each['name']}"}]
        for route in (config["route"], *config["route"]["routes"]):
            for key in ("group_wait", "group_interval", "repeat_interval"):
                if key in route:
                    route[key] = seconds(route[key])
        return self._daemon(
            "prometheus-alertmanager",
            config,
            f"--storage.path={self._folder / 'manager'}",
            "--cluster.listen-address=",
        )

    def _start_prometheus(self) -> str:
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        rules = self._folder / "rules.yml"
        rules.write_text(quickened(RULES.read_text()))
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(rules)]
        config["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [self.manager]}]
        config["scrape_configs"][0]["static_configs"] = [
            {"targets": [each.instance for each in self.monitors.values()]}
        ]
        return self._daemon(
            "prometheus", config, f"--storage.tsdb.path={self._folder / 'series'}"
        )

    def _daemon(self, program: str, config: dict[str, Any], *arguments: str) -> str:
        file = self._folder / f"{program}.yml"
        file.write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_port()}"
        daemon = Daemon(
            program,
            self._folder / f"{program}.log",
            f"--config.file={file}",
            f"--web.listen-address={address}",
            *arguments,
        )
        self._stack.callback(daemon.stop)
        eventually(lambda: _is_ready(address), 20)
        return address

    # --- what was told ----------------------------------------------------------------------------

    def notices(self) -> list[Notice]:
        """Messages of Alertmanager so far, the watchdog's left out."""
        return [
            Notice(at, payload["receiver"], payload["status"], _alerts(payload))
            for at, payload in list(self.pages.taken)
            if payload["receiver"] != "watchdog"
        ]

    def told(self, name: str, who: str) -> list[Notice]:
        """The messages in which an alert was firing."""
        return [each for each in self.notices() if (name, who) in each.alerts]

    def is_over(self, name: str, who: str) -> bool:
        """True if the last message about an alert says that it is resolved."""
        last = ""
        for _, payload in list(self.pages.taken):
            for alert in payload["alerts"]:
                if _named(alert) == (name, who):
                    last = alert["status"]
        return last == "resolved"

    def wait_told(self, name: str, who: str, within: float) -> float:
        """Waits until an alert is told; the seconds since now."""
        began = time.monotonic()
        first = eventually(lambda: self.told(name, who), within)[0]
        return first.at - began

    def wait_over(self, name: str, who: str, within: float) -> None:
        """Waits until an alert is resolved."""
        eventually(lambda: self.is_over(name, who), within)

    def query(self, text: str) -> list[Any]:
        """An instant query of Prometheus."""
        reply = request(self.prometheus, "GET", f"/api/v1/query?query={quote(text)}")
        found: list[Any] = json.loads(reply.body)["data"]["result"]
        return found


def pause(minutes: float, still: Callable[[], bool] = lambda: True) -> None:
    """Lets so many minutes pass on the quicker clock, in which something must stay true."""
    last = time.monotonic() + minutes * MINUTE
    while time.monotonic() < last:
        assert still()
        time.sleep(0.2)


def _is_ready(address: str) -> bool:
    try:
        return request(address, "GET", "/-/ready").status == 200
    except OSError:
        return False


def _named(alert: dict[str, Any]) -> tuple[str, str]:
    labels = alert["labels"]
    about = "instance" if labels["alertname"].startswith("AgentMonitor") else "agent"
    return labels["alertname"], labels.get(about, "")


def _alerts(payload: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset(
        _named(alert) for alert in payload["alerts"] if alert["status"] == "firing"
    )
