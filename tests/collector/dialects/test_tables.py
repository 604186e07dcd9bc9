"""How each instrumentation writes a tool call, and the call that is read from it: see `tables/`.

There is one table a dialect, named after the module that reads it. A table has up to three parts: `calls` (spans
that are tool calls, and what is read), `control` (a framework's own tools: hand-offs, final answers) and
`no_calls` (spans that only look like tool calls). The table `no_dialect` has spans that no dialect reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.decode.span import Span
from tests.collector.conftest import Wire

TABLES = sorted((Path(__file__).parent / "tables").glob("*.yaml"))
ROWS: dict[str, dict[str, dict[str, Any]]] = {"calls": {}, "control": {}, "no_calls": {}}
"""Part -> name of a row -> row."""

for path in TABLES:
    # libyaml reads them in a tenth of the time.
    for part, rows in yaml.load(path.read_text(), yaml.CSafeLoader).items():
        for row in rows:
            assert row["row"] not in ROWS[part], (path.name, row["row"])
            ROWS[part][row["row"]] = row


def span_of(wire: Wire, row: dict[str, Any]) -> Span:
    """The span of a row, as its instrumentation sends it."""
    written = dict(row["span"])
    events = [(each["name"], each["attributes"]) for each in written.pop("events", ())]
    return wire.span(**written, events=events)


@pytest.mark.parametrize("row", ROWS["calls"].values(), ids=ROWS["calls"])
def test_a_row_is_read_as_its_instrumentation_writes_it(
    wire: Wire, bench: Any, row: dict[str, Any]
) -> None:
    """Tool, arguments, call id and error are found where this instrumentation puts them."""
    (step,) = bench().send(span_of(wire, row)).steps()

    call = {"call_id": None, "error": False, **row["call"]}
    assert {key: step[key] for key in call} == call
    assert call.keys() == {"tool", "arguments", "call_id", "error"}


@pytest.mark.parametrize("row", ROWS["no_calls"].values(), ids=ROWS["no_calls"])
def test_a_look_alike_is_no_call(wire: Wire, bench: Any, row: dict[str, Any]) -> None:
    """Spans that only look like tool calls give none."""
    assert bench().send(span_of(wire, row)).tools() == []


@pytest.mark.parametrize("row", ROWS["control"].values(), ids=ROWS["control"])
def test_a_frameworks_own_tool_is_a_control_call(
    wire: Wire, bench: Any, row: dict[str, Any]
) -> None:
    """Hand-offs, final answers and merged responses are shown, and counted apart."""
    found = bench().send(span_of(wire, row))

    assert len(found.steps()) == 1
    assert found.covered("control") == 1
