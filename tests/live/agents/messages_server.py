# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""A Messages API on the loopback that follows the script, as a stream; runs in the agents' environment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import rover

__all__ = ["serve"]


def _asked(messages: list[dict[str, Any]]) -> int:
    """Calls that were asked for so far."""
    blocks = [
        part
        for each in messages
        if isinstance(each["content"], list)
        for part in each["content"]
    ]
    return sum(part["type"] == "tool_use" for part in blocks)


def _block(step: int, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The next call of the script, or the answer after the last; and what is streamed of it."""
    if step >= len(rover.SCRIPT):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": rover.ANSWER}
    tool, arguments = rover.SCRIPT[step]
    block = {"type": "tool_use", "id": f"toolu_{step + 1}", "name": prefix + tool, "input": {}}
    return block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}


def _events(model: str, step: int, prefix: str) -> Iterator[dict[str, Any]]:
    block, delta = _block(step, prefix)
    reason = {"tool_use": "tool_use", "text": "end_turn"}[block["type"]]
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{step}", "type": "message", "role": "assistant", "model": model}
    empty = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": {**message, **empty}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    prefix = ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Says nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        events = _events(asked["model"], _asked(asked["messages"]), self.prefix)
        lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
        body = "".join(lines).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(prefix: str) -> str:
    """Starts it, and gives its base address; `prefix` is before the name of each tool."""
    _Handler.prefix = prefix
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
