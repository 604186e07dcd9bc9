"""The examples: each recorded run of each agent is judged as examples/README.md says."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.calls.pipeline import Pipeline
from collector.cli.main import main
from collector.decode.json import otlp_json
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, Verdict
from monitor.spec.read import load_specs
from tests.console import blocks, shows, steps

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SPECS = str(EXAMPLES / "specs")
AGENTS = ("langgraph", "openai_agents", "pydantic_ai")

HARMFUL = {
    ("order-1", "support_desk", 2, "refund", "out_of_order"),
    ("order-1", "support_rules", 1, "refund", "out_of_order"),
    ("argument-1", "support_desk", 3, "refund", "argument_mismatch"),
    ("argument-1", "support_rules", 2, "refund", "forbidden"),
    ("forbidden-1", "support_desk", 4, "delete_customer", "unknown_tool"),
    ("forbidden-1", "support_rules", 3, "delete_customer", "forbidden"),
}
"""Session, spec, place of the call, tool and reason of each harmful call of the bad runs."""

UNPROVEN = {"openai_agents": {("order-1", "support_rules", "refund")}}
"""What is possible harm right after a start, as a stand-in for a model of this SDK leaves no span with its request. Its own
models do: tests/collector/calls/test_beginnings.py has captures of them."""


def recording(agent: str, runs: str) -> str:
    return str(EXAMPLES / "recordings" / agent / f"{runs}.jsonl.gz")


def test_every_agent_has_its_files() -> None:
    """An agent comes with its packages and its recordings, and no other agent is there."""
    agents = {each.stem.removeprefix("agent_") for each in EXAMPLES.glob("agent_*.py")}
    assert agents == set(AGENTS)
    assert {each.stem for each in (EXAMPLES / "requirements").glob("*.txt")} == agents
    assert {each.name for each in (EXAMPLES / "recordings").iterdir()} == agents


def test_the_specs_have_no_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """`offrails check` finds nothing in the specs."""
    assert main(["check", SPECS]) == 0
    assert capsys.readouterr().out == "2 specs fine, 0 errors, 0 warnings\n"


@pytest.mark.parametrize("agent", AGENTS)
def test_good_runs_are_accepted(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both specs accept the good runs of an agent, and judge all of them."""
    assert main(["check", SPECS, "--runs", recording(agent, "good")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "support_desk: accepts all 2 runs",
        "support_rules: accepts all 2 runs",
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_bad_runs_have_one_harmful_call_each(
    agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The call that breaks the rule is harmful under both specs, and every other call is fine."""
    assert main(["replay", recording(agent, "bad"), "--specs", SPECS, "--json"]) == 0
    judged = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {
        (each["session"], each["spec"], step["index"], step["tool"], step["reason"])
        for each in judged
        for step in each["steps"]
        if step["kind"] == "harmful"
    }
    assert found == HARMFUL
    assert all(each["exact"] and each["accepting"] for each in judged)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_new_users_first_violation_is_certain_within_a_minute(agent: str) -> None:
    """On default settings, just after the monitor's start, with one span a request, as an exporter may send them."""
    with gzip.open(recording(agent, "bad")) as file:
        spans = [span for line in file for span in otlp_json.decode(line).spans]
    monitor = Monitor(
        load_specs([Path(SPECS)]).specs,
        Limits(),
        started_ns=min(each.start_ns for each in spans),
    )
    ends = {span.span_id: span.end_ns for span in spans}
    told: dict[tuple[str, str, str], int] = {}
    """Harm that is certain -> how long after its call's end it was told, in nanoseconds."""

    def take(verdicts: Sequence[Verdict]) -> None:
        for each in verdicts:
            if each.kind == "harmful":
                told[each.session.id, each.spec, each.tool] = now - ends[each.span_id]

    pipeline = Pipeline(monitor, Stats(), take)
    for span in sorted(spans, key=lambda each: each.end_ns):
        now = span.end_ns
        pipeline.consume([span], now, "test")
    wanted = {(session, spec, tool) for session, spec, _, tool, _ in HARMFUL}
    assert set(told) == wanted - UNPROVEN.get(agent, set())
    assert max(told.values()) < 60 * 10**9


def test_the_page_says_what_happens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command of examples/README.md gives the answer that stands below it."""
    monkeypatch.chdir(ROOT)
    told = [
        step
        for block in blocks(EXAMPLES / "README.md")
        if block.kind == "console"
        for step in steps(block.text)
    ]
    assert len(told) == 4
    for command, answer in told:
        main(shlex.split(command.removeprefix("offrails ")))
        found = capsys.readouterr().out
        assert shows(answer, found), found


@pytest.mark.parametrize(
    ("shown", "answer", "same"),
    [
        ("a\n", "a", True),
        ("a...\n", "a and more\nand more", True),
        ("...\nb", "a\nb\n", True),
        ("a", "a b", False),
        ("a.b", "axb", False),
    ],
)
def test_what_is_left_out_may_be_anything(shown: str, answer: str, same: bool) -> None:
    """`...` on a page matches any text; all other text must be equal."""
    assert shows(shown, answer) is same
