# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""A scripted chat model of LangChain, and the instrumentations that are chosen."""

from __future__ import annotations

import os
from typing import Any

import rover
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

__all__ = ["CONFIG", "Script", "instrument"]

THROUGH = os.environ["ROVER_THROUGH"]

CONFIG: Any = {
    "configurable": {"thread_id": rover.SESSION},
    "metadata": {"session_id": rover.SESSION},
}
"""Names the session."""


class Script(BaseChatModel):
    """The next call of the script, and the answer after the last."""

    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage(rover.ANSWER)
        if self.asked < len(rover.SCRIPT):
            name, arguments = rover.SCRIPT[self.asked]
            self.asked += 1
            call = {"name": name, "args": arguments, "id": f"call_{self.asked}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def instrument() -> Any:
    """The provider of the spans; several instrumentations may be chosen."""
    tracing = rover.provider()
    if "openinference" in THROUGH:
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=tracing)
    if "traceloop" in THROUGH:
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        LangchainInstrumentor().instrument(tracer_provider=tracing)
    return tracing
