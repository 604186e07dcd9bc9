"""Decided calls outlive the process: what was answered, what went ahead, and what clients said of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collector.telemetry.logs import captured
from monitor.limits import SECOND
from tests.collector.state.life import Life
from tests.collector.state.test_restart import HOUR_NS, Rover, skip, spec_of
from tests.samples import sampled

SPEC = """
id: rover
kind: policy
mode: page
enforce: block
match: {service.name: rover}
alphabet: {unlock: {tool: unlock}, move: {tool: move}, lock: {tool: lock}}
constraints: [{precedence: [unlock, move]}, {at_most: [lock, 1]}]
"""
TOOLS = ("unlock", "move", "lock")


class Client:
    """Asks before calls, by the clock of a service."""

    def __init__(self, life: Life) -> None:
        self.life = life

    def ask(self, session: str, *tools: str, **more: Any) -> list[dict[str, Any]]:
        """The decisions on some parallel calls."""
        question = {
            "session": session,
            "service": "rover",
            "calls": [{"tool": tool, "arguments": {}} for tool in tools],
            **more,
        }
        decisions = self.life.app.decisions
        status, answer = decisions.decide(json.dumps(question).encode(), None)
        decisions.requests.add(1, str(status))
        assert status == 200, answer
        found: list[dict[str, Any]] = json.loads(answer)["decisions"]
        return found

    def say(self, decision_id: str, outcome: str) -> int:
        """Says what became of a call; returns the status."""
        body = json.dumps({"decision_id": decision_id, "outcome": outcome}).encode()
        decisions = self.life.app.decisions
        status, _ = decisions.settle(body, None)
        decisions.requests.add(1, str(status))
        return status


def decided(life: Life) -> list[tuple[Any, ...]]:
    """All that is known of decided calls."""
    table = life.app.pipeline.decided
    return [
        (table.name(each.number), each.state, each.known, each.call, each.expires_ns)
        for each in table
    ]


def figures(life: Life) -> list[tuple[str, list[Any]]]:
    """Counters of decisions, without latencies."""
    return [
        (each.name, list(each.values))
        for each in life.app.decisions.readings()
        if each.name != "decision_seconds"
    ]


async def _live(life: Life, seed: int, deaths: set[int]) -> list[Any]:
    """Questions, outcomes and spans of some sessions, with restarts between them; returns all answers."""
    await life.start()
    chance, client, rover = Random(seed), Client(life), Rover(life)
    answers: list[Any] = []
    open_ones: list[tuple[str, str, str]] = []
    for number in range(40):
        session = chance.choice(("one", "two", "three"))
        what = chance.random()
        if what < 0.5:
            tools = chance.choices(TOOLS, k=chance.choice((1, 1, 1, 2)))
            found = client.ask(session, *tools, commit=bool(seed % 2) or chance.random() < 0.9)
            answers += [(each["decision"], each.get("message")) for each in found]
            open_ones += [
                (session, tool, each["decision_id"])
                for tool, each in zip(tools, found, strict=True)
                if each.get("decision_id")
            ]
        elif what < 0.7 and open_ones:
            _, _, name = open_ones.pop(chance.randrange(len(open_ones)))
            answers.append(client.say(name, chance.choice(("ran", "failed", "skipped"))))
        elif what < 0.85 and open_ones:
            session, tool, _ = open_ones.pop(chance.randrange(len(open_ones)))
            await rover.call(session, tool)
        else:
            life.pass_to(life.clock.now + chance.choice((1, 5, 70)) * SECOND)
        if number in deaths:
            await life.restart(0)
    life.pass_to(life.clock.now + 20 * SECOND)
    return answers


@pytest.mark.parametrize("seed", sampled(range(8), range(2)))
def test_decided_calls_go_on_as_if_nothing_had_been(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers, decided calls, judgements and counters are those of a service that was never killed."""
    monkeypatch.setattr("collector.app.listening.decisions.new_seed", lambda: b"the same")
    deaths = set(Random(seed).sample(range(40), 4))
    true, killed = Life(None, [spec_of(SPEC)]), Life(tmp_path, [spec_of(SPEC)])
    expected = asyncio.run(_live(true, seed, set()))
    assert asyncio.run(_live(killed, seed, deaths)) == expected
    assert decided(killed) == decided(true)
    assert killed.objects() == true.objects()
    assert killed.counters() == true.counters()
    if (
        seed % 2
    ):  # questions that commit nothing are not kept, and may be missing from the counts
        assert figures(killed) == figures(true)


