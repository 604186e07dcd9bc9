"""`replay --by task`: how alike an agent's runs of one task are, from spans and plain runs."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.cli.main import main
from collector.decode.json import otlp_json
from collector.dialects.answers import answers
from collector.offline.consistency import TaskRun, agent_means, repeats
from monitor.reference.runs import SeenRun, seen_call

SHARED = Path(__file__).parents[3] / ".." / "shared"
AIRLINE = SHARED / "core" / "tau_airline_gpt4o.jsonl"
CAPTURES = SHARED / "captures"


def task_run(run: str, task: str, tools: list[str], answer: str = "") -> TaskRun:
    calls = tuple(seen_call(tool, {"a": 1}, failed=False) for tool in tools)
    return TaskRun("agent", task, SeenRun(run, "agent", calls), answer)


def span(number: int, attributes: dict[str, str], *, parent: str = "", end: int = 0) -> Any:
    return {
        "traceId": "ab" * 16,
        "spanId": f"{number:016x}",
        "parentSpanId": parent,
        "name": "x",
        "startTimeUnixNano": str(number),
        "endTimeUnixNano": str(end or number + 1),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
        ],
    }


def told(*spans: Any) -> dict[bytes, str]:
    body = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}
    return answers(otlp_json.decode(json.dumps(body).encode()).spans)


def json_lines(capsys: pytest.CaptureFixture[str], *arguments: Any) -> list[dict[str, Any]]:
    assert main(["replay", *map(str, arguments)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_task_by_itself() -> None:
    """Runs are compared with those of their own task; a single run with nothing."""
    found = repeats(
        [
            task_run("1", "10", ["a", "b"], "done"),
            task_run("2", "10", ["a", "c"], "done"),
            task_run("3", "9", ["z"]),
        ]
    )

    assert [(each.task, each.runs) for each in found] == [("9", 1), ("10", 2)]
    assert found[0].value("tss") is None
    assert found[0].output_agreement is None
    ten = found[1]
    assert ten.scores is not None
    assert (ten.scores.tss, ten.scores.ac_paper, ten.scores.ac_repository) == (0.5, 0.5, 1.0)
    assert (ten.scores.divergence_point, ten.scores.first_two_agreement) == (2.0, 0.0)
    assert ten.output_agreement == 1.0
    [mean] = agent_means(found)
    assert (mean.tasks, mean.runs, mean.means["tss"]) == (1, 2, 0.5)


@given(st.lists(st.sampled_from(["yes", "no", ""]), min_size=1, max_size=8), st.randoms())
def test_answers_agree_in_pairs(said: list[str], chance: Any) -> None:
    """Output agreement is the share of equal pairs of known answers, in any order of runs."""
    runs = [task_run(str(n), "t", ["a"] * (n % 3), text) for n, text in enumerate(said)]
    chance.shuffle(runs)
    [found] = repeats(runs)

    pairs = list(combinations([text for text in said if text], 2))
    assert found.answers == sum(map(bool, said))
    assert found.output_agreement == (
        sum(a == b for a, b in pairs) / len(pairs) if pairs else None
    )


def test_the_last_answer_of_a_model() -> None:
    """A model's last text counts, not a request for a tool, and the root only without one."""
    asks = json.dumps([{"role": "assistant", "parts": [{"type": "tool_call", "name": "t"}]}])
    says = json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": " Done. "}]}]
    )
    response = json.dumps(
        {"output": [{"content": [{"type": "output_text", "text": "Finished."}]}]}
    )
    model = {"openinference.span.kind": "LLM", "output.value": response}

    assert list(
        told(
            span(1, {"gen_ai.output.messages": says}, parent="f" * 16, end=9),
            span(2, {"gen_ai.output.messages": asks}, parent="f" * 16, end=30),
            span(3, {"final_result": "from the root"}, end=40),
        ).values()
    ) == ["Done."]
    assert list(told(span(1, {"final_result": "from the root"})).values()) == ["from the root"]
    assert list(told(span(1, model, parent="f" * 16)).values()) == ["Finished."]
    assert told(span(1, {"output.value": '{"messages": []}'})) == {}
    assert told(span(1, {"gen_ai.output.messages": "[{"})) == {}


def test_a_task_is_named_by_an_attribute_or_a_spec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain runs name their task; `--task` says under which key instead."""
    file = tmp_path / "runs.jsonl"
    records = [
        {"run": f"r{n}", "agent": "bot", "task_id": 7, "kind": "x" if n else "y", "output": "ok",
         "calls": [{"tool": "a", "arguments": {}}]} for n in range(3)
    ]  # fmt: skip
    file.write_text("".join(json.dumps(record) + "\n" for record in records))

    by_default = json_lines(capsys, file, "--json", "--by", "task")
    by_key = json_lines(capsys, file, "--json", "--by", "task", "--task", "kind")

    assert [(each["agent"], each["task"], each["runs"]) for each in by_default[:-1]] == [
        ("bot", "7", 3)
    ]
    assert by_default[0]["output_agreement"] == 1.0
    assert by_default[-1]["tasks"] == 1
    assert [(each["task"], each["runs"]) for each in by_key[:-1]] == [("x", 2), ("y", 1)]


def test_task_goes_with_by_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--task` without `--by task` is a usage error."""
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(tmp_path), "--task", "kind"])
    assert "--task goes with --by task" in capsys.readouterr().err


@pytest.mark.skipif(not AIRLINE.exists(), reason="the recorded airline runs are absent")
def test_real_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Seventeen tasks of four runs, in the table and as JSON; no answers, so no agreement."""
    found = json_lines(capsys, AIRLINE, "--json", "--by", "task")
    assert main(["replay", str(AIRLINE), "--table", "--by", "task"]) == 0
    text = capsys.readouterr().out

    tasks = found[:-1]
    assert [each["runs"] for each in tasks] == [4] * 17
    assert found[-1]["tasks"] == 17
    assert found[-1]["output_agreement"] is None
    assert all(each["ac_paper"] <= each["ac_repository"] for each in tasks)
    assert f"{found[-1]['tss']:.3f}" in text
    assert "AC paper" in text
    assert "AC repo" in text


@pytest.mark.skipif(not CAPTURES.exists(), reason="the recorded spans are absent")
def test_spans_of_frameworks(capsys: pytest.CaptureFixture[str]) -> None:
    """The same task under several frameworks: its spec names it, the answers are on the wire."""
    names = ("langchain-openinference", "otel-genai-semconv", "openai-agents-openinference")
    files = [CAPTURES / name / "golden.otlp.jsonl" for name in names]
    specs = Path(__file__).parents[3] / "dfa_specs"
    [task, _] = json_lines(capsys, *files, "--specs", specs, "--json", "--by", "task")

    assert (task["task"], task["runs"], task["answers"]) == ("farm_rover", 3, 3)
    assert (task["tss"], task["ac_paper"], task["divergence_point"]) == (1.0, 1.0, None)
    assert task["output_agreement"] == 1.0
