"""The deadlines of an HTTP/2 connection: a check at the due time acts, an earlier one does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.receive.grpc.http2.keepalive import Keepalive, Pings
from collector.receive.grpc.http2.lifetime import FAREWELL_SECONDS, Lifetime
from collector.receive.listener.connections import NEVER

HEAD_SECONDS = 10.0
SECONDS = st.none() | st.integers(1, 100).map(float)


def _is_due(
    life: Lifetime, pings: Pings, now: float, *, is_unused: bool, is_quiet: bool
) -> bool:
    """Whether an action is due; a ping of ours counts as one."""
    if pings.is_unanswered(now) or pings.sends(now):
        return True
    if life.leaving_since is None:
        return life.is_over(now, is_unused=is_unused, is_quiet=is_quiet)
    return life.is_grace_over(now) or (not life.is_parted and life.knows_to_go(now))


@given(
    st.tuples(*[SECONDS] * 6),
    st.integers(0, 50),
    st.none() | st.integers(0, 50),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_due_at_is_exact(
    limits: tuple[float | None, ...],
    read_at: int,
    leaving_since: int | None,
    is_parted: bool,
    is_asked: bool,
    is_unused: bool,
    is_quiet: bool,
) -> None:
    """Nothing is due before `due_at`, and something is due at it."""
    life = Lifetime(Keepalive(*limits), 0.0, HEAD_SECONDS)
    pings = Pings(Keepalive(*limits), 0.0)
    pings.read_at = life.quiet_since = float(read_at)
    if is_asked:
        pings.sends(1_000.0)
        pings.read_at = 1_000.0
    life.leaving_since = None if leaving_since is None else float(leaving_since)
    life.is_parted = is_parted
    due = min(life.due_at(is_unused=is_unused, is_quiet=is_quiet), pings.due_at())

    before = due - 0.5 if due < NEVER else 1e6
    assert not _is_due(life, pings, before, is_unused=is_unused, is_quiet=is_quiet)
    if due < NEVER:
        assert _is_due(life, pings, due, is_unused=is_unused, is_quiet=is_quiet)


def test_a_client_that_does_not_answer_the_farewell_is_taken_to_know() -> None:
    """The GOAWAY counts as received one second after it was sent."""
    life = Lifetime(Keepalive(), 0.0, HEAD_SECONDS)
    assert not life.knows_to_go(1_000)
    life.leaving_since = 5.0
    assert not life.knows_to_go(5.9)
    assert life.knows_to_go(5 + FAREWELL_SECONDS)
