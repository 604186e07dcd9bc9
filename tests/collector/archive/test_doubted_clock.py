"""Ages count by time that has passed: a clock that is set forward deletes nothing for a day."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.archive.doubted_clock import DOUBTED_NS, SLACK_NS, DoubtedClock

HOUR = SLACK_NS
DAY = 24 * HOUR
YEAR = 365 * DAY


def test_a_clock_that_is_set_forward_is_doubted_for_a_day() -> None:
    """While it runs, and at the start, when the newest session tells what time it was."""
    running = DoubtedClock(0, 0)
    assert running.now(10 * DAY, 0) == 10 * DAY
    assert running.now(10 * DAY + YEAR, HOUR) == 10 * DAY + HOUR
    started = DoubtedClock(10 * DAY, 0)
    assert started.now(10 * DAY + YEAR, 0) == 10 * DAY
    assert started.now(10 * DAY + YEAR + DAY - 1, DAY - 1) == 11 * DAY - 1
    assert started.now(11 * DAY + YEAR, DAY) == 11 * DAY + YEAR


def test_a_clock_that_is_set_right_is_believed() -> None:
    """Back from the future, a little forward, and after an hour without a service."""
    clock = DoubtedClock(10 * DAY, 0)
    assert clock.now(10 * DAY + YEAR, HOUR) == 10 * DAY + HOUR
    assert clock.now(10 * DAY + 2 * HOUR, 2 * HOUR) == 10 * DAY + 2 * HOUR
    assert clock.now(9 * DAY, 3 * HOUR) == 9 * DAY
    assert DoubtedClock(10 * DAY, 0).now(10 * DAY + HOUR, 0) == 10 * DAY + HOUR


@given(st.lists(st.tuples(st.integers(-YEAR, YEAR), st.integers(0, HOUR)), max_size=20))
def test_ages_never_run_ahead(steps: list[tuple[int, int]]) -> None:
    """However a clock is set within a day: what counts is no later than the clock, nor than the time that has passed allows."""
    clock, wall, steady = DoubtedClock(0, 0), 10 * YEAR, 0
    counted = clock.now(wall, steady)
    for jump, passed in steps:
        steady += passed
        wall += jump + passed
        now = clock.now(wall, steady)
        assert now <= wall
        if steady < DOUBTED_NS:
            assert now <= counted + passed + SLACK_NS
        counted = now
