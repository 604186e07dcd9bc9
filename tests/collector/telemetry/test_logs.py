"""What the process logs: one line of JSON an event."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.telemetry import logs
from collector.telemetry.logs import Logger, captured, log
from collector.telemetry.redaction import Redaction, rules


@pytest.fixture
def restored() -> Iterator[None]:
    """The log of the process as it was before, afterwards."""
    root = logging.getLogger()
    before = (log.write, log.level, root.handlers[:], root.level)
    yield
    log.write, log.level, root.handlers, root.level = before
    logging.getLogger("uvicorn").setLevel(logging.NOTSET)


def failed() -> Exception:
    """An error with a cause."""
    known: dict[str, int] = {}
    secret = "tok-1"
    try:
        known[secret.removesuffix("-1")] += 1
    except KeyError as cause:
        error = ValueError("no such key")
        error.__cause__ = cause
    try:
        raise error
    except ValueError as raised:
        return raised


def test_an_event_is_a_line_of_json(restored: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The line has the fields, event, level and time; values unknown to JSON are shown by repr."""
    logs.set_up("info")
    log.warning("harmful_call", tool="pay\ud800", file=Path("x"))

    line = capsys.readouterr().err
    found = json.loads(line)
    assert line.isascii()
    assert line.endswith("}\n")
    assert list(found) == ["tool", "file", "event", "level", "timestamp"]
    assert (found["event"], found["level"], found["file"]) == (
        "harmful_call",
        "warning",
        "PosixPath('x')",
    )
    assert found["timestamp"].endswith("Z")
    assert len(found["timestamp"]) == len("2026-11-22T05:33:13.378823Z")


def test_a_line_that_cannot_be_written_is_lost(
    restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code that logs goes on."""
    logs.set_up("info")
    full = mock.Mock(**{"write.side_effect": OSError(28, "No space left on device")})
    monkeypatch.setattr(sys, "stderr", full)
    log.warning("harmful_call")
    assert full.write.called


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(),
            lambda each: (
                st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3)
            ),
            max_leaves=6,
        ),
        max_size=4,
    )
)
@example({"tool": "caf\u00e9", "agent": "\x7f", "step": 2**64, "session": "\ud800"})
@example({"tool": 'a "b" \\ \n \x00 </script>'})
def test_a_line_is_what_json_writes(event: dict[str, Any]) -> None:
    """To the letter, whatever an agent is called: the short way there is no other format."""
    with mock.patch.object(sys, "stderr", io.StringIO()) as written:
        Logger(logs.log.write).write(event)

    assert written.getvalue() == json.dumps(event) + "\n"


@pytest.mark.parametrize(
    ("level", "count"), [("debug", 3), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_what_is_below_the_level_is_left_out(
    restored: None, capsys: pytest.CaptureFixture[str], level: str, count: int
) -> None:
    """The level of the settings is the lowest that is logged."""
    logs.set_up(level)
    log.info("a")
    log.warning("b")
    log.error("c")

    assert len(capsys.readouterr().err.splitlines()) == count


def test_an_exception_is_told_with_its_causes() -> None:
    """Type, text and places of each; never the values of variables."""
    events: list[dict[str, Any]] = []
    Logger(events.append).error("failed", exc_info=failed())

    (event,) = events
    assert [
        (each["exc_type"], each["exc_value"], each["is_cause"]) for each in event["exception"]
    ] == [("ValueError", "no such key", False), ("KeyError", "'tok'", True)]
    assert event["exception"][0]["frames"][-1]["name"] == "failed"
    assert "tok-1" not in json.dumps(events)


def test_exceptions_in_a_group_are_told() -> None:
    """All exceptions of a group are logged, as raised by tasks that end together."""
    events: list[dict[str, Any]] = []
    Logger(events.append).error("failed", exc_info=ExceptionGroup("two", [failed(), OSError()]))

    (told,) = events[0]["exception"]
    assert told["is_group"]
    assert [each[0]["exc_type"] for each in told["exceptions"]] == ["ValueError", "OSError"]


def test_long_tracebacks_are_cut() -> None:
    """Both ends of a long traceback are kept: where it began and where it failed."""

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        raise OSError

    events: list[dict[str, Any]] = []
    try:
        deep(200)
    except OSError as error:
        Logger(events.append).error("failed", exc_info=error)

    frames = events[0]["exception"][0]["frames"]
    assert len(frames) == logs.FRAMES_MAX
    assert frames[0]["name"] == "test_long_tracebacks_are_cut"


def test_what_libraries_log_is_of_our_form(
    restored: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Libraries' records have our form, with the logger's name, and are redacted."""
    logs.set_up("info", Redaction(rules(("tok-[0-9]",), ())))
    logging.getLogger("grpc").error("bad %s", "tok-1", exc_info=failed())

    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["logger"], found["level"]) == ("grpc", "error")
    assert found["event"].startswith("bad [redacted")
    assert "tok-1" not in line
    assert found["exception"][0]["exc_type"] == "ValueError"


def test_events_are_captured_for_tests() -> None:
    """Events are captured only inside the block."""
    before = log.write
    with captured() as events:
        log.info("seen", n=1)
    assert [(each["event"], each["n"]) for each in events] == [("seen", 1)]
    assert log.write == before


def test_fields_may_have_any_name() -> None:
    """An alarm has a level of its own: the line says the level of the log, and nothing fails."""
    with captured() as events:
        log.info("alarm_raised", level="page", event="x", self=1, timestamp="y")
    (event,) = events
    assert (event["event"], event["level"], event["self"]) == ("alarm_raised", "info", 1)
