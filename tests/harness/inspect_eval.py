"""An eval of Inspect on its mock model: two samples, with calls that work, fail, and name no tool. Prints the log's path."""

import sys

from inspect_ai import Task, eval  # noqa: A004 - its name
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import basic_agent
from inspect_ai.tool import Tool, ToolError, tool

CALLS: list[tuple[str, dict[str, object]]] = [
    ("add", {"a": 1, "b": 2}),
    ("lock", {"door": "front"}),
    ("fly", {}),
    ("submit", {"answer": "3"}),
]


@tool
def add() -> Tool:
    async def execute(a: int, b: int) -> int:
        """Adds.

        Args:
            a: a number
            b: another one
        """
        return a + b

    return execute


@tool
def lock() -> Tool:
    async def execute(door: str) -> str:
        """Locks a door.

        Args:
            door: which one
        """
        raise ToolError(f"{door} is stuck")

    return execute


def answered(name: str, arguments: dict[str, object]) -> ModelOutput:
    found = ModelOutput.for_tool_call("mockllm", name, arguments)
    # Tokens that are told need not be counted: that would take the network.
    found.usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=5)
    return found


model = get_model("mockllm/model", custom_outputs=[answered(*each) for each in CALLS * 2])
task = Task(
    dataset=[Sample(input="1 + 2?", target="3"), Sample(input="2 + 1?", target="4")],
    solver=basic_agent(tools=[add(), lock()]),
    scorer=includes(),
    name="sums",
)
[log] = eval(task, model=model, log_dir=sys.argv[1], display="none", max_samples=1)
print(log.status, log.location)
