"""OpenHands: Laminar's spans, named after the tool's action class, since the tool's own name is not on the wire.

A call that was refused, blocked, cancelled or invalid has a span like an executed one. Its input is then `tool_input`,
and its output is the model's message. Each MCP tool is `MCPToolAction`: the MCP client's span below has its name.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import action
from collector.dialects.values.results import of_openhands

__all__ = ["CALL_ID", "OPENHANDS"]

CALL_ID = "lmnr.association.properties.metadata.tool_call_id"

OPENHANDS = Dialect(
    name="openhands",
    when=("lmnr.span.type", CALL_ID),
    values={"lmnr.span.type": frozenset({"TOOL"})},
    span_name="(?!MCPToolExecutor\\.call_tool$)(?P<tool>.+)",
    arguments=(ArgumentSource("lmnr.span.input", action),),
    call_id=(CALL_ID,),
    failed_result=("lmnr.span.output",),
    says_failed=of_openhands,
    control=frozenset(
        {
            "DelegateAction",
            "FinishAction",
            "InvalidToolCall",
            "TaskAction",
            "TaskTrackerAction",
            "ThinkAction",
        }
    ),
)
