"""A request on its way to one next hop, and what the next hop makes of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from collector.forward.annotation import Marks
from collector.receive.request import Encoding, Metadata, Signal
from collector.receive.status_codes import ExportStatus

__all__ = ["MESSAGE_BYTES", "ForwardMessage", "ForwardReply"]

MESSAGE_BYTES: Final = 1_024
"""Bytes of a message besides its body and its metadata."""
MARK_BYTES: Final = 512
"""Bytes of the annotation of one span, before it is made and after."""


class ForwardMessage:
    """One accepted request for one next hop.

    Args:
        signal: of the request.
        body: after decompression.
        encoding: of the body.
        metadata: headers of the sender that go on: names in lower case, and values.
        marks: what is to be added to spans, before it is sent.
    """

    __slots__ = (
        "body",
        "encoding",
        "marks",
        "metadata",
        "place",
        "received",
        "signal",
        "size",
    )

    def __init__(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        metadata: Metadata = (),
        marks: Marks | None = None,
    ) -> None:
        self.signal: Signal = signal
        self.body = body
        self.encoding: Encoding = encoding
        self.metadata = metadata
        self.marks = marks
        self.size = (
            len(body)
            + MESSAGE_BYTES
            + sum(len(name) + len(value) for name, value in metadata)
            + MARK_BYTES * len(marks or ())
        )
        """Bytes that it takes of a queue."""
        self.place = 0
        """Place of the forwarding record in the journal; 0 without one."""
        self.received = 0.0
        """When it was put into the queue, by the event loop's clock."""


class ForwardReply(NamedTuple):
    """What a next hop made of one attempt, or why it made nothing of it."""

    status: ExportStatus
    """Retryable: the same bytes are to be sent again."""
    message: str = ""
    """The next hop's own words or the fault of the connection; "" on full success."""
    rejected: int = 0
    """Spans, data points or log records that the next hop left out of a request it took."""
    wait_seconds: float = 0.0
    """Shortest time until the next attempt, as the next hop asks for it."""
