"""Calls of one answer are made at the same time where none of them touches what another one writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.rollout.together import together
from harness.scaffold.turn import AgentCall
from tests.harness.conftest import Bench
from tests.harness.test_endpoint import Endpoint, Handler
from tests.harness.test_endpoint import endpoint as endpoint  # noqa: PLC0414 - a fixture
from tests.harness.test_snapshots import bytes_of

Calls = tuple[tuple[str, dict[str, Any]], ...]

WORLD = """
from harness.world.world import ToolError, World

world = World("hall")
STATE = {"left": 0, "right": 0, "said": []}


@world.tool(writes=["left"])
def listen(state, pipe: str) -> str:
    "Waits for somebody who speaks."
    with open(pipe) as stream:
        state["left"] += 1
        return stream.read()


@world.tool(writes=["right"])
def speak(state, pipe: str) -> str:
    "Waits for somebody who listens."
    with open(pipe, "w") as stream:
        stream.write("hello")
    state["right"] += 1
    return "heard"


@world.tool(writes=["left"])
def add_left(state, by: int) -> int:
    "Adds on the left."
    state["left"] += by
    return state["left"]


@world.tool(writes=["right"])
def add_right(state, by: int) -> int:
    "Adds on the right."
    if by < 0:
        raise ToolError("too little")
    state["right"] += by
    return state["right"]


@world.tool(reads=["left", "right"], writes=["said"])
def sum_up(state) -> int:
    "Says how much both are."
    state["said"].append(state["left"] + state["right"])
    return state["said"][-1]


@world.tool()
def hang(state) -> None:
    "Never ends."
    import time

    time.sleep(3600)
"""
SPEC = """
id: hall
alphabet:
  sum: {tool: sum_up}
  left: {tool: add_left}
  right: {tool: add_right}
  listen: {tool: listen}
  speak: {tool: speak}
golden:
  - [sum]
reads: [left, right, listen, speak]
"""
TASK = """
task: hall
world: hall
instruction: Add, and say how much it is.
spec: hall.spec.yaml
agent: {threads: 4}
evaluation: {criterion: answer, answer: {contains: [done]}}
golden:
  - - {tool: sum_up}
