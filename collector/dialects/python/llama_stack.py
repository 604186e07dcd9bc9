"""Llama Stack: tools that its server executes while it makes a response, under its own keys.

Only its span name identifies a file search.
"""

from typing import Final

from collector.dialects.base import Dialect

__all__ = ["LLAMA_STACK", "LLAMA_STACK_SEARCH"]

_SCOPES: Final = ("llama_stack.providers.inline.",)

LLAMA_STACK = Dialect(
    name="llama_stack",
    scopes=_SCOPES,
    when=("tool_name",),
    tool=("tool_name",),
)

LLAMA_STACK_SEARCH = Dialect(
    name="llama_stack",
    scopes=_SCOPES,
    unless=("tool_name",),
    span_name="(?P<tool>file_search|knowledge_search)",
)
