"""Datadog's tracers over OTLP: operations of the GenAI conventions under Datadog's own keys.

One bytes attribute holds a tool's arguments and its result, as MessagePack.
"""

from typing import Any, Final

import msgspec

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import UNREADABLE, Arguments, mapping

__all__ = ["DATADOG"]


class _Input(msgspec.Struct, gc=False):
    value: str | None = None


class _Meta(msgspec.Struct, gc=False):
    input: _Input | None = None


class _Packed(msgspec.Struct, gc=False):
    meta: _Meta | None = None


_unpacked: Final = msgspec.msgpack.Decoder(_Packed).decode


def _given(value: Any) -> Arguments:
    """`{"meta": {"input": {"value": "{...}"}}}`, as MessagePack."""
    if not isinstance(value, bytes):
        return None if value is None else UNREADABLE
    try:
        meta = _unpacked(value).meta
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return UNREADABLE
    return mapping(meta.input.value) if meta is not None and meta.input is not None else None


DATADOG = Dialect(
    name="datadog",
    when=("_dd.llmobs.artificial_gen_ai_tags", "gen_ai.operation.name"),
    unless=("gen_ai.tool.name",),
    values={"gen_ai.operation.name": frozenset({"tool"})},
    span_name="(?P<tool>.+)",
    arguments=(ArgumentSource("_llmobs", _given),),
)
