"""Haystack 3: its own spans, whose status is OK even if a tool failed."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["HAYSTACK"]

HAYSTACK = Dialect(
    name="haystack",
    when=("haystack.tool.name",),
    tool=("haystack.tool.name",),
    arguments=(ArgumentSource("haystack.agent.step.tool.input", mapping),),
    failed={"haystack.tool.error": frozenset({"true"})},
    switch="HAYSTACK_CONTENT_TRACING_ENABLED=true",
)
