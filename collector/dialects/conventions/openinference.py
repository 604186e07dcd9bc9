"""OpenInference: spans of kind TOOL.

`input.value` holds the arguments. `tool.parameters` is a schema in most instrumentations and is not
read. The few instrumentations that write arguments to both have files of their own.
"""

from collector.dialects.base import ArgumentSource, Dialect, Freshness
from collector.dialects.names.scopes import AGENTOPS_CLIENTS, DAPR_SCOPE
from collector.dialects.values.arguments import mapping, maybe_call_form

__all__ = [
    "BEEAI_JS_SCOPE",
    "BEEAI_SCOPE",
    "OPENAI_AGENTS_JS_SCOPE",
    "OPENINFERENCE",
    "OPENINFERENCE_BY_NAME",
    "SWITCH",
    "TOOL",
    "TOOL_NAME_ALONE",
]

SWITCH = "OPENINFERENCE_HIDE_INPUTS=false"

TOOL = {"openinference.span.kind": frozenset({"TOOL"})}

BEEAI_SCOPE = "openinference.instrumentation.beeai"

BEEAI_JS_SCOPE = "@arizeai/openinference-instrumentation-beeai"
"""Scope that writes a span for each event of a call."""

OPENAI_AGENTS_JS_SCOPE = "@arizeai/openinference-instrumentation-openai-agents"
"""Scope whose tools always have `tool.name`. A span without it is a hand-off, or a list of a
server's tools."""

_ARGUMENTS = (
    ArgumentSource("tool_call.function.arguments", mapping),
    ArgumentSource("input.value", maybe_call_form),
)

_FRESHNESS = Freshness(
    roles=("llm.input_messages.",),
    elsewhere=("llm.invocation_parameters", "output.value"),
    scopes=(
        "@arizeai/openinference-instrumentation-anthropic",
        "@arizeai/openinference-instrumentation-langchain",
        "@arizeai/openinference-instrumentation-openai",
        "openinference.instrumentation.anthropic",
        "openinference.instrumentation.google_adk",
        "openinference.instrumentation.google_genai",
        "openinference.instrumentation.groq",
        "openinference.instrumentation.langchain",
        "openinference.instrumentation.litellm",
        "openinference.instrumentation.openai",
    ),
)
"""OpenAI's Responses name a previous response or a conversation in what is asked and in what is answered."""

OPENINFERENCE = Dialect(
    name="openinference",
    when=("tool.name", "openinference.span.kind"),
    not_scopes=(BEEAI_JS_SCOPE,),
    values=TOOL,
    tool=("tool.name",),
    arguments=_ARGUMENTS,
    call_id=("tool_call.id", "tool.id", "gen_ai.tool.call.id"),
    switch=SWITCH,
    freshness=_FRESHNESS,
)

OPENINFERENCE_BY_NAME = Dialect(
    name="openinference",
    when=("openinference.span.kind",),
    unless=("tool.name",),
    not_scopes=(BEEAI_SCOPE, BEEAI_JS_SCOPE, DAPR_SCOPE, OPENAI_AGENTS_JS_SCOPE),
    values=TOOL,
    span_name="(?P<tool>.+)",
    arguments=_ARGUMENTS,
    call_id=("tool_call.id", "tool.id", "gen_ai.tool.call.id"),
    control_prefixes=("handoff to ",),
    switch=SWITCH,
)

TOOL_NAME_ALONE = Dialect(
    name="openinference",
    when=("tool.name",),
    unless=("openinference.span.kind",),
    not_scopes=(AGENTOPS_CLIENTS,),
    some=("input.value", "tool.parameters", "tool.arguments", "tool_call.id"),
    tool=("tool.name",),
    arguments=(*_ARGUMENTS, ArgumentSource("tool.arguments", mapping)),
    call_id=("tool_call.id", "tool.id"),
    switch=SWITCH,
)
