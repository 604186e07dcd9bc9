"""NVIDIA's NeMo Agent Toolkit: a span for each function, and one around it for a framework's tool.

All have the status OK, and that of a tool which raised is never sent. The function's is then without an output. What
a framework's own chains write is named so; the workflow itself is a function, too, the one below the root. A
function's input is replaced by a part of it where that looks like a prompt, and has no type then.
"""

from functools import partial

from collector.dialects.base import Dialect, Source
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
    arguments=(Source("input.value", mapping, needs="input.mime_type"),),
    failed_without=("output.value",),
)

NEMO_TOOL = Dialect(
    name="nemo_agent_toolkit",
    when=("nat.event_type", "nat.subspan.name"),
    values={"nat.event_type": frozenset({"TOOL_START"})},
    tool=("nat.subspan.name",),
    arguments=(Source("nat.metadata", partial(literal, within="tool_inputs")),),
)
