"""DSPy under OpenInference: spans are named after the method that makes the call."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import keyword_form

__all__ = ["DSPY"]

DSPY = Dialect(
    name="dspy_openinference",
    scopes=("openinference.instrumentation.dspy",),
    when=("openinference.span.kind",),
    values=TOOL,
    tool=("tool.name",),
    span_name="(?P<tool>.+?)(?:\\.(?:__call__|acall))?",
    arguments=(ArgumentSource("input.value", keyword_form),),
    control=frozenset({"finish"}),
    switch=SWITCH,
)