"""


@pytest.fixture
def hall(tmp_path: Path) -> Path:
    """A task whose agent makes four calls at the same time at most."""
    folder = tmp_path / "hall"
    folder.mkdir()
    for name, text in (("hall.py", WORLD), ("hall.spec.yaml", SPEC), ("hall.yaml", TASK)):
        (folder / name).write_text(text)
    return folder


def asks_for(*calls: tuple[str, Mapping[str, Any]]) -> Any:
    """A model that makes these calls in one answer, and is done."""

    def answer(body: dict[str, Any], handler: Handler) -> None:
        if any(message["role"] == "tool" for message in body["messages"]):
            handler.say({"content": "done"})
            return
        functions = [{"name": name, "arguments": json.dumps(given)} for name, given in calls]
        asked = [
            {"id": f"c{place}", "type": "function", "function": each}
            for place, each in enumerate(functions)
        ]
        handler.say({"content": None, "tool_calls": asked})

    return answer


def run(bench: Bench, hall: Path, url: str, *options: str) -> tuple[Any, list[Any], Path]:
    """A rollout, what its calls returned, and its folder."""
    out = bench.out()
    agent = ("--agent", "openai:small", "--endpoint", url)
    [found] = bench.run(str(hall), *agent, *options, out=out)
    [line] = (out / "spans.otlp.jsonl").read_text().splitlines()
    spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    calls = [each for each in spans if each["name"].startswith("execute_tool")]
    return found, calls, out


def results(endpoint: Endpoint) -> list[str]:
    """What the model was told of its calls."""
    told = endpoint.asked[-1]["messages"]
    return [each["content"] for each in told if each["role"] == "tool"]


def test_calls_wait_for_one_another(hall: Path, bench: Bench, endpoint: Endpoint) -> None:
    """Two calls that each wait for the other both end: they are made at the same time, and their spans overlap."""
    pipe = str(bench.folder / "pipe")
    os.mkfifo(pipe)
    url = endpoint.answers(asks_for(("listen", {"pipe": pipe}), ("speak", {"pipe": pipe})))
    found, spans, _ = run(bench, hall, url, "--no-sandbox", "--call-timeout", "60")
    assert found["success"]
    assert results(endpoint) == ["hello", "heard"]
    first, second = spans
    assert int(second["startTimeUnixNano"]) < int(first["endTimeUnixNano"])


CALLS: Calls = (
    ("add_left", {"by": 2}), ("add_right", {"by": 3}), ("sum_up", {}), ("add_right", {"by": -1}),
    ("fly", {}), ("add_left", {"by": 5}), ("sum_up", {}),
)  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_are_those_of_one_after_the_other(
    threads: int, hall: Path, bench: Bench, endpoint: Endpoint
) -> None:
    """However many calls are made at once, each returns what it returns in its place, and errors stay with their call."""
    file = hall / "hall.yaml"
    file.write_text(file.read_text().replace("threads: 4", f"threads: {threads}"))
    found, _, _ = run(bench, hall, endpoint.answers(asks_for(*CALLS)))
    assert results(endpoint) == [
        "2", "3", "5", "error: too little", "error: there is no tool fly", "7", "10",
    ]  # fmt: skip
    assert [step["tool"] for step in found["path"]] == [name for name, _ in CALLS]


def test_a_call_that_hangs_is_ended_alone(hall: Path, bench: Bench, endpoint: Endpoint) -> None:
    """A tool that hangs beside another one fails its own call, and the next one works."""
    calls: Calls = (("hang", {}), ("add_left", {"by": 1}))
    found, _, _ = run(bench, hall, endpoint.answers(asks_for(*calls)), "--call-timeout", "2")
    assert results(endpoint) == ["error: the tool hung for more than 2 s", "1"]
    assert found["end"] == "done"


def test_offline_runs_are_equal(hall: Path, bench: Bench, endpoint: Endpoint) -> None:
    """Two offline runs with calls at the same time are the same bytes, and their spans overlap as they did."""
    recording = str(bench.folder / "recording")
    url = endpoint.answers(asks_for(*CALLS))
    run(bench, hall, url, "--record", recording)
    outs = []
    for _ in range(2):
        found, spans, out = run(bench, hall, url, "--offline", recording)
        assert (found["success"], found["misses"]) == (True, 0)
        assert int(spans[1]["startTimeUnixNano"]) < int(spans[0]["endTimeUnixNano"])
        outs.append(bytes_of(out))
    assert outs[0] == outs[1]


def test_a_guard_is_asked_before_each(hall: Path, bench: Bench, endpoint: Endpoint) -> None:
    """A call that the guard denies is not made; the calls beside it are."""
    calls: Calls = (("add_left", {"by": 1}), ("hang", {}), ("add_right", {"by": 4}))
    found, _, _ = run(bench, hall, endpoint.answers(asks_for(*calls)), "--guard")
    assert (found["calls"], found["prevented"], found["harmful"]) == (2, 1, 0)
    first, denied, last = results(endpoint)
    assert (first, last) == ("1", "4")
    assert denied.startswith("error: ")


TOOLS = st.dictionaries(
    st.sampled_from("abcd"),
    st.fixed_dictionaries(
        {"reads": st.lists(st.sampled_from("xyz")), "writes": st.lists(st.sampled_from("xyz"))}
    ),
)


@given(st.lists(st.sampled_from("abcde")), TOOLS, st.integers(1, 4))
def test_groups_keep_order_and_touch_nothing_of_one_another(
    names: list[str], tools: dict[str, Any], most: int
) -> None:
    """Groups are the calls in their order, none is over the bound, and none of a group touches what another one writes."""
    calls = [AgentCall(name, {}) for name in names]
    groups = [*together(calls, tools, most)]
    assert [call for group in groups for call in group] == calls
    assert all(0 < len(group) <= most for group in groups)
    for group in groups:
        for place, call in enumerate(group):
            written = set(tools.get(call.tool, {}).get("writes", ()))
            for other in (*group[:place], *group[place + 1 :]):
                touched = tools.get(other.tool, {"reads": (), "writes": ()})
                assert not written & {*touched["reads"], *touched["writes"]}
