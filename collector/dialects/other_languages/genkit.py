"""Genkit: what its tools are given and give is in keys of its own."""

from collector.dialects.base import Dialect, Source
from collector.dialects.values.arguments import mapping

__all__ = ["GENKIT"]

GENKIT = Dialect(
    name="genkit",
    when=("genkit:metadata:subtype", "genkit:name"),
    values={"genkit:metadata:subtype": frozenset({"tool", "tool.v2"})},
    tool=("genkit:name",),
    arguments=(Source("genkit:input", mapping),),
    failed={"genkit:state": frozenset({"error"})},
)
