"""LangChain and LangGraph, under six instrumentations.

- OpenInference writes a single text argument as a bare value (in Python without mime type) and writes nothing if
  there are no arguments. The `tools` node around the call still has the argument's name. A tool that is interrupted
  for a person's answer runs twice: its status is OK, and only the exception shows the interruption.
- Traceloop writes the callback's input, which contains the arguments.
- LangSmith writes status OK if a tool raises: only the exception event shows the failure. In JavaScript its traced
  functions lose the names of positional arguments.
- OpenLIT writes arguments as a Python repr. OpenTelemetry and Azure follow the GenAI conventions.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import (
    bare,
    callback_form,
    literal,
    mapping,
    mapping_or_bare,
    run_inputs,
    traced_inputs,
)
from collector.dialects.values.results import of_langchain

__all__ = [
    "CONTROL",
    "LANGCHAIN_GENAI",
    "LANGCHAIN_LANGSMITH",
    "LANGCHAIN_OPENINFERENCE",
    "LANGCHAIN_OPENLIT",
    "LANGCHAIN_TRACELOOP",
    "LANGSMITH_TRACEABLE",
]

CONTROL = ("transfer_to_", "transfer_back_to_", "handoff_to_")

LANGCHAIN_OPENINFERENCE = Dialect(
    name="langchain_openinference",
    scopes=(
        "openinference.instrumentation.langchain",
        "@arizeai/openinference-instrumentation-langchain",
    ),
    when=("openinference.span.kind",),
    values=TOOL,
    tool=("tool.name",),
    span_name="(?P<tool>.+)",
    arguments=(
        ArgumentSource("input.value", mapping_or_bare, needs="input.mime_type"),
        ArgumentSource("input.value", bare),
    ),
    call_id=("tool_call.id", "tool.id"),
    failed_result=("output.value",),
    says_failed=of_langchain,
    failed_by_exception=True,
    control_prefixes=CONTROL,
    switch=SWITCH,
)

LANGCHAIN_TRACELOOP = Dialect(
    name="langchain_traceloop",
    scopes=("opentelemetry.instrumentation.langchain",),
    when=("traceloop.span.kind",),
    values={"traceloop.span.kind": frozenset({"tool"})},
    tool=("gen_ai.tool.name", "traceloop.entity.name"),
    span_name="(?P<tool>.+?)(?:\\.tool)?",
    arguments=(
        ArgumentSource("gen_ai.tool.call.arguments", callback_form),
        ArgumentSource("traceloop.entity.input", callback_form),
    ),
    call_id=("gen_ai.tool.call.id",),
    failed={"gen_ai.task.status": frozenset({"failure", "error"})},
    failed_result=("gen_ai.tool.call.result", "traceloop.entity.output"),
    says_failed=of_langchain,
    control_prefixes=CONTROL,
    switch="TRACELOOP_TRACE_CONTENT=true",
)

LANGCHAIN_LANGSMITH = Dialect(
    name="langchain_langsmith",
    when=("langsmith.span.kind",),
    values={"langsmith.span.kind": frozenset({"tool"})},
    tool=("gen_ai.tool.name",),
    span_name="(?P<tool>.+)",
    arguments=(
        ArgumentSource("gen_ai.tool.call.arguments", mapping),
        ArgumentSource("gen_ai.prompt", run_inputs),
    ),
    call_id=("gen_ai.tool.call.id",),
    failed_result=("gen_ai.completion",),
    says_failed=of_langchain,
    failed_by_exception=True,
    control_prefixes=CONTROL,
    switch="LANGSMITH_HIDE_INPUTS=false",
)

LANGSMITH_TRACEABLE = replace(
    LANGCHAIN_LANGSMITH,
    when=(*LANGCHAIN_LANGSMITH.when, "langsmith.traceable"),
    arguments=(ArgumentSource("gen_ai.prompt", traced_inputs),),
    failed_result=(),  # a function's own result may look like a message
    says_failed=None,
)

LANGCHAIN_GENAI = replace(
    GEN_AI,
    name="langchain_genai",
    scopes=("opentelemetry.instrumentation.genai.langchain", "AzureAIOpenTelemetryTracer"),
    control_prefixes=CONTROL,
)

LANGCHAIN_OPENLIT = replace(
    GEN_AI,
    name="langchain_openlit",
    scopes=("openlit.instrumentation.langchain",),
    arguments=(ArgumentSource("gen_ai.tool.call.arguments", literal),),
    control_prefixes=CONTROL,
)
