# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""A loop of one's own whose functions are decorated: with Traceloop's SDK, or with Langfuse."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import rover
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

if os.environ["ROVER_THROUGH"] == "traceloop":
    from opentelemetry import trace
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import agent, tool

    Traceloop.init("farm-rover", exporter=OTLPSpanExporter(), telemetry_enabled=False)
    Traceloop.set_association_properties({"session_id": rover.SESSION})
    tools = {each.__name__: tool(name=each.__name__)(each) for each in rover.TOOLS}
    end = trace.get_tracer_provider().shutdown
    session = contextlib.nullcontext()
    named = agent(name="farm_rover")
else:
    from langfuse import Langfuse, observe, propagate_attributes

    client = Langfuse(public_key="pk", secret_key="sk", span_exporter=OTLPSpanExporter())
    tools = {each.__name__: observe(as_type="tool")(each) for each in rover.TOOLS}
    end = client.flush
    session = propagate_attributes(session_id=rover.SESSION)
    named = observe(as_type="agent", name="farm_rover")


def play() -> None:
    """The script, without a model."""
    for tool_name, arguments in rover.SCRIPT:
        call(tools[tool_name], arguments)


def call(function: Callable[..., str], arguments: dict[str, Any]) -> None:
    """A tool that raises does not end the run."""
    with contextlib.suppress(RuntimeError):
        function(**arguments)


with session:
    named(play)()
end()
