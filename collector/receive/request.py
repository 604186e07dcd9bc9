"""A request as the transports hand it on: one record from the last byte of its body to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from monitor.records import Verdict

__all__ = ["Encoding", "Metadata", "Request", "Signal"]

Encoding = Literal["proto", "json"]
Signal = Literal["traces", "metrics", "logs"]

Metadata = Sequence[tuple[bytes, bytes]]
"""Headers of a request that go on with it: names in lower case, and values."""


class Request:
    """A request that was received whole.

    Args:
        signal: of the request.
        body: after decompression.
        encoding: of the body.
        transport: as `Stats` names them.
        sender: the name of the sender's token; None if no token is required.
        metadata: headers that go on with it.
    """

    __slots__ = (
        "body",
        "encoding",
        "metadata",
        "place",
        "sender",
        "signal",
        "transport",
        "verdicts",
    )

    def __init__(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None = None,
        metadata: Metadata = (),
    ) -> None:
        self.signal: Signal = signal
        self.body = body
        self.encoding: Encoding = encoding
        self.transport = transport
        self.sender = sender
        self.metadata = metadata
        self.place = 0
        """Place in the journal (`collector.state.segment.place_of`); 0 without one."""
        self.verdicts: dict[bytes, dict[str, Verdict]] | None = None
        """Span, by trace id and span id -> spec -> verdict; None if nobody notes them."""
