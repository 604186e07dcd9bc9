"""A call that began before what has caused it, on another host, shows that two clocks differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from tests.collector.conftest import BASE, SECOND, Wire

CONVERSATION = "gen_ai.conversation.id"
AT = 9_000.0
NOW = BASE + int((AT + 20) * SECOND)
DESK = """
id: desk
match: {service.name: svc}
alphabet: {check: {tool: check}, pay: {tool: pay}}
golden: [[check, pay]]
"""

NEAR = {"service.name": "svc"}
HOSTS = [
    ({**NEAR, "host.name": "near"}, {**NEAR, "host.name": "far"}),
    (NEAR, {**NEAR, "host.name": "far"}),
    ({**NEAR, "service.instance.id": "1"}, {**NEAR, "service.instance.id": "2"}),
    (NEAR, {"service.name": "tools"}),
]
SIZES = [2.5, 40, 7_200]


class Run:
    """`check` on the agent's host at second 2, `pay` on the tool's host at second 4, by a clock that is behind."""

    def __init__(
        self,
        wire: Wire,
        behind: float,
        near: Mapping[str, Any] = HOSTS[0][0],
        far: Mapping[str, Any] = HOSTS[0][1],
    ) -> None:
        self.wire, self.near, self.far = wire, near, far
        self.pay_at = AT + 4 - behind
        self.check = self.call("check", AT + 2, near)
        self.pay = self.call("pay", self.pay_at, far)

    def call(
        self, tool: str, start: float, host: Mapping[str, Any], parent: str = "run"
    ) -> Span:
        named = {CONVERSATION: "s"}
        return self.wire.tool(
            tool, call_id=tool, attributes=named, id=tool, trace="t", parent=parent,
            start=start, end=start + 0.1, resource=host,
        )  # fmt: skip

    def other(self, name: str, start: float, host: Mapping[str, Any], parent: str = "") -> Span:
        """A span that is no call."""
        named = {"gen_ai.operation.name": "invoke_agent", CONVERSATION: "s"}
        return self.wire.span(
            name, named, id=name, trace="t", parent=parent,
            start=start, end=AT + 9, resource=host,
        )  # fmt: skip

    def agent(self, start: float = AT + 3) -> Span:
        return self.other("run", start, self.near)

    def model(
        self, start: float, end: float, host: Mapping[str, Any], parent: str = "run"
    ) -> Span:
        """The model's span that asks for `pay`."""
        part = {"type": "tool_call", "id": "pay", "name": "pay", "arguments": {}}
        messages = {
            "gen_ai.operation.name": "chat",
            CONVERSATION: "s",
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}]),
        }
        return self.wire.span("chat", messages, id="chat", trace="t", parent=parent, start=start, end=end, resource=host)  # fmt: skip


def _harms(folder: Any, *spans: Span) -> tuple[int, int, int]:
    """Certain and possible harms of session `s`, and skewed calls, once these spans have come one by one."""
    path = folder / "desk.yaml"
    path.write_text(DESK)
    monitor = Monitor([load_spec(path)], Limits(history_complete=True), started_ns=1)
    pipeline = Pipeline(monitor, Stats(), lambda _verdicts: None)
    for span in spans:
        pipeline.consume([span], NOW, "test")
    monitor.tick(NOW + SECOND)
    (found,) = monitor.find("s")
    possible = sum(bool(each.get("possible")) for each in found["steps"])
    return found["harmful"], possible, monitor.counters.skewed


@pytest.mark.parametrize("behind", SIZES)
@pytest.mark.parametrize(("near", "far"), HOSTS)
def test_a_call_before_its_parent_leaves_the_order_open(
    wire: Wire, tmp_path: Any, behind: float, near: Mapping[str, Any], far: Mapping[str, Any]
) -> None:
    """`pay` seems to be before `check`, and before the agent's span on another host, in whatever order they come."""
    run = Run(wire, behind, near, far)
    agent = run.agent(AT + 4 - behind + 1.5)

    assert _harms(tmp_path, run.check, run.pay)[0] > 0
    for spans in permutations([run.check, run.pay, agent]):
        certain, possible, skewed = _harms(tmp_path, *spans)
        assert (certain, possible) == (0, 1)
        assert skewed > 0


