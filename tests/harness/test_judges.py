"""A model's score is a task's criterion, or a measure of each rollout; without a score that counts nothing is passed over in silence."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from harness.bench.results_folder import read_rollouts
from harness.cli.program import main
from tests.harness.conftest import DONE, LAB, LIGHT, NOTE, OPEN, Bench
from tests.harness.test_snapshots import bytes_of
from tests.judges.fake_endpoint import (
    FakeAnswer,
    FakeEndpoint,
    completion,
    judged,
    refused,
    serving,
)

GOOD = (OPEN, LIGHT, NOTE, DONE)


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def judged_lab(tmp_path: Path) -> Path:
    """The lab, with a task that a judge decides."""
    folder = tmp_path / "judged_lab"
    folder.mkdir()
    for name in ("lab.py", "lamp.spec.yaml"):
        (folder / name).write_text((LAB / name).read_text())
    text = (LAB / "lamp.yaml").read_text()
    head, _, rest = text.partition("evaluation:\n")
    assert "criterion: product" in rest
    after = rest[rest.index("golden:") :]
    (folder / "lamp.yaml").write_text(
        f"{head}evaluation: {{criterion: judge, judge: {{id: GF}}}}\n{after}"
    )
    return folder


def scoring(score: int, *steps: str) -> AbstractContextManager[FakeEndpoint]:
    """An endpoint that gives this score, with a finding at each step."""
    return serving(lambda _request, _number: completion(judged(score, *steps)))


def asked(endpoint: FakeEndpoint, *more: str) -> tuple[str, ...]:
    return ("--judge-model", "scorer", "--judge-endpoint", endpoint.url, *more)


@pytest.mark.parametrize(("score", "success"), [(3, True), (2, True), (1, False), (0, False)])
def test_a_score_decides(score: int, success: bool, judged_lab: Path, bench: Bench) -> None:
    """With the criterion `judge` a rollout is a success from score 2 on; the judgement stands in its line."""
    with scoring(score, *(["s2"] if score < 2 else [])) as endpoint:
        agent = bench.script(GOOD)
        [found] = bench.run(str(judged_lab), "--agent", agent, *asked(endpoint))
    assert (found["success"], found["end"], bench.code) == (success, "done", 0)
    [record] = found["judged"]
    assert (record["judge"], record["outcome"], record["score"]) == ("GF", "scored", score)
    assert record["session"] == found["session"]


def test_a_judge_sees_the_task_the_calls_and_the_answer(judged_lab: Path, bench: Bench) -> None:
    """What a judge is asked holds the instruction, each call with its result, and the last text."""
    with scoring(2) as endpoint:
        agent = bench.script(GOOD)
        bench.run(str(judged_lab), "--agent", agent, *asked(endpoint))
    [request] = endpoint.requests
    text = request["messages"][1]["content"]
    instruction = "Open the door"
    for part in (instruction, "open_door", "brass", "result: open", "note", "text: Done."):
        assert part in text, part
    order = [text.index(part) for part in (instruction, "tool: light", "text: Done.")]
    assert order == sorted(order)


def never_scored(request: Mapping[str, Any], number: int) -> FakeAnswer:
    return completion("I would rather not say.")


NO_SCORE = {
    "unparsable": never_scored,
    "refused": lambda *_: completion(None, refusal="no"),
    "truncated": lambda *_: completion('{"evid', finish="length"),
    "failed": lambda *_: refused(403, "no key"),
    "scored": lambda *_: completion(judged(3, "s2", impact="high")),
}
"""Outcome -> what leads to it; `scored` contradicts itself."""


@pytest.mark.parametrize("outcome", NO_SCORE)
def test_a_judge_without_a_score_that_counts_is_told(
    outcome: str, judged_lab: Path, bench: Bench
) -> None:
    """Where the judge gives no score that counts, the rollout is an infrastructure failure, with outcome and reason."""
    with serving(NO_SCORE[outcome]) as endpoint:
        agent = bench.script(GOOD)
        [found] = bench.run(str(judged_lab), "--agent", agent, *asked(endpoint))
    assert (found["success"], found["end"], bench.code) == (False, "error", 1)
    assert found["cause"]["kind"] == "infrastructure"
    [record] = found["judged"]
    assert record["outcome"] == outcome
    assert record["why"] or outcome in ("refused", "truncated")


def test_a_budget_holds_for_all_rollouts(judged_lab: Path, bench: Bench) -> None:
    """Beyond the budget nobody is asked: these rollouts are `over_budget`, and no failure of the agent."""
    lock, asked_at_once = threading.Lock(), []

    def answer(_request: Mapping[str, Any], number: int) -> FakeAnswer:
        with lock:
            asked_at_once.append(number)
        return completion(judged(2))

    with serving(answer) as endpoint:
        options = asked(endpoint, "--judge-budget-tokens", "7000", "--n", "40", "--jobs", "2")
        found = bench.run(str(judged_lab), "--agent", bench.script(GOOD), *options)
    outcomes = [each["judged"][0]["outcome"] for each in found]
    assert len(asked_at_once) == outcomes.count("scored") > 0
    assert outcomes.count("over_budget") > 0
    assert {each["end"] for each in found} == {"done", "error"}
    assert bench.code == 1


def test_judges_are_measures_of_any_rollout(
    bench: Bench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`--judges` scores rollouts of tasks that name none; scores and outcomes are in the report, success is as it was."""

    def answer(request: Mapping[str, Any], number: int) -> FakeAnswer:
        logical = "consisten" in request["messages"][0]["content"].lower()
        return completion(judged(3)) if logical else refused(403)

    out = bench.out()
    with serving(answer) as endpoint:
        options = asked(endpoint, "--judges", "LC,pa")
        [found] = bench.run(str(LAB), "--agent", bench.script(GOOD), *options, out=out)
    assert (found["success"], bench.code) == (True, 0)
    assert [each["judge"] for each in found["judged"]] == ["LC", "PA"]
    assert found["judged"][1]["outcome"] == "not_applicable"
    capsys.readouterr()
    assert main(["report", str(out), "--json"]) == 0
    [group] = json.loads(capsys.readouterr().out)["groups"]
    assert set(group["judges"]) == {"LC", "PA"}
    assert group["judges"]["PA"] == {
        "score": {"n": 0, "mean": None, "low": None, "high": None, "quartiles": None},
        "outcomes": {"not_applicable": 1},
    }
    assert group["judges"]["LC"]["outcomes"] == {found["judged"][0]["outcome"]: 1}
    assert main(["report", str(out)]) == 0
    assert "not_applicable 1" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["report", str(out), "--html", str(page)]) == 0
    assert "<h2>Judges</h2>" in page.read_text()


