"""What is taken out of texts before anybody sees them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.app.derived_settings import redaction_of
from collector.app.service import App
from collector.config.settings.settings import Settings
from collector.config.settings.telemetry import RedactSettings
from collector.config.sources import SettingsError, load
from collector.telemetry.redaction import (
    REDACTED,
    Redaction,
    hide,
    key_of,
    redacted,
    redacted_names,
    redacted_text,
    rules,
)
from monitor.aggregate.totals import SessionFinished
from monitor.records import SessionKey

MAIL, PIN = r"[\w.]+@[\w.]+", r"\d{4,}"
SECRET = "mia@x.org"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just(f"to {SECRET}!"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "session", "arguments", SECRET]), inner)
    ),
)


def test_what_matches_is_replaced_and_nothing_else() -> None:
    """By a mark, or by a digest that says nothing but whether two texts are equal."""
    assert redacted(f"a {SECRET} b 12345", rules([MAIL], [])) == f"a {REDACTED} b 12345"
    hashed = rules([], [MAIL])
    one, two = redacted(f"a {SECRET}", hashed), redacted(f"{SECRET} b", hashed)
    assert one.removeprefix("a ") == two.removesuffix(" b") != redacted("leo@x.org", hashed)
    assert SECRET not in one
    assert redacted("nothing", hashed) == "nothing"


def test_names_that_are_hidden_stay_different() -> None:
    """Two sessions must not become one, whatever the rule says."""
    by = rules([MAIL], [])
    one, two = redacted_names(f"chat {SECRET}", by), redacted_names("chat leo@x.org", by)
    assert one != two
    assert SECRET not in one
    assert redacted_names(f"chat {SECRET}", by) == one


def test_a_digest_is_not_found_by_rules_for_numbers() -> None:
    """Redacting twice is redacting once."""
    by = rules([PIN], [MAIL, PIN])
    once = redacted(f"{SECRET} 123456", by)
    assert redacted(once, by) == once


def test_digests_are_keyed(tmp_path: Path) -> None:
    """Who guesses a text cannot check it; with a key file they are the same after a restart."""
    file = tmp_path / "key"
    file.write_text("k1\n")
    first = redacted(SECRET, rules([], [MAIL], key_of(file)))
    assert redacted(SECRET, rules([], [MAIL], key_of(file))) == first
    assert redacted(SECRET, rules([], [MAIL])) != first
    file.write_text("k2\n")
    assert redacted(SECRET, rules([], [MAIL], key_of(file))) != first


def test_a_key_file_is_read_once(tmp_path: Path) -> None:
    """A pipe gives its key once: texts and values that are not shown have digests by the same one."""
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    file.write_text("k1\n")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("k1\n",), daemon=True)
    writer.start()
    found = redaction_of(RedactSettings(hash=(MAIL,), key_file=pipe))
    writer.join(5)
    kept = redaction_of(RedactSettings(hash=(MAIL,), key_file=file))
    assert found.text(SECRET) == kept.text(SECRET) != redacted(SECRET, rules([], [MAIL]))
    assert found.digest_key == kept.digest_key != Redaction().digest_key
    settings = Settings(redact=RedactSettings(hash=(MAIL,), key_file=pipe))
    App(settings, [], redaction=found)  # a second reader of the pipe would wait for ever


def test_settings_that_cannot_be_used_say_which(tmp_path: Path) -> None:
    """A missing key file and an invalid expression give a one-line error each."""
    with pytest.raises(OSError, match=r"redact\.key_file: .*gone: No such file"):
        redaction_of(RedactSettings(hash=("x",), key_file=tmp_path / "gone"))
    with pytest.raises(SettingsError, match=r"--replace: redact\.replace: '\(' is no RE2"):
        load(None, {}, {("redact", "replace"): "("})
    with pytest.raises(ValueError, match="RE2"):
        rules(["("], [])


@given(value=JSON)
def test_nothing_that_matches_is_left(value: object) -> None:
    """No match is left in a text, a list or a key of arguments."""
    redaction = Redaction(rules([MAIL], []))
    assert SECRET not in json.dumps(redaction.value(value))
    assert SECRET not in json.dumps(redaction.shown({"arguments": value}))
    shown = redaction.shown({"session": value if isinstance(value, str) else "s"})
    assert SECRET not in json.dumps(shown)


@given(value=JSON)
def test_without_rules_all_is_as_it_was(value: object) -> None:
    """The very same object: it costs nothing."""
    assert Redaction().shown(value) is value
    assert Redaction().value(value) is value
    assert not Redaction()


def test_numbers_are_hidden_where_agents_speak_alone() -> None:
    """Numbers are redacted in arguments, and not in times and scores."""
    redaction = Redaction(rules([PIN], []))
    found = redaction.shown({"last": 123456, "calls": 7, "arguments": {"pin": 123456, "n": 7}})
    assert found == {"last": 123456, "calls": 7, "arguments": {"pin": REDACTED, "n": 7}}


def test_ids_of_spans_are_left() -> None:
    """Span ids are not redacted, so links to traces still work."""
    redaction = Redaction(rules([PIN], []))
    step = {"trace_id": "0123456789", "span_id": "4567", "tool": "t 4567"}
    shown = redaction.shown({"steps": [step]})["steps"][0]
    assert (shown["trace_id"], shown["span_id"]) == ("0123456789", "4567")
    assert "4567" not in shown["tool"]


def test_sessions_can_be_asked_for_by_what_is_shown() -> None:
    """A session is found by its shown id; the hidden id leads nowhere."""
    redaction = Redaction(rules([MAIL], []))
    shown = redaction.shown({"session": SECRET, "agent": "plain"})
    assert redaction.original(shown["session"]) == SECRET
    assert redaction.original("plain") == "plain"
    assert redaction.original("[redacted:none]") == "[redacted:none]"


def test_remembered_hidden_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile names do not fill the memory; the oldest are forgotten."""
    monkeypatch.setattr("collector.telemetry.redaction.KNOWN_MAX", 2)
    redaction = Redaction(rules([r"\d+"], []))
    shown = [redaction.askable(str(number)) for number in range(3)]
    assert [redaction.original(each) for each in shown] == [shown[0], "1", "2"]


