"""What gaps come to for one judgement, and between which moments they lie."""

from __future__ import annotations

from itertools import permutations

from monitor.visibility.cause import FACTS, Cause, Effect, effect_of
from monitor.visibility.gap import EVER, Gap
from monitor.visibility.sight import CLEAR, Window, between, sight_of

OUTAGE = Gap(Cause.OUTAGE, 10, 20)
SILENT = Gap(Cause.SILENT_TOOL, 0, EVER, tool="pay")
SEEN_BEFORE = Gap(Cause.SEEN_BEFORE, 0, 5)


def test_every_cause_has_its_row() -> None:
    """The table is whole, and a cause of doubt in a call is no cause of gaps."""
    assert set(FACTS) == set(Cause)
    assert effect_of(()) is Effect.NONE
    assert effect_of((Cause.CONTRADICTED, Cause.ORPHAN)) is Effect.ELSEWHERE


def test_nothing_missing_is_one_and_the_same_sight() -> None:
    """Most sessions share it, so that they need no memory for it."""
    assert sight_of(()) is CLEAR


def test_a_sight_does_not_depend_on_the_order_of_the_gaps() -> None:
    """Gaps are noted as they become known, in any order, maybe more than once."""
    gaps = (OUTAGE, SILENT, SEEN_BEFORE)
    wanted = sight_of(gaps)

    assert all(sight_of((*order, order[0])) == wanted for order in permutations(gaps))
    assert wanted.sure == (Window(0, 5, "", 0),)
    assert wanted.maybe == (Window(0, EVER, "pay", 0), Window(10, 20, "", 0))
    assert (wanted.since_ns, wanted.until_ns, wanted.told) == (10, EVER, True)
    assert wanted.causes == (Cause.SEEN_BEFORE, Cause.OUTAGE, Cause.SILENT_TOOL)


def test_only_what_is_missing_before_all_calls_is_missing_at_a_beginning_of_time() -> None:
    """A window of no length at 0 lies before the first call, and between no two."""
    windows = sight_of([Gap(Cause.EARLIER_TURN, 0, 0)]).maybe

    assert between(windows, -1, 7) == [""]
    assert between(windows, 7, 9) == []


def test_a_window_lies_between_calls_that_it_overlaps() -> None:
    """The calls may have begun inside of it; a window behind both, or before both, does not count."""
    windows = sight_of([OUTAGE]).maybe

    assert (
        between(windows, 9, 21) == between(windows, 12, 13) == between(windows, 19, 40) == [""]
    )
    assert between(windows, 1, 9) == between(windows, 20, 40) == []


def test_what_was_received_before_a_gap_is_judged_as_it_was() -> None:
    """The gap reaches back to calls that were on their way, not to those that had come."""
    windows = sight_of([OUTAGE._replace(received_ns=15_000_000)]).maybe

    assert between(windows, 9, 21, 15_000_000) == []
    assert between(windows, 9, 21, 16_000_000) == [""]
