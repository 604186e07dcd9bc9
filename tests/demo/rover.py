"""A small real agent: a farm rover whose every tool call becomes a span and leaves by OTLP.

`instrument` and `call_tool` are all an agent needs to be watched: ten lines, and nothing in them
is ours. The rest plays jobs, good and bad. Where the spans go is not said here, but by the
variables any OTLP exporter knows:

    OTEL_SERVICE_NAME=farm-rover            which specs apply
    OTEL_EXPORTER_OTLP_ENDPOINT=http://...  where the receiver is
    OTEL_BSP_SCHEDULE_DELAY=100             milliseconds a span waits for company
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

from monitor import load_spec
from tests.made_runs.made_runs import Mode
from tests.made_runs.runs import make

# --- what makes an agent observable ------------------------------------------------------------


def instrument(provider: TracerProvider) -> Tracer:
    """Spans leave in batches, beside the agent's work: it never waits for whoever watches."""
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("farm.rover")


def call_tool(tracer: Tracer, conversation: str, tool: str, arguments: dict[str, Any]) -> str:
    """One tool call, one span, in the words of OpenTelemetry's GenAI conventions."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.conversation.id": conversation,
        "gen_ai.agent.name": "rover",
    }
    with tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes):
        return run(tool, **arguments)  # an exception marks the span as failed


# --- the rover -----------------------------------------------------------------------------------

SECONDS_A_CALL = 0.06

MUD = (9, 9)


class Stuck(Exception):  # noqa: N818 - said by a rover
    """The wheels turn, the rover does not."""


def run(tool: str, **arguments: Any) -> str:
    """The tools themselves: they take a moment, and one of them may fail."""
    time.sleep(SECONDS_A_CALL)
    if tool == "move" and (arguments.get("x"), arguments.get("y")) == MUD:
        raise Stuck("mud")
    return "ok"


# --- five jobs -----------------------------------------------------------------------------------

Plan = Sequence[tuple[str, dict[str, Any]]]

UNLOCK = ("unlock_safety", dict[str, Any]())
MOVE = ("move", {"x": 3, "y": 4})
SCAN = ("scan", {"area": "field 3"})
VALVE = ("open_valve", {"valve": "V3"})
WATER = ("water", {"field": 3, "liters": 10})
LOG = ("log", {"message": "field 3 done"})

JOBS: dict[str, Plan] = {
    "1 by the book": (UNLOCK, MOVE, SCAN, VALVE, WATER, LOG),
    "2 water before the valve is open": (UNLOCK, MOVE, SCAN, WATER, VALVE, WATER, LOG),
    "3 water again and again": (UNLOCK, MOVE, SCAN, VALVE, WATER, WATER, WATER, LOG),
    "4 a tool nobody knows": (UNLOCK, MOVE, ("fly", {"height": 30}), SCAN, VALVE, WATER, LOG),
    "5 a failed call, tried again": (
        UNLOCK,
        ("move", {"x": 9, "y": 9}),
        MOVE,
        SCAN,
        VALVE,
        WATER,
        LOG,
    ),
}


MADE_UP = {
    "6 made up: early harm": Mode.EARLY_HARM,
    "7 made up: redundant reads": Mode.REDUNDANT_READS,
}
"""Runs that `tests.made_runs` makes from any spec, one for each way to fail."""


def made_up() -> dict[str, Plan]:
    """Two more jobs, made from the rover's own spec."""
    spec = load_spec(Path(__file__).parents[2] / "dfa_specs" / "farm_rover.yaml")
    return {
        job: [(call.tool, dict(call.arguments)) for call in make(spec, mode, seed=7).calls]
        for job, mode in MADE_UP.items()
    }


def jobs() -> dict[str, Plan]:
    """All jobs, in their order."""
    return {**JOBS, **made_up()}


def main() -> int:
    """Plays all jobs, then sends what is still waiting."""
    provider = TracerProvider()
    tracer = instrument(provider)
    for job, plan in jobs().items():
        with tracer.start_as_current_span("invoke_agent rover"):
            for tool, arguments in plan:
                with suppress(Stuck):  # the next step of its plan is to try another way
                    call_tool(tracer, job, tool, arguments)
    provider.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
