"""The ledger keeps gaps, and says which of them reach a session."""

from __future__ import annotations

from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from monitor.visibility.ledger import GAPS_MAX, Ledger

LINGER = 100


def reaching(
    ledger: Ledger,
    opened: int,
    *,
    namespace: str = "n",
    service: str = "shop",
    agent: str = "a",
) -> list[Gap]:
    return ledger.reaching(namespace, service.__eq__, agent, opened)


def test_a_gap_reaches_the_sessions_that_agree_with_all_that_it_names() -> None:
    """Those of another tenant, service or agent are left in peace."""
    ledger = Ledger(LINGER)
    everybody = Gap(Cause.OUTAGE, 10, 20)
    shop = Gap(Cause.REFUSED, 10, 20, namespace="n", service="shop")
    agent = Gap(Cause.SILENT_TOOL, 0, 20, tool="pay", namespace="n", service="shop", agent="a")
    for gap in (everybody, shop, agent):
        assert ledger.note(gap)

    assert reaching(ledger, 15) == [everybody, shop, agent]
    assert reaching(ledger, 15, agent="b") == [everybody, shop]
    assert reaching(ledger, 15, service="bank") == [everybody]
    assert reaching(ledger, 15, namespace="m") == [everybody]


def test_a_gap_of_a_clock_that_is_behind_lasts_from_when_it_was_told() -> None:
    """By its times it is over; sessions of that clock begin now, and it can be taken back from them."""
    ledger = Ledger(LINGER)
    behind = Gap(Cause.UNPLACED, 10, 20, told_ns=1_000)
    ledger.note(behind)
    ledger.note(Gap(Cause.UNPLACED, 10, 20))
    ledger.forget(1_050)

    assert list(ledger) == reaching(ledger, 1_040) == [behind]
    ledger.lift(behind)
    assert ledger.standing([behind]) == []
    ledger.note(behind)
    ledger.forget(1_101)
    assert ledger.standing([behind]) == [behind]
    assert not list(ledger)


def test_a_service_with_many_gaps_is_asked_for_once() -> None:
    """Orphans leave a gap for each tool and each ten seconds of their service, and each call looks at all of them."""
    ledger, asked = Ledger(LINGER), list[str]()

    def is_of(service: str) -> bool:
        asked.append(service)
        return service == "shop"

    gaps = [
        Gap(Cause.UNPLACED, 10, 20, tool=f"t{number}", namespace="n", service=service)
        for service in ("bank", "shop")
        for number in range(50)
    ]
    for gap in gaps:
        ledger.note(gap)

    assert ledger.reaching("n", is_of, "a", 15) == gaps[50:]
    assert asked == ["bank", "shop"]


def test_a_session_that_begins_long_after_a_gap_is_not_reached() -> None:
    """One that is first seen soon after it may have begun in it; the ledger says until when."""
    ledger = Ledger(LINGER)
    ledger.note(Gap(Cause.OUTAGE, 10, 20))

    assert reaching(ledger, 20 + LINGER)
    assert not reaching(ledger, 21 + LINGER)
    assert ledger.covers(19 + LINGER)
    assert not ledger.covers(20 + LINGER)


def test_a_gap_that_is_over_stands_and_one_that_is_lifted_does_not() -> None:
    """A session that a gap has reached keeps it, for as long as the session lives."""
    ledger, over, lifted = Ledger(LINGER), Gap(Cause.LOST, 10, 20), Gap(Cause.REFUSED, 10, 500)
    ledger.note(over)
    ledger.note(lifted)
    version = ledger.version
    assert ledger.lift(lifted)
    assert not ledger.lift(lifted)
    ledger.forget(10 * LINGER)

    assert len(ledger) == 0
    assert ledger.version == version + 1
    later, own = lifted._replace(until_ns=5_000), Gap(Cause.MISTIMED, 10, 5_000)
    assert (ledger.stands(over), ledger.stands(later)) == (True, False)
    assert ledger.standing([over, later, own]) == [over, own]


def test_a_gap_that_is_known_is_no_news() -> None:
    """Sessions look again only if there is something new."""
    ledger, gap = Ledger(LINGER), Gap(Cause.OUTAGE, 10, 20)
    assert ledger.note(gap)
    version = ledger.version

    assert not ledger.note(gap)
    assert ledger.version == version


def test_too_many_gaps_become_wider_ones_of_who_has_most() -> None:
    """Whatever a gap reached is still reached, and another tenant's gaps stay as they are."""
    ledger, own = Ledger(LINGER), Gap(Cause.REFUSED, 5, 6, namespace="n")
    ledger.note(own)
    hostile = [
        Gap(Cause.SILENT_TOOL, 0, 20, tool=f"t{number}", namespace="m", service="bank")
        for number in range(2 * GAPS_MAX)
    ]
    for gap in hostile:
        ledger.note(gap)
    found = reaching(ledger, 15, namespace="m", service="bank")

    assert GAPS_MAX // 2 < len(ledger) <= GAPS_MAX
    assert ledger.merged
    assert reaching(ledger, 15) == [own]
    assert any(not gap.tool for gap in found)
    assert {gap.tool for gap in hostile[-5:]} <= {gap.tool for gap in found}
