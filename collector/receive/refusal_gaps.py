"""Requests that were refused, and spans that were left out: calls may be missing, until the same bytes come after all.

Idea: a sender whose request is refused may give up, so calls are made that nobody hears of. That is a gap in what was seen
(`monitor.visibility`), of the sender's sessions if it has a token, else of all. A request that was read is known again by a
digest of its body: when it comes and is taken, nothing is missing any more. One that was refused by its head is not. Spans
that were left out of a request that was taken (a partial success) are a gap of their services. It is not lifted.

Invariant: a gap is lifted only if each request that it stands for has come.

Example: the disk refuses to write, so a request is answered with 503. Its gap is noted. The sender sends it again after 5 s,
and it is taken: the gap is lifted, and the sessions are judged as if nothing had been.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from collector.dialects.names.name_bound import bounded
from collector.receive.status_codes import ExportStatus, Refusal
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["AWAITED_MAX", "RefusalGaps"]

AWAITED_MAX: Final = 1_024
"""Gaps whose requests may still come; the gap of the oldest stays."""
SECOND_NS: Final = 1_000_000_000

LOSING: Final = frozenset(
    {
        ExportStatus.THROTTLED,
        ExportStatus.UNAVAILABLE,
        ExportStatus.INTERNAL,
        ExportStatus.TOO_LARGE,
    }
)
"""Outcomes of requests that a sound sender sends and that are not taken."""


class RefusalGaps:
    """The gaps of refused requests.

    Args:
        note: takes a gap.
        lift: takes it back.
        before_ns: a call of a refused request began at most so long before, Unix nanoseconds.
    """

    def __init__(
        self, note: Callable[[Gap], object], lift: Callable[[Gap], object], before_ns: int
    ) -> None:
        self._note = note
        self._lift = lift
        self._before_ns = before_ns
        self._awaited: OrderedDict[bytes, Gap] = OrderedDict()
        """The digests of refused bodies, each with its gap."""
        self._left: dict[Gap, int] = {}
        """How many requests of a gap have not come. Those that were not read never do, nor do spans that were left out."""

    def __bool__(self) -> bool:
        """True while some request may come again."""
        return bool(self._awaited)

    def refused(
        self, refusal: Refusal, sender: str | None, now: int, body: bytes | None = None
    ) -> None:
        """A request of traces was refused.

        Args:
            refusal: its answer.
            sender: the name of its token; None if no token is required.
            now: Unix nanoseconds.
            body: as decoded, if it was read.
        """
        if refusal.status not in LOSING or refusal.noted:
            return
        refusal.noted = True
        gap = self._gap(sender, now)
        digest = None if body is None else _digest(body)
        if digest is not None and digest in self._awaited:
            return
        if digest is not None:
            self._awaited[digest] = gap
        if len(self._awaited) > AWAITED_MAX:
            self._awaited.popitem(last=False)
        self._stand(gap)

    def left_out(self, services: Iterable[str], sender: str | None, now: int) -> None:
        """Spans of these services were left out of a request that was taken; "" for any service."""
        for service in services:
            is_short = bounded(service) == service  # gaps are kept for hours, and written down
            self._stand(self._gap(sender, now, service if is_short else ""))

    def _stand(self, gap: Gap) -> None:
        """Notes a gap that stands for one more request."""
        self._left[gap] = self._left.get(gap, 0) + 1
        if len(self._left) > AWAITED_MAX:
            del self._left[next(iter(self._left))]
        self._note(gap)

    def _gap(self, sender: str | None, now: int, service: str = "") -> Gap:
        """Whole seconds, so that a flood of refusals is a few gaps."""
        since = max(0, (now - self._before_ns) // SECOND_NS * SECOND_NS)
        return Gap(
            Cause.REFUSED,
            since,
            (now // SECOND_NS + 1) * SECOND_NS,
            namespace=sender or None,
            service=service,
            received_ns=since,
        )

    def arrived(self, body: bytes) -> None:
        """A request was taken, which may be one that was refused before."""
        gap = self._awaited.pop(_digest(body), None)
        if gap is None or gap not in self._left:
            return
        self._left[gap] -= 1
        if not self._left[gap]:
            del self._left[gap]
            self._lift(gap)


def _digest(body: bytes) -> bytes:
    """Names a body; 16 bytes."""
    from xxhash import xxh3_128_digest  # 2 MB, for those that refuse requests

    return xxh3_128_digest(body)
