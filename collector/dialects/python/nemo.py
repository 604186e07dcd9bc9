"""NVIDIA's NeMo Agent Toolkit: a span for each function and, around it, one for a framework's tool.

Every status is OK. If a tool raises, its span is never sent and the function's span has no output. Spans of a
framework's own functions name that framework. The workflow is a function, too: the one below the root. If a part of
a function's input looks like a prompt, that part replaces the input, without a mime type.
"""

from functools import partial

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import literal, mapping

__all__ = ["NEMO_FUNCTION", "NEMO_TOOL"]

NEMO_FUNCTION = Dialect(
    name="nemo_agent_toolkit",
    when=("nat.event_type", "nat.framework", "nat.function.name"),
    values={
        "nat.event_type": frozenset({"FUNCTION_START"}),
        "nat.framework": frozenset({"unknown"}),
    },
    not_values={"nat.function.parent_id": frozenset({"root"})},
    tool=("nat.function.name",),
    arguments=(ArgumentSource("input.value", mapping, needs="input.mime_type"),),
    failed_without=("output.value",),
)

NEMO_TOOL = Dialect(
    name="nemo_agent_toolkit",
    when=("nat.event_type", "nat.subspan.name"),
    values={"nat.event_type": frozenset({"TOOL_START"})},
    tool=("nat.subspan.name",),
    arguments=(ArgumentSource("nat.metadata", partial(literal, within="tool_inputs")),),
)
