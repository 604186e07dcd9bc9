"""Pydantic AI, also under Logfire: `execute_tool T`, or `running tool` in the format of version 2.

Output functions have the same operation: they end a run and are control calls. A tool that needs an
approval runs twice.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["PYDANTIC_AI"]

PYDANTIC_AI = Dialect(
    name="pydantic_ai",
    scopes=("pydantic-ai",),
    when=("gen_ai.tool.name",),
    tool=("gen_ai.tool.name",),
    arguments=(
        ArgumentSource("gen_ai.tool.call.arguments", mapping),
        ArgumentSource("tool_arguments", mapping),
    ),
    call_id=("gen_ai.tool.call.id",),
    failed={"pydantic_ai.tool.deferral.name": frozenset({"ApprovalRequired"})},
    control=frozenset({"final_result"}),
    control_prefixes=("final_result_",),
    control_marks={"logfire.msg": "running output function"},
    quotes=False,
    switch="InstrumentationSettings(include_content=True)",
)
