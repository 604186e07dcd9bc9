"""Liveness and readiness: `/-/healthy` and `/-/ready`."""

from __future__ import annotations

from collector.net.asgi import Scope, Send, send_status

__all__ = ["Health"]


class Health:
    """Healthy while the process runs; ready while it accepts spans, and has no fault that counts."""

    def __init__(self) -> None:
        self.ready = False
        self.faults = ""
        """Why it is not ready although it accepts spans; "" if nothing is wrong."""

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answers a health request; False for any other request."""
        if scope["path"] == "/-/healthy":
            await send_status(send, 200, b"healthy\n", b"text/plain; charset=utf-8")
            return True
        if scope["path"] == "/-/ready":
            status, word = self._readiness()
            await send_status(send, status, word, b"text/plain; charset=utf-8")
            return True
        return False

    def _readiness(self) -> tuple[int, bytes]:
        if self.ready and not self.faults:
            return 200, b"ready\n"
        return 503, f"not ready: {self.faults}\n".encode() if self.ready else b"not ready\n"
