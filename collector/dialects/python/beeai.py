"""BeeAI under OpenInference: what a tool is given is beside its options.

A tool that fails leaves a span `error` below its own, of kind TOOL and without a tool's name: no call.
For JavaScript each event of a call is a span: that it starts, succeeds or fails, and finishes. How it came out is told
once for each attempt. What names the tool is a path, in which `open_valve` is `openValve`.
"""

from __future__ import annotations

from typing import Any

from collector.dialects.base import Dialect, Source
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
    arguments=(Source("input.value", _input),),
    control=frozenset({"final_answer"}),
    switch=SWITCH,
)

BEEAI_JS = Dialect(
    name="beeai_openinference",
    scopes=(BEEAI_JS_SCOPE,),
    when=("openinference.span.kind",),
    values=TOOL,
    span_name="tool\\.(?:.+\\.)?(?P<tool>[^.]+)\\.(?:success|error)-\\d+",
    arguments=(Source("tool.parameters", mapping),),
    control=frozenset({"finalAnswer"}),
    switch=SWITCH,
)
