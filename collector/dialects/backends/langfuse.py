"""Langfuse: an observation of type `tool` is named by its span alone.

A plain observation has type `span`, as any function may: it is not a call. An observation of LangGraph names its node.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.python.langchain import CONTROL
from collector.dialects.values.arguments import maybe_call_form
from collector.dialects.values.results import of_langfuse

__all__ = ["LANGCHAIN_LANGFUSE", "LANGFUSE"]

LANGFUSE = Dialect(
    name="langfuse",
    when=("langfuse.observation.type",),
    values={"langfuse.observation.type": frozenset({"tool"})},
    tool=("gen_ai.tool.name",),
    span_name="(?P<tool>.+)",
    arguments=(
        ArgumentSource("langfuse.observation.input", maybe_call_form),
        ArgumentSource("gen_ai.tool.call.arguments", maybe_call_form),
    ),
    call_id=("gen_ai.tool.call.id", "langfuse.observation.metadata.tool_call_id"),
    failed_result=("langfuse.observation.output",),
    says_failed=of_langfuse,
    failed={"langfuse.observation.level": frozenset({"ERROR"})},
    quotes=False,
    switch='@observe(as_type="tool", capture_input=True)',
)

LANGCHAIN_LANGFUSE = replace(
    LANGFUSE,
    name="langchain_langfuse",
    when=(*LANGFUSE.when, "langfuse.observation.metadata.langgraph_node"),
    control_prefixes=CONTROL,
)
