"""Which sessions have changed, as server-sent events: a hint to ask again, never the data itself.

Idea: the monitor keeps sessions in the order in which they were last touched. A stream remembers the time of
the newest one and asks every 0.5 s which were touched since. So a stream costs the same however many calls
there are, and no call costs more for a stream.

Invariants:

- At most one event in 0.5 s, with at most 200 sessions; beyond these `more` is true, and the reader asks for its
  list again.
- What time brings (ends, final verdicts) touches no session: it is noticed by its counts, and is `more`, too.
- At most 32 streams. A stream ends when its reader goes or the service stops.

Example, for a session that called twice in the last half second:

    event: change
    data: {"sessions":[["team-a","s-17"]],"more":false}
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import islice

from collector.api.access import ANYBODY, Access
from collector.net.asgi import Receive, Send, reader_gone, send_stream
from collector.net.health import Health
from collector.telemetry.json_text import as_json
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor

__all__ = ["STREAMS_MAX", "Events"]

STREAMS_MAX = 32
"""Open streams; a browser window has one."""

EVERY_SECONDS = 0.5
"""Shortest time between two events, however many calls there are."""

HEARTBEAT_LOOKS = 30
"""Looks without news before a comment keeps the connection alive: 15 s."""

UNNAMED_LOOKS = 10
"""Looks before who sees some namespaces alone is asked to look again: 5 s."""

NAMED_MAX = 200
"""Sessions named in one event; beyond that, `more` is true."""


class Events:
    """Streams of `change` events: `{"sessions": [[namespace, id], ...], "more": bool}`."""

    def __init__(
        self, monitor: Monitor, health: Health, redaction: Redaction | None = None
    ) -> None:
        self._monitor = monitor
        self._redaction = redaction or Redaction()
        self._health = health
        self.open = 0

    @property
    def full(self) -> bool:
        """True while no further stream is taken."""
        return self.open >= STREAMS_MAX

    async def serve(self, receive: Receive, send: Send, access: Access = ANYBODY) -> None:
        """Sends events until the service stops or the reader goes."""
        self.open += 1
        gone = asyncio.ensure_future(reader_gone(receive))
        try:
            await send_stream(send, b"text/event-stream", self._parts(gone, access))
        finally:
            gone.cancel()
            self.open -= 1

    async def _parts(self, gone: asyncio.Future[None], access: Access) -> AsyncIterator[bytes]:
        yield b"retry: 2000\nevent: hello\ndata: {}\n\n"
        seen, ended, quiet, looks = self._monitor.reader.touched_ns, self._ended(), 0, 0
        while self._health.ready and not gone.done():
            await asyncio.wait({gone}, timeout=EVERY_SECONDS)
            touched = self._monitor.reader.touched_since(seen)
            visible = (key for key in touched if access.sees(key.namespace))
            changed = list(islice(visible, NAMED_MAX + 1))
            # Whether something ended is not known by namespace: who sees some is told now and then, whatever happens.
            looks += 1
            finished = (
                self._ended() != ended
                if access.namespaces is None
                else looks % UNNAMED_LOOKS == 0
            )
            seen, ended = self._monitor.reader.touched_ns, self._ended()
            if changed or finished:
                quiet = 0
                named = [[key.namespace, key.id] for key in changed[:NAMED_MAX]]
                news = {"sessions": named, "more": finished or len(changed) > NAMED_MAX}
                yield b"event: change\ndata: " + as_json(self._redaction.shown(news)) + b"\n\n"
                continue
            quiet += 1
            if quiet % HEARTBEAT_LOOKS == 0:
                yield b": alive\n\n"

    def _ended(self) -> int:
        """Grows when time, and no call, has brought something."""
        return (
            sum(self._monitor.counters.ended.values()) + self._monitor.counters.timed_verdicts
        )