def test_answers_of_judges_are_recorded(judged_lab: Path, bench: Bench) -> None:
    """Offline, judges answer from the recording, two runs are the same bytes, and what is not recorded is no score."""
    recording = str(bench.folder / "recording")
    with scoring(2) as endpoint:
        agent = (str(judged_lab), "--agent", bench.script(GOOD))
        bench.run(*agent, *asked(endpoint), "--record", recording)
        assert len(endpoint.requests) == 1
        outs = [bench.out(), bench.out()]
        for out in outs:
            [found] = bench.run(*agent, *asked(endpoint), "--offline", recording, out=out)
            assert found["success"]
            assert found["judged"][0]["cached"]
        assert bytes_of(outs[0]) == bytes_of(outs[1])
        other = bench.script([OPEN, LIGHT, NOTE, {"say": "Otherwise."}])
        offline = (str(judged_lab), "--agent", other, "--offline", recording)
        [missed] = bench.run(*offline, *asked(endpoint))
        assert (missed["end"], bench.code) == ("error", 1)
        assert missed["judged"][0]["why"] == "its answer is not recorded"
        assert len(endpoint.requests) == 1
        [live] = bench.run(*offline, *asked(endpoint), "--miss", "live")
        assert (live["success"], len(endpoint.requests)) == (True, 2)


@pytest.fixture
def usage(bench: Bench, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs that are refused, and what they say."""

    def refused_run(*arguments: str) -> str:
        out = bench.out()
        run = ["run", *arguments, "--agent", "golden", "--out", str(out)]
        assert main(run) == 2
        assert not (out / "rollouts.jsonl").exists()
        return capsys.readouterr().err

    return refused_run


def test_a_judge_that_cannot_be_asked_is_usage(
    judged_lab: Path, usage: Callable[..., str]
) -> None:
    """Nobody to ask, no such judge or no such rubrics: exit code 2 before the first rollout, with file, line and key."""
    ask = ("--judge-model", "scorer", "--judge-endpoint", "http://127.0.0.1:9/v1")
    said = usage(str(judged_lab))
    assert "lamp.yaml:" in said
    assert "evaluation.judge: a judge needs --judge-model and --judge-endpoint" in said
    assert "--judges: a judge needs" in usage("shop/buy_tea", "--judges", "GF")
    assert "--judges: expected of LC, EE" in usage("shop/buy_tea", "--judges", "GG", *ask)
    assert "no such folder" in usage(
        "shop/buy_tea", "--judges", "GF", "--rubrics", "nowhere", *ask
    )
    file = judged_lab / "lamp.yaml"
    file.write_text(file.read_text().replace("{id: GF}", "{id: GG}"))
    assert "evaluation.judge.id: expected one of LC, EE" in usage(str(judged_lab), *ask)
    file.write_text(file.read_text().replace(", judge: {id: GG}", ""))
    assert "evaluation.criterion: expected a judge beside it" in usage(str(judged_lab), *ask)


def test_check_knows_judges_and_asks_none(
    judged_lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` holds all of a task but its score; a judge that there is not is named."""
    assert main(["check", str(judged_lab)]) == 0
    file = judged_lab / "lamp.yaml"
    file.write_text(file.read_text().replace("{id: GF}", "{id: GG}"))
    assert main(["check", str(judged_lab)]) == 2
    assert "evaluation.judge.id: expected one of" in capsys.readouterr().out


SEEN = """
import sys
from harness.cli.program import main
code = main(["run", "shop/buy_tea", "--agent", "golden", "--out", sys.argv[1]])
print(code, [name for name in sys.modules if name.split(".")[0] in {"judges", "openai", "json_repair"}])
"""


def test_a_run_without_judges_loads_none(bench: Bench) -> None:
    """A rollout that nobody judges has an empty list, and neither `judges` nor a client of models is loaded for it."""
    out = bench.out()
    done = subprocess.run(
        [sys.executable, "-c", SEEN, str(out)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
    [found] = read_rollouts(out)
    assert found["judged"] == []
