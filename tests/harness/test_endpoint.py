"""A model behind an endpoint: what it answers is made, and each way to misbehave ends with a cause."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.bench.token_cost import PriceError, token_cost
from harness.cli.program import main
from judges.models.prices import BadPricesError
from judges.models.prices import price_of as judges_price
from tests.harness.conftest import LAB, Bench

Answer = Callable[[dict[str, Any], "Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers by what the test has put on the server."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)  # type: ignore[attr-defined]
        self.server.answer(body, self)  # type: ignore[attr-defined]

    def send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def say(self, message: dict[str, Any]) -> None:
        usage = {"prompt_tokens": 100, "completion_tokens": 7}
        found = {"choices": [{"message": {"role": "assistant", **message}}], "usage": usage}
        self.send(200, json.dumps(found).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """Counts its own connections: threads of another test's server may still end theirs."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.answer: Answer
        self.accepted = 0
        self.closed = threading.Semaphore(0)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.accepted += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()


class Endpoint:
    def __init__(self) -> None:
        self.server = Server()
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def asked(self) -> list[dict[str, Any]]:
        return self.server.asked

    def answers(self, answer: Answer) -> str:
        self.server.answer = answer
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def close(self) -> None:
        self.end.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Endpoint()
    yield found
    found.close()


CALLS = (("open_door", {"key": "brass"}), ("light", {"level": 3}), ("note", {"text": "done"}))


def tool_call(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def right(body: dict[str, Any], handler: Handler) -> None:
    """A model that does the task right."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    if "tools" not in body:
        handler.say({"content": "1. open 2. light 3. note"})
    elif done < len(CALLS):
        name, arguments = CALLS[done]
        handler.say(tool_call(name, json.dumps(arguments)))
    else:
        handler.say({"content": "Done."})


def run(bench: Bench, url: str, *options: str) -> dict[str, Any]:
    agent = ("--agent", "openai:small", "--endpoint", url)
    [found] = bench.run(str(LAB), *agent, *options)
    return found


@pytest.mark.parametrize(("scaffold", "asked"), [("react", 4), ("plan", 5)])
def test_a_model_does_its_task_by_tool_calls(
    scaffold: str, asked: int, endpoint: Endpoint, bench: Bench
) -> None:
    """A model behind an endpoint is told of task, tools and results; its tokens, cost and scaffold are in the line."""
    prices = bench.folder / "prices.yaml"
    prices.write_text("small: {in: 1, out: 2}\n")
    options = ("--scaffold", scaffold, "--prices", str(prices))
    found = run(bench, endpoint.answers(right), *options)
    assert (found["success"], found["pc"], found["scaffold"]) == (True, 1, f"{scaffold}/1")
    assert (found["tokens_in"], found["tokens_out"]) == (100 * asked, 7 * asked)
    assert found["cost"] == pytest.approx(asked * (100 + 14) / 1e6)
    last = endpoint.asked[-1]
    assert {tool["function"]["name"] for tool in last["tools"]} >= {"open_door", "light"}
    assert [m["content"] for m in last["messages"] if m["role"] == "tool"][:2] == [
        "open",
        "lit",
    ]


@pytest.mark.parametrize(
    ("price", "says"),
    [
        ("{input: 1, output: 2}", ""),
        ("{in: 1}", "small.output: expected money for a million tokens, found None"),
        (
            "{input: -1, output: 2}",
            "small.input: expected money for a million tokens, found -1",
        ),
        ("{input: .nan, output: 2}", "small.input: expected money"),
        ("{input: .inf, output: 2}", "small.input: expected money"),
        (f"{{input: {10**399}, output: 2}}", "small.input: expected money"),
        ("null", "small.input: expected money for a million tokens, found None"),
        ("{input: true, output: 2}", "small.input: expected money"),
        ("1", "small.input: expected money"),
    ],
)
def test_prices_are_those_that_judges_read(
    price: str, says: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file of prices serves bench and judges; what is no price is named with file, line and key before anything runs."""
    file = bench.folder / "prices.yaml"
    file.write_text(f"# euros\nsmall: {price}\n")
    if says:
        agent = ("--agent", "openai:small", "--endpoint", "http://127.0.0.1:9/v1")
        out = ("--out", str(bench.out()))
        assert main(["run", str(LAB), *agent, "--prices", str(file), *out]) == 2
        told = capsys.readouterr().err
        assert f"{file}:2:" in told
        assert says in told
        with pytest.raises(BadPricesError):
            judges_price(file, "small")
    else:
        assert token_cost(file, "small")(1_000_000, 500_000) == 2.0
        assert judges_price(file, "small").tokens_in == 1.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("small:\n  input: 1\n  output: -2\n", "3:3: small.output: expected money"),
        ("small: {input: 1\n", "2:1: "),
        ("- small\n", "1:1: expected a mapping"),
    ],
)
def test_a_fault_of_the_prices_is_where_it_stands(text: str, says: str, tmp_path: Path) -> None:
    """A price, or a text that is no YAML, is named by its own line."""
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(PriceError) as fault:
        token_cost(file, "small")
    assert f"{file}:{says}" in str(fault.value)


