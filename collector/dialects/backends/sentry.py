"""Sentry's SDK for JavaScript, exported over OTLP.

It follows the GenAI conventions except for the arguments. They are under Sentry's own key or, for the Vercel AI SDK,
under that SDK's key.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource
from collector.dialects.conventions.gen_ai import ARGUMENTS, GEN_AI
from collector.dialects.values.arguments import mapping, mapping_or_bare

__all__ = ["SENTRY"]

SENTRY = replace(
    GEN_AI,
    name="sentry",
    when=(*GEN_AI.when, "sentry.op"),
    arguments=(
        ArgumentSource("ai.toolCall.args", mapping),
        ArgumentSource("ai.toolCall.input", mapping),
        ArgumentSource("gen_ai.tool.input", mapping_or_bare),
        *ARGUMENTS,
    ),
    switch="vercelAIIntegration({recordInputs: true})",
)
