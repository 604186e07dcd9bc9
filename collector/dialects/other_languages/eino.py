"""Eino, in Go: the spans that `eino-ext` exports to APMPlus for each component's run.

A tool's arguments are under the key of a model's prompt. The model's call id is not on the wire.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import component_input

__all__ = ["EINO"]

EINO = Dialect(
    name="eino",
    scopes=("github.com/cloudwego/eino-ext/callbacks/apmplus",),
    when=("runinfo.component", "runinfo.name"),
    values={"runinfo.component": frozenset({"Tool"})},
    tool=("runinfo.name",),
    arguments=(ArgumentSource("gen_ai.prompt.0.content", component_input),),
    control=frozenset({"transfer_to_agent"}),
    control_marks={"runinfo.type": "ExitTool"},
)
