"""Good runs that a spec rejects, and the findings about the spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main

RUNS: list[dict[str, Any]] = [
    {
        "run": f"r{place}",
        "calls": [
            {"name": "login", "arguments": {}},
            {"name": "pay", "arguments": {"amount": amount}},
        ],
    }
    for place, amount in enumerate((5, 50))
]
SPEC = """id: shop
alphabet:
  login: {tool: login}
  pay: {tool: pay, arguments: {amount: {AMOUNT}}}
golden: [GOLDEN]
"""


def check(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *options: str,
    amount: str = "max: 100",
    golden: str = "[login, pay]",
) -> tuple[int, str]:
    spec, runs = folder / "shop.yaml", folder / "good.jsonl"
    spec.write_text(SPEC.replace("AMOUNT", amount).replace("GOLDEN", golden))
    runs.write_text("".join(json.dumps(run) + "\n" for run in RUNS))
    code = main(["check", str(spec), "--runs", str(runs), *options])
    return code, capsys.readouterr().out


def test_good_runs_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that name no spec are judged by the only task; exit code 0."""
    code, out = check(tmp_path, capsys)
    assert code == 0
    assert "shop: accepts all 2 runs" in out


def test_a_tool_that_no_run_calls_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy on a tool that no run calls is reported: the name may be wrong."""
    code, out = check(tmp_path, capsys, golden="[login, pay], [login, refund]")
    assert code == 1  # the symbol is not declared
    spec = tmp_path / "shop.yaml"
    spec.write_text(
        spec.read_text().replace("alphabet:", "alphabet:\n  refund: {tool: refnud}")
    )
    assert main(["check", str(spec), "--runs", str(tmp_path / "good.jsonl")]) == 0
    out = capsys.readouterr().out
    assert "shop: accepts all 2 runs" in out
    assert "no run calls refnud: is that what the tool is called" in out


def test_an_inverted_pattern_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`min` where `max` was meant: no payment of any good run matches."""
    code, out = check(tmp_path, capsys, amount="min: 100")
    assert code == 1
    assert "shop: rejects 2 of 2 runs" in out
    assert "r0: call 2 pay: argument_mismatch: `amount` (5) is below the minimum 100; " in out
    assert "no call of pay (2 of 2) has the arguments that its symbols ask for" in out


def test_a_wrong_first_edge_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every run fails at once."""
    code, out = check(tmp_path, capsys, golden="[pay, login]")
    assert code == 1
    assert "every run is rejected at its first call" in out


def test_a_narrow_pattern_rejects_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON: an object for each rejected run, then one for the spec."""
    code, out = check(tmp_path, capsys, "--json", amount="max: 10")
    rejected, spec = map(json.loads, out.splitlines())
    assert code == 1
    assert rejected == {
        "session": "r1", "spec": "shop", "call": 2, "tool": "pay",
        "why": "argument_mismatch: `amount` (50) is above the maximum 10; the nearest symbol is `pay`",
        "allowed": ["pay"],
    }  # fmt: skip
    assert spec == {"spec": "shop", "runs": 2, "rejected": 1, "hints": []}


def test_an_end_that_is_not_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every call is fine, and yet no run is complete."""
    code, out = check(tmp_path, capsys, golden="[login, pay, login]")
    assert code == 1
    assert "r0: at its end: 'G2' is not accepting" in out
    assert "no run ends in an accepting state" in out


def test_a_policy_names_its_constraint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is followed by the rule that was broken, in a sentence."""
    spec, runs = tmp_path / "p.yaml", tmp_path / "good.jsonl"
    spec.write_text(
        "id: p\nkind: policy\nalphabet: {login: {tool: login}, pay: {tool: pay}}\n"
        "constraints: [precedence: [pay, login]]\n"
    )
    runs.write_text(json.dumps(RUNS))
    assert main(["check", str(spec), "--runs", str(runs)]) == 1
    out = capsys.readouterr().out
    assert 'out_of_order: `login` breaks the rule "no `login` before `pay`"' in out


def test_runs_without_a_spec_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If it is unclear which task is meant, the check fails with a message."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(
            f"id: {name}\nalphabet: {{x: {{tool: login}}}}\ngolden: [[x]]\n"
        )
    runs = tmp_path / "good.jsonl"
    runs.write_text(json.dumps(RUNS))
    assert main(["check", str(tmp_path), "--runs", str(runs)]) == 1
    told = capsys.readouterr()
    assert "2 runs are judged by no spec: r0, r1" in told.out
    assert "no run was judged by any task or policy" in told.err


def test_no_runs_test_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file is reported and fails."""
    check(tmp_path, capsys)
    (tmp_path / "good.jsonl").write_text("\n")
    given = ["check", str(tmp_path / "shop.yaml"), "--runs", str(tmp_path / "good.jsonl")]
    for options in ([], ["--json"]):
        assert main([*given, *options]) == 1
        assert "there are no runs for a task or a policy" in capsys.readouterr().err


def test_a_missing_file_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence, and exit code 2."""
    spec = tmp_path / "shop.yaml"
    spec.write_text(SPEC.replace("AMOUNT", "max: 9").replace("GOLDEN", "[login]"))
    with pytest.raises(SystemExit, match="2"):
        main(["check", str(spec), "--runs", str(tmp_path / "none.jsonl")])
    assert "none.jsonl: no such file or folder" in capsys.readouterr().err


EACH = """id: shop
each: {order: {TOOL: PATH}}
alphabet:
  login: {tool: login}
  pay: {tool: pay}
golden: [[login, pay]]
"""


@pytest.mark.parametrize(
    ("tool", "path", "hint"),
    [
        ("pay", "amount", ""),
        ("pay", "amuont", "each_path_unseen: no call of pay (2 of 2) has a value at `amuont`"),
        ("pay", "login", "each_path_unseen"),
        ("apy", "amount", "each_never_bound: no run calls a tool that `each` names (apy)"),
    ],
)
def test_an_each_that_tells_nothing_apart_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, path: str, hint: str
) -> None:
    """A path that is in no call of its tool, and tools that no run calls, are named with codes."""
    check(tmp_path, capsys)
    (tmp_path / "shop.yaml").write_text(EACH.replace("TOOL", tool).replace("PATH", path))
    runs = str(tmp_path / "good.jsonl")
    main(["check", str(tmp_path / "shop.yaml"), "--runs", runs])
    out = capsys.readouterr().out
    assert ("    each_" in out) is bool(
        hint
    )  # hints are indented; the folder has the test's name
    assert hint in out
