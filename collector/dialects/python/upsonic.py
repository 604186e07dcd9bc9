"""Upsonic: spans `tool.execute` under names of its own, with contents where Langfuse looks for them.

To its spans each call went well: that a tool raised is told by what the model was given alone.
"""

from collector.dialects.base import Dialect, Source
from collector.dialects.values.arguments import mapping
from collector.dialects.values.results import of_upsonic

__all__ = ["UPSONIC"]

UPSONIC = Dialect(
    name="upsonic",
    scopes=("upsonic",),
    when=("upsonic.tool.name", "upsonic.tool.call_id"),
    tool=("upsonic.tool.name",),
    arguments=(Source("langfuse.observation.input", mapping),),
    call_id=("upsonic.tool.call_id",),
    failed_result=("langfuse.observation.output",),
    says_failed=of_upsonic,
    control=frozenset({"plan_and_execute"}),
    switch="DefaultTracingProvider(include_content=True)",
)