def test_a_model_plans_again_at_intervals(
    endpoint: Endpoint, bench: Bench, tmp_path: Path
) -> None:
    """With `planning_interval` a model is asked for a plan, without tools, after so many of its answers."""
    copy = Path(shutil.copytree(LAB, tmp_path / "lab", ignore=shutil.ignore_patterns("__*")))
    file = copy / "lamp.yaml"
    file.write_text(file.read_text() + "agent: {planning_interval: 2}\n")
    agent = ("--agent", "openai:small", "--endpoint", endpoint.answers(right))
    [found] = bench.run(str(copy), *agent)
    assert found["success"]
    assert ["tools" in body for body in endpoint.asked] == [True, True, False, True, True]
    assert "plan" in endpoint.asked[2]["messages"][-1]["content"]


def test_a_model_hears_what_a_user_says(
    endpoint: Endpoint, bench: Bench, tmp_path: Path
) -> None:
    """What the world's user answers is the model's next message, and the rollout goes on."""
    copy = Path(shutil.copytree(LAB, tmp_path / "lab", ignore=shutil.ignore_patterns("__*")))
    module, file = copy / "lab.py", copy / "lamp.yaml"
    user = "@world.user()\ndef guest(state, said, turn):\n    return 'Yes.' if turn == 0 else None\n"
    module.write_text(f"{module.read_text()}\n\n{user}")
    file.write_text(file.read_text() + "environment: {user: guest}\n")

    def asks_first(body: dict[str, Any], handler: Handler) -> None:
        if len(body["messages"]) == 2:
            handler.say({"content": "Shall I?"})
        else:
            right(body, handler)

    agent = ("--agent", "openai:small", "--endpoint", endpoint.answers(asks_first))
    [found] = bench.run(str(copy), *agent)
    assert found["success"]
    assert endpoint.asked[1]["messages"][-1] == {"role": "user", "content": "Yes."}


@pytest.mark.parametrize("calls", ["tool", "text"])
def test_a_model_is_told_of_tools_that_come_later(
    calls: str, endpoint: Endpoint, bench: Bench, tmp_path: Path
) -> None:
    """A tool that was held back is in what the model is told from the user's answer on, and not before."""
    copy = Path(shutil.copytree(LAB, tmp_path / "lab", ignore=shutil.ignore_patterns("__*")))
    module, file = copy / "lab.py", copy / "lamp.yaml"
    user = "@world.user()\ndef guest(state, said, turn):\n    return 'Now?' if turn == 0 else None\n"
    module.write_text(f"{module.read_text()}\n\n{user}")
    more = f"agent: {{calls: {calls}}}\nenvironment: {{user: guest}}\nheld_back: {{look: 1}}\n"
    file.write_text(file.read_text() + more)
    says = "Final Answer: I cannot look." if calls == "text" else "I cannot look."
    answer = endpoint.answers(lambda _, handler: handler.say({"content": says}))
    bench.run(str(copy), "--agent", "openai:small", "--endpoint", answer)
    first, second = map(json.dumps, endpoint.asked)
    told = "- look: Looks" if calls == "text" else '"name": "look"'
    assert (told in first, told in second) == (False, True)
    assert [each["content"][:4] for each in endpoint.asked[1]["messages"][3:]] == (
        ["Now?", "More"] if calls == "text" else ["Now?"]
    )


