"""Laminar: functions that are marked as tools, `@observe(span_type="TOOL")`.

In JavaScript only an exception event without an output shows a failure. With an output, the tool caught the exception.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.coding_agents.openhands import CALL_ID
from collector.dialects.values.arguments import mapping

__all__ = ["LAMINAR", "LAMINAR_RAISED"]

LAMINAR = Dialect(
    name="laminar",
    when=("lmnr.span.type",),
    unless=(CALL_ID,),
    values={"lmnr.span.type": frozenset({"TOOL"})},
    span_name="(?P<tool>.+)",
    arguments=(ArgumentSource("lmnr.span.input", mapping),),
    switch="@observe(ignore_input=False)",
)

LAMINAR_RAISED = replace(
    LAMINAR, unless=(CALL_ID, "lmnr.span.output"), failed_by_exception=True
)
