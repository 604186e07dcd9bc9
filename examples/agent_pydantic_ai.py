"""The support desk in Pydantic AI, whose spans are its own."""

from __future__ import annotations

from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from support_desk import ANSWER, QUESTION, SCRIPT, SESSION, TOOLS, tracing

calls = iter(SCRIPT)


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The next call of the script, then the answer."""
    for tool, arguments in calls:
        return ModelResponse(parts=[ToolCallPart(tool, arguments)])
    return ModelResponse(parts=[TextPart(ANSWER)])


# These are the lines that offrails needs: where spans go, and the id of the conversation.
provider = tracing()
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
agent = Agent(FunctionModel(model), name="support_desk", tools=TOOLS)
print(agent.run_sync(QUESTION, conversation_id=SESSION).output)
provider.shutdown()
