"""Episodes: several passes of one session, each scored on its own."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.session.judge.episodes import EPISODES_MAX
from monitor.spec.compiler.compile import compile_text

START = 1_700_000_000 * SECOND
SPEC = """
id: order
kind: task
match: {service.name: shop}
again: true
alphabet: {look: {tool: look}, pick: {tool: pick}, pay: {tool: pay}, ship: {tool: ship}}
initial: idle
accepting: [done]
transitions:
  idle: {look: idle, pick: picked}
  picked: {pay: paid}
  paid: {ship: done}
  done: {}
undo: {pick: pay}
"""
SCORES = ("harm_rate", "prefix_crit", "pc", "pc_ktc", "pc_hlr", "efficiency")


def call(number: int, tool: str, *, error: bool = False, arguments: Any = None) -> ToolCall:
    start = START + number * SECOND
    return ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool=tool,
        arguments={} if arguments is None else arguments,
        error=error,
        start_ns=start,
        end_ns=start + 1000,
        trace_id=b"t" * 16,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "shop"},
    )


def played(
    words: str, text: str = SPEC, *, fold: bool = False, apart: int = 0
) -> dict[str, Any]:
    """The judgement of a session that makes these calls."""
    spec, findings = compile_text(text, "order.yaml")
    assert spec is not None, findings
    monitor = Monitor([spec], Limits(history_complete=True, fold=fold))
    for number, word in enumerate(words.split()):
        made = call(number, word.strip("!"), error=word.endswith("!"))
        monitor.observe(made, made.end_ns)
        if apart:
            monitor.tick(made.end_ns + apart * SECOND)
    (found,) = monitor.find("s")
    return found


def test_an_accepting_state_starts_another_episode() -> None:
    """A call that only the initial state allows starts a new episode without harm."""
    found = played("pick pay ship pick pay")

    assert found["harmful"] == 0
    assert (found["calls"], found["substantive"], found["state"]) == (5, 5, "paid")
    (first,) = found["episodes"]
    assert (first["calls"], first["pc"], first["efficiency"]) == (3, 1.0, 1.0)


def test_without_again_the_same_calls_are_harmful() -> None:
    """A spec that does not say `again` has one episode."""
    found = played("pick pay ship pick pay", SPEC.replace("again: true", "again: false"))

    assert found["harmful"] == 2
    assert found["episodes"] == []


def test_each_episode_is_scored_on_its_own() -> None:
    """Scores are the current episode's, counts are sums; the finished one equals its own run."""
    found = played("pick ship pay ship look pick pay ship")
    alone, last = played("pick ship pay ship"), played("look pick pay ship")

    assert (found["calls"], found["substantive"], found["harmful"]) == (8, 7, 1)
    assert {key: found["episodes"][0][key] for key in SCORES} == {
        key: alone[key] for key in SCORES
    }
    assert {key: found[key] for key in SCORES} == {key: last[key] for key in SCORES}


def test_a_read_starts_an_episode_and_stays_one() -> None:
    """A self-loop of the initial state is no progress, even as the first call of an episode."""
    found = played("pick pay ship look")

    assert found["steps"][-1]["kind"] == "self_loop"
    assert (found["state"], len(found["episodes"])) == ("idle", 1)


def test_a_failed_call_starts_no_episode() -> None:
    """A failed call changes nothing, so the finished episode stays the current one."""
    found = played("pick pay ship pick!")

    assert (found["state"], found["harmful"], found["episodes"]) == ("done", 0, [])


def test_a_step_of_another_episode_is_out_of_order() -> None:
    """In the accepting state a later symbol is harmful, and the skipped symbols are named."""
    found = played("pick pay ship ship")

    assert found["steps"][-1]["reason"] == "out_of_order"
    assert found["steps"][-1]["skipped"] == ["pick", "pay"]


def test_nothing_is_undone_across_episodes() -> None:
    """A call does not compensate a call of an earlier episode."""
    text = SPEC.replace("undo: {pick: pay}", "undo: {ship: pick}")

    assert played("pick pay ship pick pay ship", text)["compensations"] == []


def test_finished_episodes_are_bounded() -> None:
    """The latest episodes are listed, and the calls of all are counted."""
    count = EPISODES_MAX + 30
    found = played("pick pay ship " * count, apart=1, fold=True)

    assert len(found["episodes"]) == EPISODES_MAX
    assert found["calls"] == 3 * count
    assert found["steps_folded"] > 0
    assert {each["pc"] for each in found["episodes"]} == {1.0}


@pytest.mark.parametrize(
    "words", ["pick ship pay ship look ", "pick pay ship pick pay! pay dance ship "]
)
def test_folding_changes_no_episode(words: str) -> None:
    """Folded or not, episodes and scores are the same."""
    long = words * 40
    kept, folded = played(long, apart=11), played(long, apart=11, fold=True)

    assert folded["steps_folded"] > 0
    for key in ("episodes", "calls", "substantive", "harmful", *SCORES):
        assert folded[key] == kept[key]
