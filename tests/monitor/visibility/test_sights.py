"""Sights that were worked out already are those that would be worked out."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis import given

from monitor.visibility.cause import Cause
from monitor.visibility.gap import EVER, Gap, since
from monitor.visibility.ledger import Ledger
from monitor.visibility.sight import sight_of
from monitor.visibility.sights import GAPS_MAX, Sights

GAPS = st.builds(
    Gap,
    st.sampled_from((Cause.OUTAGE, Cause.SEEN_BEFORE, Cause.SAMPLED, Cause.UNPLACED)),
    st.integers(0, 4),
    st.integers(0, 6) | st.just(EVER),
    st.sampled_from(("", "pay")),
)
ASKED = st.tuples(st.lists(GAPS, max_size=4), st.integers(-1, 6), st.lists(GAPS, max_size=2))


@given(st.lists(ASKED, min_size=1, max_size=6))
def test_a_known_sight_is_what_it_would_be_anew(
    asked: Sequence[tuple[list[Gap], int, list[Gap]]],
) -> None:
    """For gaps of a session that began at a moment, in any order of questions: the beginning cuts these alone."""
    sights = Sights()
    for gaps, begin_ns, own in (*asked, *asked):
        cut = since(gaps, begin_ns) if begin_ns >= 0 else gaps
        assert sights.of(tuple(gaps), begin_ns, tuple(own)) == sight_of((*cut, *own))


def test_sessions_that_begin_before_all_gaps_share_a_sight() -> None:
    """It is worked out once, whenever they began."""
    sights, gaps = Sights(), (Gap(Cause.OUTAGE, 10, 20),)
    assert sights.of(gaps, 5, ()) is sights.of(gaps, 7, ()) is sights.of(gaps, -1, ())
    assert sights.of(gaps, 10, ()) is sights.of(gaps, -1, ())
    assert sights.of(gaps, 12, ()).maybe[0].since_ns == 12


@given(st.lists(GAPS, max_size=5), st.lists(GAPS, max_size=5))
def test_gaps_of_the_ledger_stand_whether_told_so_or_not(
    noted: list[Gap], asked: list[Gap]
) -> None:
    """Naming gaps that reach a session is only quicker than looking them up."""
    ledger = Ledger(0)
    for gap in noted:
        ledger.note(gap)
    assert ledger.standing(asked, list(ledger)) == ledger.standing(asked)
    assert ledger.standing([*ledger, *asked], list(ledger)) == ledger.standing(
        [*ledger, *asked]
    )


def test_sights_of_many_gaps_are_few() -> None:
    """What is kept is bounded by the gaps, too: a sight may be of a thousand, and each has a window in it."""
    sights = Sights()
    first, *others = [(Gap(Cause.OUTAGE, 1, 2 + each),) * (GAPS_MAX // 4) for each in range(5)]
    found = sights.of(first, -1, ())
    assert sights.of(first, -1, ()) is found
    for each in others:
        sights.of(each, -1, ())
    anew = sights.of(first, -1, ())
    assert anew == found
    assert anew is not found
