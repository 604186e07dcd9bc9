"""Sessions and turns without tool calls have transcripts, too: an agent may go wrong by words alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collector.offline.judge.session_material import material_of
from collector.offline.progress_bar import Progress


def span(trace: int, number: int, session: str, **attributes: str) -> dict[str, Any]:
    found = attributes | ({"gen_ai.conversation.id": session} if session else {})
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": "s",
        "kind": 1,
        "startTimeUnixNano": str(10**18 + number * 1000),
        "endTimeUnixNano": str(10**18 + number * 1000 + 500),
        "attributes": [
            {"key": key.replace("__", "."), "value": {"stringValue": text}}
            for key, text in found.items()
        ],
    }


def chat(trace: int, number: int, session: str, asked: str, answer: str) -> dict[str, Any]:
    def said(role: str, text: str) -> str:
        return json.dumps([{"role": role, "content": text}] if text else [])

    return span(
        trace, number, session,
        gen_ai__operation__name="chat",
        gen_ai__input__messages=said("user", asked),
        gen_ai__output__messages=said("assistant", answer),
    )  # fmt: skip


def call(trace: int, number: int, session: str) -> dict[str, Any]:
    return span(
        trace, number, session,
        gen_ai__operation__name="execute_tool", gen_ai__tool__name="find",
    )  # fmt: skip


def transcripts(tmp_path: Path, *spans: dict[str, Any]) -> dict[str, list[str]]:
    """Session -> what was called, asked and answered."""
    file = tmp_path / "spans.jsonl"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    found = material_of(file, (), Progress([file]))
    return {
        each.session: [step.name if step.is_call else step.text for step in each.steps]
        for each in found
    }


def test_a_turn_without_calls_is_in_its_conversation(tmp_path: Path) -> None:
    """The first turn calls a tool, the second one only talks: both are in the transcript."""
    assert transcripts(
        tmp_path,
        chat(1, 1, "c", "find it", ""),
        call(1, 2, "c"),
        chat(2, 3, "c", "thanks", "you are welcome"),
    ) == {"c": ["find it", "find", "thanks", "you are welcome"]}


def test_a_session_of_words_alone_is_judged(tmp_path: Path) -> None:
    """It has the name that its spans give it, or that of its trace; two turns are one session."""
    assert transcripts(
        tmp_path,
        chat(1, 1, "talk", "hi", "hello"),
        chat(2, 2, "talk", "bye", "see you"),
        chat(3, 3, "", "who?", "me"),
    ) == {"talk": ["hi", "hello", "bye", "see you"], f"{3:032x}": ["who?", "me"]}


def test_traces_in_which_no_model_speaks_are_no_sessions(tmp_path: Path) -> None:
    """What a client of MCP does at its start, or model spans that a context was lost of, add nothing to judge."""
    assert transcripts(
        tmp_path,
        call(1, 1, "c"),
        chat(2, 2, "", "water", ""),
        span(3, 3, "", traceloop__entity__input="initialize", traceloop__entity__output="ok"),
        span(4, 4, "", http__method="GET"),
    ) == {"c": ["find"]}
