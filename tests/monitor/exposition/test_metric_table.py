"""Families made from sums: names, labels, exemplars."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from collector.metrics.text_format import lines
from monitor.aggregate.totals import UNKNOWN_TOOL
from monitor.engine import Monitor
from monitor.exposition.family import labels_text
from monitor.exposition.metric_samples import monitor_families
from monitor.limits import SECOND, Limits
from monitor.records import Evidence, Kind, SessionKey, ToolCall
from monitor.spec.read import load_specs

ROOT = Path(__file__).parents[3]


def _call(number: int, tool: str) -> ToolCall:
    return ToolCall(
        session=SessionKey("", "one"),
        agent="rover",
        tool=tool,
        arguments={},
        error=False,
        start_ns=number,
        end_ns=number,
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "farm-rover"},
    )


def _monitor(*tools: str) -> Monitor:
    limits = Limits(window_ns=SECOND, history_complete=True)
    monitor = Monitor(load_specs([ROOT / "dfa_specs" / "farm_rover.yaml"]).specs, limits)
    for number, tool in enumerate(tools, 1):
        monitor.observe(_call(number, tool), number)
    return monitor


def _text(monitor: Monitor) -> str:
    made = monitor_families(monitor.totals, monitor.binder, monitor.counters.ended)
    return "".join(lines(made, open_metrics=True))


def test_exemplars_name_the_call() -> None:
    """Counters of calls and of harmful calls carry the trace and span of the latest one."""
    monitor = _monitor("unlock_safety", "water")
    monitor.tick(3 * SECOND)

    found = {
        (sample.name, sample.labels.get("verdict", "")): sample.exemplar
        for family in text_string_to_metric_families(_text(monitor))  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar
    }

    harmful = found["offrails_calls_total", "harmful"]
    assert harmful.labels == {"trace_id": (b"t" * 16).hex(), "span_id": "0000000000000002"}
    assert found["offrails_harmful_calls_total", ""].labels == harmful.labels
    assert found["offrails_calls_total", "progress"].labels["span_id"] == "0000000000000001"


def test_tools_by_name_are_those_of_the_spec() -> None:
    """A tool that no spec names has no label of its own, so an agent cannot invent labels."""
    monitor = _monitor("water", "made_up_1", "made_up_2")
    monitor.tick(3 * SECOND)
    text = _text(monitor)

    name = "offrails_harmful_calls_by_tool_total"
    assert f'{name}{{spec="farm_rover",tool="water"}} 1.0' in text
    assert f'{name}{{spec="farm_rover",tool="{UNKNOWN_TOOL}"}} 2.0' in text
    assert f'{name}{{spec="farm_rover",tool="move"}} 0.0' in text
    assert "made_up" not in text


def test_the_worst_session_is_shown_and_leaves() -> None:
    """A live session has rank 0 and is its pair's maximum; after its end it is neither."""
    monitor = _monitor("unlock_safety", "water", "water", "water")
    live = _text(monitor)
    monitor.end(SessionKey("", "one"), 3 * SECOND)
    ended = _text(monitor)

    assert 'offrails_worst_session_harm_rate{rank="0"} 0.75' in live
    assert 'offrails_worst_session_harmful_calls{rank="0"} 3.0' in live
    assert 'offrails_harm_rate_max{agent="rover",spec="farm_rover"} 0.75' in live
    assert "rank=" not in ended
    assert "offrails_harm_rate_max{" not in ended
    assert (
        'offrails_session_harm_rate_ratio_bucket{agent="rover",spec="farm_rover",le="0.75"} 1'
        in ended
    )


def test_a_harm_that_was_no_call_is_withdrawn() -> None:
    """A withdrawn harmful call gives a revision, or its page would stay for ever."""
    monitor = _monitor("unlock_safety", "water")

    (told,) = monitor.corrections.retract(_call(2, "water"))

    assert (told.kind, told.revised_from) == (Kind.SELF_LOOP, Kind.HARMFUL)
    assert (told.tool, told.span_id) == ("water", (2).to_bytes(8, "big"))
    assert monitor.corrections.retract(_call(1, "unlock_safety")) == []
    revised = 'offrails_verdict_revisions_total{agent="rover",spec="farm_rover",'
    assert f'{revised}from="harmful",to="self_loop"}} 1' in _text(monitor)


def test_every_stat_that_is_counted_is_exported() -> None:
    """Every name passed to `stats.count` anywhere in the process has a family."""
    from collector.metrics.service import COUNTED
    from collector.metrics.service_table import OWN

    told = {
        name
        for file in (ROOT / "collector").rglob("*.py")
        for name in re.findall(r'stats\.count\(\s*"(\w+)"', file.read_text())
    }
    assert told <= set(COUNTED)
    assert {name for name, _ in COUNTED.values()} <= set(OWN)


def test_label_values_are_escaped() -> None:
    """Quotes, backslashes and line ends cannot leave the braces."""
    assert labels_text(("a",), ('x"\\\n',)) == r'a="x\"\\\n"'
