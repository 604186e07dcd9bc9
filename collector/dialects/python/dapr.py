"""Dapr Agents: keys of OpenInference and of the GenAI conventions on one span.

The input is that of the tool executor and contains the arguments. If a tool raises, the status is OK: only the result,
a Python repr, shows the failure. Workflow steps around a call also have kind TOOL: they run tools or store results.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource
from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.names.scopes import DAPR_SCOPE
from collector.dialects.values.arguments import call_form

__all__ = ["DAPR_AGENTS"]


_RAISED = "content=[TextContent(type='text', text={}Error executing tool "

DAPR_AGENTS = replace(
    GEN_AI,
    name="dapr_agents",
    scopes=(DAPR_SCOPE,),
    unless=("gen_ai.tool.call.id",),  # for a remote agent: the arguments themselves
    arguments=(ArgumentSource("input.value", call_form),),
    call_id=(),
    failed_marks={"output.value": (_RAISED.format("'"), _RAISED.format('"'))},
    switch="",
)
