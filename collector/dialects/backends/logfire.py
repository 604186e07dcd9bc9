"""The OpenAI Agents SDK under Logfire: the message template of a span says what kind of span it is."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["OPENAI_AGENTS_LOGFIRE"]

OPENAI_AGENTS_LOGFIRE = Dialect(
    name="openai_agents_logfire",
    scopes=("logfire.openai_agents",),
    when=("name", "logfire.msg_template"),
    values={"logfire.msg_template": frozenset({"Function: {name}"})},
    tool=("name",),
    arguments=(ArgumentSource("input", mapping),),
    control_prefixes=("transfer_to_",),
)
