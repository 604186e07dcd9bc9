"""One harm is one message, and not fewer: two monitors that see the same, alerts in any order, and harm that gets worse."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.alerting import CRITICAL, Pages, alertmanager, paging_specs
from tests.end_to_end.loopback import Quiet, free_port
from tests.end_to_end.service import Service, eventually, request
from tests.end_to_end.traffic import Rover, send

_NUMBERS = count(9_000)
GROUP_WAIT_SECONDS = 10
"""Of the route for the rules' critical alerts (deploy/alertmanager)."""
HARM = {"alertname": CRITICAL, "severity": "critical", "spec": "farm_rover"}


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Pages]]:
    """The real Alertmanager with the shipped routes, and who hears of it."""
    pages = Pages()
    with alertmanager(tmp_path_factory.mktemp("manager"), pages.url) as address:
        yield address, pages
    pages.close()


@pytest.fixture(scope="module")
def pair(
    manager: tuple[str, Pages], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, Service]]:
    """Two monitors that get the same spans and page by the same Alertmanager; the first has a webhook of its own."""
    address, pages = manager
    settings = {
        "OFFRAILS_HISTORY": "complete",
        "OFFRAILS_ALERTS_ALERTMANAGER": f"http://{address}",
        "OFFRAILS_ALERTS_REPEAT_SECONDS": "1",
    }
    specs = paging_specs(tmp_path_factory.mktemp("specs"))
    spec = specs / "farm_rover.yaml"
    spec.write_text(spec.read_text().replace("default: warning", "default: critical"))
    hook = {"OFFRAILS_ALERTS_WEBHOOK_URL": pages.url}
    first = Service(("--specs", str(specs)), settings | hook).wait_ready()
    second = Service(("--specs", str(specs)), settings).wait_ready()
    yield first, second
    first.kill()
    second.kill()


def messages(pages: Pages, agent: str, *, direct: bool = False) -> list[dict[str, Any]]:
    """What people heard of an agent, by Alertmanager or from a monitor itself."""
    return [
        payload
        for _, payload in list(pages.taken)
        if (payload["receiver"] == "offrails") == direct
        and any(alert["labels"].get("agent") == agent for alert in payload["alerts"])
    ]


def both(pair: Sequence[Service], session: str, agent: str, *tools: str) -> None:
    """The same calls go to all monitors."""
    made = Rover(session, next(_NUMBERS))
    named: dict[str, Any] = {"gen_ai.agent.name": agent}
    for tool in tools:
        made.call(tool, {}, **named)
    for service in pair:
        send(service, made.spans)


def test_two_monitors_are_one_message(
    manager: tuple[str, Pages], pair: tuple[Service, Service]
) -> None:
    """Both post an alert with the same labels, so Alertmanager has one and tells of it once; each names itself in it."""
    address, pages = manager
    both(pair, "twin", "twin", "unlock_safety", "water")
    eventually(lambda: messages(pages, "twin"))
    for service in pair:
        eventually(lambda: service.metric("offrails_alerts_sent_total", result="ok") > 3)  # noqa: B023

    (found,) = [
        alert
        for alert in request(address, "GET", "/api/v2/alerts").json()
        if alert["labels"].get("agent") == "twin"
    ]
    assert found["annotations"]["monitor"].startswith("127.0.0.1:")
    (message,) = messages(pages, "twin")
    assert (message["status"], len(message["alerts"])) == ("firing", 1)


def test_harm_that_gets_worse_is_told_again_by_every_way(
    manager: tuple[str, Pages], pair: tuple[Service, Service]
) -> None:
    """A new tool and reason: the webhook and Alertmanager tell once more, firing, under the group key of before."""
    _, pages = manager
    alerts = [service.metric("offrails_alert_groups_firing") for service in pair]
    both(pair, "worse-1", "grows", "unlock_safety", "water")
    for direct in (True, False):
        eventually(lambda: messages(pages, "grows", direct=direct))  # noqa: B023
    for service, before in zip(pair, alerts, strict=True):
        _has_posted(service, before + 1)
    both(pair, "worse-2", "grows", "unlock_safety", "made_up")
    for direct in (True, False):
        first, second = eventually(lambda: _two(messages(pages, "grows", direct=direct)))  # noqa: B023
        assert first["groupKey"] == second["groupKey"]
        assert (first["status"], second["status"]) == ("firing", "firing")
        firing = [each for each in second["alerts"] if each["status"] == "firing"]
        assert len(firing) == 1
        assert "tool made_up" in firing[0]["annotations"]["summary"]
    time.sleep(3)  # nothing follows: repeats come each second
    assert [len(messages(pages, "grows", direct=each)) for each in (True, False)] == [2, 2]


