"""What is read of MCP's messages, and what is answered."""

from __future__ import annotations

import json

import pytest

from offrails_guard.decision import Decision
from offrails_guard.lenient_json import UNREAD
from offrails_guard.mcp import messages
from offrails_guard.question import Question, QuestionContext

CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "water", "arguments": {"field": 3}},
}
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SHARED = QuestionContext("s1", "", "", "", {}, commit=True)


def test_a_call_is_read() -> None:
    """Tool, arguments, and the trace that the client names."""
    meta = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    text = json.dumps({**CALL, "params": {**CALL["params"], "_meta": meta}})  # type: ignore[dict-item]
    found = messages.read_incoming(text.encode())
    [call] = found.calls

    assert (call.id, call.call.tool, call.call.arguments) == (7, "water", {"field": 3})
    assert (found.trace_id, call.call.parent_span_id) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "method", [b'"tools/call"', rb'"tools\/call"', rb'"tools\u002fcall"', rb'"\u0074ools/call"']
)
def test_a_call_is_a_call_however_it_is_written(method: bytes) -> None:
    """JSON has many ways to write one text."""
    text = b'{"jsonrpc":"2.0","id":"a","method":%s,"params":{"name":"water"}}' % method

    assert [call.id for call in messages.read_incoming(text).calls] == ["a"]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}},
        {"jsonrpc": "2.0", "id": 1, "result": {"method": "tools/call"}},
    ],
    ids=["another request", "a notification", "an answer"],
)
def test_other_messages_are_no_calls(message: dict[str, object]) -> None:
    """Only messages of tools/call are."""
    found = messages.read_incoming(json.dumps(message).encode())

    assert (found.calls, found.may_call) == ([], False)


@pytest.mark.parametrize(
    ("id_", "owed"),
    [
        ("", 0),
        ('"id":null,', 1),
        ('"id":true,', 1),
        ('"id":[1],', 1),
        ('"id":{},', 1),
        ('"id":1e999,', 1),
        (f'"id":{"9" * 5000},', 0),
        ('"id":1,"id":2,', 0),
        ('"id":7,"id":7,', 1),
    ],
)
def test_a_call_is_a_call_whatever_its_id_is(id_: str, owed: int) -> None:
    """Without an id, with an odd one or with two: servers may make it. Who can read the answer gets one."""
    text = '{%s"method":"tools/call","params":{"name":"water"}}' % id_  # noqa: UP031
    found = messages.read_incoming(text.encode())

    assert ([each.call.tool for each in found.calls], len(found.owed)) == (["water"], owed)


DEEP = "[" * 1500 + "]" * 1500


@pytest.mark.parametrize(
    "odd",
    [
        DEEP,
        "{" + '"a":{' * 1500 + "}" * 1501,
        "[" * 200_000 + "]" * 200_000,
        "9" * 5000,
        "-1e" + "9" * 5000,
        "NaN",
        '{"a":1,"a":2}',
        '"\x01"',
        '"tab\there"',
        '"\\q"',
        '"\\ud800"',
    ],
)
def test_odd_arguments_are_unknown(odd: str) -> None:
    """What Python's reader refuses keeps neither the tool nor the id from being read, nor the other arguments."""
    text = (
        f'{{"jsonrpc":"2.0","params":{{"arguments":{{"n":{odd},"field":3}},"name":"water"}},"id":7,'
        '"method":"tools/call"}'
    )
    [call] = messages.read_incoming(text.encode()).calls

    assert (call.id, call.call.tool) == (7, "water")
    asked = json.loads(Question(SHARED, [call.call], batch=False).body())
    assert (asked["arguments"], asked["unread"]) == ({"field": 3}, ["n"])


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-32-be"]
)
def test_a_call_is_a_call_in_each_encoding_of_json(encoding: str) -> None:
    """Python's servers read them all."""
    [call] = messages.read_incoming(json.dumps(CALL).encode(encoding)).calls

    assert call.call.arguments == {"field": 3}


def test_bytes_that_are_no_utf_8_are_unknown_arguments() -> None:
    """Servers that replace such bytes make the call."""
    text = json.dumps(CALL).encode().replace(b"3", b'"\xff\xfe"')
    [call] = messages.read_incoming(text).calls

    assert (call.call.tool, call.call.arguments) == ("water", {"field": UNREAD})


def test_several_messages_in_one_line_are_read() -> None:
    """Some servers read values, not lines; some end a line at a carriage return."""
    line = json.dumps(CALL).encode()
    for between in (b"", b" ", b"\r", b"\t"):
        found = messages.read_incoming(b'{"method":"ping","id":1}' + between + line)
        assert [each.call.tool for each in found.calls] == ["water"]


