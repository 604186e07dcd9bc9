"""What entries of the catalogue say of their worlds is true of them, also beside another entry."""

from __future__ import annotations

from tests.simulation.worlds.catalogue import FAULTS
from tests.simulation.worlds.fault import Hides
from tests.simulation.worlds.play import plans
from tests.simulation.worlds.world import World, build

WORLDS = 20


def _worlds(*names: str) -> list[World]:
    return [build(plan) for plan in plans(tuple([FAULTS[name] for name in names]), WORLDS)]


def test_spans_that_seem_older_than_the_process_hide_what_came_before_them() -> None:
    """Nothing tells a clock that is behind from a start in mid-session; while the process is older, nothing is hidden."""
    found = set()
    for world in _worlds("clock_behind", "started_just_before_first_requests"):
        seems_older = min(span.start for span in world.spans) < world.started[0]
        found.add(seems_older)
        assert world.hides is (Hides.ORDER if seems_older else Hides.NOTHING)
    assert found == {True, False}


def test_conversations_that_share_a_browser_are_named_by_their_own_ids() -> None:
    """The better name is the conversation's, whatever another entry has said of names."""
    for world in _worlds("better_name_above", "worse_name_above"):
        assert world.session_keys is None
        for span in world.tool_spans():
            assert span.get("gen_ai.conversation.id") == span.conversation
