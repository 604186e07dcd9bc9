"""Liveness and readiness: `/-/healthy` and `/-/ready`."""

from __future__ import annotations

from collector.net.asgi import Scope, Send, send_status

__all__ = ["Health"]


class Health:
    """Healthy while it can work; ready while it accepts spans, has its specs, and has no fault that counts."""

    def __init__(self) -> None:
        self.ready = False
        """True while spans are accepted."""
        self.reason = ""
        """Why the service is not ready whatever it accepts; "" if nothing keeps it from that."""
        self.faults = ""
        """Faults that count, as the settings say; "" if there is none."""
        self.stuck = ""
        """Why only a restart helps; "" while nothing is known that keeps it from work for good."""
        self.is_early = False
        """True while counters are not yet what they were before the start."""

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answers a health request; False for any other request."""
        if scope["path"] == "/-/healthy":
            status, text = (503, f"stuck: {self.stuck}\n") if self.stuck else (200, "healthy\n")
            await send_status(send, status, text.encode(), b"text/plain; charset=utf-8")
            return True
        if scope["path"] == "/-/ready":
            status, word = self._readiness()
            await send_status(send, status, word, b"text/plain; charset=utf-8")
            return True
        return False

    def _readiness(self) -> tuple[int, bytes]:
        why = ", ".join(filter(None, (self.reason, self.faults if self.ready else "")))
        if self.ready and not why:
            return (
                200,
                b"ready, and judging what came before\n" if self.is_early else b"ready\n",
            )
        return 503, f"not ready: {why}\n".encode() if why else b"not ready\n"
