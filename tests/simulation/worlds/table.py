"""The catalogue's table: kind, worlds, false certain, silent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.simulation.worlds.laws import FALSE_CERTAIN, SILENT
from tests.simulation.worlds.play import Faults, Played, is_held


def rows(results: Iterable[tuple[Faults, Played]]) -> Iterator[str]:
    """A line for each entry or pair, and one for all."""
    yield f"{'kind':<64} {'worlds':>7} {'false certain':>14} {'silent':>7} {'cannot be told':>15}"
    sums = [0, 0, 0, 0]
    for faults, played in results:
        name = " + ".join(each.name for each in faults)
        counts = (
            played.worlds,
            played.count(FALSE_CERTAIN),
            played.count(SILENT),
            played.untold,
        )
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        known = "" if is_held(faults) else "  known"
        yield f"{name:<64} {counts[0]:>7} {counts[1]:>14} {counts[2]:>7} {counts[3]:>15}{known}"
    yield f"{'all':<64} {sums[0]:>7} {sums[1]:>14} {sums[2]:>7} {sums[3]:>15}"