def _has_posted(service: Service, alerts: float) -> None:
    """Waits until a monitor has so many alerts, and has posted each: messages leave in order, and repeats come each second."""
    eventually(lambda: service.metric("offrails_alert_groups_firing") >= alerts)
    sent = service.metric("offrails_alerts_sent_total", result="ok")
    eventually(
        lambda: service.metric("offrails_alerts_sent_total", result="ok") > sent + alerts
    )


def _two(found: list[Any]) -> list[Any] | None:
    return found if len(found) >= 2 else None


def test_the_order_of_both_does_not_matter(manager: tuple[str, Pages]) -> None:
    """A rule's alert that has just fired and the direct one come in any order: people hear the direct one alone."""
    address, pages = manager
    direct = {**HARM, "source": "monitor"}
    rule = {**HARM, "source": "rules", "reason": "out_of_order"}
    # Side by side: an agent of which the direct one comes first, and one of which the rule's does.
    orders = {"late-direct": (direct, rule), "late-rules": (rule, direct)}
    for place in (0, 1):
        alerts = [{"labels": order[place] | {"agent": of}} for of, order in orders.items()]
        headers = {"content-type": "application/json"}
        body = json.dumps(alerts).encode()
        assert request(address, "POST", "/api/v2/alerts", body, headers).status == 200
        time.sleep(3)
    for agent in orders:
        eventually(lambda: messages(pages, agent))  # noqa: B023
        _states(address, agent, lambda found: found["rules"] == "suppressed")
    time.sleep(9)  # until the rule's would have been told
    for agent in orders:
        (message,) = messages(pages, agent)
        assert [each["labels"]["source"] for each in message["alerts"]] == ["monitor"]


def test_alertmanager_does_not_wait_for_an_alert_that_fires_for_long(
    manager: tuple[str, Pages],
) -> None:
    """Why a direct alert has to be first after an outage: a rule's alert that is older than its `group_wait` is told at once."""
    address, pages = manager
    began = datetime.fromtimestamp(time.time_ns() / 1e9 - 120, UTC)
    rule = {**HARM, "agent": "long", "source": "rules", "reason": "out_of_order"}
    alert = {"labels": rule, "startsAt": began.isoformat()}
    headers = {"content-type": "application/json"}
    posted = time.monotonic()
    body = json.dumps([alert]).encode()
    assert request(address, "POST", "/api/v2/alerts", body, headers).status == 200
    eventually(lambda: messages(pages, "long"))
    [(told, _)] = [each for each in list(pages.taken) if _is_of(each[1], "long")]
    assert told - posted < GROUP_WAIT_SECONDS


def _is_of(payload: dict[str, Any], agent: str) -> bool:
    return any(alert["labels"].get("agent") == agent for alert in payload["alerts"])


def _states(address: str, agent: str, so: Callable[[dict[str, str]], bool]) -> None:
    """Waits for the states of an agent's alerts, by their source."""

    def found() -> dict[str, str]:
        alerts = request(address, "GET", "/api/v2/alerts").json()
        of = [each for each in alerts if each["labels"].get("agent") == agent]
        return {each["labels"]["source"]: each["status"]["state"] for each in of}

    eventually(lambda: so(found()))


def test_after_an_outage_the_direct_alert_is_first(tmp_path: Path) -> None:
    """A monitor tries an Alertmanager that is away four times a second: it is told of a harm as soon as it is back."""
    port, taken = free_port(), threading.Event()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()
            taken.set()

    service = Service(
        ("--specs", str(paging_specs(tmp_path))),
        {
            "OFFRAILS_HISTORY": "complete",
            "OFFRAILS_ALERTS_ALERTMANAGER": f"http://127.0.0.1:{port}",
        },
    ).wait_ready()
    try:
        both((service,), "away", "away", "unlock_safety", "water")
        eventually(lambda: service.metric("offrails_alert_retries_total") >= 12, 30)
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert taken.wait(4)  # it takes 0.25 s, and more on a busy host
        server.shutdown()
        server.server_close()
    finally:
        service.kill()
