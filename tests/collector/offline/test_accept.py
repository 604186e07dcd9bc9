"""`offrails accept` turns a verdict into an entry of the spec, and the call is harmful no longer."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from collector.cli.main import main
from collector.offline.replay import replay
from monitor.spec.read import load_spec, load_specs
from tests.end_to_end.loopback import Loopback, Quiet

SHOP = """# the shop
id: shop
match: {service.name: shop}
alphabet:
  login: {tool: login}
  pay: {tool: pay, arguments: {amount: {max: 10}}}
golden: [[login, pay]]   # in this order
"""
GUARD = """
id: guard
kind: policy
alphabet: {login: {tool: login}, pay: {tool: pay}}
constraints: [{at_most: [pay, 9]}, {precedence: [login, pay]}]
"""
RUN = {
    "run": "friday",
    "spec": "shop",
    "calls": [
        {"name": "pay", "arguments": {"amount": 1}},
        {"name": "login", "arguments": {}},
        {"name": "dig", "arguments": {}},
        {"name": "pay", "arguments": {"amount": 99}},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(SHOP)
    (tmp_path / "guard.yaml").write_text(GUARD)
    (tmp_path / "runs.jsonl").write_text(json.dumps(RUN) + "\n")
    return tmp_path


def judged(folder: Path) -> list[dict[str, Any]]:
    return list(
        replay(
            [folder / "runs.jsonl"],
            load_specs([folder]).specs,
            together=True,
        )
    )


def harms(folder: Path) -> list[tuple[str, int]]:
    """(spec, step) of each harmful call of the recorded run."""
    return [
        (each["spec"], step["index"])
        for each in judged(folder)
        for step in each["steps"]
        if step["kind"] == "harmful"
    ]


def accept(folder: Path, verdict: str, *more: str) -> int:
    rest = ["--why", "a test: no harm", "--until", "9999-12-31", "--who", "ana", *more]
    return main(["accept", verdict, "--specs", str(folder), *rest])


def test_a_named_step_is_accepted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By SESSION#STEP of a recording: one entry more, and the call is harmless in the next replay."""
    assert harms(folder) == [("guard", 1), ("shop", 1), ("shop", 3), ("shop", 4)]
    runs = ("--runs", str(folder / "runs.jsonl"))

    assert accept(folder, "friday#1", *runs, "--spec", "shop") == 0

    assert "pay in G0 is accepted until 9999-12-31" in capsys.readouterr().out
    text = (folder / "shop.yaml").read_text()
    assert text.startswith(SHOP)
    assert text.endswith('    why: "a test: no harm"\n    until: 9999-12-31\n')
    assert harms(folder) == [("guard", 1), ("shop", 3), ("shop", 4)]


def test_of_a_policy_the_constraint_is_named(folder: Path) -> None:
    """The entry names the constraint and its state, so other constraints do not matter."""
    runs = ("--runs", str(folder / "runs.jsonl"))
    assert accept(folder, "friday#1", *runs, "--spec", "guard") == 0
    [entry] = load_spec(folder / "guard.yaml").accepted
    assert (entry.constraint, entry.state) == ("precedence: [login, pay]", "before login")
    assert harms(folder) == [("shop", 1), ("shop", 3), ("shop", 4)]


def test_a_verdict_as_json_is_accepted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of the stream of verdicts names it by itself, given or on the standard input."""
    line = {
        "session": "s", "spec": "guard", "kind": "harmful", "symbol": "pay", "tool": "pay",
        "reason": "out_of_order", "constraint": "precedence: [login, pay]",
        "state_before": "at_most: [pay, 9]: 3", "state": "at_most: [pay, 9]: 3",
    }  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(line)))
    assert accept(folder, "-") == 0
    [entry] = load_spec(folder / "guard.yaml").accepted
    assert (entry.state, entry.who) == ("before login", "ana")


class _Api(Quiet, BaseHTTPRequestHandler):
    sessions: list[dict[str, Any]] = []  # noqa: RUF012 - set by the fixture

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        name = unquote(path.removeprefix("/api/v1/sessions").strip("/"))
        span = query.removeprefix("span_id=")
        found = [
            each
            for each in self.sessions
            if name in ("", each["session"])
            if not query or span in {step["span_id"] for step in each["steps"]}
        ]
        # As the service does: what is asked for comes, and of all sessions the first ones alone.
        found = found if name or query else []
        body = json.dumps({"sessions": found}).encode()
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def service(folder: Path) -> Iterator[str]:
    _Api.sessions = judged(folder)
    server = Loopback(_Api)
    yield server.url.removeprefix("http://")
    server.close()


def test_a_running_service_is_asked(folder: Path, service: str) -> None:
    """By its step or by its span id, as the terminal, the log and the alert show them."""
    [shop] = [each for each in _Api.sessions if each["spec"] == "shop"]
    span = shop["steps"][0]["span_id"]
    assert accept(folder, span, "--from", service, "--spec", "shop") == 0
    assert accept(folder, "friday#1", "--from", f"http://{service}", "--spec", "guard") == 0
    assert harms(folder) == [("shop", 3), ("shop", 4)]


@pytest.mark.parametrize(
    ("verdict", "more", "said"),
    [
        ("friday#1", (), "several verdicts go by that name: name one by --spec (guard, shop)"),
        ("friday#2", (), "no harmful call goes by that name"),
        ("friday#3", (), "matches no symbol"),
        ("friday#4", (), "matches no symbol"),
        ("nobody#1", (), "no harmful call goes by that name"),
        ("friday", (), "is no verdict"),
        ('{"kind": "progress"}', (), "not harmful"),
        ('{"kind": ', (), "no JSON"),
        ('{"kind": "harmful", "spec": "x", "symbol": "a"}', (), "no spec 'x' is loaded"),
    ],
)
def test_what_cannot_be_accepted_is_said(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    verdict: str,
    more: tuple[str, ...],
    said: str,
) -> None:
    """Each refusal gives its reason and changes no file."""
    assert accept(folder, verdict, "--runs", str(folder / "runs.jsonl"), *more) == 1
    assert said in capsys.readouterr().err
    assert (folder / "shop.yaml").read_text() == SHOP
    assert (folder / "guard.yaml").read_text() == GUARD


def test_it_is_accepted_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second entry for the same place is refused: it would hide which one applies."""
    runs = ("--runs", str(folder / "runs.jsonl"), "--spec", "guard")
    line = '{"kind": "harmful", "spec": "guard", "symbol": "pay", "tool": "pay", '
    line += '"constraint": "precedence: [login, pay]", "state_before": "start"}'
    assert accept(folder, "friday#1", *runs) == 0
    assert accept(folder, line) == 1
    assert "accepts the call there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("day", "said"), [("soon", "'soon' is no day"), ("2020-01-01", "2020-01-01 is over")]
)
def test_a_wrong_day_is_a_usage_error(
    folder: Path, capsys: pytest.CaptureFixture[str], day: str, said: str
) -> None:
    """Malformed and past dates are refused before anything is looked up."""
    with pytest.raises(SystemExit) as caught:
        main(["accept", "a#1", "--specs", str(folder), "--why", "x", "--until", day])
    assert caught.value.code == 2
    assert f"--until: {said}" in capsys.readouterr().err
