"""From a span to a page through the real Prometheus and Alertmanager, and back to quiet."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, NamedTuple

import pytest

from collector.telemetry.clock import now_ns
from tests.end_to_end.alerting import (
    CRITICAL,
    Pages,
    Prometheus,
    alertmanager,
    paging_specs,
    sdk_calls,
)
from tests.end_to_end.service import Service, eventually, request
from tests.end_to_end.traffic import GOLDEN, Rover, send

_NUMBERS = count(1_000)


def _named(agent: str) -> dict[str, Any]:
    return {"gen_ai.agent.name": agent}


class World(NamedTuple):
    """Everything that is between an agent and a person's telephone."""

    service: Service
    pages: Pages
    manager: str
    prometheus: Prometheus

    def post(self, *alerts: dict[str, str]) -> None:
        """Alerts of somebody else."""
        body = json.dumps([{"labels": labels} for labels in alerts]).encode()
        headers = {"content-type": "application/json"}
        reply = request(self.manager, "POST", "/api/v2/alerts", body, headers)
        assert reply.status == 200, reply.body

    def states(self, name: str, label: str) -> dict[str, str]:
        """Alertmanager's states of the alerts of a name, by one label."""
        return {
            alert["labels"].get(label, ""): alert["status"]["state"]
            for alert in request(self.manager, "GET", "/api/v2/alerts").json()
            if alert["labels"]["alertname"] == name
        }

    def twin(self, agent: str) -> Any:
        """The rule's alert about critical calls of an agent, as Alertmanager has it; None without."""
        for alert in request(self.manager, "GET", "/api/v2/alerts").json():
            wanted = {"alertname": CRITICAL, "agent": agent, "source": "rules"}
            if wanted.items() <= alert["labels"].items():
                return alert
        return None

    def call(self, session: str, *tools: str, agent: str) -> None:
        """A session of an agent of its own."""
        made = Rover(session, next(_NUMBERS))
        for tool in tools:
            made.call(tool, {}, **_named(agent))
        send(self.service, made.spans)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service with Alertmanager and a webhook as sinks, scraped each second."""
    folder = tmp_path_factory.mktemp("alerting")
    pages = Pages()
    with alertmanager(folder, pages.url) as manager:
        service = Service(
            ("--specs", str(paging_specs(folder))),
            {
                "OFFRAILS_HISTORY": "complete",
                "OFFRAILS_ALERTS_ALERTMANAGER": f"http://{manager}",
                "OFFRAILS_ALERTS_WEBHOOK_URL": pages.url,
                # Longer than the rule's ten seconds: it tells nothing when the page is over.
                "OFFRAILS_ALERTS_RESOLVE_SECONDS": "16",
                "OFFRAILS_SESSIONS_WINDOW_SECONDS": "1",
                "OFFRAILS_SESSIONS_IDLE_SECONDS": "5",
                "OFFRAILS_SESSIONS_HOLD_SECONDS": "2",
            },
        ).wait_ready()
        prometheus = Prometheus(folder, service, manager)
        try:
            prometheus.wait()
            # A counter that is born above 0 alerts where its monitor was scraped before.
            eventually(lambda: prometheus.query("up offset 10s == 1"), 30)
            yield World(service, pages, manager, prometheus)
        finally:
            prometheus.stop()
            service.kill()
    pages.close()


Scene = Callable[[World], None]
SCENES: dict[str, Scene] = {}


def scene(play: Scene) -> Scene:
    """A test of what happens to an agent of its own."""
    SCENES[play.__name__] = play
    return play


@pytest.fixture(scope="module")
def played(world: World) -> Iterator[dict[str, Future[None]]]:
    """All scenes at once, since each one mostly waits."""
    with ThreadPoolExecutor(len(SCENES)) as pool:
        yield {name: pool.submit(play, world) for name, play in SCENES.items()}


@scene
def a_critical_call_comes_by_every_way_and_ends(world: World) -> None:
    """A critical call reaches the webhook directly and by Alertmanager in less than 1 s, and by rule once final.

    The alert of the rule is inhibited where the direct one was delivered. Each alert is resolved at its end.
    """
    took: dict[str, list[float]] = {"direct": [], "manager": []}
    for number in range(3):
        session, agent = f"critical-{number}", f"critical-{number}"
        began = sdk_calls(world.service, session, "unlock_safety", "water", agent=agent)
        for way, times in took.items():
            at, alert = eventually(lambda: world.pages.of(session, way=way))[0]  # noqa: B023
            assert (alert["labels"]["alertname"], alert["labels"]["severity"]) == (
                CRITICAL,
                "critical",
            )
            times.append(at - began)
    for way, times in took.items():
        print(f"span to webhook, {way}, 0.5 s to settle: {min(times):.3f} s")
        assert min(times) < 1

    twin = eventually(lambda: world.twin("critical-2"), 25)
    print(f"span to alert by scrape and rule, 1 s each: {time.monotonic() - began:.3f} s")
    assert twin["labels"]["reason"] == "out_of_order"
    assert twin["status"]["state"] == "suppressed"

    for way in took:
        eventually(lambda: world.pages.of("critical-2", "resolved", way), 25)  # noqa: B023
    eventually(lambda: "critical-2" not in world.states(CRITICAL, "agent"), 30)
    assert world.pages.named(CRITICAL, source="rules", agent="critical-2") == []


@scene
def a_rule_pages_after_its_for_and_ends(world: World) -> None:
    """A runaway session is pending first, pages when it has lasted, and resolves when it is over."""
    rule = 'ALERTS{alertname="AgentSessionRunaway",agent="runaway",alertstate="%s"}'
    called = 0.0

    def runs(state: str) -> bool:
        nonlocal called
        if time.monotonic() - called > 3:  # not so many that its budget burns as well
            called = time.monotonic()
            world.call("runaway", "made_up_tool", agent="runaway")
        return bool(world.prometheus.query(rule % state))

    eventually(lambda: runs("pending"), 20)
    pending = time.monotonic()
    assert world.pages.named("AgentSessionRunaway", agent="runaway") == []
    eventually(lambda: runs("firing"), 20)
    assert time.monotonic() - pending > 0.5  # its `for` is 2 s here, looked at once a second
    eventually(lambda: world.pages.named("AgentSessionRunaway", agent="runaway"), 20)
    eventually(
        lambda: world.pages.named("AgentSessionRunaway", "resolved", agent="runaway"), 40
    )


@scene
def what_is_revised_in_time_pages_nobody(world: World) -> None:
    """An artefact of the order of arrival, by no way: not at once, and not by a rule."""
    made = Rover("turned", next(_NUMBERS))
    for tool in ("unlock_safety", "move", "scan", "open_valve"):
        made.call(tool, {}, **_named("turned"))
    before = world.service.metric("offrails_alerts_withheld_total", reason="revised")

    send(world.service, made.spans[3:])
    send(world.service, made.spans[:3])
    sdk_calls(world.service, "after-turned", "unlock_safety", "water", agent="after-turned")

    eventually(
        lambda: (
            world.service.metric("offrails_alerts_withheld_total", reason="revised") > before
        )
    )
    assert world.service.metric("offrails_verdict_revisions_total", agent="turned") > 0
    # What was sent after it has come by every way; this one by none.
    eventually(lambda: world.pages.of("after-turned", way="manager"))
    eventually(lambda: world.twin("after-turned"), 25)
    assert world.pages.of("turned") == world.pages.named(CRITICAL, agent="turned") == []
    assert world.service.metric("offrails_harmful_calls_total", agent="turned") == 0
    assert world.prometheus.query('ALERTS{agent="turned"}') == []


@scene
def a_page_that_becomes_worse(world: World) -> None:
    """Alertmanager holds the critical alert alone, and pages for it; with the session it is over."""
    made = Rover("worse", next(_NUMBERS))
    for tool in ("unlock_safety", "open_valve", "water"):
        made.call(tool, {}, **_named("worse"))
    send(world.service, made.spans[:2])
    eventually(lambda: world.states("AgentHarmfulCall", "agent").get("worse"))
    send(world.service, made.spans[2:])

    def told(status: str) -> list[str]:
        found = world.pages.of("worse", status, "manager")
        return [alert["labels"]["alertname"] for _, alert in found]

    eventually(lambda: CRITICAL in told("firing"))
    assert CRITICAL not in told("resolved")
    eventually(lambda: "worse" not in world.states("AgentHarmfulCall", "agent"))
    eventually(lambda: CRITICAL in told("resolved"), 25)


@scene
def inhibition(world: World) -> None:
    """A critical page mutes warnings about the same agent and spec; a monitor that is down, the rest."""
    critical = {"alertname": CRITICAL, "severity": "critical", "spec": "s", "agent": "same"}
    high = {"alertname": "AgentHarmRateHigh", "severity": "warning", "spec": "s"}
    down = {"alertname": "AgentMonitorDown", "severity": "critical", "cluster": "far"}
    drops = {"alertname": "AgentMonitorSpansDropped", "severity": "critical"}
    world.post(critical, down)
    # Alertmanager takes what inhibits on another thread than what it tells: both are there once it has told them.
    eventually(lambda: world.pages.named(CRITICAL, agent="same"))
    eventually(lambda: world.pages.named("AgentMonitorDown", cluster="far"))
    world.post({**high, "agent": "same"}, {**high, "agent": "other"})
    world.post({**drops, "cluster": "far"}, {**drops, "cluster": "near"})

    rates = {"same": "suppressed", "other": "active"}
    eventually(lambda: rates.items() <= world.states("AgentHarmRateHigh", "agent").items())
    found = {"far": "suppressed", "near": "active"}
    eventually(
        lambda: found.items() <= world.states("AgentMonitorSpansDropped", "cluster").items()
    )
    eventually(lambda: world.pages.named("AgentHarmRateHigh", agent="other"))
    eventually(lambda: world.pages.named("AgentMonitorSpansDropped", cluster="near"))
    assert world.pages.named("AgentHarmRateHigh", agent="same") == []
    assert world.pages.named("AgentMonitorSpansDropped", cluster="far") == []


@scene
def a_monitor_that_is_down_silences_itself_alone(world: World) -> None:
    """Alerts of other monitors, aggregate alerts and direct alerts are not inhibited."""
    # In a namespace of their own, they are in no group with another scene's.
    down = {
        "alertname": "AgentMonitorDown",
        "severity": "critical",
        "cluster": "wide",
        "namespace": "wide",
    }
    drops = {**down, "alertname": "AgentMonitorSpansDropped", "source": "rules"}
    harm = {"alertname": CRITICAL, "severity": "critical", "agent": "wide", "spec": "s"}
    world.post({**down, "instance": "dead"})
    for instance in ("dead", "alive"):
        world.post({**drops, "cluster": "wide", "instance": instance})
    world.post({**harm, "cluster": "wide", "source": "monitor", "instance": "dead"})
    world.post({**harm, "cluster": "wide", "source": "rules", "spec": "all"})

    def states() -> tuple[str, str]:
        found = world.states("AgentMonitorSpansDropped", "instance")
        return found["dead"], found["alive"]

    eventually(lambda: states() == ("suppressed", "active"))
    eventually(lambda: world.pages.named(CRITICAL, source="monitor", cluster="wide"))
    eventually(lambda: world.pages.named(CRITICAL, source="rules", cluster="wide"))


@scene
def one_bad_agent_is_one_notification(world: World) -> None:
    """Bad sessions in a row give one notification by page and rules, and one alert that is updated."""
    began = len(world.pages.taken)
    for number in range(12):
        world.call(f"again-{number}", "unlock_safety", "water", "water", agent="again")
        eventually(lambda: world.twin("again") or number < 6, 25)  # noqa: B023

    def told() -> list[dict[str, Any]]:
        return [
            payload
            for _, payload in world.pages.taken[began:]
            if payload["receiver"] != "offrails"
            and any(alert["labels"].get("agent") == "again" for alert in payload["alerts"])
        ]

    rules = 'ALERTS{agent="again",alertstate="firing",alertname="%s"}'
    eventually(lambda: world.prometheus.query(rules % CRITICAL), 25)
    eventually(lambda: world.states(CRITICAL, "agent").get("again"))
    (first,) = told()
    assert (first["status"], len(first["alerts"])) == ("firing", 1)
    assert first["commonLabels"]["source"] == "monitor"
    eventually(lambda: told()[-1]["status"] == "resolved", 40)
    assert len(told()) == 2
    (ended,) = told()[-1]["alerts"]
    assert ended["annotations"]["sessions"] == "12"


@scene
def every_rule_runs_after_mixed_traffic(world: World) -> None:
    """No expression of any rule is an error, and exemplars lead to traces."""
    for number in range(6):
        world.call(f"good-{number}", *GOLDEN, agent="mixed")
        world.call(f"bad-{number}", "unlock_safety", "water", "fly", agent="mixed")
    recorded = "agent_spec:offrails_calls:rate5m"
    eventually(lambda: world.prometheus.query(recorded), 25)

    rules: list[Any] = [
        rule for group in world.prometheus.ask("rules")["groups"] for rule in group["rules"]
    ]
    assert len(rules) > 30
    for rule in rules:
        assert rule["health"] == "ok", (rule["name"], rule)
        world.prometheus.query(rule["query"])
    start, end = str(now_ns() / 1e9 - 300), str(now_ns() / 1e9 + 5)
    found = eventually(
        lambda: world.prometheus.ask(
            "query_exemplars", query="offrails_harmful_calls_total", start=start, end=end
        ),
        25,
    )
    assert {"trace_id", "span_id"} <= found[0]["exemplars"][0]["labels"].keys()


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_goes_as_it_says(name: str, played: dict[str, Future[None]]) -> None:
    """Everything between an agent and a person's telephone does what the scene says."""
    played[name].result()
