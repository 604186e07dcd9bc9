"""The queue of one next hop, bounded in bytes.

Invariant: `bytes` is the sum of the sizes of all reservations: of messages that wait, of those on their way, and
of those that are about to be put in.

Example: `reserve(size)` says that there is room; `put` lets the message wait; `take` gives the oldest one, which
is on its way until `settle` frees its bytes, or `put` lets it wait again, behind the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from collector.forward.message import ForwardMessage

__all__ = ["ForwardQueue"]


class ForwardQueue:
    """The messages of one next hop.

    Args:
        bytes_max: bound on `bytes`.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        """Bytes of all messages that wait or are in flight."""
        self.bytes_max = bytes_max
        self._waiting: deque[ForwardMessage] = deque()

    def __len__(self) -> int:
        """Messages that wait."""
        return len(self._waiting)

    def reserve(self, size: int) -> bool:
        """Holds `size` bytes; False if they are too many. An empty queue has room for any message."""
        if self.bytes and self.bytes + size > self.bytes_max:
            return False
        self.bytes += size
        return True

    def release(self, size: int) -> None:
        """Frees bytes that `reserve` held."""
        self.bytes -= size

    def put(self, message: ForwardMessage) -> None:
        """Lets a message wait, whose size is reserved, or that was on its way: behind the others."""
        self._waiting.append(message)

    def take(self) -> ForwardMessage:
        """The message that waits longest; it is on its way now."""
        return self._waiting.popleft()

    def settle(self, message: ForwardMessage) -> None:
        """A message that was on its way is delivered or given up."""
        self.bytes -= message.size

    def drain(self) -> Iterator[ForwardMessage]:
        """Takes out and settles all messages that wait."""
        while self._waiting:
            message = self._waiting.popleft()
            self.bytes -= message.size
            yield message
