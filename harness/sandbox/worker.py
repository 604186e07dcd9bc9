"""The process that tools run in. It reads a request a line and writes an answer a line; it keeps nothing between them.

    {"module": FILE, "state": {...}, "tool": NAME, "arguments": {...}} -> {"result": ..., "error": false, "state": {...}}
    {"module": FILE} -> {"tools": [...], "state": {...}, "hidden": [...]}     what the world has

An answer has the `id` of its request; a fault has it and a text.

Standard library alone. What tools print goes nowhere: standard output is this protocol's, under another number.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import IO, Any

__all__ = ["serve"]


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answers requests until there are no more."""
    worlds: dict[str, tuple[Any, dict[str, Any]]] = {}
    for line in requests:
        request = json.loads(line)
        try:
            answer = json.dumps({"id": request["id"], **_answered(request, worlds)})
        except Exception as problem:  # noqa: BLE001 - a tool's fault is told, and the next call is answered
            fault = f"{type(problem).__name__}: {problem}"[:1000]
            answer = json.dumps({"id": request["id"], "fault": fault})
        answers.write(answer.encode() + b"\n")
        answers.flush()


def _answered(
    request: dict[str, Any], worlds: dict[str, tuple[Any, dict[str, Any]]]
) -> dict[str, Any]:
    file = request["module"]
    if file not in worlds:
        worlds[file] = _load(file)
    world, state = worlds[file]
    if "tool" not in request:
        tools = [tool.as_json() for tool in world.tools.values()]
        return {"tools": tools, "state": state, "hidden": list(world.hidden)}
    found = world.call(request["state"], request["tool"], request["arguments"])
    return dict(found._asdict())


def _load(file: str) -> tuple[Any, dict[str, Any]]:
    """The world of a module, and the state that it begins with."""
    spec = importlib.util.spec_from_file_location(f"world_{len(sys.modules)}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    state = getattr(module, "STATE", {})
    if not isinstance(state, dict):
        raise TypeError(f"STATE: expected a dict, found {type(state).__name__}")
    return module.world, state


def main() -> None:
    """Moves the protocol to descriptors of its own, then serves."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    serve(requests, answers)


if __name__ == "__main__":
    main()
