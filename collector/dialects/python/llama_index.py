"""LlamaIndex under three instrumentations; in two of them spans are named after methods.

OpenInference has the arguments in `kwargs`. Under Traceloop only the result shows a failure.
OpenTelemetry follows the GenAI conventions.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import keyword_form, mapping
from collector.dialects.values.results import of_llama_index

__all__ = ["LLAMA_INDEX", "LLAMA_INDEX_GENAI", "LLAMA_INDEX_TRACELOOP"]

_CONTROL = frozenset({"handoff"})

LLAMA_INDEX = Dialect(
    name="llama_index_openinference",
    scopes=("openinference.instrumentation.llama_index",),
    when=("tool.name", "openinference.span.kind"),
    values=TOOL,
    tool=("tool.name",),
    arguments=(ArgumentSource("input.value", keyword_form),),
    call_id=("tool_call.id", "tool.id"),
    failed_result=("output.value",),
    says_failed=of_llama_index,
    control=_CONTROL,
    switch=SWITCH,
)

LLAMA_INDEX_TRACELOOP = Dialect(
    name="llama_index_traceloop",
    scopes=("opentelemetry.instrumentation.llamaindex",),
    when=("tool.name",),
    tool=("tool.name",),
    arguments=(ArgumentSource("tool.arguments", mapping),),
    failed_result=("traceloop.entity.output",),
    says_failed=of_llama_index,
    control=_CONTROL,
    switch="TRACELOOP_TRACE_CONTENT=true",
)

LLAMA_INDEX_GENAI = replace(
    GEN_AI,
    name="llama_index_genai",
    scopes=("opentelemetry.instrumentation.genai.llama_index",),
    control=_CONTROL,
)
