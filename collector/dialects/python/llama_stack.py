"""Llama Stack: what its server executes itself while it makes a response, under names of its own.

A search in files has nothing but its span's name.
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
