"""A time limit for what an event loop waits for: `asyncio.timeout`, which Python has from 3.11 on."""

from __future__ import annotations

import sys

__all__ = ["time_limit"]

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    from anyio import fail_after

    @asynccontextmanager
    async def time_limit(seconds: float) -> AsyncIterator[None]:
        """Ends what is waited for within, after so many seconds.

        Raises:
            TimeoutError: the time is up.
        """
        with fail_after(seconds):
            yield
