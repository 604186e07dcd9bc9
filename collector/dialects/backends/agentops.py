"""AgentOps: its decorators, its listener of LangChain and its listener of the OpenAI Agents SDK.

Its wrappers of model clients write a span for each requested call, and two where one client wraps another. Requested
calls are not executed calls, so these spans are not read. If a tool of the OpenAI Agents SDK raises, the status is
OK: only the exception event shows the failure.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.names.scopes import AGENTOPS_CLIENTS
from collector.dialects.values.arguments import call_form, literal, mapping

__all__ = ["AGENTOPS"]


AGENTOPS = Dialect(
    name="agentops",
    when=("agentops.span.kind",),
    some=("tool.name", "langchain.tool.name", "operation.name"),
    not_scopes=(AGENTOPS_CLIENTS,),
    values={"agentops.span.kind": frozenset({"tool"})},
    tool=("tool.name", "langchain.tool.name", "operation.name"),
    arguments=(
        ArgumentSource("tool.parameters", mapping),
        ArgumentSource("langchain.tool.input", literal),
        ArgumentSource("agentops.tool.input", call_form),
    ),
    failed_by_exception=True,
)
