"""Letta: spans of its server's methods; one method gets each call, with its arguments as a Python repr.

The call's own status is always OK. An event of a span around it shows the outcome, in one of two statuses.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import literal

__all__ = ["LETTA"]

LETTA = Dialect(
    name="letta",
    scopes=("letta.",),
    some=("parameter.function_name",),
    span_name="ToolExecutionManager\\.(?P<tool>execute_tool_async)",
    tool=("parameter.function_name",),
    arguments=(ArgumentSource("parameter.function_args", literal),),
)
