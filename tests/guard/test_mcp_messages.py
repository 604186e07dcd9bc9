"""What is read of MCP's messages, and what is answered."""

from __future__ import annotations

import json

import pytest

from guard.decision import Decision
from guard.mcp import messages

CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "water", "arguments": {"field": 3}},
}
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_a_call_is_read() -> None:
    """Tool, arguments, and the trace that the client names."""
    meta = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    text = json.dumps({**CALL, "params": {**CALL["params"], "_meta": meta}})  # type: ignore[dict-item]
    found = messages.read(text.encode())
    [call] = found.calls

    assert (call.id, call.call.tool, call.call.arguments) == (7, "water", {"field": 3})
    assert (found.trace_id, call.call.parent_span_id) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "method", [b'"tools/call"', rb'"tools\/call"', rb'"tools\u002fcall"', rb'"\u0074ools/call"']
)
def test_a_call_is_a_call_however_it_is_written(method: bytes) -> None:
    """JSON has many ways to write one text."""
    text = b'{"jsonrpc":"2.0","id":"a","method":%s,"params":{"name":"water"}}' % method

    assert [call.id for call in messages.read(text).calls] == ["a"]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}},
        {"jsonrpc": "2.0", "id": 1, "result": {"method": "tools/call"}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "water"}},
    ],
    ids=["another request", "a notification", "an answer", "a call that wants no answer"],
)
def test_other_messages_are_no_calls(message: dict[str, object]) -> None:
    """Only requests of tools/call are; without an id it is none that a server makes."""
    assert messages.read(json.dumps(message).encode()).calls == []


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"7", b"[7]", b"\xff\xfe", b'{"id":1,"id":2}', b"[" * 100_000],
    ids=["nothing", "half", "a number", "numbers", "no UTF-8", "a key twice", "deep"],
)
def test_what_cannot_be_read_is_said(text: bytes) -> None:
    """No other exception leaves the reader."""
    with pytest.raises(messages.UnreadableMessageError):
        messages.read(text)


def test_a_denied_call_is_answered_by_an_error_with_the_reason() -> None:
    """The result is one that the model reads, in every version of the protocol."""
    incoming = messages.read(json.dumps(CALL).encode())
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


def test_of_a_batch_with_a_denied_call_nothing_is_made() -> None:
    """Every request of it is answered, in order."""
    other = {"jsonrpc": "2.0", "id": "l", "method": "tools/list"}
    allowed = {**CALL, "id": 8, "params": {"name": "scan"}}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    incoming = messages.read(json.dumps([other, CALL, note, allowed]).encode())
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

    assert messages.outcomes(text) == [(7, outcome)]


@pytest.mark.parametrize("text", ["", "00", f"00-{TRACE}-x-01", f"00-{'0' * 32}-{SPAN}-01"])
def test_a_traceparent_that_is_none_names_nothing(text: str) -> None:
    """Half a header, other characters or zeros are no trace."""
    assert messages.traceparent(text) == ("", "")
