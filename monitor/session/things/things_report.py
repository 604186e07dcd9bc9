"""The things of a judgement, as the API shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from monitor.records import NamedThing
from monitor.session.judgement.judgement import Judgement
from monitor.session.things.thing_words import thing_of_state
from monitor.session.things.things_run import ThingsRun, ThingState

__all__ = ["THINGS_SHOWN_MAX", "shown_things", "things_report"]

THINGS_SHOWN_MAX: Final = 1_000
"""Things that a judgement object lists: those with harm first, then the ones that calls have carried last."""


def things_report(judgement: Judgement) -> dict[str, Any]:
    """`things`, their number, and what a judgement with things says otherwise than one without."""
    judge, run = judgement.judge, judgement.head
    assert isinstance(run, ThingsRun)
    return {
        "harm_rate": harm_rate(run),
        "accepting": run.accepts(judge),
        "things_count": run.count,
        "things": [_shown(judgement, state) for state in _listed(run)],
    }


def shown_things(judgement: Judgement) -> Iterator[NamedThing]:
    """The things that a judgement object lists."""
    run = judgement.head
    assert isinstance(run, ThingsRun)
    for state in _listed(run):
        yield thing_of_state(judgement.judge, state)


def _listed(run: ThingsRun) -> list[ThingState]:
    states = list(run.things())
    if len(states) > THINGS_SHOWN_MAX:
        # The sort keeps the order of the last calls.
        states.sort(key=_harmless)
    return states[:THINGS_SHOWN_MAX]


def harm_rate(run: ThingsRun) -> float | None:
    """Harms of all things over their substantive steps, of no thing where there is none; None if some call is not known."""
    if not run.exact:
        return None
    if run.count:
        return run.harms / run.substantive if run.substantive else 0.0
    return run.nothing.tally.harm_rate


def _harmless(state: ThingState) -> bool:
    return not state.counts.harmful


def _shown(judgement: Judgement, state: ThingState) -> dict[str, Any]:
    judge, position = judgement.judge, state.run.position
    calls, substantive, harmful = state.counts
    return {
        **thing_of_state(judge, state).as_json(),
        "state": judge.state(position),
        "accepting": judge.accepts(position),
        "calls": calls,
        "substantive": substantive,
        "harmful": harmful,
    }
