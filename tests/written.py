"""What a part of the service remembers, as a snapshot has it: tests of bounds ask for this instead of for tables."""

from __future__ import annotations

from collector.restart.snapshot_layout import KINDS
from monitor.plain_records.kinds import named
from monitor.plain_records.write import write

__all__ = ["written"]


def written(part: object) -> bytes:
    """All that a snapshot holds of one part, with those that it leads to."""
    return b"".join(each.payload for each in write(named({"part": part}, KINDS), KINDS))
