"""Tests with an event loop: it runs one coroutine, which may wait for what no event tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["WAIT_SECONDS", "run", "until"]

WAIT_SECONDS = 60
"""What takes so long does not come: a busy machine may be ten times slower than usual."""


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test's coroutine in a loop of its own."""
    asyncio.run(main())


async def until(probe: Callable[[], Any]) -> None:
    """Returns as soon as `probe` is true."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not probe():  # noqa: ASYNC110 - what is probed has no event
            await asyncio.sleep(0.005)
