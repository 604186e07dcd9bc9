"""Real captures, replayed: exactly the calls that the tools themselves logged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.calls.model_requests import Mode
from collector.calls.pipeline import Pipeline
from collector.decode.json import otlp_json
from collector.decode.span import Span
from collector.offline.replay import replay
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.asking import AskedMonitor
from tests.captures import CAPTURES, FEW, NO_CAPTURES, SAMPLED_CAPTURES, capture_name

ROVER = Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"

pytestmark = pytest.mark.skipif(not CAPTURES, reason=NO_CAPTURES)


@cache
def _judgements(path: Path) -> list[dict[str, Any]]:
    found = replay(
        [path],
        _rover(),
    )
    return list(found)


def _calls(judgement: dict[str, Any]) -> list[dict[str, Any]]:
    """The judgement's calls as an expected file writes them, control tools left out."""
    steps = [step for step in judgement["steps"] if step["kind"] != "control"]
    return [
        {
            "tool": step["tool"],
            "arguments": step["arguments"],
            "error": step["error"],
            "start_ns": step["start_ns"],
            "end_ns": step["end_ns"],
        }
        for step in steps
    ]


def _expected(path: Path) -> dict[str, Any]:
    file = path.with_name(path.name.replace(".otlp.jsonl", ".expected.json"))
    expected: dict[str, Any] = json.loads(file.read_text())
    return expected


def _same(
    found: list[dict[str, Any]], wanted: list[dict[str, Any]], telemetry: dict[str, Any]
) -> None:
    """Calls are equal in start order; calls that overlap are compared as a set."""
    keys = ("tool", "arguments", "error") if telemetry["args_observable"] else ("tool", "error")
    assert len(found) == len(wanted)
    for group in _overlapping(found):
        got = [{key: found[i][key] for key in keys} for i in group]
        want = [{key: wanted[i][key] for key in keys} for i in group]
        assert sorted(got, key=repr) == sorted(want, key=repr)


def _overlapping(calls: list[dict[str, Any]]) -> Iterator[list[int]]:
    """Places of calls in start order, those that overlap together."""
    group: list[int] = []
    end = 0
    for index, call in enumerate(calls):
        if group and call["start_ns"] >= end:
            yield group
            group = []
        group.append(index)
        end = max(end, call["end_ns"])
    if group:
        yield group


