"""Sums per pair: every addition can be subtracted, and every bound shows what it folded."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.aggregate.top_k import ROOM, TopK
from monitor.aggregate.totals import (
    CLEAN_SHARE,
    FORGET_NS,
    NO_SHARE,
    OVERFLOW,
    PAIRS_MAX,
    NamespaceLabel,
    ScoreHistogram,
    Share,
    Totals,
    fixed,
)
from monitor.scores.score_records import FinalScores

SECOND = 1_000_000_000


@dataclass(eq=False)
class Holder:
    share: Share = NO_SHARE


def _share(harm_rate: float, harmful: int) -> Share:
    return Share(1, fixed(harm_rate), fixed(1 - harm_rate), harmful)


def _totals() -> Totals:
    return Totals(hold_ns=10 * SECOND)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=120))
def test_the_worst_are_the_worst(changes: list[tuple[int, int]]) -> None:
    """After any changes, `top` equals the result of sorting all live sessions."""
    totals = _totals()
    pairs = [totals.pair(f"a{n}", "s", 0.5, ()) for n in range(3)]
    holders = [Holder() for _ in range(10)]
    for number, percent in changes:
        holder = holders[number]
        holder.share = _share(percent / 20, percent) if percent else NO_SHARE
        if percent:
            pairs[number % 3].rank(holder)

    expected = sorted((h.share for h in holders if h.share.harmful), reverse=True)

    assert totals.worst(4) == sorted(expected, key=lambda s: (s[1], s[3]), reverse=True)[:4]
    for number, pair in enumerate(pairs):
        live = [h.share.harm_rate for h in holders[number::3] if h.share.harmful]
        first = pair.worst.first()
        assert (first.share.harm_rate if first else None) == max(live, default=None)


def test_the_heap_of_the_worst_is_bounded() -> None:
    """However often scores change, the heap has at most five times ROOM entries."""
    worst: TopK[Holder] = TopK(lambda share: (share.harmful,))
    holders = [Holder() for _ in range(5_000)]
    for number, holder in enumerate(holders):
        holder.share = _share(0.5, number)
        worst.push(holder)

    assert len(worst) <= 5 * ROOM + 1
    assert worst.first() is holders[-1]


def test_what_has_ended_is_let_go() -> None:
    """A session that is over is not kept alive by having been bad."""
    totals = _totals()
    pair = totals.pair("a", "s", 0.5, ())
    holder = Holder(_share(0.5, 1))
    pair.rank(holder)
    holder.share = NO_SHARE

    totals.expire(SECOND)

    assert len(pair.worst) == len(pair.worst_prefix_crit) == 0


def test_too_many_pairs_fold_visibly() -> None:
    """Beyond the bound pairs are one pair, and it is counted each time."""
    totals = _totals()
    for number in range(PAIRS_MAX + 5):
        totals.pair("agent", f"spec{number}", 0.5, ())

    assert len(totals.pairs) == PAIRS_MAX + 1
    assert (OVERFLOW, OVERFLOW) in totals.pairs
    assert totals.folded["agent_spec"] == 5


def test_too_many_agents_fold_visibly() -> None:
    """Agents beyond the bound on labels are counted as `__overflow__`, by spec; each namespace has its own."""
    totals = Totals(10 * SECOND, agents_max=256)
    for number in range(256 + 3):
        last = totals.pair(f"agent{number}", "spec", 0.5, ())

    assert (last.agent, last.spec) == (OVERFLOW, "spec")
    assert totals.folded["agent"] == 3
    assert len(totals.pair("x" * 10_000, "other", 0.5, ()).agent) < 200
    assert totals.pair("agent300", "spec", 0.5, (), namespace="other").agent == "agent300"


def test_agents_are_bounded_by_the_pairs_alone() -> None:
    """Without a bound of their own, agents have series until the pairs have none left."""
    totals = Totals(10 * SECOND, pairs_max=600)
    made = [totals.pair(f"agent{number}", "spec", 0.5, ()).agent for number in range(603)]

    assert made == [f"agent{number}" for number in range(600)] + [OVERFLOW] * 3
    assert totals.folded == {"agent": 0, "agent_spec": 3}


def test_one_tenants_agents_do_not_fold_anothers() -> None:
    """One tenant's agents and specs, however many, leave another's sums unfolded."""
    totals = _totals()
    for number in range(PAIRS_MAX + 5):
        totals.pair(f"agent{number % 200}", f"spec{number}", 0.5, (), namespace="loud/x")
    mine = [totals.pair(f"a{n}", "s", 0.5, (), namespace="quiet") for n in range(50)]

    assert {(each.agent, each.namespace) for each in mine} == {
        (f"a{n}", "quiet") for n in range(50)
    }
    assert totals.pair("more", "s", 0.5, (), namespace="loud/y").agent == OVERFLOW


def test_one_agent_in_two_namespaces_is_two_pairs() -> None:
    """A tenant's gauges cover its own sessions, even if another tenant uses the same agent name."""
    totals = _totals()
    one = totals.pair("a", "s", 0.5, (), namespace="one")
    other = totals.pair("a", "s", 0.5, (), namespace="other")
    one.move(NO_SHARE, CLEAN_SHARE)

    assert (one.sessions, other.sessions) == (1, 0)
    assert totals.pair("a", "s", 0.5, (), namespace="one") is one


