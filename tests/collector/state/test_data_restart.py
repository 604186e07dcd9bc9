"""Rules over data in a service that is killed: random runs with things and remembered values end as if nothing had been."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from collector.config.settings.alerts import AlertSettings
from collector.decode.span import Resource, Span
from collector.telemetry.logs import captured
from monitor.limits import SECOND
from tests.collector.state.life import START, Life
from tests.collector.state.test_restart import HOUR_NS, skip, spec_of
from tests.collector.state.test_snapshot_restart import ONCE, SHOP
from tests.simulation import wire
from tests.simulation.exporter import Request, Road, deliver

PLAIN: Final = """
id: plain
kind: policy
match: {service.name: shop}
remember: {price: {at: [look_up, find], result: 'prices[*]'}, asked: {at: find, argument: order}}
alphabet:
  approved: {tool: look_up, result: {status: open}}
  fair: {tool: refund, arguments: {amount: {max: {value: price}}}}
  refund: {tool: refund}
  same: {tool: mail, arguments: {about: {same_as: asked}}}
  told: {tool: mail, arguments: {to: {not_from: [find]}}}
  mail: {tool: mail}
  asked: {tool: close, said: [ann, bob]}
  close: {tool: close}
constraints:
  - alternate_precedence: [approved, fair]
  - forbid: refund
  - forbid: mail
  - forbid: told
  - forbid: close
"""
SPECS: Final = tuple(spec_of(f"mode: page\n{text.strip()}") for text in (SHOP, ONCE, PLAIN))
ALERTS: Final = AlertSettings(alertmanager=("http://127.0.0.1:1/",))
SEEDS: Final = 3
MANY_SEEDS: Final = 300
BEGIN: Final = START + HOUR_NS + 2 * SECOND
"""The service is older than any session may be."""
ROAD: Final = Road(batch_max=4)
RESOURCE: Final = Resource({"service.name": "shop"})
TOOLS: Final = ("look_up", "look_up", "find", "refund", "refund", "mail", "close", "chat")
ORDERS: Final = ("A", "B", "C")
NAMES: Final = ("ann", "bob", "eve")


def traffic(seed: int) -> list[Request]:
    """Sessions of one shop at the same time: late and out of order, and some requests twice."""
    chance, spans = Random(seed), list[Span]()
    for session in ("first", "second", "third")[: chance.randint(1, 3)]:
        at = BEGIN
        for number in range(1, chance.randint(3, 12)):
            at += chance.randrange(SECOND // 5, 3 * SECOND)
            spans.append(_span(chance, session, number, at))
    return deliver(spans, ROAD, chance)


def _span(chance: Random, session: str, number: int, at: int) -> Span:
    """A call, or a turn of a model that tells what the user said."""
    tool = chance.choice(TOOLS)
    told = _said(chance) if tool == "chat" else _called(chance, tool)
    is_call = tool != "chat"
    return wire.span_of(
        RESOURCE,
        f"execute_tool {tool}" if is_call else tool,
        {"gen_ai.conversation.id": session, **told},
        trace_id=session.encode().rjust(16, b"t"),
        span_id=session.encode()[:4] + number.to_bytes(4, "big"),
        start_ns=at,
        end_ns=at + chance.choice((0, SECOND // 10, 2 * SECOND)),
        status=wire.FAILED if is_call and chance.random() < 0.1 else 0,
    )


def _said(chance: Random) -> dict[str, Any]:
    content = f"Write to {chance.choice(NAMES)}!"
    message = {"role": "user", "parts": [{"type": "text", "content": content}]}
    return {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([message])}


def _called(chance: Random, tool: str) -> dict[str, Any]:
    """Arguments and result, each unless it is not captured."""
    arguments: dict[str, Any] = {"order": chance.choice(ORDERS)}
    if tool == "refund":
        arguments["amount"] = chance.choice((1, 5, 9))
    elif tool == "mail":
        arguments = {"to": chance.choice(NAMES), "about": chance.choice(ORDERS)}
    prices = chance.choices((1, 5, 9), k=chance.randint(1, 2))
    result = {"status": chance.choice(("open", "closed")), "price": prices[0], "prices": prices}
    found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    if chance.random() < 0.9:
        found["gen_ai.tool.call.arguments"] = json.dumps(arguments)
    if chance.random() < 0.8:
        found["gen_ai.tool.call.result"] = json.dumps({**result, "of": chance.choice(NAMES)})
    return found


async def _live(
    life: Life, requests: list[Request], deaths: set[int], snapshots: set[int]
) -> None:
    """Takes all requests; is killed behind some of them, and has taken a snapshot behind others."""
    await life.start()
    skip(life, HOUR_NS)
    for number, request in enumerate(requests):
        life.pass_to(request.now)
        await life.send(request.spans)
        if number in snapshots:
            life.snapshot()
        if number in deaths:
            await life.restart(0)
    life.pass_to(life.clock.now + 20 * SECOND)


def assert_goes_on(seed: int, folder: Path) -> int:
    """One run, by a service that is killed twice and by one that is not; returns how many calls are harmful."""
    requests, chance = traffic(seed), Random(seed)
    deaths = {chance.randrange(len(requests)) for _ in range(2)}
    snapshots = {chance.randrange(max(deaths) + 1) for _ in range(chance.randrange(3))}
    true, killed = (Life(each, SPECS, alerts=ALERTS) for each in (None, folder))
    asyncio.run(_live(true, requests, set(), set()))
    with captured() as told:
        asyncio.run(_live(killed, requests, deaths, snapshots))
    assert not [each for each in told if each["event"] == "snapshot_not_used"]
    assert killed.objects() == true.objects(), seed
    assert killed.families() == true.families(), seed
    assert killed.firing() == true.firing(), seed
    held = [each.app.monitor.kept.memory()["sessions"] for each in (killed, true)]
    assert held[0] == held[1], seed
    killed.kill()
    return sum(found["harmful"] for found in true.objects())


def test_a_sample_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    """Judgements, metrics and pages of the first runs; they have harmful calls."""
    assert sum(assert_goes_on(seed, tmp_path / str(seed)) for seed in range(SEEDS)) > SEEDS


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_runs_go_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    """The same of hundreds of runs."""
    for seed in range(MANY_SEEDS):
        assert_goes_on(seed, tmp_path / str(seed))
