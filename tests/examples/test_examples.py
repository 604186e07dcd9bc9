"""The examples: each recorded run of each agent is judged as examples/README.md says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from collector.cli.main import main
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
    assert len(told) == 2
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
