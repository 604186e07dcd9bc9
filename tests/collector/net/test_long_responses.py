"""Long responses: slow readers keep no place from a good client of the same address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from collector.net import long_responses
from collector.net.long_responses import OPEN_MAX, LongResponses


async def parts() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"part"


class Client:
    """Reads what is sent, or only the head of it."""

    def __init__(self, *, reads: bool) -> None:
        self.reads = reads
        self.status = 0
        self.body = b""
        self.waits = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if not self.reads:
            self.waits.set()
            await asyncio.get_running_loop().create_future()
        self.body += message["body"]


def ask(long: LongResponses, client: Client, address: str) -> asyncio.Task[bool]:
    scope: Any = {"client": (address, 1)}
    return asyncio.ensure_future(long.send(scope, client.send, b"text/plain", parts()))


@pytest.mark.parametrize("rounds", [1, 40])
def test_a_good_client_beside_slow_readers_is_answered(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow readers of the same address are closed, the slowest first, to make room for it."""
    monkeypatch.setattr(long_responses, "SLOW_SECONDS", 0.0)

    async def go() -> None:
        long = LongResponses()
        slow = [Client(reads=False) for _ in range(OPEN_MAX // 2)]
        tasks = []
        for client in slow:
            tasks.append(ask(long, client, "a"))
            await client.waits.wait()
        for _ in range(rounds):
            another = Client(reads=False)
            tasks.append(ask(long, another, "a"))
            await another.waits.wait()
        good = Client(reads=True)
        await ask(long, good, "a")
        assert (good.status, good.body) == (200, b"part" * 3)
        assert tasks[0].cancelled()
        assert not tasks[-1].done()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        again = [Client(reads=False) for _ in slow]
        asked = [ask(long, client, "a") for client in again]
        for client in again:
            await client.waits.wait()
        assert not any(task.done() for task in asked)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(go())


def test_a_good_client_waits_for_readers_that_are_not_slow_yet() -> None:
    """Beside readers that have come just now it is answered as soon as one of them counts as slow."""

    async def go() -> None:
        long = LongResponses()
        slow = [Client(reads=False) for _ in range(OPEN_MAX)]
        tasks = [ask(long, client, "a") for client in slow]
        good = Client(reads=True)
        await ask(long, good, "a")
        assert (good.status, good.body) == (200, b"part" * 3)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(go())


def test_requests_that_wait_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than `WAITING_MAX` the last is refused at once, and the first is answered."""
    monkeypatch.setattr(long_responses, "WAITING_MAX", 1)

    async def go() -> None:
        long = LongResponses()
        slow = [Client(reads=False) for _ in range(OPEN_MAX // 2)]
        tasks = [ask(long, client, "a") for client in slow]
        for client in slow:
            await client.waits.wait()
        first, last = Client(reads=True), Client(reads=True)
        waiting = ask(long, first, "a")
        await asyncio.sleep(0)
        await ask(long, last, "a")
        assert (last.status, first.status, waiting.done()) == (503, 0, False)
        await waiting
        assert first.status == 200
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(go())


def test_slow_readers_of_another_address_are_not_ended_so_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An address ends its own readers first; those of others have until they count as stalled."""
    monkeypatch.setattr(long_responses, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(long_responses, "STALLED_SECONDS", 3600.0)

    async def go() -> None:
        long = LongResponses()
        tasks = []
        for number in range(OPEN_MAX):
            client = Client(reads=False)
            tasks.append(ask(long, client, f"address {number}"))
            await client.waits.wait()
        good = Client(reads=True)
        await ask(long, good, "new")
        assert good.status == 503
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(go())