@pytest.mark.parametrize(
    ("label", "labelled"),
    [("auto", [False, True, True]), ("always", [True] * 3), ("never", [False])],
)
def test_the_label_is_chosen_and_does_not_change(
    label: NamespaceLabel, labelled: list[bool]
) -> None:
    """A pair has its label from its first call on, whatever comes later; `never` sums over namespaces."""
    totals = Totals(10 * SECOND, label=label)
    first: dict[int, bool] = {}
    for namespace in ("", "one", "other", "one", ""):
        pair = totals.pair("a", "s", 0.5, (), namespace=namespace)
        first.setdefault(id(pair), totals.is_labelled(pair))

    assert [totals.is_labelled(each) for each in totals.pairs.values()] == labelled
    assert list(first.values()) == labelled


def test_an_idle_pair_makes_room() -> None:
    """At the bound, a pair without sessions for an hour is dropped before a new one is folded."""
    totals = Totals(10 * SECOND, 2)
    totals.pair("old", "s", 0.5, ())
    totals.pair("live", "s", 0.5, ()).active = 1
    totals.expire(SECOND)
    totals.expire(3_700 * SECOND)

    assert totals.pair("new", "s", 0.5, ()).agent == "new"
    assert list(totals.pairs) == [("live", "s"), ("new", "s")]


def test_idle_pairs_are_forgotten() -> None:
    """A pair without sessions for a day is dropped; one with a live session stays."""
    totals = _totals()
    totals.pair("gone", "s", 0.5, ())
    totals.pair("here", "s", 0.5, ()).active = 1
    totals.expire(SECOND)
    totals.expire(FORGET_NS)
    assert len(totals.pairs) == 2

    totals.expire(FORGET_NS + 2 * SECOND + 60 * SECOND)

    assert list(totals.pairs) == [("here", "s")]


def test_a_reload_adds_severities() -> None:
    """Severities that only the newer version of a spec has are counted from zero."""
    totals = _totals()
    totals.pair("a", "s", 0.5, ("warning",))

    pair = totals.pair("a", "s", 0.5, ("critical",))

    assert pair.severities == ("critical", "warning")


def test_shares_leave_no_trace() -> None:
    """After everything added is subtracted, the sums are exactly zero."""
    pair = _totals().pair("a", "s", 0.5, ())
    pair.move(NO_SHARE, _share(1 / 3, 2))
    pair.move(_share(1 / 3, 2), NO_SHARE)

    sums = (pair.sessions, pair.clean, pair.harm_rate, pair.prefix_crit, pair.harmful)
    assert sums == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(("value", "place"), [(0.0, 0), (0.005, 1), (1.0, 10), (2.0, 11)])
def test_bounds_are_inclusive(value: float, place: int) -> None:
    """A value on a bound is counted at it; one above all bounds is in the last bucket."""
    histogram = ScoreHistogram((0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0))
    histogram.observe(value, None)

    assert histogram.counts.index(1) == place


def test_finished_sessions_without_scores() -> None:
    """A session that is not exact counts by its length only."""
    totals = _totals()
    pair = totals.pair("a", "s", 0.5, ())
    done = FinalScores("accepted", 3, 0, None, None, None, None, None, None)

    totals.finish(pair, done)

    assert sum(pair.spreads["calls"].counts) == 1
    assert sum(pair.spreads["harm_rate"].counts) == 0


def test_a_held_session_is_let_go_once() -> None:
    """A session that goes on is no longer counted as ended, and its hold time subtracts nothing twice."""
    totals = _totals()
    pair = totals.pair("a", "s", 0.5, ())
    done = FinalScores("accepted", 3, 0, 0.0, 1.0, 0.5, 0.5, 0.5, 1.0)
    pair.move(NO_SHARE, _share(0.5, 1))
    pair.scored_calls = 3
    number = totals.hold(pair, _share(0.5, 1), 3, done, 0)
    assert (pair.sessions, pair.scored_calls, pair.scores["pc"][1]) == (1, 3, 1)

    totals.let_go(number)
    totals.let_go(number)
    totals.expire(10**18)

    assert (pair.sessions, pair.harmful, pair.scores["pc"]) == (0, 0, (0, 0))
    assert pair.scored_calls == 0
