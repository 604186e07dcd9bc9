"""Both laws of certainty hold while the real service is killed, frozen, or out of disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.worlds.outages import OUTAGES, Outage, play, shown


@pytest.mark.long
@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_an_outage_makes_no_harm_certain_and_hides_none(outage: Outage, tmp_path: Path) -> None:
    """What is certain after an outage is true, and what it hid is told."""
    broken = play(outage, 7, tmp_path)
    if outage.holds:
        assert not broken, shown(broken)
    else:
        assert broken, "it seems to hold now: set it"
