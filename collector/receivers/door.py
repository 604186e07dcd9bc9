"""Who is let in: senders with a token, and as many at once as there is room for.

Both transports ask here before they read a body. What is refused here was not read, or is thrown
away unread; what is let in is answered, so a sender never loses what it was told is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collector.receivers.shares import Account, Shares
from collector.receivers.status import Outcome, Refusal
from collector.receivers.tokens import Tokens
from monitor.exposition import Family, family

__all__ = ["BODY_SECONDS", "HEAD_SECONDS", "Door", "Ticket"]

RETRY_SECONDS: Final = 1
"""Room is made as fast as bodies arrive."""


HEAD_SECONDS: Final = 10.0
"""From the first byte of a request, or the connection's start, to the end of its headers."""
BODY_SECONDS: Final = 60.0
"""From the end of the headers to the end of the body."""


class Door:
    """Lets requests in.

    Args:
        bytes_max: of all bodies that are being read.
        requests_max: that are being read.
        tokens: who may send; None: anyone.
        body_seconds: for one body.
        shares: what each sender with a token may take; None: as much as there is.
    """

    def __init__(
        self,
        bytes_max: int = 256 << 20,
        requests_max: int = 16_384,
        tokens: Tokens | None = None,
        body_seconds: float = BODY_SECONDS,
        shares: Shares | None = None,
    ) -> None:
        self.bytes = 0
        """Of bodies that are being read now."""
        self.requests = 0
        """That are being read now."""
        self.body_seconds = body_seconds
        self.asks = tokens is not None
        """Senders have to show a token."""
        self.beside = 0
        """Bytes that requests take beside their bodies: see `shares.Reservation`."""
        self._bytes_max = bytes_max
        self._requests_max = requests_max
        self._tokens = tokens
        self._shares = shares

    def sender(self, authorization: str) -> str | None:
        """Return the name of the sender's token; None where no token is asked for.

        Raises:
            Refusal: UNAUTHENTICATED.
        """
        return None if self._tokens is None else self._tokens.sender(authorization)

    def enter(self, sender: str | None = None) -> Ticket:
        """Take part in what is in flight, until the ticket is given back.

        Args:
            sender: the name of the token; None where no token is asked for.

        Raises:
            Refusal: UNAVAILABLE, or THROTTLED where it is the sender's own share that is used up;
                with the time after which to try again.
        """
        if self.requests >= self._requests_max:
            raise _full(f"{self.requests} requests are being read")
        account = None
        if self._shares is not None and sender is not None:
            account = self._shares.of(sender)
            account.enter()
        self.requests += 1
        return Ticket(self, account)

    def families(self) -> Iterator[Family]:
        """How full it is, as metrics."""
        held = (("requests", self.requests), ("bytes", self.bytes + self.beside))
        most = (("requests", self._requests_max), ("bytes", self._bytes_max))
        yield family("ingest_queue_length", (((name,), count) for name, count in held))
        yield family("ingest_queue_capacity", (((name,), count) for name, count in most))

    def has_room(self, count: int) -> bool:
        return self.bytes + self.beside + count <= self._bytes_max

    @property
    def bytes_max(self) -> int:
        """Of all bodies that are being read, and what they become."""
        return self._bytes_max


class Ticket:
    """One request that was let in, and the bytes it holds. Left once, by `leave` or as a context."""

    __slots__ = ("_account", "_door", "bytes")

    def __init__(self, door: Door, account: Account | None = None) -> None:
        self._door = door
        self._account = account
        self.bytes = 0

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """It is answered."""
        self._door.requests -= 1
        self.release()

    def grow(self, count: int) -> None:
        """Hold so many bytes more.

        Raises:
            Refusal: UNAVAILABLE or THROTTLED; there is no room for them.
        """
        if not self._door.has_room(count):
            raise _full(f"{self._door.bytes} bytes are being read")
        if self._account is not None:
            self._account.grow(count)
        self.bytes += count
        self._door.bytes += count

    def release(self) -> None:
        """Hold nothing any more."""
        self._door.bytes -= self.bytes
        if self._account is not None:
            self._account.held -= self.bytes
        self.bytes = 0


def _full(what: str) -> Refusal:
    return Refusal(Outcome.UNAVAILABLE, f"busy: {what}; try again", RETRY_SECONDS)
