"""AutoGen: its own spans, which never carry arguments, and OpenInference's over them.

With both, each call has two spans: OpenInference's, with the arguments, is the parent of the native
one, with the call id and the error.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import maybe_call_form

__all__ = ["AUTOGEN", "AUTOGEN_OPENINFERENCE"]

AUTOGEN = Dialect(
    name="autogen",
    scopes=("autogen",),
    when=("gen_ai.tool.name", "gen_ai.operation.name"),
    values={"gen_ai.operation.name": frozenset({"execute_tool"})},
    tool=("gen_ai.tool.name",),
    call_id=("gen_ai.tool.call.id",),
    control_prefixes=("transfer_to_",),
)

AUTOGEN_OPENINFERENCE = Dialect(
    name="autogen_openinference",
    scopes=("openinference.instrumentation.autogen",),
    when=("openinference.span.kind",),
    values=TOOL,
    tool=("tool.name",),
    span_name="(?:.*\\.)?(?P<tool>.+)",
    arguments=(
        ArgumentSource("input.value", maybe_call_form),
        ArgumentSource("tool.parameters", maybe_call_form),
    ),
    call_id=("tool_call.id", "tool.id"),
    control_prefixes=("transfer_to_",),
    switch=SWITCH,
)