@pytest.mark.parametrize(
    "text",
    [
        '{"method":"tools/call","params":{"name":"scan","name":"water"},"id":1}',
        '{"method":"tools/call","params":{"name":"scan"},"params":{"name":"water"},"id":1}',
        '{"method":"tools/list","method":"tools/call","params":{"name":"water"},"id":1}',
        '{"method":"tools/call","id":1}',
        '{"method":"tools/call","params":{"name":["water"]},"id":1}',
        '{"method":"tools/call","params":{"name":"wa\x00ter"},"id":1}',
        '{"method":"tools/call","params":{"name":"water"}',
        '{"method":"tools/call","params":{"name":"water"},}',
        "{'method':'tools/call','params':{'name':'water'}}",
        '{"x":"y" /* " */,"method":"tools/call" /* " */}',
        '{"\\method":"tools/call","params":{"name":"water"},"id":1}',
        '[[{"method":"tools/call","params":{"name":"water"},"id":1}]]',
        '{"Method":"tools/call","params":{"name":"water"},"id":1}',
        '{"method":"tools/list","METHOD":"tools/call","params":{"name":"water"},"id":1}',
        '{"method":"tools/call","params":{"name":"scan"},"param\u017f":{"name":"water"},"id":1}',
        '{"method":"tools/call","params":{"name":"scan","Name":"water"},"id":1}',
        "[" * 100_000,
    ],
)
def test_what_may_be_a_call_and_names_no_tool_is_refused(text: str) -> None:
    """Servers read such texts in different ways, so none gets them."""
    assert messages.read_incoming(text.encode()).may_call


@pytest.mark.parametrize(
    "text",
    [b"", b"7", b"[7]", b"\xff\xfe", b'{"id":1,"id":1}', b"hello", b'"tools/call"'],
)
def test_what_cannot_be_read_is_said(text: bytes) -> None:
    """A strict reader refuses it, and it calls no tool."""
    found = messages.read_incoming(text)

    assert (found.is_read, found.may_call, found.calls) == (False, False, [])


def test_a_denied_call_is_answered_by_an_error_with_the_reason() -> None:
    """The result is one that the model reads, in every version of the protocol."""
    incoming = messages.read_incoming(json.dumps(CALL).encode())
    denied = Decision(False, "deny", message="open the valve first")

    assert json.loads(messages.answers(incoming, [denied])) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {
            "content": [{"type": "text", "text": "open the valve first"}],
            "isError": True,
            "resultType": "complete",
        },
    }


@pytest.mark.parametrize("id_", ["1e999", "[-1e999]", '{"a":NaN}'])
def test_an_answer_to_an_id_that_json_does_not_have_is_json(id_: str) -> None:
    """Infinity is no JSON: a strict client would take the denial for a broken stream."""
    text = '{"id":%s,"method":"tools/call","params":{"name":"water"}}' % id_  # noqa: UP031
    incoming = messages.read_incoming(text.encode())

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    found = messages.answers(incoming, [Decision(False, "deny", message="no")])
    assert json.loads(found, parse_constant=refused)["id"] is None
    found = messages.refusal(incoming, "no")
    assert json.loads(found, parse_constant=refused)["id"] is None


def test_of_a_batch_with_a_denied_call_nothing_is_made() -> None:
    """Every request of it is answered, in order."""
    other = {"jsonrpc": "2.0", "id": "l", "method": "tools/list"}
    allowed = {**CALL, "id": 8, "params": {"name": "scan"}}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    incoming = messages.read_incoming(json.dumps([other, CALL, note, allowed]).encode())
    decisions = [Decision(False, "deny", message="no"), Decision(True, "allow")]
    found = json.loads(messages.answers(incoming, decisions))

    assert [each["id"] for each in found] == ["l", 7, 8]
    assert found[0]["error"]["message"] == messages.OTHER
    assert [each["result"]["content"][0]["text"] for each in found[1:]] == [
        "no",
        messages.OTHER,
    ]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"result": {"content": []}}, "ran"),
        ({"result": {"content": [], "isError": True}}, "failed"),
        ({"error": {"code": -1, "message": "m"}}, "failed"),
        ({"result": {"resultType": "input_required"}}, "skipped"),
    ],
)
def test_outcomes_are_read_from_answers(answer: dict[str, object], outcome: str) -> None:
    """A result is what ran; errors failed; a server that asks for something first has not called yet."""
    text = json.dumps({"jsonrpc": "2.0", "id": 7, **answer}).encode()

    assert messages.outcomes(text) == [("7", outcome)]


@pytest.mark.parametrize("text", ["", "00", f"00-{TRACE}-x-01", f"00-{'0' * 32}-{SPAN}-01"])
def test_a_traceparent_that_is_none_names_nothing(text: str) -> None:
    """Half a header, other characters or zeros are no trace."""
    assert messages.traceparent(text) == ("", "")