def test_a_run_leaves_no_connection_open(
    endpoint: Endpoint, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that the endpoint keeps alive is used for the whole run, and closed when it is over."""
    monkeypatch.setattr(Handler, "protocol_version", "HTTP/1.1")
    assert run(bench, endpoint.answers(right))["success"]
    assert endpoint.server.closed.acquire(timeout=30)
    assert len(endpoint.asked) > 1
    assert endpoint.server.accepted == 1


def _status(status: int, text: str = "{}") -> Answer:
    return lambda _, handler: handler.send(status, text.encode())


def _content(content: bytes) -> Answer:
    return lambda _, handler: handler.send(200, content)


def _close(_: dict[str, Any], handler: Handler) -> None:
    handler.close_connection = True


def _cut(_: dict[str, Any], handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def _trickle(_: dict[str, Any], handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    pause = threading.Event()
    try:
        for _second in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            pause.wait(0.1)
    except OSError:
        pass
    handler.close_connection = True


OVERFLOW = '{"error": {"code": "context_length_exceeded"}}'
MISBEHAVIOUR: dict[str, tuple[Answer, str, str, str | None]] = {
    "an error of the server": (_status(500), "error", "environment", "infrastructure"),
    "too many requests": (_status(429), "error", "environment", "infrastructure"),
    "no access": (_status(401), "error", "environment", "infrastructure"),
    "too long a conversation": (_status(400, OVERFLOW), "limit", "context_overflow", None),
    "no JSON": (_content(b"<html>"), "error", "environment", "infrastructure"),
    "another form": (_content(b'{"choices": []}'), "error", "environment", "infrastructure"),
    "tokens without end": (
        _content(b'{"choices": [{"message": {"content": "Done."}}], "usage": {"prompt_tokens": 1e999}}'),
        "error", "environment", "infrastructure",
    ),
    "tokens below none": (
        _content(b'{"choices": [{"message": {"content": "Done."}}], "usage": {"completion_tokens": -5}}'),
        "error", "environment", "infrastructure",
    ),
    "a list": (_content(b"[1]"), "error", "environment", "infrastructure"),
    "a closed connection": (_close, "error", "environment", "infrastructure"),
    "half an answer": (_cut, "error", "environment", "infrastructure"),
    "an answer that trickles": (_trickle, "limit", "timeout", None),
    "arguments that are no JSON": (
        lambda _, handler: handler.say(tool_call("light", "{level:")),
        "gave_up", "parsing_failure", None,
    ),
    "no answer": (
        lambda _, handler: handler.say({"content": ""}),
        "gave_up", "reasoning_deficit", "premature_end",
    ),
    "a tool that there is not, for ever": (
        lambda _, handler: handler.say(tool_call("fly", "{}")),
        "limit", "iteration_limit_exceeded", "no_end",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", MISBEHAVIOUR)
def test_a_misbehaving_endpoint_ends_a_rollout_with_a_cause(
    way: str, endpoint: Endpoint, bench: Bench
) -> None:
    """However an endpoint misbehaves, the rollout ends, and its cause says how."""
    answer, end, category, kind = MISBEHAVIOUR[way]
    found = run(bench, endpoint.answers(answer), "--timeout", "2")
    assert (found["end"], found["cause"]["category"], found["cause"]["kind"]) == (
        end,
        category,
        kind,
    )
    assert found["success"] is False
