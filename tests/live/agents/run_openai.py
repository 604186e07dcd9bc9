# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""A loop over a bare model client: its tools leave no spans, so what the model asks for counts."""

from __future__ import annotations

import contextlib
import json
import os

import model_server
import rover
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

THROUGH = os.environ["ROVER_THROUGH"]

session = contextlib.nullcontext()
if THROUGH == "langfuse":
    from langfuse import Langfuse, propagate_attributes
    from langfuse.openai import OpenAI

    end = Langfuse(public_key="pk", secret_key="sk", span_exporter=OTLPSpanExporter()).flush
    session = propagate_attributes(session_id=rover.SESSION)
else:
    from openai import OpenAI

    if THROUGH == "openinference":
        from openinference.instrumentation.openai import OpenAIInstrumentor
    else:
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor
    tracing = rover.provider()
    OpenAIInstrumentor().instrument(tracer_provider=tracing)
    end = tracing.shutdown
client = OpenAI(base_url=model_server.serve(), api_key="none")
tools = {tool.__name__: tool for tool in rover.TOOLS}
messages = [{"role": "user", "content": "water field 3"}]
with session:
    while calls := (
        client.chat.completions.create(model="script", messages=messages)
        .choices[0]
        .message.tool_calls
    ):
        (call,) = calls
        found = tools[call.function.name](**json.loads(call.function.arguments))
        messages += [
            {"role": "assistant", "tool_calls": [call.model_dump()]},
            {"role": "tool", "tool_call_id": call.id, "content": found},
        ]
end()
