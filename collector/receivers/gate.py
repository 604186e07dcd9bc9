"""Closes to a transport's requests when the service stops, before anything of them is judged.

A gRPC server that stops cancels requests it has not begun. Senders that are refused first step
back, and nothing is left to be cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from collector.receivers.status import Outcome, Refusal

__all__ = ["Gate"]

QUIET_SECONDS: Final = 0.05
"""No request for so long: the senders have heard that we are going."""


class Gate:
    """Open to every transport until it is closed to one."""

    def __init__(self) -> None:
        self._closed: set[str] = set()
        self._refused = 0

    def enter(self, transport: str) -> None:
        """Let a request in, as a whole.

        Raises:
            Refusal: UNAVAILABLE, once closed.
        """
        if transport in self._closed:
            self._refused += 1
            raise Refusal(Outcome.UNAVAILABLE, "shutting down")

    async def close(self, transport: str, grace_seconds: float) -> None:
        """Refuses from now on; returns when nobody asks any more, or after the grace."""
        self._closed.add(transport)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                seen = -1
                while seen != self._refused:
                    seen = self._refused
                    await asyncio.sleep(QUIET_SECONDS)
