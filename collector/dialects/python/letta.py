"""Letta: spans of its server's methods, of which one is given each call, its arguments as Python writes them.

What became of the call is in an event of a span around it, in one of two statuses; its own is OK.
"""

from collector.dialects.base import Dialect, Source
from collector.dialects.values.arguments import literal

__all__ = ["LETTA"]

LETTA = Dialect(
    name="letta",
    scopes=("letta.",),
    some=("parameter.function_name",),
    span_name="ToolExecutionManager\\.(?P<tool>execute_tool_async)",
    tool=("parameter.function_name",),
    arguments=(Source("parameter.function_args", literal),),
)
