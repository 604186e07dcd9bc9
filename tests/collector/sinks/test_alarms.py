"""Sinks report alarms of sessions that depart from a reference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.client.tail import formatted
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.alert.page_alert import ALARMS, PageAlert, PageKey, as_alert
from collector.sinks.alert.pager import Pager, PageRules
from collector.sinks.event import as_event
from collector.sinks.log import LogSink
from collector.sinks.otlp_logs import of_alarm
from collector.telemetry.logs import Logger
from monitor.aggregate.totals import SessionFinished
from monitor.records import ReferenceAlarm, SessionKey
from monitor.scores.score_records import FinalScores

SECOND = 1_000_000_000
KEY = SessionKey("farm", "s")


def raised(alarm: str = "new_arguments", number: int = 1, **more: Any) -> ReferenceAlarm:
    """An alarm of a reference in `mode: page`."""
    found: dict[str, Any] = {
        "session": KEY,
        "agent": "rover",
        "spec": "usual",
        "spec_version": "1",
        "mode": "page",
        "alarm": alarm,
        "level": "page" if alarm in ALARMS else "hint",
        "severity": "critical" if alarm in ALARMS else "info",
        "withdrawn": False,
        "step": number,
        "tool": "water",
        "kind": "wrong_arguments",
        "phase": "first_two",
        "write": True,
        "expected": ("scan",),
        "support": 3,
        "precision": 0.9,
        "false_per_1000": 10.0,
        "risk": 0.7,
        "trace_id": b"t" * 16,
        "span_id": number.to_bytes(8, "big"),
    }
    return ReferenceAlarm(**{**found, **more})


class Told:
    """A pager, and the alerts it sent."""

    def __init__(self) -> None:
        self.pages: list[PageAlert] = []
        self.news: list[tuple[str, bool]] = []
        self.pager = Pager(PageRules(), self._tell)

    def _tell(self, pages: Sequence[PageAlert], _: int, news: bool) -> None:
        self.pages += pages
        if news:
            self.news += [(page.key.reason, bool(page.ended_ns)) for page in pages]


def over(ended: str = "idle") -> SessionFinished:
    scores = FinalScores("not_accepted", 1, 0, *[None] * 6)
    return SessionFinished(KEY, "rover", "usual", "1", ended, scores)


def test_an_unexpected_write_pages_at_once() -> None:
    """It pages without settling, since no later call changes it. A session has one page."""
    told = Told()
    told.pager.alarm(raised(), 0)
    told.pager.alarm(raised(number=2), 1)

    assert told.news == [("new_arguments", False)]
    assert told.pages[0].count == 2
    told.pager.ended([over()], 2)
    assert told.news[-1] == ("new_arguments", True)


@pytest.mark.parametrize(
    "alarm",
    [
        raised(mode="shadow"),
        raised(level="hint"),
        raised("first_two"),
        raised("divergence"),
        raised("risk", level="advisory"),
    ],
    ids=["shadow", "one run", "first two", "divergence", "risk"],
)
def test_references_in_shadow_hints_and_advice_page_nobody(alarm: ReferenceAlarm) -> None:
    """References in shadow, hints and advice are events, never pages."""
    told = Told()
    told.pager.alarm(alarm, 0)
    told.pager.tick(120 * SECOND)

    assert told.pages == []
    assert as_event(alarm)["alarm"] == alarm.alarm


def test_a_write_that_was_none_is_taken_back() -> None:
    """The page of a write is resolved when its call turns out to be another one."""
    told = Told()
    told.pager.alarm(raised(), 0)
    told.pager.alarm(raised(withdrawn=True), 1)

    assert told.news == [("new_arguments", False), ("new_arguments", True)]


def test_a_missing_write_outlasts_its_session() -> None:
    """The end raises it, and does not take it back; the write that comes after all does."""
    told = Told()
    told.pager.alarm(raised("missing_write"), 0)
    told.pager.ended([over()], 0)
    assert told.news == [("missing_write", False)]

    told.pager.alarm(raised("missing_write", withdrawn=True, span_id=b"", trace_id=b""), 1)
    assert told.news[-1] == ("missing_write", True)
    assert not told.pager.firing


def test_a_page_says_why_and_how_sure() -> None:
    """The page shows the call, the number of runs against it, and the precision of such alarms."""
    told = Told()
    told.pager.alarm(raised(), 0)
    told.pager.alarm(raised("missing_write", tool="", expected=("log",)), 0)
    links = AlertLinks("http://t/{trace_id}", "http://s/{session}", "http://r/{alert}.md")
    write, missing = (as_alert(page, links, 9) for page in told.pages)

    assert write["labels"]["alertname"] == "AgentUnexpectedWrite"
    assert write["labels"]["severity"] == "critical"
    text = write["annotations"]["description"]
    assert "none of 3 runs of usual 1" in text
    assert "90% were right" in text
    assert write["annotations"]["summary"] == "rover wrote by water as no seen run did."
    assert missing["labels"]["alertname"] == "AgentMissingWrite"
    assert "ended without log" in missing["annotations"]["description"]
    assert missing["annotations"]["runbook_url"] == "http://r/AgentMissingWrite.md"


def test_log_lines() -> None:
    """A page is logged as a warning, a hint as information, a withdrawal as such."""
    found: list[dict[str, Any]] = []
    sink = LogSink(Logger(found.append))
    sink.alarm(raised())
    sink.alarm(raised("first_two", level="hint", withdrawn=True))

    assert [
        (line["event"], line["level"], line["alarm"], line["alarm_level"]) for line in found
    ] == [
        ("alarm_raised", "warning", "new_arguments", "page"),
        ("alarm_withdrawn", "info", "first_two", "hint"),
    ]


def test_log_events_of_the_protocol() -> None:
    """The evaluation is named after the alarm and lies on the call's span."""
    event, back = of_alarm(raised(), 5), of_alarm(raised(withdrawn=True), 6)
    risk = of_alarm(raised("risk"), 7)

    assert event.attributes["gen_ai.evaluation.name"] == "reference.new_arguments"
    assert event.attributes["gen_ai.evaluation.score.label"] == "diverged"
    assert (event.severity, event.span_id) == ("critical", (1).to_bytes(8, "big"))
    assert back.attributes["gen_ai.evaluation.score.value"] == 1
    assert risk.attributes["gen_ai.evaluation.score.value"] == 0.7


def test_tail_words_an_alarm() -> None:
    """The line shows the alarm, its level, the departure, the expected call and its precision."""
    line = formatted(json.loads(json.dumps(as_event(raised()))), colour=False)

    assert line == (
        "diverged   rover  usual  s#1  water  new_arguments (page)  wrong_arguments"
        "  first_two  expected: scan  precision: 0.90  risk: 0.70"
    )
    assert formatted(as_event(raised(withdrawn=True)), colour=True).startswith("\x1b[33m")


@given(st.text(max_size=40))
def test_hostile_names_stay_text(text: str) -> None:
    """A name cannot begin a line of its own in a terminal or in a page."""
    hostile = raised(tool=text, agent=text, expected=(text,), session=SessionKey("", text))
    key = PageKey(hostile.session, hostile.spec, hostile.alarm)
    page = PageAlert(key, hostile, 0, 0, 0)
    alert = as_alert(page, AlertLinks(), 9)

    assert formatted(as_event(hostile), colour=False).isprintable()
    assert all(value.isprintable() for value in alert["annotations"].values())
    assert all(value.isprintable() for value in alert["labels"].values())
