"""AgentOps: its decorators, its listener of LangChain and its listener of the OpenAI Agents SDK.

Its clients of models write a span for each call that a model asks for, one more where two of them are
wrapped at once. Nobody has executed these: they are no calls. It says OK of a tool of the OpenAI Agents SDK that
raised: only the exception event tells.
"""

from collector.dialects.base import Dialect, Source
from collector.dialects.scopes import AGENTOPS_CLIENTS
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
        Source("tool.parameters", mapping),
        Source("langchain.tool.input", literal),
        Source("agentops.tool.input", call_form),
    ),
    failed_by_exception=True,
)
