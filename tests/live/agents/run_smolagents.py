# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""smolagents with a scripted model, instrumented by OpenInference."""

from __future__ import annotations

from typing import Any

import rover
from openinference.instrumentation import using_session
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)


class Script(Model):
    """The next call of the script, and the final answer after the last."""

    asked = 0

    def generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatMessage:
        done = self.asked == len(rover.SCRIPT)
        name, arguments = (
            ("final_answer", {"answer": rover.ANSWER}) if done else rover.SCRIPT[self.asked]
        )
        self.asked += 1
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call_{self.asked}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


tracing = rover.provider()
SmolagentsInstrumentor().instrument(tracer_provider=tracing)
agent = ToolCallingAgent(
    tools=[tool(each) for each in rover.TOOLS],
    model=Script(),
    name="farm_rover",
    description="a rover",
    max_steps=20,
)
with using_session(rover.SESSION):
    agent.run("water field 3")
tracing.shutdown()
