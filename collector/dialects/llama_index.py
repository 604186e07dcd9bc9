"""LlamaIndex under OpenInference: the span is named after the method, the arguments in `kwargs`."""

from collector.dialects.arguments import keyword_form
from collector.dialects.base import Dialect, Source
from collector.dialects.openinference import SWITCH, TOOL

__all__ = ["LLAMA_INDEX"]

LLAMA_INDEX = Dialect(
    name="llama_index_openinference",
    scopes=("openinference.instrumentation.llama_index",),
    when=("tool.name", "openinference.span.kind"),
    values=TOOL,
    tool=("tool.name",),
    arguments=(Source("input.value", keyword_form),),
    call_id=("tool_call.id", "tool.id"),
    failed_result=("output.value",),
    control=frozenset({"handoff"}),
    switch=SWITCH,
)
