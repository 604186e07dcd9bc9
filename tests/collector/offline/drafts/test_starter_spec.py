"""`offrails init` writes a spec that accepts the recorded sessions."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.client import api_client
from collector.offline.drafts import starter_spec
from collector.offline.drafts.starter_spec import (
    Agent,
    NothingSeen,
    agents,
    choose,
    fetch,
    starter,
)
from monitor.spec.compiler.compile import compile_text

SHARED = Path(__file__).parents[4] / ".." / "shared"
CAPTURES = SHARED / "captures"


def agent(**changes: object) -> Agent:
    made = Agent(
        service="shop agent",
        tools={"login": [], "pay now!": ["amount"], "pay_now": []},
        dialects=["gen_ai"],
        session_from={"gen_ai.conversation.id": 3},
        arguments=True,
        switches=[],
        runs=[("login", "pay now!"), ("login", "pay now!"), ("login",)],
    )
    return made._replace(**changes)  # type: ignore[arg-type]


def test_the_starter_compiles_and_is_a_shadow() -> None:
    """The written spec loads, is in shadow mode, and matches the service."""
    spec, findings = compile_text(starter(agent()), "start.yaml")

    assert spec is not None, findings
    assert (spec.id, spec.mode) == ("shop_agent", "shadow")
    assert spec.match.matches({"service.name": "shop agent"})
    assert spec.golden_count == 2


def test_the_starter_says_how_to_see_arguments() -> None:
    """If no arguments are on the wire, it names the framework's switch for them."""
    text = starter(agent(arguments=False, switches=["SHOW_ALL=true"]))

    assert "SHOW_ALL=true" in text


def test_hostile_names_stay_data() -> None:
    """A tool name with line breaks and quotes is quoted, and is that very tool."""
    evil = 'x"}\n# id: other\nkind: policy'
    text = starter(agent(tools={evil: []}, runs=[(evil,)]))
    spec, findings = compile_text(text, "start.yaml")

    assert spec is not None, findings
    assert spec.alphabet.tools == (evil,)


def test_several_agents_must_be_chosen_from() -> None:
    """With several agents and no choice, the verb refuses to guess."""
    with pytest.raises(NothingSeen, match="--service"):
        choose([agent(), agent(service="other")], None)
    with pytest.raises(NothingSeen, match="no tool call"):
        choose([], None)
    assert choose([agent(), agent(service="other")], "other").service == "other"


def test_a_service_of_several_namespaces_must_be_chosen_from() -> None:
    """The message names them, also the empty one."""
    found = [agent(), agent(namespace="staging", tools={"other": []})]
    with pytest.raises(NothingSeen, match=r"with --namespace: '', staging$"):
        choose(found, "shop agent")
    with pytest.raises(
        NothingSeen, match=r"no agent of namespace 'x' was seen; .*: '', staging$"
    ):
        choose(found, "shop agent", "x")
    assert choose(found, None, "staging").tools == {"other": []}
    assert choose(found, "shop agent", "").namespace == ""


def _session(session: str, *tools: str, **more: Any) -> dict[str, Any]:
    steps = [{"tool": tool, "kind": "progress"} for tool in tools]
    return {"namespace": "", "session": session, "steps_folded": 0, "steps": steps, **more}


def _seen(service: str, **more: Any) -> dict[str, Any]:
    return {
        "namespace": "",
        "service": service,
        "tools": {"a": [], "b": []},
        "dialects": ["gen_ai"],
        "session_from": {},
        "calls_with_arguments": 1,
        "switches": [],
        **more,
    }


def test_runs_are_those_of_the_service_and_namespace_alone() -> None:
    """The agent's name does not matter: services and namespaces share it. A run of two services is of neither."""
    sessions = [
        _session("1", "a", "b", services=["shop"]),
        _session("2", "b", services=["shop-staging"]),
        _session("3", "b", "b", services=["shop"], namespace="staging"),
        _session("4", "b", "a", services=["shop", "shop-staging"]),
        _session("5", "a", services=[]),
    ]
    found = agents(
        [
            _seen("shop"),
            _seen("shop-staging"),
            _seen("shop", namespace="staging"),
            _seen("unknown"),
        ],
        sessions,
    )
    assert [list(each.runs) for each in found] == [
        [("a", "b")],
        [("b",)],
        [("b", "b")],
        [("a",)],
    ]


