"""Claims: which session a span says it belongs to, and which claim wins.

Two claims are compared by rung, then by the start of the spans that made them, then by id: the winner does not
depend on the order of arrival.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from monitor.records import SessionKey

__all__ = ["Claim", "SpanClaim"]


@mypyc_attr(acyclic=True)
class Claim:
    """A session that spans of a trace claim to belong to; spans with the same claim share one object."""

    __slots__ = ("as_written", "key", "name", "rung")

    def __init__(self, rung: int, key: SessionKey, name: str, as_written: bytes = b"") -> None:
        self.rung = rung
        """The rung of the attribute on the ladder of session ids: the lowest wins."""
        self.key = key
        self.name = name
        """The attribute that named it."""
        self.as_written = as_written
        """The attribute as it was on the wire, if it is remembered; else b""."""

    def by(self, span_id: bytes, start_ns: int) -> SpanClaim:
        """The claim as one span made it."""
        return SpanClaim(self, span_id, start_ns)

    def counts_before(
        self, span_id: bytes, start_ns: int, other: Claim, other_id: bytes, other_ns: int
    ) -> bool:
        """True if this claim, made by one span, wins over another claim made by another span."""
        if self.rung != other.rung:
            return self.rung < other.rung
        if start_ns != other_ns:
            return start_ns < other_ns
        return (span_id, self.key, self.name) < (other_id, other.key, other.name)


@mypyc_attr(acyclic=True)
class SpanClaim:
    """A claim and the span that made it. The lowest rung wins, then the earliest span."""

    __slots__ = ("claim", "span_id", "start_ns")

    def __init__(self, claim: Claim, span_id: bytes, start_ns: int) -> None:
        self.claim = claim
        self.span_id = span_id
        self.start_ns = start_ns

    def counts_before(self, other: SpanClaim) -> bool:
        """True if this claim wins over the other."""
        return self.claim.counts_before(
            self.span_id, self.start_ns, other.claim, other.span_id, other.start_ns
        )

    @property
    def whose(self) -> tuple[SessionKey, str]:
        """The session, and the attribute that named it."""
        return self.claim.key, self.claim.name