def test_events_of_sessions_are_hidden_whole() -> None:
    """Every sink gets the same redacted names with verdicts and ends."""
    finished = SessionFinished(
        SessionKey(SECRET, f"s {SECRET}"),
        SECRET,
        "spec",
        "1",
        "idle",
        None,  # type: ignore[arg-type]
    )
    redaction = Redaction(rules([MAIL], []))
    found = redaction.named(finished)
    assert SECRET not in repr(found)
    assert found.session.id == redaction.shown({"session": f"s {SECRET}"})["session"]
    assert Redaction().named(finished) is finished


def test_why_a_call_is_harmful_is_hidden_too() -> None:
    """A verdict's sentence may hold a value of an argument."""

    class News(NamedTuple):
        session: SessionKey
        agent: str
        tool: str
        detail: str

    news = News(SessionKey("", "s"), "a", "pay", f'`to` ("{SECRET}") is not "shop"')
    found = Redaction(rules([MAIL], [])).named(news)
    assert found.detail == f'`to` ("{REDACTED}") is not "shop"'


def test_json_in_a_text_stays_json() -> None:
    """Numbers, keys and escaped texts in nested JSON are redacted as such."""
    by = rules([MAIL, PIN], [])
    said = '{"pin": 123456, "to": "mia\\u0040x.org", "mia@x.org": [1]}'
    found = json.loads(redacted_text(said, by))
    assert found == {"pin": REDACTED, "to": REDACTED, REDACTED: [1]}
    assert redacted_text("{ no json 123456", by) == f"{{ no json {REDACTED}"
    assert "123456" not in redacted_text("[" * 50_000 + "123456", by)


def test_a_request_is_hidden_as_a_whole() -> None:
    """Names, keys, values, messages, bytes; ids and times stay, and the rest of the form."""
    pair = {"key": SECRET, "value": {"stringValue": f"a {SECRET}"}}
    span = {
        "traceId": "1234" * 8,
        "spanId": "5678" * 4,
        "name": f"n {SECRET}",
        "startTimeUnixNano": "123456789",
        "kind": 3,
        "status": {"message": SECRET},
        "attributes": [
            pair,
            {"key": "i", "value": {"intValue": "123456"}},
            {"key": "d", "value": {"doubleValue": 1.5}},
            {"key": "b", "value": {"bytesValue": "bWlhQHgub3Jn"}},
            {"key": "raw", "value": {"bytesValue": "/w=="}},
            {"key": "k", "value": {"kvlistValue": {"values": [pair]}}},
        ],
        "unknown": [SECRET, 1],
    }
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    hide(request, rules([MAIL, PIN], []))
    text = json.dumps(request)
    assert SECRET not in text
    assert "bWlhQHgub3Jn" not in text
    assert (span["traceId"], span["spanId"]) == ("1234" * 8, "5678" * 4)
    assert (span["startTimeUnixNano"], span["kind"]) == ("123456789", 3)
    assert {"key": "i", "value": {"stringValue": REDACTED}} in span["attributes"]  # type: ignore[operator]
    assert {"key": "d", "value": {"doubleValue": 1.5}} in span["attributes"]  # type: ignore[operator]
    assert {"key": "raw", "value": {"bytesValue": "/w=="}} in span["attributes"]  # type: ignore[operator]
