"""Whose session it is, as spans tell it, and which of them counts."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from monitor.records import SessionKey

__all__ = ["Claim", "SpanClaim"]


@mypyc_attr(acyclic=True)
class Claim:
    """A session as spans of a trace tell it: many of them the same."""

    __slots__ = ("as_written", "key", "name", "rung")

    def __init__(self, rung: int, key: SessionKey, name: str, as_written: bytes = b"") -> None:
        self.rung = rung
        """The place of what told it on the ladder of ids: the least says most."""
        self.key = key
        self.name = name
        """What told it."""
        self.as_written = as_written
        """The attribute that told it, as it was on the wire, where that is remembered; else b""."""

    def by(self, span_id: bytes, start_ns: int) -> SpanClaim:
        """The same as one span told it."""
        return SpanClaim(self, span_id, start_ns)

    def counts_before(
        self, span_id: bytes, start_ns: int, other: Claim, other_id: bytes, other_ns: int
    ) -> bool:
        """True where this says more, as one span told it, than another as another did."""
        if self.rung != other.rung:
            return self.rung < other.rung
        if start_ns != other_ns:
            return start_ns < other_ns
        return (span_id, self.key, self.name) < (other_id, other.key, other.name)


@mypyc_attr(acyclic=True)
class SpanClaim:
    """A session id, and the span that told it: the best rung of the earliest span counts."""

    __slots__ = ("claim", "span_id", "start_ns")

    def __init__(self, claim: Claim, span_id: bytes, start_ns: int) -> None:
        self.claim = claim
        self.span_id = span_id
        self.start_ns = start_ns

    def counts_before(self, other: SpanClaim) -> bool:
        """True where this says more than the other of whose the trace is."""
        return self.claim.counts_before(
            self.span_id, self.start_ns, other.claim, other.span_id, other.start_ns
        )

    @property
    def whose(self) -> tuple[SessionKey, str]:
        """The session, and what told it."""
        return self.claim.key, self.claim.name
