"""Calls that are harmful unless their session began before the start: where they are reported, and how."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from collector.client.tail import Filters, formatted
from collector.config.settings.alerts import Joined
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.alert.page_alert import as_alert
from collector.sinks.alert.pager import Pager, PageRules
from collector.sinks.event import as_event
from collector.sinks.log import LogSink
from collector.sinks.otlp_logs import of_verdict
from collector.telemetry.logs import Logger
from monitor.records import Kind, Obstacle, Reason, SessionKey, Verdict

SECOND = 1_000_000_000
NOW = 1_800_000_000 * SECOND
"""08:00:00 UTC."""

POSSIBLE = Verdict(
    session=SessionKey("", "s"),
    agent="rover",
    spec="farm_rover",
    spec_version="1",
    mode="page",
    kind=Kind.PROGRESS,
    reason=Reason.OUT_OF_ORDER,
    severity="critical",
    step=1,
    tool="water",
    symbol="water",
    skipped=("scan",),
    allowed=("scan",),
    state_before="locked",
    state="watered",
    final=False,
    revised_from=None,
    trace_id=b"t" * 16,
    span_id=b"s" * 8,
    possible=True,
    unless_before_ns=NOW,
    unless=("started",),
)
WITHDRAWN = POSSIBLE._replace(
    possible=False,
    was_possible=True,
    unless_before_ns=0,
    unless=(),
    reason=None,
    severity="info",
)
CERTAIN = POSSIBLE._replace(
    kind=Kind.HARMFUL, possible=False, unless_before_ns=0, unless=(), revised_from=Kind.PROGRESS
)


def _lines(joined: Joined, *verdicts: Verdict) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    LogSink(Logger(found.append), joined=joined).deliver(verdicts)
    return found


def test_the_log_says_what_is_possible_and_unless_when() -> None:
    """Possible harm has its own log line at level info, with the reason."""
    (line,) = _lines("hint", POSSIBLE)

    assert (line["event"], line["level"]) == ("possible_harm", "info")
    assert (line["possible"], line["reason"], line["kind"]) == (
        True,
        "out_of_order",
        "progress",
    )
    assert line["unless_began_before"] == "2027-01-15T08:00:00.000Z"


def test_the_log_withdraws_it() -> None:
    """Withdrawn possible harm has a log line of its own."""
    (line,) = _lines("hint", WITHDRAWN)

    assert (line["event"], line["possible"]) == ("possible_harm_withdrawn", False)


def test_a_page_is_a_warning_in_the_log() -> None:
    """A page is logged as a warning, like any page."""
    (line,) = _lines("page", POSSIBLE)

    assert line["level"] == logging.getLevelName(logging.WARNING).lower()


def test_silent_leaves_no_line_but_for_what_was_certain() -> None:
    """Harm that turns out to be possible only is withdrawn as any other."""
    lines = _lines("silent", POSSIBLE, WITHDRAWN, POSSIBLE._replace(revised_from=Kind.HARMFUL))

    assert [line["event"] for line in lines] == ["harmful_call_withdrawn"]


class Pages:
    """A pager, and what it delivered."""

    def __init__(self, *, possible: bool) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.pager = Pager(PageRules(possible=possible), self._take)
        self._now = NOW

    def _take(self, pages: Any, _now: int, _news: bool) -> None:
        self.alerts += [
            as_alert(page, AlertLinks(), NOW) | {"ended": bool(page.ended_ns)} for page in pages
        ]

    def consider(self, verdict: Verdict) -> None:
        """A verdict, and a second to settle."""
        self.pager.consider([verdict], self._now)
        self._now += SECOND
        self.pager.tick(self._now)


def test_a_hint_pages_nobody() -> None:
    """Possible harm pages only when it becomes certain."""
    pages = Pages(possible=False)
    pages.consider(POSSIBLE)
    assert pages.alerts == []

    pages.consider(CERTAIN)
    assert len(pages.alerts) == 1


def test_a_page_says_unless_when() -> None:
    """The page names the time of the doubt, and is resolved when the harm is no longer possible."""
    pages = Pages(possible=True)
    pages.consider(POSSIBLE)
    (alert,) = pages.alerts
    assert "unless this session began before 08:00:00 UTC" in alert["annotations"]["summary"]
    assert (
        "unless this session began before 08:00:00 UTC" in alert["annotations"]["description"]
    )

    pages.consider(WITHDRAWN)
    assert [each["ended"] for each in pages.alerts] == [False, True]


def test_a_page_that_becomes_certain_is_one_page() -> None:
    """Its labels stay the same, so a receiver keeps one alert."""
    pages = Pages(possible=True)
    pages.consider(POSSIBLE)
    pages.consider(CERTAIN)

    assert len({tuple(each["labels"].items()) for each in pages.alerts}) == 1
    assert len(pages.pager.firing) == 1


def test_an_evaluation_of_possible_harm_passes() -> None:
    """The score counts only certain harm. Label and explanation name the possible harm."""
    attributes = of_verdict(POSSIBLE, NOW).attributes

    assert attributes["gen_ai.evaluation.score.value"] == 1
    assert attributes["gen_ai.evaluation.score.label"] == "possible"
    assert "unless this session began before 08:00:00 UTC" in str(
        attributes["gen_ai.evaluation.explanation"]
    )


def test_the_log_says_why_in_a_sentence() -> None:
    """A line has the sentence of its verdict, and null where there is none."""
    why = "`water` is not allowed yet in state `locked`"
    lines = _lines("hint", CERTAIN._replace(detail=why), CERTAIN)
    assert [line["detail"] for line in lines] == [why, None]


def test_an_evaluation_says_why_in_a_sentence() -> None:
    """Its explanation has the reason and the sentence, of calls and of sessions."""
    news = CERTAIN._replace(detail="`water` is not allowed yet in state `locked`")
    attributes = of_verdict(news, NOW).attributes
    assert str(attributes["gen_ai.evaluation.explanation"]).startswith(
        "out_of_order: `water` is not allowed yet in state `locked`; "
    )
    stuck = news._replace(kind=Kind.STALLED, reason=Obstacle.IDLE, detail="no call came")
    attributes = of_verdict(stuck, NOW).attributes
    assert attributes["gen_ai.evaluation.explanation"] == "idle: no call came"


def test_the_stream_of_verdicts_has_it() -> None:
    """Only verdicts with possible harm have its fields."""
    assert as_event(POSSIBLE)["possible"] is True
    assert as_event(WITHDRAWN)["was_possible"] is True
    assert not {"possible", "was_possible", "unless_began_before"} & as_event(CERTAIN).keys()


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (
            POSSIBLE,
            ["possible", "out_of_order (critical)", "unless this session began before 2027"],
        ),
        (WITHDRAWN, ["progress", "(was possible)"]),
    ],
)
def test_possible_harm_has_a_line_in_tail(verdict: Verdict, words: list[str]) -> None:
    """Possible harm has one line in `tail`, and a filter of its own."""
    event = as_event(verdict)
    line = formatted(event, colour=False)

    assert all(word in line for word in words)
    assert Filters(kinds=frozenset({"possible"})).matches(event)
    assert not Filters(kinds=frozenset({"harmful"})).matches(event)
