"""Whole generated worlds, in which each call is asked about before it is observed."""

from __future__ import annotations

from random import Random

import pytest

from monitor import Limits
from tests.asking import AskedMonitor
from tests.simulation.ends import WINDOW_NS, Service
from tests.simulation.exporter import Road, deliver
from tests.simulation.laws import run
from tests.simulation.world import SPECS, START, Habits, World

SECOND = 1_000_000_000

pytestmark = pytest.mark.plain  # a compiled monitor has no subclasses


def played(seed: int) -> int:
    """The decisions of one world, which arrives late, twice and out of order; the state is the same."""
    chance = Random(seed)
    world = World(chance, Habits(helped=0.1))
    spans = [
        span
        for number in range(chance.randint(1, 5))
        for span in world.session(f"s{number}", START + chance.randrange(8 * SECOND)).spans
    ]
    road = Road(lost=chance.choice((0, 0.1)), skew_ns=chance.choice((0, SECOND)))
    requests = deliver(spans, road, chance)
    monitor = AskedMonitor(SPECS, Limits(history_complete=True))
    service, ticked = Service(SPECS, monitor=monitor), 0
    for request in requests:
        if request.now - ticked >= SECOND:
            ticked = request.now
            service.monitor.tick(ticked)
        service.send(request.spans, request.now)
    if requests:
        service.monitor.tick(requests[-1].now + WINDOW_NS + 1)
    assert service.state() == run(requests)
    return monitor.asked


@pytest.mark.parametrize("seed", range(12))
def test_asking_before_each_call_changes_no_world(seed: int) -> None:
    """Each decision is the verdict to come, and the end is that of a monitor that was never asked."""
    assert played(seed) > 0
