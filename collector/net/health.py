"""Liveness and readiness: `/-/healthy` and `/-/ready`."""

from __future__ import annotations

from collector.net.asgi import Scope, Send, send_status

__all__ = ["Health"]


class Health:
    """Healthy while the process runs; ready while it accepts spans."""

    def __init__(self) -> None:
        self.ready = False

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answers a health request; False for any other request."""
        if scope["path"] == "/-/healthy":
            await send_status(send, 200, b"healthy\n", b"text/plain; charset=utf-8")
            return True
        if scope["path"] == "/-/ready":
            status, word = (200, b"ready\n") if self.ready else (503, b"not ready\n")
            await send_status(send, status, word, b"text/plain; charset=utf-8")
            return True
        return False
