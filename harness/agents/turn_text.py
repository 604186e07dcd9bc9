"""What a model is told of its task and its tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.tasks.read import BenchTask

__all__ = ["task_text", "tools_text"]


def task_text(task: BenchTask, *, plan: bool) -> str:
    """The instruction; with `plan`, a plan is asked for first."""
    text = task.document.instruction.strip()
    return f"{text}\n\nFirst write your plan, and call nothing yet." if plan else text


def tools_text(tools: Sequence[Mapping[str, Any]]) -> str:
    """A line for each tool: name, arguments, description."""
    return "\n".join(
        f"- {tool['name']}: {tool['description']} Arguments: {json.dumps(tool['parameters'])}"
        for tool in tools
    )
