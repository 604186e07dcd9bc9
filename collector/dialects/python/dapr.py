"""Dapr Agents: OpenInference's keys and the GenAI conventions' on one span.

Its input is what the executor of tools was given, which holds the arguments. Of a tool that raised the status is OK,
and its result tells, as Python would write it. The workflow's steps around a call are of kind TOOL, too: they run
tools, or store what came of them.
"""

from dataclasses import replace

from collector.dialects.base import Source
from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.scopes import DAPR_SCOPE
from collector.dialects.values.arguments import call_form

__all__ = ["DAPR_AGENTS"]


_RAISED = "content=[TextContent(type='text', text={}Error executing tool "

DAPR_AGENTS = replace(
    GEN_AI,
    name="dapr_agents",
    scopes=(DAPR_SCOPE,),
    unless=(
        "gen_ai.tool.call.id",
    ),  # of an agent that is another program: the arguments themselves
    arguments=(Source("input.value", call_form),),
    call_id=(),
    failed_marks={"output.value": (_RAISED.format("'"), _RAISED.format('"'))},
    switch="",
)