@pytest.mark.parametrize("behind", SIZES)
def test_the_span_that_shows_it_may_be_further_above(
    wire: Wire, tmp_path: Any, behind: float
) -> None:
    """The call's parent is on its own host, and the agent's span above both."""
    run = Run(wire, behind)
    around = run.other("task", run.pay_at - 0.1, run.far, "run")
    pay = run.call("pay", run.pay_at, run.far, "task")
    for spans in permutations([run.check, pay, around, run.agent(run.pay_at + 1.5)]):
        assert _harms(tmp_path, *spans)[0] == 0


@pytest.mark.parametrize("behind", SIZES)
def test_a_call_before_its_model_had_asked_for_it_leaves_the_order_open(
    wire: Wire, tmp_path: Any, behind: float
) -> None:
    """The model's span ended 1.5 s after the start of `pay`, by the times; it need not have begun later."""
    run = Run(wire, behind)
    model = run.model(run.pay_at - 5, run.pay_at + 1.5, run.near)
    agent = run.agent(run.pay_at - 9)
    for spans in permutations([run.check, run.pay, model, agent]):
        assert _harms(tmp_path, *spans)[0] == 0


def test_a_model_may_be_at_work_around_its_calls(wire: Wire, tmp_path: Any) -> None:
    """`pay` is below the span of the model that asked for it, on another host, and ends before that does."""
    run = Run(wire, 2.5)
    pay = run.call("pay", run.pay_at, run.far, "chat")
    model = run.model(run.pay_at - 1, AT + 8, run.near)
    agent = run.agent(run.pay_at - 2)

    certain, _, skewed = _harms(tmp_path, run.check, pay, model, agent)
    assert certain > 0
    assert not skewed


@pytest.mark.parametrize("early", [0.001, 0.9])
def test_clocks_that_differ_by_less_than_a_second_keep_the_order(
    wire: Wire, tmp_path: Any, early: float
) -> None:
    """Those of two hosts often do."""
    run = Run(wire, 2.5)

    certain, _, skewed = _harms(tmp_path, run.check, run.pay, run.agent(run.pay_at + early))
    assert certain > 0
    assert not skewed


@pytest.mark.parametrize("host", [HOSTS[0][0], HOSTS[2][0], NEAR])
def test_spans_of_one_host_say_nothing_of_clocks(
    wire: Wire, tmp_path: Any, host: Mapping[str, Any]
) -> None:
    """An instrumentation begins the agent's span when the run is over: all calls were before it, in their order."""
    run = Run(wire, 2.5, host, host)

    certain, _, skewed = _harms(tmp_path, run.check, run.pay, run.agent(AT + 8))
    assert certain > 0
    assert not skewed


def test_a_span_that_an_earlier_version_has_kept_is_of_no_known_host(
    wire: Wire, tmp_path: Any
) -> None:
    """It may be of the call's own host, and began when it had named the session."""
    (tmp_path / "desk.yaml").write_text(DESK)
    monitor = Monitor([load_spec(tmp_path / "desk.yaml")], Limits(), started_ns=1)
    pipeline = Pipeline(monitor, Stats(), lambda _verdicts: None)
    run = Run(wire, 2.5)
    for span in (run.agent(run.pay_at + 1.5), run.check):
        pipeline.consume([span], NOW, "test")
    (trace,) = pipeline.traces
    assert trace.tree is not None
    for node in trace.tree.nodes.values():
        node.clock = b""
    pipeline.consume([run.pay], NOW, "test")

    assert trace.tree.of_clocks
    assert not monitor.counters.skewed


def test_calls_of_one_host_keep_their_order_below_a_span_of_another(
    wire: Wire, tmp_path: Any
) -> None:
    """The browser's clock is ahead: its span, which is above all, began after the calls on the server."""
    run = Run(wire, 2.5, HOSTS[0][1], HOSTS[0][1])
    browser = run.other("page", AT + 8, HOSTS[0][0])
    agent = run.other("run", AT, HOSTS[0][1], "page")

    certain, _, skewed = _harms(tmp_path, run.check, run.pay, agent, browser)
    assert certain > 0
    assert not skewed
