"""What a tool returned, without what protocols and frameworks put around it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.dialects.values.cut_json import read_cut
from collector.dialects.values.returned import returned
from monitor.partial import CutObject

OK: Any = {"status": "ok"}
TEXT = json.dumps(OK)


def text(shown: str) -> dict[str, str]:
    return {"type": "text", "text": shown}


def mcp(shown: str, **more: Any) -> dict[str, Any]:
    return {"content": [text(shown)], **more}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (TEXT, OK),
        ("5", "5"),
        ("", ""),
        (None, None),
        ("[INFO] done", "[INFO] done"),
        (json.dumps([1, 2]), [1, 2]),
        (json.dumps({"text": TEXT}), {"text": TEXT}),
        (OK, OK),
        (mcp(TEXT), OK),
        (json.dumps(mcp("5", isError=False)), "5"),
        (mcp("shown", structuredContent=OK), OK),
        (mcp("shown", structured_content={"result": [1]}), {"result": [1]}),
        (mcp(TEXT, structuredContent={"result": TEXT}), OK),
        (mcp("done", structuredContent={"result": "done"}), "done"),
        (mcp("5", structuredContent={"result": 5}), 5),
        (
            {
                "content": [text("a"), text('{"id": 1}')],
                "structuredContent": {"result": ["a", {"id": 1}]},
            },
            ["a", {"id": 1}],
        ),
        ({"content": [], "structuredContent": {"result": []}}, []),
        ({"content": [], "structuredContent": {"result": None}}, None),
        (mcp("null", structuredContent={"result": None}), None),
        (mcp("[" * 100_000, structuredContent={"result": 5}), {"result": 5}),
        (mcp("\ud800", structuredContent={"result": 5}), {"result": 5}),
        (mcp('{"result": 5}', structuredContent={"result": 5}), {"result": 5}),
        (mcp('{"result": "done"}', structuredContent={"result": "done"}), {"result": "done"}),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"content": [], "isError": False}, ""),
        ({"content": []}, {"content": []}),
        ({"content": "of a file"}, {"content": "of a file"}),
        ({"type": "tool", "data": {"content": TEXT, "tool_call_id": "c"}}, OK),
        ({"output": {"kwargs": {"content": TEXT, "tool_call_id": "c"}}}, OK),
        (json.dumps({"output": {"content": TEXT, "tool_call_id": "c"}, "kwargs": {}}), OK),
        (f"content={TEXT!r} name='ask' tool_call_id='c'", OK),
        (json.dumps({"result": TEXT, "is_error": False}), OK),
        ({"tool_name": "ask", "raw_output": OK, "content": "shown"}, OK),
        ({"id": "c", "name": "ask", "response": {"result": "5"}}, "5"),
        ({"id": "c", "name": "ask", "response": OK}, OK),
        ({"output": "mine"}, {"output": "mine"}),
        (json.dumps(TEXT), OK),
        (json.dumps("plain"), "plain"),
        ({"tool_call_id": "c", "content": [], "artifact": {"structured_content": OK}}, OK),
        (mcp("done", tool_call_id="c", artifact={"structured_content": OK}), OK),
        (mcp("done", tool_call_id="c", status="success", artifact=None), "done"),
        (mcp("5", tool_call_id="c", artifact={"structured_content": {"result": 5}}), 5),
        (
            {
                "tool_call_id": "c",
                "content": "5",
                "artifact": {"structured_content": {"result": 5}},
            },
            5,
        ),
        ({"result": "mine"}, {"result": "mine"}),
    ],
)
def test_the_result_is_what_the_tool_returned(value: Any, found: Any) -> None:
    """Envelopes are taken off, JSON is read once, and a tool's own objects stay as they are."""
    assert returned(value, quoted=False) == (found,)


@pytest.mark.parametrize(
    ("value", "found"),
    [('"5"', "5"), ("5", 5), ("null", None), (json.dumps(TEXT), OK), ("plain", "plain")],
)
def test_where_texts_are_quoted_all_values_are_json(value: str, found: Any) -> None:
    """Dialects that write every result as JSON tell a text from a number."""
    assert returned(value, quoted=True) == (found,)


@pytest.mark.parametrize(
    "value", ["CallToolResult(content=[])", "x" * 300_000, '[{"id": 1}, {"i']
)
def test_what_cannot_be_read_is_unknown(value: str) -> None:
    """Python's texts of objects, results over the bound, and arrays that were cut."""
    assert returned(value, quoted=False) == ()


@pytest.mark.parametrize(
    "value",
    [
        "[TextContent(type='text', text='ok')]",
        "{'status': 'ok'}",
        "[{'id': 1}]",
        "[1, 2, ...[cut]",
    ],
)
def test_an_object_that_is_shown_otherwise_is_unknown(value: str) -> None:
    """Python's texts of lists and mappings are no text of the tool: to take them for one would make up an answer."""
    assert returned(value, quoted=False) == ()


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ('{"status": "ok", ...[truncated]', {"status": "ok"}),
        ('{"status": "ok", "text": "lo... [truncated]', {"status": "ok"}),
        ('{"_truncated": true, "status": "ok"}', {"_truncated": True, "status": "ok"}),
    ],
)
def test_marks_of_a_cut_are_known(value: str, known: Any) -> None:
    """Exporters put a mark behind what is left, or an object around it."""
    [found] = returned(value, quoted=False)
    assert isinstance(found, CutObject)
    assert found == known


def test_members_before_a_cut_hold() -> None:
    """The whole members of an object are known, also within one that was cut."""
    [found] = returned('{"status": "approved", "n": 12, "by": {"id": 7, "na', quoted=False)
    assert found == CutObject({"status": "approved", "n": 12, "by": CutObject({"id": 7})})
    assert returned('{"n": 12', quoted=False) == (CutObject(),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def holds(part: Any, whole: Any) -> bool:
    """True if all that is known of a part is so in the whole."""
    if not isinstance(part, CutObject):
        return bool(part == whole)
    return all(name in whole and holds(each, whole[name]) for name, each in part.items())


@given(st.dictionaries(st.text(), JSON, min_size=1), st.data())
def test_nothing_is_made_up_where_a_result_is_cut(
    whole: dict[str, Any], data: st.DataObject
) -> None:
    """Wherever the cut is, each member that is known is one of the whole object."""
    text = json.dumps(whole)
    [part] = read_cut(text[: data.draw(st.integers(1, len(text) - 1))])
    assert isinstance(part, CutObject)
    assert holds(part, whole)


@given(st.text() | JSON, st.booleans())
def test_no_result_is_an_error(value: Any, quoted: bool) -> None:
    """Whatever an agent's tool returns, reading it raises nothing."""
    assert len(returned(value, quoted=quoted)) <= 1
    if isinstance(value, str):
        assert len(returned("{" + value, quoted=quoted)) <= 1
