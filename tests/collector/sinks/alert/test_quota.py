"""Quotas that neither lesser harm nor one tenant alone can use up."""

from __future__ import annotations

import pytest

from collector.sinks.alert.quota import Quota, RateQuota


def _fill(quota: Quota, severity: str, namespace: str) -> int:
    """How many there was room for."""
    count = 0
    while quota.has(severity, namespace):
        quota.enter(namespace)
        count += 1
    return count


@pytest.mark.parametrize(("most", "lesser"), [(1, 1), (2, 1), (3, 2), (5, 3), (60, 45)])
def test_a_quarter_is_for_critical_harm(most: int, lesser: int) -> None:
    """Lesser harm fills only three quarters; the rest is kept for critical harm."""
    quota = Quota(most)

    assert _fill(quota, "warning", "") == lesser
    assert _fill(quota, "critical", "") == most - lesser


def test_a_namespace_leaves_a_quarter_to_others() -> None:
    """A single namespace may use all; with another one waiting, a quarter is left to it."""
    quota = Quota(60)
    assert _fill(quota, "critical", "a") == 60
    assert not quota.has("critical", "b")
    for _ in range(60):
        quota.leave("a")

    assert _fill(quota, "critical", "a") == 45
    assert _fill(quota, "critical", "b") == 15


def test_a_pace_has_room_again_when_time_has_passed() -> None:
    """What was taken longer ago than the period does not count."""
    pace = RateQuota(2, 10)
    assert [pace.takes("critical", "", now) for now in (0, 5, 9)] == [True, True, False]
    assert not pace.passes(9)
    assert pace.passes(10)
    assert [pace.takes("critical", "", now) for now in (10, 10)] == [True, False]
