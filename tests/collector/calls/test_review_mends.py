"""Calls under derived ids, calls whose arguments were freed, and clocks that go back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.collector.calls.test_evasion import POLICY, ROVER, harms, missed, spec

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
