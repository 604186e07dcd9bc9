"""What entries of the catalogue say of their worlds is true of them, also beside another entry."""

from __future__ import annotations

import pytest

from tests.simulation.worlds.catalogue import FAULTS
from tests.simulation.worlds.emitters import CALL_IDS
from tests.simulation.worlds.fault import WITH_CALL_IDS, Hides
from tests.simulation.worlds.play import plans
from tests.simulation.worlds.spans import Span
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


@pytest.mark.parametrize("silent", ["parallel_tools_without_spans", "client_tool"])
def test_a_call_that_no_process_heard_of_in_full_is_gone(silent: str) -> None:
    """Of a call without a span, one process has the request, and the next one the result; all else is asked for."""
    gone = 0
    for world in _worlds("restarted_and_retried", silent):
        spans = {call.number for span in world.tool_spans() for call in span.calls}
        assert not world.gone & spans
        for span in world.spans:
            if span.role == "model" and span.sent >= world.started[-1]:
                assert not world.gone & {call.number for call in span.calls}
        gone += len(world.gone)
    assert gone


@pytest.mark.parametrize(
    "again", ["executed_twice", "made_again", "equal_calls_without_parents"]
)
@pytest.mark.parametrize("ids", ["ids_by_turn", "ids_by_answer", "one_id_for_an_answer"])
def test_executions_of_one_request_have_its_id(again: str, ids: str) -> None:
    """However a model names its requests, whoever executes one of them once more writes the same id."""
    most = 0
    for world in _worlds(again, ids):
        executions: dict[tuple[str, str], list[str]] = {}
        for span in world.tool_spans():
            request = span.conversation, span.calls[0].id
            executions.setdefault(request, []).append(_id(span))
        most = max(most, *map(len, executions.values()))
        assert all(len(set(found)) == 1 for found in executions.values())
    assert most > 1


@pytest.mark.parametrize("ids", ["ids_by_turn", "ids_by_answer"])
def test_calls_that_are_written_as_one_that_is_told_again_are_not_asked_for(ids: str) -> None:
    """Equal ids, tools, arguments and outcomes in one conversation: all but the first, where tools' spans have ids."""
    found = 0
    for world in _worlds("made_again", ids):
        equal: dict[tuple[str, ...], list[Span]] = {}
        for span in world.tool_spans():
            what = span.conversation, span.calls[0].id, str(span.attributes), str(span.status)
            equal.setdefault(what, []).append(span)
        later = {
            span.calls[0].number
            for spans in equal.values()
            for span in sorted(spans, key=lambda each: each.start)[1:]
        }
        assert later <= world.may_be_told_again()
        found += len(later)
    assert found


@pytest.mark.parametrize("other", ["tools_on_another_host", "millisecond_clock"])
@pytest.mark.parametrize("first", [True, False])
def test_a_host_has_one_clock(other: str, first: bool) -> None:
    """In whatever order two entries act: each resource names one host, whose clock is wrong by one amount."""
    names = ("tools_on_a_host_behind", other)
    several = 0
    for world in _worlds(*(names if first else reversed(names))):
        clocks: dict[tuple[str, str], set[float]] = {}
        for span in world.tool_spans():
            off = round(span.start - span.calls[0].start, 1)
            clocks.setdefault((span.host, span.instance), set()).add(off)
        assert all(len(found) == 1 for found in clocks.values())
        several += len(clocks) > 1
    assert several


def test_a_clock_that_is_behind_is_shown_by_a_parent_in_each_conversation() -> None:
    """Where tools of it are on that host: one of their spans begins more than a second before its parent."""
    behind = 0
    for world in _worlds("tools_on_a_host_behind"):
        begun = {span.id: span.start for span in world.spans}
        early: dict[str, float] = {}
        for span in world.tool_spans():
            if span.start < span.calls[0].start - 1:
                known = early.get(span.conversation, 0)
                early[span.conversation] = max(known, begun[span.parent] - span.start)
        assert all(each > 1 for each in early.values())
        behind += len(early)
    assert behind


@pytest.mark.parametrize("failed", [False, True])
def test_a_failed_call_without_an_id_encloses_its_attempts(failed: bool) -> None:
    """They are no calls of their own; those within a call that went well are."""
    for world in _worlds("repeats_below_one_call"):
        [outer] = {span.parent for span in world.tool_spans()} & {
            s.id for s in world.tool_spans()
        }
        [call] = [span.calls[0] for span in world.tool_spans() if span.id == outer]
        inner = [span.calls[0] for span in world.tool_spans() if span.parent == outer]
        has_ids = world.emission.dialect in WITH_CALL_IDS
        if call.failed is failed:
            assert all((each is call) is (failed and not has_ids) for each in inner)


def _id(span: Span) -> str:
    [found] = [value for key, value in span.attributes if key in CALL_IDS]
    return str(found)