def test_a_client_may_say_after_a_restart_what_became_of_a_call(tmp_path: Path) -> None:
    """The id of a decision is known to the next process, whose own ids are others."""

    async def run() -> None:
        life = Life(tmp_path, [spec_of(SPEC)])
        await life.start()
        client = Client(life)
        (unlock,) = client.ask("one", "unlock")
        await life.restart()
        assert client.say(unlock["decision_id"], "ran") == 200
        (move,) = client.ask("one", "move")
        assert (move["decision"], move["decision_id"]) != ("deny", unlock["decision_id"])
        assert client.say(move["decision_id"], "ran") == 200
        (judged,) = life.app.monitor.find("one")
        assert [step["tool"] for step in judged["steps"]] == ["unlock", "move"]

    asyncio.run(run())


def test_what_was_denied_is_still_shown_and_not_logged_again(tmp_path: Path) -> None:
    """A prevented call stands on its session's page after a restart; the log has it once."""

    async def run() -> None:
        life = Life(tmp_path, [spec_of(SPEC)])
        await life.start()
        skip(life, HOUR_NS)
        (move,) = Client(life).ask("one", "move")
        assert move["decision"] == "deny"
        with captured() as lines:
            await life.restart()
        (denied,) = life.app.pipeline.decision_records.named("one", "")
        assert (denied.tool, denied.decision_id) == ("move", move["decision_id"])
        assert not [line for line in lines if "prevented" in str(line)]

    asyncio.run(run())


ONCE = """
id: once
kind: policy
enforce: block
match: {service.name: rover}
each: {order: {refund: order}}
across: namespace
alphabet: {refund: {tool: refund}}
constraints: [{at_most: [refund, 1]}]
"""


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_call_in_flight_holds_its_thing_for_other_sessions_over_a_restart(
    tmp_path: Path, *, is_taken: bool
) -> None:
    """Two conversations cannot both be allowed one refund, whether the process was killed between them or not."""

    async def run() -> None:
        life = Life(tmp_path, [spec_of(ONCE)])
        await life.start()
        skip(life, 25 * HOUR_NS)  # calls of before the start are too long ago to count
        client = Client(life)
        refund = [{"tool": "refund", "arguments": {"order": "A"}}]
        (first,) = client.ask("one", calls=refund)
        assert first["decision"] == "allow"
        assert client.ask("two", calls=refund)[0]["until"] == "calls_in_flight"
        if is_taken:
            life.snapshot()
        await life.restart(0)
        (second,) = client.ask("two", calls=refund)
        assert (second["decision"], second["until"]) == ("deny", "calls_in_flight")
        assert client.say(first["decision_id"], "skipped") == 200
        (second,) = client.ask("two", calls=refund)
        assert second["decision"] == "allow"
        assert client.say(second["decision_id"], "ran") == 200
        (third,) = client.ask("one", calls=refund)
        assert (third["decision"], third["until"]) == ("deny", None)

    asyncio.run(run())


def test_ids_of_decisions_are_not_given_twice_where_old_files_are_gone(tmp_path: Path) -> None:
    """Numbers go on from where they were, although the questions before are deleted."""

    async def run() -> None:
        life = Life(tmp_path, [spec_of(SPEC)], state={"keep_seconds": 60})
        await life.start()
        client = Client(life)
        given = [client.ask("one", "unlock")[0]["decision_id"] for _ in range(3)]
        for _ in range(60):
            skip(life, 30 * SECOND)
            client.ask("other", "unlock", commit=False)
        await life.restart()
        assert not len(life.app.pipeline.decided)
        assert client.ask("one", "unlock")[0]["decision_id"] not in given

    asyncio.run(run())
