"""smolagents under OpenInference: the span is named after the tool's class."""

from collector.dialects.arguments import call_form
from collector.dialects.base import Dialect, Source
from collector.dialects.openinference import SWITCH, TOOL

__all__ = ["SMOLAGENTS"]

SMOLAGENTS = Dialect(
    name="smolagents_openinference",
    scopes=("openinference.instrumentation.smolagents",),
    when=("tool.name", "openinference.span.kind"),
    values=TOOL,
    tool=("tool.name",),
    arguments=(Source("input.value", call_form),),
    call_id=("tool_call.id", "tool.id"),
    control=frozenset({"final_answer"}),
    switch=SWITCH,
)
