"""CrewAI under two instrumentations.

OpenInference's spans are named `T.run`; `tool.parameters` is a schema. Splunk's follow the GenAI conventions, except
for the arguments: a Python repr of what CrewAI's own method got, including a context that CrewAI adds. Its call ids
are memory addresses, which recur.
"""

from dataclasses import replace
from typing import Any

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import Arguments, literal, mapping
from monitor.partial import PartialArguments, all_but

__all__ = ["CREWAI", "CREWAI_SPLUNK"]

_CONTROL = frozenset({"Delegate work to coworker", "Ask question to coworker"})
_ADDED = "security_context"


def _given(value: Any) -> Arguments:
    """`{"input": {...}}`, without the context that CrewAI adds."""
    found = literal(value, "input")
    if not isinstance(found, dict) or _ADDED not in found:
        return found
    given = {key: each for key, each in found.items() if key != _ADDED}
    return (
        all_but(given, {*found.unread} - {_ADDED}) if type(found) is PartialArguments else given
    )


CREWAI = Dialect(
    name="crewai_openinference",
    scopes=("openinference.instrumentation.crewai",),
    when=("openinference.span.kind",),
    values=TOOL,
    tool=("tool.name",),
    span_name="(?P<tool>.+?)(?:\\.run)?",
    arguments=(ArgumentSource("input.value", mapping),),
    call_id=("tool_call.id", "tool.id"),
    control=_CONTROL,
    switch=SWITCH,
)

CREWAI_SPLUNK = replace(
    GEN_AI,
    name="crewai_splunk",
    scopes=("opentelemetry.util.genai.",),
    when=(*GEN_AI.when, "gen_ai.system"),
    values={**GEN_AI.values, "gen_ai.system": frozenset({"crewai"})},
    arguments=(ArgumentSource("gen_ai.tool.call.arguments", _given),),
    call_id=(),
    control=_CONTROL,
)
