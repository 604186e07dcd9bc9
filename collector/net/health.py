"""Liveness and readiness: `/-/healthy` and `/-/ready`."""

from __future__ import annotations

from collector.net.asgi import Scope, Send, send_status

__all__ = ["Health"]


class Health:
    """Healthy while the process runs; ready while it accepts spans and has its specs."""

    def __init__(self) -> None:
        self.ready = False
        """True while spans are taken."""
        self.reason = ""
        """Why the service is not ready although it takes spans; empty: nothing keeps it from that."""

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answers a health request; False for any other request."""
        if scope["path"] == "/-/healthy":
            await send_status(send, 200, b"healthy\n", b"text/plain; charset=utf-8")
            return True
        if scope["path"] == "/-/ready":
            is_ready = self.ready and not self.reason
            status, word = (200, "ready") if is_ready else (503, "not ready")
            text = f"{word}: {self.reason}\n" if self.reason else f"{word}\n"
            await send_status(send, status, text.encode(), b"text/plain; charset=utf-8")
            return True
        return False
