"""What the proofs of traces say of the beginning of a session: which of them counts, and what it proves.

Example: a trace of 10:00 shows that the session began with it. A trace of 09:00 arrives, which does not: the earlier one
counts, so the session may have begun before its first call.
"""

from __future__ import annotations

from typing import Final

from monitor.records import Proof

__all__ = ["is_dated", "of_both", "proves", "resumes"]

SAID_SLACK_NS: Final = 60_000_000_000
"""How long before a client's question a call may have begun that the client says is the first of its session."""


def of_both(known: Proof | None, found: Proof | None) -> Proof | None:
    """The proof that counts of one that is known and another one: the word of a client, else the earliest trace."""
    if found is None or (known is not None and known.is_said):
        return known
    if found.is_said or (
        known is None or found.trace_id == known.trace_id or found.start_ns < known.start_ns
    ):
        return found
    return known


def proves(proof: Proof | None, started_ns: int) -> bool:
    """True if a session that began at a time (Unix nanoseconds) provably began with its first call."""
    if proof is None or not proof.holds:
        return False
    # A framework's span of a call begins before its client asks about the call.
    slack = SAID_SLACK_NS if proof.is_said else 0
    return proof.start_ns - slack <= started_ns


def resumes(proof: Proof | None, started_ns: int) -> bool:
    """True if a session that began at a time (Unix nanoseconds) goes on with calls that it lacks."""
    return proof is not None and proof.resumed and proof.start_ns <= started_ns


def is_dated(known: Proof | None, found: Proof | None) -> bool:
    """True if another proof gives the session another time of its beginning than the known one."""
    counts = of_both(known, found)
    if counts is known or counts is None:
        return False
    return known is None or counts.start_ns != known.start_ns