def test_what_is_no_file_and_no_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file is not taken for a host name. An unreachable service is named with the reason."""
    with pytest.raises(SystemExit, match="2"):
        main(["init", "--from", "spans.jsonl"])
    with pytest.raises(SystemExit, match="2"):
        main(["init", "--from", str(tmp_path / "none")])
    assert main(["init", "--from", "127.0.0.1:1"]) == 1
    assert main(["init", "--from", "ftp://127.0.0.1"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "offrails: spans.jsonl: no such file or folder",
        f"offrails: {tmp_path / 'none'}: no such file or folder",
        "offrails: 127.0.0.1:1: Connection refused",
        "offrails: ftp://127.0.0.1: expected HOST:PORT or http://HOST:PORT",
    ]


def test_all_pages_of_a_service_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that lists its sessions by pages is asked for each, up to the bound of judgements."""
    asked: list[str] = []

    def answer(_url: str, path: str, _token: Path | None = None) -> dict[str, Any]:
        asked.append(path)
        if path == "/api/v1/seen":
            return {"agents": [_seen("shop")]}
        page = int(path.partition("?cursor=")[2] or "0")
        steps = [{"tool": f"t{page}", "kind": "progress"}]
        found = {"session": f"s{page}", "namespace": "", "services": ["shop"]}
        session = {**found, "steps": steps, "steps_folded": 0}
        return {"sessions": [session], "next": str(page + 1) if page < 9 else None}

    monkeypatch.setattr(starter_spec, "ask", answer)
    monkeypatch.setattr(api_client, "ask", answer)
    [found] = fetch("127.0.0.1:1")
    assert list(found.runs) == [(f"t{page}",) for page in range(10)]
    assert asked[2] == "/api/v1/sessions?cursor=1"
    monkeypatch.setattr(starter_spec, "JUDGEMENTS_MAX", 3)
    asked.clear()
    [found] = fetch("127.0.0.1:1")
    assert (len(found.runs), len(asked)) == (3, 4)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n[]", "expected an object at /api/v1/seen"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", "its answer has no 'agents'"),
        (b"HTTP/1.0 503 No\r\n\r\n", "status 503 for /api/v1/seen"),
        (b"\x00\x00\x12\x04\r\n\r\n", "\\x00"),
    ],
)
def test_somebody_elses_service(
    capsys: pytest.CaptureFixture[str], answer: bytes, told: str
) -> None:
    """An unexpected response gives a one-line error without the response's control characters."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert main(["init", "--from", f"127.0.0.1:{server.getsockname()[1]}"]) == 1
        thread.join()
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert "\0" not in said


@pytest.mark.parametrize("name", ["", "shop agent"])
def test_plain_runs_are_accepted_by_their_starter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """As the guide writes them; it matches the agent that they name, if they name one."""
    runs, out = tmp_path / "good.jsonl", tmp_path / "start.yaml"
    calls = [{"name": "login"}, {"name": "pay", "arguments": {"amount": 5}}]
    each = [{"run": f"r{n}", "agent": name, "calls": calls[: 2 - n]} for n in range(3)]
    runs.write_text("".join(json.dumps(run) + "\n" for run in each))

    assert main(["init", "--from", str(runs), "--out", str(out)]) == 0
    spec, findings = compile_text(out.read_text(), "start.yaml")
    assert spec is not None, findings
    assert set(spec.alphabet.tools) == {"login", "pay"}
    assert "arguments seen: amount" in out.read_text()
    assert spec.match.matches({"gen_ai.agent.name": "shop agent"}) == bool(name)
    runs.write_text("".join(json.dumps(run) + "\n" for run in each[:2]))
    capsys.readouterr()
    assert main(["check", str(out), "--runs", str(runs)]) == 0
    assert "accepts all 2 runs" in capsys.readouterr().out


def test_the_runs_of_several_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verb selects among agents as among services. Runs without calls belong to none."""
    runs = tmp_path / "runs.json"
    each = [{"agent": agent, "calls": [{"name": agent}]} for agent in ("a", "b")]
    runs.write_text(json.dumps([*each, {"agent": "c", "calls": []}]))

    assert main(["init", "--from", str(runs)]) == 1
    assert "choose one with --service: a, b" in capsys.readouterr().err
    assert main(["init", "--from", str(runs), "--service", "b"]) == 0
    assert "  b: {tool: b}" in capsys.readouterr().out


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="no captures beside the checkout")
def test_a_recorded_run_is_accepted_by_its_starter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay of the capture under its own starter spec has no harm and a golden path."""
    run = str(CAPTURES / "pydantic-ai" / "golden.otlp.jsonl")
    out = tmp_path / "start.yaml"

    assert main(["init", "--from", run, "--out", str(out)]) == 0
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "run.jsonl").write_bytes(Path(run).read_bytes())
    capsys.readouterr()
    assert main(["init", "--from", str(folder)]) == 0
    assert capsys.readouterr().out == out.read_text()
    assert main(["check", str(out)]) == 0
    capsys.readouterr()
    assert main(["replay", run, "--specs", str(out), "--table"]) == 0
    line = capsys.readouterr().out.splitlines()[1].split()
    assert line[3:9] == ["6", "6", "0", "0.000", "1.000", "1.000"]


def _span(number: int, tool: str) -> dict[str, object]:
    """A tool's span as smolagents writes it."""
    texts = {"tool.name": tool, "openinference.span.kind": "TOOL", "session.id": "s1"}
    return {
        "traceId": "01" * 16,
        "spanId": f"{number:016x}",
        "name": tool,
        "startTimeUnixNano": str(number),
        "endTimeUnixNano": str(number),
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in texts.items()],
    }


def test_a_frameworks_own_tools_are_left_out_of_the_starter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that ends with `final_answer` is accepted by its starter spec, which names that tool in a comment."""
    spans = [_span(n, tool) for n, tool in enumerate(("find", "pay", "final_answer"), start=1)]
    scope = {"name": "openinference.instrumentation.smolagents"}
    service = [{"key": "service.name", "value": {"stringValue": "trip"}}]
    group = {
        "resource": {"attributes": service},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }
    run, out = tmp_path / "run.otlp.jsonl", tmp_path / "start.yaml"
    run.write_text(json.dumps({"resourceSpans": [group]}) + "\n")

    assert main(["init", "--from", str(run), "--out", str(out)]) == 0
    assert "# Left out: final_answer." in out.read_text()
    capsys.readouterr()
    assert main(["check", str(out), "--runs", str(run)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 spec fine, 0 errors, 0 warnings",
        "trip: accepts all 1 runs",
    ]
