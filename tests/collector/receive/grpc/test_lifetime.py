"""The deadlines of an HTTP/2 connection: a check at the due time acts, an earlier one does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.receive.grpc.lifetime import (
    FAREWELL_SECONDS,
    PING_STRIKES_MAX,
    Keepalive,
    Lifetime,
)
from collector.receive.listener.connections import NEVER

HEAD_SECONDS = 10.0
SECONDS = st.none() | st.integers(1, 100).map(float)


def _is_due(life: Lifetime, now: float, *, is_unused: bool, is_quiet: bool) -> bool:
    """Whether an action is due; a ping of ours counts as one."""
    if life.is_unanswered(now) or life.wants_ping(now):
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
    life.read_at = life.quiet_since = float(read_at)
    if is_asked:
        life.wants_ping(1_000.0)
        life.read_at = 1_000.0
    life.leaving_since = None if leaving_since is None else float(leaving_since)
    life.is_parted = is_parted
    due = life.due_at(is_unused=is_unused, is_quiet=is_quiet)

    before = due - 0.5 if due < NEVER else 1e6
    assert not _is_due(life, before, is_unused=is_unused, is_quiet=is_quiet)
    if due < NEVER:
        assert _is_due(life, due, is_unused=is_unused, is_quiet=is_quiet)


def test_pings_that_come_too_soon() -> None:
    """Two strikes are forgiven, and all of them once we have answered something."""
    life = Lifetime(Keepalive(), 0.0, HEAD_SECONDS)
    for _ in range(3):
        assert all(life.takes_ping() for _ in range(1 + PING_STRIKES_MAX))
        life.ping_strikes = -1  # an answer was written
    assert all(life.takes_ping() for _ in range(1 + PING_STRIKES_MAX))
    assert not life.takes_ping()


def test_a_slow_client_may_ping_for_ever() -> None:
    """Pings as far apart as they may be are no strikes."""
    life = Lifetime(Keepalive(ping_interval_min=5), 0.0, HEAD_SECONDS)
    for number in range(10):
        life.read_at = 5.0 * number
        assert life.takes_ping()
    assert life.ping_strikes == 0


def test_a_client_that_does_not_answer_the_farewell_is_taken_to_know() -> None:
    """The GOAWAY counts as received one second after it was sent."""
    life = Lifetime(Keepalive(), 0.0, HEAD_SECONDS)
    assert not life.knows_to_go(1_000)
    life.leaving_since = 5.0
    assert not life.knows_to_go(5.9)
    assert life.knows_to_go(5 + FAREWELL_SECONDS)
