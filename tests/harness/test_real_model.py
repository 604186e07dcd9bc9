"""A real model, small and local, acts: what is tested is our machinery, the model acts badly. `make test-model`."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.tasks.catalogue import WORLDS
from tests.harness.conftest import Bench
from tests.harness.test_live import SCORES, replayed
from tests.small_model import NEEDS_MODEL
from tests.small_model import model_endpoint as model_endpoint  # noqa: PLC0414 - a fixture

pytestmark = NEEDS_MODEL

TASKS = ("shop/buy_tea", "navigation/fetch_the_key", "writing/old_boat")
ENDS = ("done", "gave_up", "limit", "error")
MAX_STEPS = 5
CAUSES: dict[str, tuple[str, tuple[str | None, ...]]] = {
    "parsing_failure": ("execution", (None,)),
    "tool_invocation_error": ("decision", ("hallucinated_tool", "wrong_arguments")),
    "reasoning_deficit": (
        "decision",
        ("wrong_tool", "out_of_order", "redundant", "premature_end", "refused_right_call"),
    ),
    "timeout": ("execution", (None,)),
    "iteration_limit_exceeded": ("decision", ("no_end",)),
}
"""The table of `docs/harness.md`, without what a sound endpoint and a task without an attack cannot cause."""


def tasks(folder: Path, calls: str) -> Iterator[Path]:
    """Copies of bundled tasks for a model that calls tools by `calls` and says little."""
    for name in TASKS:
        world, task = name.split("/")
        copy = Path(shutil.copytree(WORLDS / world, folder / world))
        file = copy / f"{task}.yaml"
        more = f"agent: {{calls: {calls}, attempts: 2}}\nmodel: {{max_tokens: 96, temperature: 1}}\n"
        file.write_text(file.read_text() + more)
        yield file


def spans_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Attributes of a run's spans, by session."""
    found = defaultdict(list)
    for line in (folder / "spans.otlp.jsonl").read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for span in (each for scope in resource["scopeSpans"] for each in scope["spans"]):
                pairs = {each["key"]: each["value"] for each in span["attributes"]}
                values = {key: next(iter(value.values())) for key, value in pairs.items()}
                found[values["gen_ai.conversation.id"]].append(values)
    return found


def has_a_cause_of_the_table(cause: dict[str, Any]) -> bool:
    return all(
        (each["level"], each["kind"]) in ((level, kind) for kind in kinds)
        for each in (cause, *cause["also"])
        for level, kinds in [CAUSES[each["category"]]]
    )


@pytest.mark.parametrize("calls", ["tool", "text"])
def test_a_small_model_is_driven_to_an_end(
    calls: str, model_endpoint: str, bench: Bench, tmp_path: Path, capsys: Any
) -> None:
    """Whatever a real model does, its rollout has an end and a cause of the table; line, spans and replay say the same."""
    files = [*tasks(tmp_path / "tasks", calls)]
    specs, out = tmp_path / "specs", tmp_path / "run"
    specs.mkdir()
    for file in files:
        spec = file.with_suffix(".spec.yaml")
        shutil.copy(spec, specs / f"{file.parent.name}_{spec.name}")
    rollouts = bench.run(
        *map(str, files), "--agent", "openai:smollm2", "--endpoint", model_endpoint,
        "--max-steps", str(MAX_STEPS), "--timeout", "300", "--n", "2", out=out,
    )  # fmt: skip
    assert bench.code == 0, "no failure of the infrastructure"
    assert sorted(each["task"] for each in rollouts) == sorted(TASKS * 2)
    made = sum(each["calls"] for each in rollouts)
    assert made or calls == "text", "some tool was called"
    # Replay refuses spans in which no run is.
    spans, again = spans_of(out), replayed(out, specs, capsys) if made else {}
    for rollout in rollouts:
        assert rollout["end"] in ENDS
        if rollout["cause"] is None:
            assert rollout["success"]
            assert rollout["harmful"] == 0
        else:
            assert has_a_cause_of_the_table(rollout["cause"]), rollout["cause"]
        assert_agree(rollout, spans[rollout["session"]], again.get(rollout["session"]))
    with capsys.disabled():
        for each in rollouts:
            cause = each["cause"] or {"category": None, "kind": None, "step": None}
            shown = [cause["category"], cause["kind"], cause["step"], each["harm_rate"]]
            print(
                f"\n{calls} {each['task']}: {each['end']}, {each['calls']} calls, {shown}, "
                f"{each['tokens_in']}+{each['tokens_out']} tokens, {each['seconds']:.1f} s",
                end="",
            )


def assert_agree(
    rollout: dict[str, Any], spans: list[dict[str, Any]], judgement: dict[str, Any] | None
) -> None:
    """A rollout's line has what its spans have, and the scores of their replay."""
    made = [each for each in spans if each["gen_ai.operation.name"] == "execute_tool"]
    asked = [each for each in spans if each["gen_ai.operation.name"] == "chat"]
    assert [each["gen_ai.tool.name"] for each in made] == [
        each["tool"] for each in rollout["path"]
    ]
    assert rollout["calls"] == len(made)
    assert 1 <= len(asked) <= MAX_STEPS
    for key, tokens in (("tokens_in", "input_tokens"), ("tokens_out", "output_tokens")):
        total = sum(int(each[f"gen_ai.usage.{tokens}"]) for each in asked)
        assert rollout[key] == total > 0, key
    assert (judgement is None) == (not made), "a run begins with its first call"
    if judgement is None:
        return
    for key in SCORES:
        assert rollout[key] == judgement[key], key
    assert [each["kind"] for each in judgement["steps"]] == [
        each["kind"] for each in rollout["path"]
    ]
