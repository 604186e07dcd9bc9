"""The cost of not paging for calls before the start: `python -m tests.simulation.price`.

For so long as the idle limit after a start without a journal, a fresh session may be one whose
first calls were missed. Faulty runs of a spec are played to a monitor that has just started, and
to one that has seen everything; what the first no longer finds is the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from monitor import Limits, Monitor, Spec, load_spec
from monitor.errors import OffrailsError
from monitor.limits import SECOND
from monitor.records import Evidence, SessionKey, ToolCall
from tests.made_runs.runs import MadeCall, Mode, make
from tests.simulation.world import START

__all__ = ["Price", "flagged", "measure"]

RUNS = 60
SPEC = Path(__file__).parents[2] / "dfa_specs" / "farm_rover.yaml"


class Price(NamedTuple):
    """Of `runs` faulty runs, how many are flagged."""

    fault: str
    runs: int
    complete: int
    """By a monitor that has seen every session from its first call."""
    started: int
    """By one that has just started."""


def flagged(spec: Spec, calls: Sequence[MadeCall], *, complete: bool) -> bool:
    """True where a fresh session with these calls has a harmful one."""
    monitor = Monitor([spec], Limits(history_complete=complete), started_ns=START)
    now = START + SECOND
    for number, made in enumerate(calls):
        now += SECOND
        monitor.observe(_call(spec, made, number, now), now)
    return any(found["harmful"] for found in monitor.judgements())


def _call(spec: Spec, made: MadeCall, number: int, now: int) -> ToolCall:
    return ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool=made.tool,
        arguments=made.arguments,
        error=False,
        start_ns=now - 1000,
        end_ns=now,
        trace_id=bytes(15) + b"t",
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"offrails.spec": spec.id},
    )


def measure(spec: Spec, runs: int = RUNS) -> list[Price]:
    """The price by fault: first steps skipped, and each failure mode of the paper."""
    faults: dict[str, list[Sequence[MadeCall]]] = {}
    for seed in range(runs):
        right = make(spec, Mode.ACCEPTED, seed).calls
        for skipped in (1, 2, 3):
            faults.setdefault(f"first {skipped} left out", []).append(right[skipped:])
        for mode in Mode:
            try:
                faults.setdefault(mode.value, []).append(make(spec, mode, seed).calls)
            except OffrailsError:
                continue
    return [
        Price(
            fault,
            len(made),
            sum(flagged(spec, calls, complete=True) for calls in made),
            sum(flagged(spec, calls, complete=False) for calls in made),
        )
        for fault, made in faults.items()
        if made
    ]


if __name__ == "__main__":
    for price in measure(load_spec(SPEC)):
        print(f"| {price.fault} | {price.runs} | {price.complete} | {price.started} |")
