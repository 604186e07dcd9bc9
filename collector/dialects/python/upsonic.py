"""Upsonic: spans `tool.execute` under its own keys, with contents under Langfuse's keys.

Its spans report every call as a success: only the result that the model got shows that a tool raised.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping
from collector.dialects.values.results import of_upsonic

__all__ = ["UPSONIC"]

UPSONIC = Dialect(
    name="upsonic",
    scopes=("upsonic",),
    when=("upsonic.tool.name", "upsonic.tool.call_id"),
    tool=("upsonic.tool.name",),
    arguments=(ArgumentSource("langfuse.observation.input", mapping),),
    call_id=("upsonic.tool.call_id",),
    failed_result=("langfuse.observation.output",),
    says_failed=of_upsonic,
    control=frozenset({"plan_and_execute"}),
    switch="DefaultTracingProvider(include_content=True)",
)
