"""Eino, in Go: what `eino-ext` gives to APMPlus of each component's run, by OpenTelemetry.

A tool's arguments are written as a model's prompt is, and the model's id of the call not at all.
"""

from collector.dialects.base import Dialect, Source
from collector.dialects.values.arguments import component_input

__all__ = ["EINO"]

EINO = Dialect(
    name="eino",
    scopes=("github.com/cloudwego/eino-ext/callbacks/apmplus",),
    when=("runinfo.component", "runinfo.name"),
    values={"runinfo.component": frozenset({"Tool"})},
    tool=("runinfo.name",),
    arguments=(Source("gen_ai.prompt.0.content", component_input),),
    control=frozenset({"transfer_to_agent"}),
    control_marks={"runinfo.type": "ExitTool"},
)
