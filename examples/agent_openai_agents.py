"""The support desk in the OpenAI Agents SDK, traced by OpenInference."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, function_tool, set_trace_processors
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from support_desk import ANSWER, QUESTION, SCRIPT, SESSION, TOOLS, tracing


class Script(Model):
    """The next call of the script, then the answer."""

    def __init__(self) -> None:
        self._calls = enumerate(SCRIPT, start=1)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(output=[self._next()], usage=Usage(), response_id=None)

    def _next(self) -> ResponseFunctionToolCall | ResponseOutputMessage:
        for number, (tool, arguments) in self._calls:
            return ResponseFunctionToolCall(
                arguments=json.dumps(arguments),
                call_id=f"call_{number}",
                name=tool,
                type="function_call",
            )
        text = ResponseOutputText(annotations=[], text=ANSWER, type="output_text")
        return ResponseOutputMessage(
            id="answer", content=[text], role="assistant", status="completed", type="message"
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


# These are the lines that offrails needs: where spans go, and the id of the conversation.
set_trace_processors([])  # the SDK's own traces would go to OpenAI
provider = tracing()
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
agent = Agent(
    name="support_desk", model=Script(), tools=[function_tool(tool) for tool in TOOLS]
)
with using_session(SESSION):
    print(Runner.run_sync(agent, QUESTION, max_turns=20).final_output)
provider.shutdown()
