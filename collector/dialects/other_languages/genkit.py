"""Genkit: arguments and results of tools are under its own keys."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["GENKIT"]

GENKIT = Dialect(
    name="genkit",
    when=("genkit:metadata:subtype", "genkit:name"),
    values={"genkit:metadata:subtype": frozenset({"tool", "tool.v2"})},
    tool=("genkit:name",),
    arguments=(ArgumentSource("genkit:input", mapping),),
    failed={"genkit:state": frozenset({"error"})},
)
