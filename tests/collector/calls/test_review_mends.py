"""Calls under derived ids, calls whose arguments were freed, and clocks that go back."""

from __future__ import annotations

from typing import Any

import pytest

from collector.calls.duplicate_spans import DuplicateFilter
from collector.decode.span import UnjudgedSpansError
from tests.collector.calls.test_evasion import OF_PATHS, POLICY, ROVER, harms, missed, spec
from tests.collector.conftest import BASE, SECOND, hex_id

pytestmark = pytest.mark.plain

TWO = {"tool.name": "pay"}


def test_a_pending_span_with_two_tools_is_judged_once(wire: Any, bench: Any) -> None:
    """The end of a pending span brings arguments, and is still the same call under its derived id."""
    made = bench([spec(POLICY)])
    made.send(wire.tool("look", id="x", start=2, end=0, resource=ROVER, attributes=TWO))
    made.send(
        wire.tool(
            "look", id="x", start=2, end=3, arguments={"a": 1}, resource=ROVER, attributes=TWO
        )
    )
    assert harms(made) == 0


def test_a_reused_id_is_judged_once_and_apart_with_other_arguments(
    wire: Any, bench: Any
) -> None:
    """A fuller copy under a derived id is the same call, and other arguments are another call."""
    made = bench([spec(POLICY)])
    made.send(wire.tool("look", id="x", start=1, resource=ROVER))
    made.send(wire.tool("pay", id="x", start=2, resource=ROVER))
    made.send(wire.tool("pay", id="x", start=2, arguments={"a": 1}, resource=ROVER))
    assert (harms(made), missed(made)["id_reused"]) == (0, 1)
    made.send(wire.tool("pay", id="x", start=2, arguments={"a": 2}, resource=ROVER))
    assert harms(made) == 1


