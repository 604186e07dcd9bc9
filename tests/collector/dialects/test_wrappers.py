"""Of a node around tools, only the calls in the last message of its state are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.dialects.wrappers import Listed, WrappedCall, javascript_calls, python_calls

NAMES = st.sampled_from(["scan", "move"])
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "args": st.dictionaries(NAMES, st.text(max_size=3) | st.integers(), max_size=2),
            "id": st.sampled_from(["a", "b"]),
            "type": st.just("tool_call"),
        }
    ),
    max_size=3,
)
HOSTILE = st.recursive(
    CALLS | st.sampled_from(['"tool_calls": [{', '"lg_tool_call":{', "tool", None, 7]),
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["tool_calls", "data", "kwargs", "messages", "lg_tool_call"]),
            inner,
            max_size=3,
        )
        | st.lists(inner, max_size=3)
    ),
    max_leaves=6,
)
"""What tools and people may have written."""


def _state(within: str, calls: list[Any], others: list[Any], more: Any) -> dict[str, Any]:
    """A state as LangGraph has it: messages, the last of which may ask, and what else a graph keeps."""
    messages = [
        {"type": "tool", within: {"content": "", "type": "tool", "artifact": other}}
        for other in others
    ]
    asks = {"type": "ai", within: {"content": "", "type": "ai", "tool_calls": calls}}
    return {"messages": [*messages, asks], "remaining": more}


WAYS: dict[str, tuple[Listed, str, tuple[str, str]]] = {
    "python": (python_calls, "data", (", ", ": ")),
    "javascript": (javascript_calls, "kwargs", (",", ":")),
}


@pytest.mark.parametrize("way", WAYS)
@given(calls=CALLS, others=st.lists(HOSTILE, max_size=3), more=HOSTILE)
def test_a_node_tells_what_the_last_message_asks_for_or_nothing(
    way: str, calls: list[Any], others: list[Any], more: Any
) -> None:
    """Other messages, and other members of the graph's state, are ignored."""
    listed, within, separators = WAYS[way]
    text = json.dumps(_state(within, calls, others, more), separators=separators)
    asked = tuple(WrappedCall(call["name"], call["args"], call["id"]) for call in calls)

    assert listed(text) in (asked, ())
    if more is None:
        assert listed(text) == asked


@given(calls=CALLS, others=st.lists(HOSTILE, max_size=3), more=HOSTILE, call=HOSTILE)
def test_a_call_that_is_sent_alone_is_told_whatever_the_state_beside_it_holds(
    calls: list[Any], others: list[Any], more: Any, call: Any
) -> None:
    """The call that LangGraph writes first is read. Anything else there is ignored."""
    for sent in [*calls, call]:
        text = json.dumps(
            {
                "__type": "tool_call_with_context",
                "tool_call": sent,
                "state": _state("data", calls, others, more),
            }
        )
        asked = isinstance(sent, dict) and sent.get("type") == "tool_call"
        wanted = (WrappedCall(sent["name"], sent["args"], sent["id"]),) if asked else ()
        assert python_calls(text) == wanted


@pytest.mark.parametrize("way", WAYS)
@given(calls=CALLS, last=HOSTILE)
def test_a_node_whose_last_message_asks_for_nothing_tells_nothing(
    way: str, calls: list[Any], last: Any
) -> None:
    """A tool's result may hold text that looks like a request. It is ignored."""
    listed, within, separators = WAYS[way]
    state = _state(within, calls, [last], None)
    state["messages"].reverse()

    assert listed(json.dumps(state, separators=separators)) == ()


LONG = "x" * 400_000


@pytest.mark.parametrize("where", ["page", "argument"])
@pytest.mark.parametrize("way", WAYS)
def test_a_long_conversation_hides_no_argument(way: str, where: str) -> None:
    """Arguments are found though results or arguments are long."""
    listed, within, separators = WAYS[way]
    text = LONG if where == "argument" else "rm"
    call = {"name": "scan", "args": {"area": text}, "id": "a", "type": "tool_call"}
    others = [LONG] if where == "page" else []
    state = json.dumps(_state(within, [call], others, None), separators=separators)

    assert listed(state) == (WrappedCall("scan", {"area": text}, "a"),)


@pytest.mark.parametrize("length", [10, 400_000])
def test_a_call_that_is_sent_alone_is_told_however_long_the_state_is(length: int) -> None:
    """The state is behind it."""
    call = {"name": "scan", "args": {"area": "rm"}, "id": "a", "type": "tool_call"}
    sent = {"__type": "tool_call_with_context", "tool_call": call, "state": "x" * length}

    assert python_calls(json.dumps(sent)) == (WrappedCall("scan", {"area": "rm"}, "a"),)


@pytest.mark.parametrize("way", WAYS)
def test_an_argument_is_not_taken_for_an_answer(way: str) -> None:
    """A model may write arguments that look like a tool's message."""
    listed, within, separators = WAYS[way]
    given = {"type": "tool", "id": ["ToolMessage"], "role": "tool"}
    call = {"name": "scan", "args": given, "id": "a", "type": "tool_call"}
    state = json.dumps(_state(within, [call], [], None), separators=separators)

    assert listed(state) == (WrappedCall("scan", given, "a"),)


@pytest.mark.parametrize("levels", [150, 900, 5_000])
@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_nests_too_deeply_is_not_read(way: str, levels: int) -> None:
    """Too deep a state is not read, whatever Python's limit. The tool's own span has the arguments."""
    listed, within, separators = WAYS[way]
    call = {"name": "scan", "args": {"area": "@"}, "id": "a", "type": "tool_call"}
    state = json.dumps(_state(within, [call], [], None), separators=separators)
    deep = state.replace('"@"', "[" * levels + "]" * levels)
    sent = f'{{"__type": "tool_call_with_context", "tool_call": {json.dumps(call)}}}'

    assert listed(deep) == ()
    assert python_calls(sent.replace('"@"', "[" * levels + "]" * levels)) == ()
