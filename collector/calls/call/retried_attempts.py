"""Whether a call has failed: a failed attempt that was retried does not count.

Example: a framework sends `pay` twice below one span of the call. The first attempt fails, and the second one, begun after
the first one's end, does not: the call has not failed. Calls that an agent makes once more are calls of their own.
"""

from __future__ import annotations

from collector.calls.call.piece import Piece
from monitor.records import Evidence

__all__ = ["failures"]


def failures(pieces: list[Piece]) -> list[Piece]:
    """The failed pieces that count. A failed attempt that was retried does not, nor do the spans below it."""
    failed = [p for p in pieces if p.error]
    if failed and any(p.evidence is Evidence.EXECUTED for p in pieces):
        failed = [p for p in failed if p.evidence is not Evidence.REQUESTED]
    if not failed or len(failed) == len(pieces):
        return failed
    void = {p.span_id for p in failed if any(_is_retry(p, other) for other in pieces)}
    if not void:
        return failed
    for _ in pieces:  # spread to the spans below a retried attempt
        below = {p.span_id for p in failed if p.parent in void} - void
        if not below:
            break
        void |= below
    return [p for p in failed if p.span_id not in void]


def _is_retry(failed: Piece, other: Piece) -> bool:
    """True if the other piece is a retry of the failed one: the same source and parent, begun after it ended."""
    return (
        other.parent == failed.parent
        and other.source == failed.source
        and other.evidence is Evidence.EXECUTED
        and other.start_ns >= failed.end_ns
        and other.span_id != failed.span_id
    )
