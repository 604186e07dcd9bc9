"""smolagents under OpenInference: the span is named after the tool's class."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import call_form

__all__ = ["SMOLAGENTS"]

SMOLAGENTS = Dialect(
    name="smolagents_openinference",
    scopes=("openinference.instrumentation.smolagents",),
    when=("tool.name", "openinference.span.kind"),
    values=TOOL,
    tool=("tool.name",),
    arguments=(ArgumentSource("input.value", call_form),),
    call_id=("tool_call.id", "tool.id"),
    control=frozenset({"final_answer"}),
    switch=SWITCH,
)
