"""Spans that came in time show whether a call is late, or its sender's clock was set back."""

from __future__ import annotations

from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND, Wire

CONVERSATION = {"gen_ai.conversation.id": "s1"}
NAMED = {"gen_ai.operation.name": "invoke_agent", **CONVERSATION}
DESK = """
id: desk
match: {service.name: svc}
alphabet: {look: {tool: look_up}, pay: {tool: pay}, send: {tool: send}}
golden: [[look, pay, send]]
"""


class Desk:
    """A monitor with one task behind a pipeline, long after its start."""

    def __init__(self, folder: Any, wire: Wire) -> None:
        path = folder / "desk.yaml"
        path.write_text(DESK)
        self.monitor = Monitor([load_spec(path)], Limits(), started_ns=1)
        self.pipeline = Pipeline(self.monitor, Stats(), lambda _verdicts: None)
        self._wire = wire

    def tool(self, name: str, at: float, received: float) -> None:
        """A call that begins at a second, and is received at one."""
        call = self._wire.tool(name, parent="root", start=at, attributes=CONVERSATION)
        self.take(call, received)

    def root(self, start: float, end: float, received: float, **changes: Any) -> None:
        """The agent's span above the calls."""
        self.take(
            self._wire.span("invoke_agent", NAMED, id="root", start=start, end=end, **changes),
            received,
        )

    def take(self, span: Span, received: float) -> None:
        self.pipeline.consume([span], int(BASE + received * SECOND), "test")

    @property
    def harms(self) -> tuple[int, int]:
        """Harmful calls, and possibly harmful ones."""
        (found,) = self.monitor.find("s1")
        return found["harmful"], sum(bool(each.get("possible")) for each in found["steps"])

    @property
    def doubted(self) -> int:
        return self.monitor.gaps.doubts[Cause.SET_BACK]


@pytest.fixture
def desk(tmp_path: Any, wire: Wire) -> Desk:
    """`pay` was received before `send`, which by its times was before it: harmful, unless a clock was set back."""
    found = Desk(tmp_path, wire)
    found.tool("look_up", 1, 2.1)
    found.tool("pay", 20, 21.1)
    return found


def test_a_call_that_comes_behind_its_agents_span_is_late(desk: Desk) -> None:
    """A request that is sent again, as collectors do with several queues: its harm is certain at once."""
    desk.root(0, 30, 30.1)
    desk.tool("send", 4, 45)

    assert desk.harms == (1, 0)
    assert desk.doubted == 0


def test_an_agents_span_that_comes_behind_a_call_shows_that_it_is_late(desk: Desk) -> None:
    """The agent ended after the call was received, and its span came at its end."""
    desk.tool("send", 4, 25)
    assert desk.harms == (0, 1)

    desk.root(0, 30, 30.1)

    assert desk.harms == (1, 0)


def test_an_agents_span_of_the_same_clock_shows_nothing(desk: Desk) -> None:
    """A clock that is set back by 20 s: the agent's span, too, seems to have come 20 s late."""
    desk.tool("send", 4, 25)
    desk.root(0, 10, 30.1)

    assert desk.harms == (0, 1)


def test_a_root_that_ended_before_it_began_shows_that_a_clock_was_set_back(desk: Desk) -> None:
    """`pay` may have been before `look_up`: nothing else shows it, as both came in one request."""
    desk.tool("pay", 23, 30)
    assert desk.harms == (1, 0)

    desk.root(22, 4, 30.1)

    assert desk.harms == (0, 1)
    assert desk.monitor.gaps.doubts[Cause.MISTIMED] == 1
