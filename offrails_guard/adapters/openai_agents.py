"""OpenAI Agents SDK: guardrails of function tools.

    tools = guarded([function_tool(water), function_tool(scan)], guard)

A denied call is not made: the model gets the message as the tool's output, and the run goes on.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

from agents import (
    FunctionTool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)

from offrails_guard.awaiting_outcome.decision_ids import DecisionIds
from offrails_guard.base import BaseGuard

__all__ = ["guarded", "guardrails"]


def guarded(tools: Iterable[FunctionTool], guard: BaseGuard) -> list[FunctionTool]:
    """The tools, each asked for before it runs. Guardrails that they have come first."""
    before, after = guardrails(guard)
    found = []
    for tool in tools:
        one = copy.copy(tool)
        one.tool_input_guardrails = [*(tool.tool_input_guardrails or ()), before]
        one.tool_output_guardrails = [after, *(tool.tool_output_guardrails or ())]
        found.append(one)
    return found


def guardrails(guard: BaseGuard) -> tuple[ToolInputGuardrail[Any], ToolOutputGuardrail[Any]]:
    """What asks before a tool, and what says afterwards that it ran.

    Both also fit servers: `MCPServerStdio(..., tool_input_guardrails=[...], tool_output_guardrails=[...])`.
    """
    awaiting = DecisionIds()

    async def ask(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        context = data.context
        decision = await guard.acheck(
            context.tool_name,
            _arguments(context.tool_arguments),
            call_id=context.tool_call_id,
            agent="" if guard.agent else data.agent.name,
        )
        if not decision.allowed:
            guard.refused(decision)
            return ToolGuardrailFunctionOutput.reject_content(decision.message, decision)
        awaiting.put(context.tool_call_id, decision.decision_id)
        return ToolGuardrailFunctionOutput.allow(decision)

    async def ran(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        # A tool's exception has become its output by now: only spans tell it from a result.
        guard.outcome(awaiting.take(data.context.tool_call_id), "ran")
        return ToolGuardrailFunctionOutput.allow()

    return ToolInputGuardrail(ask, "offrails"), ToolOutputGuardrail(ran, "offrails")


def _arguments(text: str) -> dict[str, Any] | None:
    """None where the model's text is no JSON object: the arguments are unknown."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
