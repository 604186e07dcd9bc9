# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""A chat completions API on the loopback that follows the script; runs in the agents' environment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import rover

__all__ = ["serve"]


def _asked(messages: list[dict[str, Any]]) -> int:
    return sum(bool(message.get("tool_calls")) for message in messages)


def _message(step: int) -> dict[str, Any]:
    """The next call of the script, or the answer after the last."""
    if step >= len(rover.SCRIPT):
        return {"role": "assistant", "content": rover.ANSWER}
    tool, arguments = rover.SCRIPT[step]
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call_{step + 1}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _choice(message: dict[str, Any]) -> dict[str, Any]:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {"index": 0, "finish_reason": reason}


def _chunks(common: dict[str, Any], message: dict[str, Any]) -> Iterator[bytes]:
    usage, rest = common["usage"], {**common, "object": "chat.completion.chunk"}
    delta = {"index": 0, "finish_reason": None, "delta": message}
    end = {**_choice(message), "delta": {}}
    for choices, used in (([delta], None), ([end], None), ([], usage)):
        yield b"data: %s\n\n" % json.dumps({**rest, "choices": choices, "usage": used}).encode()
    yield b"data: [DONE]\n\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Says nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = _message(_asked(asked["messages"]))
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        common = {"id": "c", "created": 1, "model": asked["model"], "usage": usage}
        if asked.get("stream"):
            kind, body = "text/event-stream", b"".join(_chunks(common, message))
        else:
            choices = [{**_choice(message), "message": message}]
            answer = {**common, "object": "chat.completion", "choices": choices}
            kind, body = "application/json", json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve() -> str:
    """Starts it, and gives its base address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
