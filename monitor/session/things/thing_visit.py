"""A call of another session on a thing that both have in common.

Idea: a session that carries a thing is told of the calls of others on it. They stand beside its log, and its replay takes
them between its own calls, by their times. Whether such a call was right is decided where it was made, where more may be
known of it.

Example: `refund(A1)` of another conversation, at 12:03, comes between the look-up of A1 at 12:02 and the refund at 12:05 of
this one. So this refund is the second one of A1.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Visit"]


class Visit(NamedTuple):
    """One call, as the sessions that did not make it take it. The first three fields are its place in the order of calls."""

    at_ns: int
    end_ns: int
    span_id: bytes
    key: bytes | None
    """Key of the thing; None for a call whose values are not known, which may be of any."""
    token: int | None
    """None stands for calls that nobody saw: behind it, the thing may be in any state."""
    is_right: bool
    """True if it was not harmful in its own session. A harmful call moves nothing."""
