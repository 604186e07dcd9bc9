"""What the ticker does of its work at once, and what waits for the tick."""

from __future__ import annotations

import asyncio

import pytest

from collector.app import ticker
from collector.app.fault_counter import FaultCounter
from collector.app.ticker import Ticker
from collector.telemetry.counters import Stats


def test_others_have_their_turn_between_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in parts is done before the tick's steps, and what is ready runs between two parts."""
    monkeypatch.setattr(ticker, "TICK_SECONDS", 0.001)
    done: list[str] = []

    async def use() -> None:
        over = asyncio.Event()

        def part() -> bool:
            asyncio.get_running_loop().call_soon(done.append, "another")
            done.append("part")
            return done.count("part") < 3

        def step(_: int) -> None:
            done.append("step")
            over.set()

        one = Ticker(lambda: 0, lambda: 0, (), [step], part, FaultCounter(Stats()))
        one.start()
        await asyncio.wait_for(over.wait(), 10)
        await one.stop()

    asyncio.run(use())
    assert done[: done.index("step")] == ["part", "another", "part", "another", "part"]
