"""Half an hour of operation: each fault is told by its alert, in time, once, and nothing else is told.

The shipped rules, routes, inhibition and defaults, three monitors, five busy agents, the real Prometheus and
Alertmanager. `fleet` has the clock: a minute of the rules is three seconds. `make test-ops` runs it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.certificates import expired
from tests.end_to_end.service import eventually, request
from tests.end_to_end.traffic import GOLDEN, Rover, as_json
from tests.operations.fleet import MINUTE, Agent, Fleet, pause

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

PAGED = "AgentCriticalHarmfulCall"
STUCK = "AgentSessionStuck"
HARM = ("unlock_safety", "water")
SLACK = 4
"""Seconds for scrapes and evaluations beyond what a rule promises, where nobody else uses the machine."""


def slack() -> float:
    """The same on this machine as it is now: longer by how many processes wait for each processor."""
    return SLACK * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Monitors, agents, Prometheus and Alertmanager; all of it ends with the test."""
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def test_half_an_hour(fleet: Fleet) -> None:
    """Harm, kills, freezes, floods, outages, a full disk, a bad spec, a silent agent and a quiet night: each is told once."""
    gateway, first, second = fleet.monitors.values()
    apple, birch, cedar, dogwood, elm = fleet.agents.values()
    expected: Counter[tuple[str, str]] = Counter()

    def told(name: str, who: str, minutes: float = 0.0) -> None:
        """An alert is told, at most so many minutes of the clock (and some slack) from now."""
        fleet.wait_told(name, who, minutes * MINUTE + slack())
        expected[name, who] += 1

    # A calm start: no alert for what has just begun.
    pause(5)
    assert fleet.notices() == []

    # A harm is told at once, and its agent's further harms are the same alert.
    apple.run(*HARM)
    assert fleet.wait_told(PAGED, "apple", 2) < 2
    expected[PAGED, "apple"] += 1
    for _ in range(6):
        apple.run(*HARM)
        pause(0.5)
    assert len(fleet.told(PAGED, "apple")) == 1

    # A monitor is killed. Others' pages go on, and it is told when it is back.
    first.service.kill()
    told("AgentMonitorDown", first.instance, 2)
    elm.run(*HARM)
    told(PAGED, "elm")
    first.start()
    fleet.wait_over("AgentMonitorDown", first.instance, MINUTE + slack())

    # A rollout loses nothing, and tells nothing: spans are taken until the process is about to end.
    gateway.restart(whilst=lambda: apple.run(*GOLDEN))
    pause(2)

    # A monitor that hangs is one that is down, and may miss calls. That takes back what is not final; elm's harm is.
    eventually(
        lambda: second.service.metric("offrails_harmful_calls_total", agent="elm"), MINUTE * 4
    )
    second.freeze(frozen=True)
    told("AgentMonitorDown", second.instance, 2 + 10 / 60)
    second.freeze(frozen=False)
    fleet.wait_over("AgentMonitorDown", second.instance, MINUTE + slack())

    # Somebody deletes the files of a journal: it is told, and another file is begun.
    first.delete_journal()
    told("AgentMonitorJournalFailing", first.instance, 5 / MINUTE)
    assert elm.send(as_json(Rover("", 2).call("move", {}).spans)) == 200

    # A sender whose spans cannot be read, and one that sends too much.
    spans = Rover("", 1).call("move", {}).spans
    assert dogwood.send(as_json([replace(each, trace_id=bytes(16)) for each in spans])) == 200
    told("AgentMonitorSpansRejected", first.instance)
    noisy = Agent("noisy", gateway, "noisy", busy=False)
    eventually(lambda: noisy.run("unlock_safety") == 429)
    told("AgentMonitorRequestsRefused", gateway.instance)

    # The webhook is down while an agent does harm: the outage is told, and the page is not lost.
    fleet.hook.become("refuses")
    birch.run(*HARM)
    told(PAGED, "birch")
    told("AgentMonitorSinkRetrying", gateway.instance, 2)
    before = sum(fleet.hook.sessions.values())
    fleet.hook.become("well")
    eventually(lambda: sum(fleet.hook.sessions.values()) > before, 30)

    # The disk of a journal is full: its requests are refused, and it goes on once there is room.
    second.fill_disk(full=True)
    told("AgentMonitorJournalRefusing", second.instance, 1)
    assert second.service.metric("offrails_journal_failing") == 1
    second.fill_disk(full=False)
    eventually(lambda: second.service.metric("offrails_journal_failing") == 0)

    # A spec that cannot be read.
    spec = second.specs / "watched.yaml"
    text = spec.read_text()
    spec.write_text(text.replace("golden", "goldne"))
    request(second.service.addresses["admin"], "POST", "/-/reload")
    told("AgentMonitorSpecLoadFailed", second.instance, 1)
    spec.write_text(text)
    request(second.service.addresses["admin"], "POST", "/-/reload")

    # A certificate ends while its listener is in use: nobody needs to connect for that.
    ended = fleet.certificates["sidecar-a"]
    whole = ended.cert.read_bytes()
    expired(ended)
    told("AgentMonitorCertificateExpired", first.instance, 1)
    ended.cert.write_bytes(whole)
    fleet.wait_over("AgentMonitorCertificateExpired", first.instance, 5 * MINUTE + slack())

    # The arguments of one agent vanish, while those of the others come. It works too shortly to be missed afterwards.
    grape = Agent("grape", second, busy=False)
    for number in range(16):
        grape.run(*GOLDEN, arguments={"number": number} if number < 4 else None)
        pause(0.2)
    told("AgentMonitorArgumentsMissing", "", 5)

    # A harm that gets worse is told once more, and no more than that.
    before = len(fleet.told(PAGED, "elm"))
    for _ in range(12):
        elm.run(*HARM)
    eventually(lambda: len(fleet.told(PAGED, "elm")) > before, 2 * MINUTE + slack())
    expected[PAGED, "elm"] += 1

    # A session that stands still.
    fig = Agent("fig", second, busy=False)
    fig.run("unlock_safety")
    told(STUCK, "fig", 5 / MINUTE + 10 / MINUTE)

    # An agent that has been at work goes silent, while the others go on.
    eventually(lambda: fleet.query('agent:offrails_calls:steady{agent="cedar"}'), 60 * MINUTE)
    cedar.stop()
    told("AgentSilent", "cedar", 10 + 5)

    # A quiet night: all rest, and nobody is told.
    for agent in (apple, birch, dogwood, elm):
        agent.stop()
    pause(25)

    counted = Counter(each for notice in fleet.notices() for each in set(notice.alerts))
    print(dict(sorted(counted.items())))
    assert counted == expected
    assert all(agent.taken > 60 for agent in fleet.agents.values())
