"""Laminar: functions that are marked as tools, `@observe(span_type="TOOL")`.

In JavaScript an exception event alone says that one raised.
"""

from collector.dialects.arguments import mapping
from collector.dialects.base import Dialect, Source
from collector.dialects.openhands import CALL_ID

__all__ = ["LAMINAR"]

LAMINAR = Dialect(
    name="laminar",
    when=("lmnr.span.type",),
    unless=(CALL_ID,),
    values={"lmnr.span.type": frozenset({"TOOL"})},
    span_name="(?P<tool>.+)",
    arguments=(Source("lmnr.span.input", mapping),),
    failed_by_exception=True,
    switch="@observe(ignore_input=False)",
)
