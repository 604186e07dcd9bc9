"""What is remembered of tool names that agents invent is bounded in bytes, however long they are."""

from __future__ import annotations

import tracemalloc

from collector.calls.inventory.near_misses import NAMES_BYTES_MAX, NearMisses
from monitor import Limits, Monitor
from tests.monitor.session.test_question_budget import START, call, chain


def test_invented_names_take_no_more_than_the_bound() -> None:
    """Names that are no near miss, and names that may be one."""
    near = NearMisses(Monitor([chain()], Limits(history_complete=True)))
    tracemalloc.start()
    try:
        for number in range(600):
            wide = "\U0001f600" * 1_000 + str(number)
            for tool in (wide, f"{wide}.t1"):
                near.reason(call(number + 1, 0, START)._replace(tool=tool))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < kept <= 2 * NAMES_BYTES_MAX
