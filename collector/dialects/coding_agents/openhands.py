"""OpenHands: Laminar's spans, named after a tool's class of actions, as that is all that they tell of it.

A call that was refused, blocked, cancelled or invalid has a span as one that was made: `tool_input` is its input then,
and what the model was told its output. A server's tool is `MCPToolAction`, whichever it is: the span of the MCP client
below knows its name.
"""

from collector.dialects.base import Dialect, Source
from collector.dialects.values.arguments import action
from collector.dialects.values.results import of_openhands

__all__ = ["CALL_ID", "OPENHANDS"]

CALL_ID = "lmnr.association.properties.metadata.tool_call_id"

OPENHANDS = Dialect(
    name="openhands",
    when=("lmnr.span.type", CALL_ID),
    values={"lmnr.span.type": frozenset({"TOOL"})},
    span_name="(?!MCPToolExecutor\\.call_tool$)(?P<tool>.+)",
    arguments=(Source("lmnr.span.input", action),),
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
