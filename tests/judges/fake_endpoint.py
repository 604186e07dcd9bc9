"""An OpenAI-compatible endpoint on loopback that behaves as a test wants it to, also badly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS_IN, TOKENS_OUT = 100, 10
"""What each answer is said to have used."""


@dataclass
class FakeAnswer:
    """What the endpoint sends."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    hang: bool = False
    endless: bool = False
    close: bool = False


Behaviour = Callable[[Mapping[str, Any], int], FakeAnswer]
"""(request, its number from 1) -> answer."""


def completion(
    content: str | None, finish: str = "stop", refusal: str | None = None, **more: Any
) -> FakeAnswer:
    """A chat completion with this content."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    body = {
        "id": "fake",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": TOKENS_IN,
            "completion_tokens": TOKENS_OUT,
            "total_tokens": TOKENS_IN + TOKENS_OUT,
        },
    }
    return FakeAnswer(json.dumps(body).encode(), **more)


def refused(status: int = 400, message: str = "not supported", **headers: str) -> FakeAnswer:
    """An error of the endpoint."""
    body = json.dumps({"error": {"message": message}}).encode()
    return FakeAnswer(body, status=status, headers=headers)


def judged(score: int = 2, *steps: str, impact: str = "low", **more: Any) -> str:
    """An answer of the right form, with a finding at each step."""
    found = [
        {"step": step, "category": "Tool-related", "impact": impact, "what": "odd"}
        for step in steps
    ]
    whole = {"evidence": "e", "findings": found, "criteria": "c", "score": score}
    return json.dumps({"applicable": True, **whole, **more})


def obey(request: Mapping[str, Any], number: int) -> FakeAnswer:
    """Keeps any schema: the first value of each enumeration, and one item in each list."""
    form = request.get("response_format", {})
    schema = form.get("json_schema", {}).get("schema")
    return completion(json.dumps(_made(schema)) if schema else judged())


def _made(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][-1] if schema["enum"][-1] != 3 else 2
    kind = schema["type"]
    if kind == "object":
        return {name: _made(each) for name, each in schema["properties"].items()}
    if kind == "array":
        return [_made(schema["items"])]
    return {"string": "text", "boolean": True, "integer": 1}[kind]


@dataclass
class FakeEndpoint:
    """A running endpoint, and what it was asked."""

    url: str
    requests: list[Mapping[str, Any]]
    headers: list[Mapping[str, str]]


class _ManyAtOnce(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[FakeEndpoint]:
    """Serves on a free port of loopback, until the block ends."""
    found = FakeEndpoint("", [], [])
    over = threading.Event()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            request = json.loads(self.rfile.read(length))
            with lock:
                found.requests.append(request)
                found.headers.append({key.lower(): text for key, text in self.headers.items()})
                number = len(found.requests)
            self._send(behaviour(request, number))

        def _send(self, answer: FakeAnswer) -> None:
            if answer.wait:
                time.sleep(answer.wait)
            if answer.hang:
                over.wait(30)
            self.close_connection = answer.close or answer.hang
            if answer.hang or (answer.close and not answer.body):
                return
            self.send_response(answer.status)
            self.send_header("content-type", "application/json")
            for name, value in answer.headers.items():
                self.send_header(name.replace("_", "-"), value)
            if answer.endless:
                self.send_header("connection", "close")
                self.end_headers()
                self._pour()
                return
            self.send_header("content-length", str(len(answer.body) + 10 * answer.close))
            self.end_headers()
            self.wfile.write(answer.body)

        def _pour(self) -> None:
            self.close_connection = True
            try:
                while not over.is_set():
                    self.wfile.write(b" " * 65_536)
            except OSError:
                pass

        def log_message(self, *_: Any) -> None:
            pass

    server = _ManyAtOnce(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield found
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
