"""How parts of models' messages show that they are results of tools: by their type, or by the key under which these stand."""

from __future__ import annotations

from typing import Final

__all__ = ["RESULT_KEYS", "RESULT_TYPES"]

RESULT_TYPES: Final = frozenset(
    {"tool_call_response", "function_call_output", "tool_result", "tool-result"}
)
"""Types of the parts that are results: the GenAI conventions', OpenAI Responses', Anthropic's and the AI SDK's."""

RESULT_KEYS: Final = frozenset({"toolResult", "functionResponse", "function_response"})
"""Keys of parts without a type: Bedrock's, and Google's in two spellings."""
