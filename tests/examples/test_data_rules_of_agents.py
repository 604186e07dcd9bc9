"""Rules over data on the recordings of the three example agents: each framework tells results and messages in its own way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from collector.cli.main import main
from monitor import judge_calls, load_specs

ROOT: Final = Path(__file__).parents[2]
SPECS: Final = ROOT / "examples" / "data_rules"
RECORDINGS: Final = ROOT / "examples" / "recordings"
AGENTS: Final = ("langgraph", "openai_agents", "pydantic_ai")

each_agent = pytest.mark.parametrize("agent", AGENTS)


@each_agent
def test_the_good_runs_are_accepted(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No run that is well breaks a rule, whichever framework told it."""
    assert main(["check", str(SPECS), "--runs", str(RECORDINGS / agent / "good.jsonl.gz")]) == 0
    out = capsys.readouterr().out
    assert "support_orders: accepts all 2 runs" in out
    assert "support_origins: accepts all 2 runs" in out


@each_agent
def test_bad_runs_break_the_rules_of_the_order(
    agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refund before its answer, and a second one, are told with the order; nothing else is harmful."""
    main(["replay", str(RECORDINGS / agent / "bad.jsonl.gz"), "--specs", str(SPECS)])
    told = capsys.readouterr().out.partition("harmful calls:\n")[2].partition("\n\n")[0]
    early, again = told.splitlines()
    assert "order-1 / support_orders  call 2 refund: out_of_order" in early
    assert "`refund` of order A-17 needs `allowed` of order A-17" in early
    assert "argument-1 / support_orders  call 4 refund: repeated: order A-17" in again


def test_the_order_of_another_is_told() -> None:
    """Under both specs: a refund of an order that the user did not name, and that was not looked up."""
    specs = load_specs([SPECS]).specs
    run: list[dict[str, object]] = [
        {"user": "Order A-17 arrived broken."},
        {"name": "look_up_order", "arguments": {"order": "A-17"}, "result": "A-17: one teapot"},
        {"name": "refund", "arguments": {"order": "B-4", "amount": 25}},
        {"name": "notify_customer", "arguments": {"order": "B-4", "text": json.dumps("done")}},
    ]
    broken = {each.symbol for spec in specs for each in judge_calls(spec, run).harmful}
    assert broken == {"refund", "other_refund", "other_message"}
