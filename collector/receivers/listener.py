"""A server on one address, in the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

from collector.receivers.address import Address, bind, parse_address
from collector.receivers.crowd import Bounds, Crowd, Member
from collector.receivers.tls import Certificates
from collector.stats import Stats

__all__ = ["Listener"]

BACKLOG: Final = 1024
"""Connections waiting to be accepted; a burst of senders that start together must fit."""


class Listener:
    """Serves on one address.

    Args:
        connect: makes the protocol of a new connection.
        address: as `parse_address` reads it.
        certificates: with them TLS is spoken, and nothing else.
        bounds: on connections.
        stats: where what is not served is counted.
        name: what the log calls it, where it is more than what it speaks.
    """

    protocols: Sequence[str] = ("http/1.1",)
    """What TLS agrees on."""

    def __init__(
        self,
        connect: Callable[[Crowd], Member],
        address: str,
        *,
        certificates: Certificates | None = None,
        bounds: Bounds | None = None,
        stats: Stats | None = None,
        name: str = "",
    ) -> None:
        self._connect_one = connect
        self._address = parse_address(address)
        self._certificates = certificates
        self._crowd = Crowd(bounds or Bounds(), stats or Stats(), name)
        self._sweeper: asyncio.Task[None] | None = None
        self._server: asyncio.AbstractServer | None = None
        self._socket: socket.socket | None = None

    async def start(self) -> str:
        """Bind, accept connections, and return the bound address.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address cannot be bound, or the certificates cannot be used.
        """
        tls = self._certificates.context(self.protocols) if self._certificates else None
        self._socket = bind(self._address)
        if not self._address.path:
            host, port = self._socket.getsockname()[:2]
            self._address = Address(host=host, port=port)
        self._server = await asyncio.get_running_loop().create_server(
            cast(Callable[[], asyncio.Protocol], lambda: self._connect_one(self._crowd)),
            sock=self._socket,
            ssl=tls,
            backlog=BACKLOG,
        )
        self._sweeper = asyncio.create_task(self._crowd.sweep())
        return str(self._address)

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, let requests in flight end, and return.

        Requests that take longer than `grace_seconds` are cancelled.
        """
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        await self._crowd.disperse(grace_seconds)
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        self._release()

    def _release(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._address.path:
            Path(self._address.path).unlink(missing_ok=True)
