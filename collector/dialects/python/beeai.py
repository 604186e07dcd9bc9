"""BeeAI under OpenInference: the input holds a tool's arguments and its options.

A failed tool has a span `error` below its own, of kind TOOL and without a tool's name: it is not a call.
In JavaScript each event of a call is a span: start, success or error, finish. There is one outcome per attempt. The
tool's name is part of a path, in which `open_valve` is `openValve`.
"""

from __future__ import annotations

from typing import Any

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.openinference import (
    BEEAI_JS_SCOPE,
    BEEAI_SCOPE,
    SWITCH,
    TOOL,
)
from collector.dialects.values.arguments import Arguments, mapping

__all__ = ["BEEAI", "BEEAI_JS"]

_FORM = frozenset({"input", "options"})


def _input(value: Any) -> Arguments:
    """`{"input": {...}, "options": ...}`, or the plain form."""
    found = mapping(value)
    if isinstance(found, dict) and "input" in found and found.keys() <= _FORM:
        return mapping(found["input"])
    return found


BEEAI = Dialect(
    name="beeai_openinference",
    scopes=(BEEAI_SCOPE,),
    when=("tool.name", "openinference.span.kind"),
    values=TOOL,
    tool=("tool.name",),
    arguments=(ArgumentSource("input.value", _input),),
    control=frozenset({"final_answer"}),
    switch=SWITCH,
)

BEEAI_JS = Dialect(
    name="beeai_openinference",
    scopes=(BEEAI_JS_SCOPE,),
    when=("openinference.span.kind",),
    values=TOOL,
    span_name="tool\\.(?:.+\\.)?(?P<tool>[^.]+)\\.(?:success|error)-\\d+",
    arguments=(ArgumentSource("tool.parameters", mapping),),
    control=frozenset({"finalAnswer"}),
    switch=SWITCH,
)
