"""Microsoft's Agent Framework and Semantic Kernel: variants of the GenAI conventions.

The Agent Framework writes `None` for a call without arguments. Semantic Kernel writes the same spans
for functions that the program calls itself, such as the prompt around all others: only a model's call
has an id. In Java no span has arguments, and a prompt's own span has the plugin `null`.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.gen_ai import ARGUMENTS, EVENTS
from collector.dialects.values.arguments import mapping_or_none

__all__ = [
    "AGENT_FRAMEWORK",
    "SEMANTIC_KERNEL",
    "SEMANTIC_KERNEL_BY_PROGRAM",
    "SEMANTIC_KERNEL_JAVA",
]

AGENT_FRAMEWORK = Dialect(
    name="agent_framework",
    scopes=("agent_framework",),
    when=("gen_ai.tool.name",),
    unless=("mcp.method.name",),
    tool=("gen_ai.tool.name",),
    arguments=(ArgumentSource("gen_ai.tool.call.arguments", mapping_or_none), *EVENTS),
    call_id=("gen_ai.tool.call.id",),
    control_prefixes=("handoff_to_",),
    switch="ENABLE_SENSITIVE_DATA=true",
)

SEMANTIC_KERNEL = Dialect(
    name="semantic_kernel",
    scopes=("semantic_kernel.functions",),
    when=("gen_ai.tool.name", "gen_ai.tool.call.id"),
    tool=("gen_ai.tool.name",),
    arguments=ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    control_prefixes=("Handoff-",),
    switch="SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true",
)

SEMANTIC_KERNEL_BY_PROGRAM = Dialect(
    name="semantic_kernel",
    scopes=SEMANTIC_KERNEL.scopes,
    when=("gen_ai.tool.name",),
    unless=("gen_ai.tool.call.id",),
    tool=("gen_ai.tool.name",),
    control_prefixes=("",),
)

SEMANTIC_KERNEL_JAVA = Dialect(
    name="semantic_kernel",
    when=("semantic_kernel.function.invocation.name",),
    span_name="function_invocation (?P<tool>.+)",
    control_prefixes=("null-",),
)