def fail_once(owner: Any, name: str, at: int) -> None:
    """The method fails the `at`-th time that it is called."""
    inner, left = getattr(owner, name), [at]

    def failing(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise ZeroDivisionError
        return inner(*args, **kwargs)

    setattr(owner, name, failing)


def send(made: Any, *spans: Any) -> int:
    """Sends spans; the number of spans that were not judged."""
    try:
        made.pipeline.consume(list(spans), BASE + 3600 * SECOND, "t")
    except UnjudgedSpansError as error:
        return error.spans
    return 0


@pytest.mark.parametrize("stage", ["observe", "place"])
@pytest.mark.parametrize("at", [1, 2])
def test_both_tools_of_a_span_are_judged_after_an_error(
    wire: Any, bench: Any, stage: str, at: int
) -> None:
    """After an internal error in one of two calls of a span, a retry judges both."""
    made = bench([spec(POLICY)])
    span = wire.tool(
        "look", id="x", start=1, resource=ROVER, attributes={"tool.name": "delete"}
    )
    owner = made.monitor if stage == "observe" else made.pipeline.correlation.call_merge
    fail_once(owner, stage, at)
    assert send(made, span) == 1
    assert (send(made, span), harms(made)) == (0, 1)


@pytest.mark.parametrize("stage", ["observe", "place"])
def test_a_reused_id_is_judged_after_an_error(wire: Any, bench: Any, stage: str) -> None:
    """A call under an id that another call has is judged when it is sent again after an error of ours."""
    made = bench([spec(POLICY)])
    send(made, wire.tool("look", id="x", start=1, resource=ROVER))
    span = wire.tool("delete", id="x", start=2, resource=ROVER)
    owner = made.monitor if stage == "observe" else made.pipeline.correlation.call_merge
    fail_once(owner, stage, 1)
    assert send(made, span) == 1
    assert (send(made, span), harms(made)) == (0, 1)


TENANT = {**ROVER, "deployment.environment.name": "prod", "service.namespace": "t1"}


@pytest.mark.parametrize("resource", [ROVER, TENANT])
def test_copies_are_not_counted_again(wire: Any, bench: Any, resource: dict[str, str]) -> None:
    """A repeated span adds nothing to the counts of reused ids and of doubts, in any namespace."""
    made = bench([spec(POLICY)])
    first = wire.tool("look", id="x", start=1, resource=resource)
    again = wire.tool("delete", id="x", start=2, resource=resource)
    two = wire.tool("look", id="y", start=3, resource=resource, attributes=TWO)
    send(made, first, again, two)
    before = missed(made)
    send(made, again, two)
    send(made, again, two)
    after = missed(made)
    assert before["id_reused"] == after["id_reused"] == 1
    assert {**after, "duplicate": 0} == {**before, "duplicate": 0}


def flood(wire: Any, made: Any) -> None:
    """Sends so many arguments that those of earlier calls are freed."""
    for n in range(60):
        made.send(
            wire.tool(
                "note",
                id=f"n{n}",
                trace=f"f{n}",
                start=10 + n,
                arguments={"t": "x" * 300},
                resource=ROVER,
            )
        )
    assert made.covered("arguments_given_up") > 0


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("first", ["/etc", "/tmp"])
def test_a_call_whose_arguments_were_freed_hides_no_other(
    wire: Any, bench: Any, first: str, below: bool
) -> None:
    """A span with other arguments than those that were freed is another call, and takes no harm away."""
    made = bench([spec(OF_PATHS)], arguments_bytes_max=20_000)
    second = "/tmp" if first == "/etc" else "/etc"
    pad = "p" * 9000
    one = {"path": first, "pad": pad}
    made.send(wire.tool("delete", id="x", start=1, end=9, arguments=one, resource=ROVER))
    flood(wire, made)
    other = {"path": second, "pad": pad}
    place = (
        {"id": "c", "parent": "x", "start": 2, "end": 3} if below else {"id": "x", "start": 1}
    )
    made.send(wire.tool("delete", arguments=other, resource=ROVER, **place))
    made.send(wire.tool("delete", arguments=one, resource=ROVER, id="x", start=1, end=9))
    assert harms(made) == 1
    assert len(made.sessions()[hex_id("trace", 16)]) == 2


def test_a_span_without_arguments_changes_nothing_of_a_call_whose_arguments_were_freed(
    wire: Any, bench: Any
) -> None:
    """The harm stays, and the further span is of the same call."""
    made = bench([spec(OF_PATHS)], arguments_bytes_max=20_000)
    one = {"path": "/etc", "pad": "p" * 9000}
    made.send(wire.tool("delete", id="x", start=1, end=9, arguments=one, resource=ROVER))
    flood(wire, made)
    made.send(wire.tool("delete", id="c", parent="x", start=2, end=3, resource=ROVER))
    assert harms(made) == 1
    assert len(made.sessions()[hex_id("trace", 16)]) == 1


def test_a_clock_that_is_set_back_stops_no_period(wire: Any, bench: Any) -> None:
    """After the clock is set back, what is kept for further spans is freed after the usual time."""
    made = bench()
    made.send(wire.tool("pay", id="x", arguments={"secret": "s" * 1000}), now=100_000)
    assert made.pipeline.traces.held > 0
    for second in range(0, 3600, 10):
        made.pipeline.tick(BASE + (13_600 + second) * SECOND)
    assert made.pipeline.traces.held == 0


def test_a_clock_that_is_set_back_keeps_ids_known_for_a_period() -> None:
    """An id that was known when the clock went back is still known, and is forgotten two periods later."""
    known = DuplicateFilter(period_ns=10)
    key, others = bytes(24), [bytes(23) + bytes([n]) for n in range(1, 4)]
    assert not known.is_repeat(key, 1000)
    assert not known.is_repeat(others[0], 100)
    assert key in known
    assert not known.is_repeat(others[1], 110)
    assert not known.is_repeat(others[2], 120)
    assert key not in known


@pytest.mark.parametrize(("text", "session"), [(POLICY, "B"), (OF_PATHS, "A")])
def test_a_call_whose_arguments_were_freed_moves_to_its_session(
    wire: Any, bench: Any, text: str, session: str
) -> None:
    """It moves when the session's id arrives late, unless its verdict rests on the freed arguments."""
    made = bench([spec(text)], arguments_bytes_max=20_000)
    of = {"gen_ai.operation.name": "invoke_agent"}
    root = {**of, "gen_ai.agent.name": "r", "session.id": "A"}
    made.send(wire.span("invoke_agent r", root, id="r", start=0, end=99, resource=ROVER))
    given = {"path": "/etc", "pad": "p" * 9000}
    made.send(
        wire.tool("delete", id="p", parent="m", start=2, end=3, arguments=given, resource=ROVER)
    )
    flood(wire, made)
    inner = {**of, "gen_ai.agent.name": "m", "session.id": "B"}
    made.send(
        wire.span("invoke_agent m", inner, id="m", parent="r", start=1, end=50, resource=ROVER)
    )
    assert [each for each in ("A", "B") if made.sessions().get(each)] == [session]
    assert harms(made) == 1
