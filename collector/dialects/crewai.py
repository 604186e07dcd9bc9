"""CrewAI under OpenInference: `T.run`; `tool.parameters` is a schema."""

from collector.dialects.arguments import mapping
from collector.dialects.base import Dialect, Source
from collector.dialects.openinference import SWITCH, TOOL

__all__ = ["CREWAI"]

CREWAI = Dialect(
    name="crewai_openinference",
    scopes=("openinference.instrumentation.crewai",),
    when=("openinference.span.kind",),
    values=TOOL,
    tool=("tool.name",),
    span_name="(?P<tool>.+?)(?:\\.run)?",
    arguments=(Source("input.value", mapping),),
    call_id=("tool_call.id", "tool.id"),
    control=frozenset({"Delegate work to coworker", "Ask question to coworker"}),
    switch=SWITCH,
)