def _wanted(session: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(session["calls"], key=lambda call: call["start_order"])


def test_the_sample_has_each_kind_of_capture() -> None:
    """What stays in `make test` of the laws below has each instrumentation and each kind of run."""
    for part in (0, 1):
        few, every = (
            {capture_name(path).split("/")[part] for path in paths} for paths in (FEW, CAPTURES)
        )
        assert few == every


@pytest.mark.parametrize("path", CAPTURES, ids=capture_name)
def test_a_capture_gives_the_calls_the_tools_logged(path: Path) -> None:
    """Calls, arguments, errors, grouping and start order are those of the expected file."""
    expected, judgements = _expected(path), _judgements(path)
    telemetry, sessions = expected["telemetry"], expected["sessions"]

    if telemetry["joined_by"] == "nothing":
        (session,) = sessions
        found = sorted((c for j in judgements for c in _calls(j)), key=lambda c: c["start_ns"])
        _same(found, _wanted(session), telemetry)
        return
    assert len(judgements) == len(sessions)
    for judgement, session in zip(judgements, sessions, strict=True):
        if telemetry["session_names_observable"]:
            assert judgement["session"] == session["session"]
        _same(_calls(judgement), _wanted(session), telemetry)


def test_arguments_are_unknown_where_they_are_not_on_the_wire() -> None:
    """Without content capture, the arguments of every call are None, never {}."""
    hidden = [path for path in CAPTURES if not _expected(path)["telemetry"]["args_observable"]]
    assert hidden
    for path in hidden:
        calls = [call for judgement in _judgements(path) for call in _calls(judgement)]
        assert {call["arguments"] for call in calls} == {None}, path


@cache
def _spans(path: Path) -> list[Span]:
    lines = path.read_bytes().splitlines()
    return [span for line in lines for span in otlp_json.decode(line).spans]


@cache
def _rover() -> tuple[Spec, ...]:
    """The farm rover's spec for sessions of every service."""
    document = yaml.safe_load(ROVER.read_text())
    document["match"] = {"service.name": ["farm-rover", "rover-mcp-client", "rover-mcp-server"]}
    spec, findings = compile_text(yaml.safe_dump(document), "rover.yaml")
    assert spec is not None, findings
    return (spec,)


@cache
def _in_order(path: Path, requested: Mode = "never") -> Any:
    """What is shown with the spans in their own order, each in its own request."""
    return _final(_spans(path), requested)


def _final(
    spans: list[Span],
    requested: Mode = "never",
    size: int = 1,
    judge: type[Monitor] = Monitor,
) -> Any:
    """What the API shows at the end, with the spans sent in this order and in requests of this size."""
    limits = Limits(history_complete=True, keep_arguments=True, fold=False)
    monitor = judge(_rover(), limits)
    pipeline = Pipeline(monitor, Stats(), lambda _: None, requested=requested)
    end = max(span.end_ns for span in spans)
    for first in range(0, len(spans), size):
        pipeline.consume(spans[first : first + size], end, "test")
    monitor.close(end)
    objects = [
        {key: value for key, value in found.items() if key != "coverage"}
        for found in monitor.judgements()
    ]
    return sorted(objects, key=lambda found: (found["started"], found["session"]))


@pytest.mark.parametrize("path", SAMPLED_CAPTURES, ids=capture_name)
def test_arrival_order_does_not_matter(path: Path) -> None:
    """Backwards, by turns and doubled, the spans end in the same judgements."""
    spans = _spans(path)

    for order in (spans[::-1], spans[::2] + spans[1::2], spans + spans, spans[1::2] + spans):
        assert _final(order) == _in_order(path)


@pytest.mark.parametrize("path", SAMPLED_CAPTURES, ids=capture_name)
def test_what_comes_together_does_not_matter(path: Path) -> None:
    """In requests of a few spans, and in one of all, they end as each in its own."""
    spans = _spans(path)
    modes: tuple[Mode, ...] = ("never", "auto")
    for requested in modes:
        for size in (3, len(spans)):
            assert _final(spans, requested, size) == _in_order(path, requested)


@pytest.mark.parametrize("path", SAMPLED_CAPTURES, ids=capture_name)
def test_requests_leave_no_trace_where_tools_have_spans(path: Path) -> None:
    """Even where every LLM span comes before any tool span, requests are taken back in the end."""
    spans = _spans(path)
    wanted = [found["steps"] for found in _in_order(path)]

    assert [each["steps"] for each in _in_order(path, "auto")] == wanted
    for order in (spans[::2] + spans[1::2], spans[1::2] + spans[::2]):
        assert [each["steps"] for each in _final(order, "auto")] == wanted


def _check_decided(spans: list[Span], size: int, wanted: Any) -> None:
    assert _final(spans, "auto", size, AskedMonitor) == wanted


@pytest.mark.plain  # a compiled monitor has no subclasses
@pytest.mark.parametrize("path", SAMPLED_CAPTURES, ids=capture_name)
def test_each_call_is_decided_as_it_is_judged(path: Path) -> None:
    """In time, out of order and all together: the answer is the verdict to come, and asking changes nothing."""
    spans = _spans(path)

    for order, size in ((spans, 1), (spans[::2] + spans[1::2], 1), (spans[::-1], len(spans))):
        _check_decided(order, size, _in_order(path, "auto"))


@pytest.mark.long
@pytest.mark.plain
@pytest.mark.parametrize("path", CAPTURES, ids=capture_name)
def test_each_call_is_decided_as_it_is_judged_in_any_order(path: Path) -> None:
    """The same in any order, late and doubled, whatever comes together."""
    spans = _spans(path)
    for order in (spans, spans[::-1], spans[::2] + spans[1::2], spans + spans):
        for size in (1, len(spans)):
            _check_decided(order, size, _final(order, "auto", size))
