"""The plain form of runs, as evaluations write it, judged without a span."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.offline.plain_runs import BadRun, is_plain, judge_run, read_runs
from collector.offline.replay import BadInput, replay
from monitor.limits import Limits
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

CORE = Path(__file__).parents[3] / ".." / "shared" / "core"

DOOR = """
id: door
alphabet: {unlock: {tool: unlock}, open: {tool: open, arguments: {wide: {any: true}}}}
golden: [[unlock, open]]
"""
GUARD = """
id: guard
kind: policy
alphabet: {open: {tool: open}, unlock: {tool: unlock}}
constraints: [{precedence: [unlock, open]}]
"""

RIGHT: dict[str, Any] = {
    "prompt_id": "door",
    "run": "r1",
    "model": "tiny",
    "calls": [
        {"step": 1, "name": "unlock", "arguments": {}, "status": "ok", "time_unix": 1.7e9},
        {"step": 2, "name": "open", "arguments": {"wide": True}, "status": "ok"},
    ],
}


def spec(text: str = DOOR) -> Spec:
    found, findings = compile_text(text, "made.yaml")
    assert found is not None, findings
    return found


def read(data: Any) -> list[Any]:
    return list(read_runs(json.dumps(data).encode(), "file"))


def replayed(
    *files: Path, specs: tuple[Spec, ...] = (), **options: bool
) -> list[dict[str, Any]]:
    together = options.get("together", False)
    return list(replay(files, specs or (spec(),), together=together))


def judged(run: dict[str, Any], *specs: Spec) -> list[dict[str, Any]]:
    [found] = read(run)
    limits = Limits(history_complete=True, keep_arguments=True, fold=False)
    return list(judge_run(found, specs or (spec(),), limits))


def test_a_run_is_a_session_under_the_spec_it_names() -> None:
    """The run's id, the model, the calls in order with their arguments."""
    [found] = judged(RIGHT)

    assert (found["session"], found["agent"], found["spec"]) == ("r1", "tiny", "door")
    assert [step["kind"] for step in found["steps"]] == ["progress", "progress"]
    assert [step["arguments"] for step in found["steps"]] == [{}, {"wide": True}]
    assert (found["accepting"], found["exact"], found["ended"]) == (True, True, "input_end")
    assert (found["session_from"], found["source"]) == ("run", "plain")
    assert found["started"] == 1_700_000_000_000_000_000


def test_one_file_in_each_form(tmp_path: Path) -> None:
    """A single run, a run over several lines, a list, one run a line, and gzip of each are read."""
    second = RIGHT | {"run": "r2"}
    texts = {
        "line": json.dumps(RIGHT),
        "pretty": json.dumps(RIGHT, indent=2),
        "list": json.dumps([RIGHT, second]),
        "pretty list": json.dumps([RIGHT, second], indent=1),
        "lines": f"\n{json.dumps(RIGHT)}\n\n{json.dumps(second)}\n",
    }
    for name, text in texts.items():
        file, packed = tmp_path / name, tmp_path / f"{name}.gz"
        file.write_text(text, encoding="utf-8")
        packed.write_bytes(gzip.compress(text.encode()))
        wanted = ["r1"] if name in ("line", "pretty") else ["r1", "r2"]
        assert [each["session"] for each in replayed(file)] == wanted
        assert [each["session"] for each in replayed(packed)] == wanted


@pytest.mark.parametrize(
    ("call", "failed"),
    [
        ({"status": "ok"}, False),
        ({"status": "success"}, False),
        ({"status": None}, False),
        ({}, False),
        ({"status": "error"}, True),
        ({"status": "timeout"}, True),
        ({"error": "no such file"}, True),
        ({"error": None}, False),
        ({"status": "ok", "error": "late"}, True),
        ({"status": "ok", "result": {"isError": True, "content": []}}, True),
        ({"output": '{"isError": true, "content": [{"type": "text", "text": "no"}]}'}, True),
        ({"result": {"isError": False, "content": []}}, False),
        ({"result": {"isError": True, "status": "of the tool itself"}}, False),
    ],
)
def test_which_calls_failed(call: dict[str, Any], failed: bool) -> None:
    """Any status but ok and success, or an error, or the answer of an MCP server that says so."""
    [run] = read({"calls": [{"name": "open", "arguments": {}, **call}]})

    assert run.calls[0].failed is failed


def test_steps_say_the_order_and_times_do_not() -> None:
    """The order of the list counts, though the times go back."""
    calls = [
        {"step": 2, "name": "open", "arguments": {}, "time_unix": 100},
        {"step": 1, "name": "unlock", "arguments": {}, "time_unix": 200},
    ]
    [found] = judged(RIGHT | {"calls": calls})

    assert [step["tool"] for step in found["steps"]] == ["unlock", "open"]
    assert found["harmful"] == 0


def test_arguments_that_are_not_told_are_unknown() -> None:
    """Missing arguments are unknown, not empty. Arguments as JSON text are read."""
    calls = [{"name": "unlock"}, {"name": "open", "arguments": '{"wide": true}'}]
    [run] = read({"calls": calls})

    assert [call.arguments for call in run.calls] == [None, {"wide": True}]


@pytest.mark.parametrize(
    ("record", "session", "agent"),
    [
        ({"run": 7}, "7", ""),
        ({"task_id": 3, "trial": 0}, "task 3 trial 0", ""),
        ({}, "file", ""),
        ({"session": "s", "agent": "a", "model": "m"}, "s", "a"),
        ({"run": "r", "gen_ai.agent.name": "g"}, "r", "g"),
        ({"run": "", "model": "m"}, "file", "m"),
    ],
)
def test_names_of_runs(record: dict[str, Any], session: str, agent: str) -> None:
    """The run's name is any of the usual keys, or else the file's name."""
    [run] = read(record | {"calls": []})

    assert (run.session, run.agent) == (session, agent)
    assert [each.session for each in read([{"calls": []}] * 2)] == ["file#1", "file#2"]


def test_a_run_without_calls_is_judged() -> None:
    """An idle agent has an empty path: no harm, nothing right, efficiency undefined."""
    [found] = judged(RIGHT | {"calls": []})

    assert (found["calls"], found["steps"], found["agent"]) == (0, [], "tiny")
    assert (found["harm_rate"], found["prefix_crit"], found["pc"]) == (0, 1, 0)
    assert (found["efficiency"], found["accepting"], found["spec"]) == (None, False, "door")


def test_policies_judge_runs_too() -> None:
    """Policies judge a run beside its named spec; other tasks do not."""
    found = judged(RIGHT, spec(), spec(GUARD), spec(DOOR.replace("door", "other")))

    assert [each["spec"] for each in found] == ["door", "guard"]


def test_a_run_may_name_a_policy() -> None:
    """What a run names judges it, whatever the policy matches; tasks that it does not name do not."""
    far = spec(GUARD.replace("kind: policy", "kind: policy\nmatch: {service.name: far}"))
    calls = [{"name": "open", "arguments": {}}]
    [found] = judged({"spec": "guard", "calls": calls}, spec(), far)
    assert (found["spec"], found["harmful"]) == ("guard", 1)

    [empty] = judged({"spec": "guard", "calls": []}, spec(), far)
    assert (empty["spec"], empty["calls"]) == ("guard", 0)


def test_odd_arguments_refuse_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs are judged, these arguments are unknown, and the first ten are named with their reasons."""
    odd = ["", '{"wide": tr', '{"wide": true}<|im_end|>', [1], 7]
    runs = [
        RIGHT
        | {"run": f"r{n}", "calls": [{"name": "unlock"}, {"name": "open", "arguments": each}]}
        for n, each in enumerate(odd * 3)
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")

    found = replayed(file)
    assert [each["harmful"] for each in found] == [0] * 15
    assert [each["steps"][1]["arguments"] for each in found] == [None] * 15
    told = capsys.readouterr().err.splitlines()
    assert told[1].startswith(f"{file}: run 2, call 2: arguments not read: no JSON: ")
    assert told[10] == f"{file}: and 5 more calls whose arguments were not read"
    assert len(told) == 11


def test_runs_of_one_id_stay_apart(tmp_path: Path) -> None:
    """Two agents' runs with the same id are two runs."""
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join([json.dumps(RIGHT)] * 3), encoding="utf-8")

    assert [each["calls"] for each in replayed(file)] == [2, 2, 2]
    assert [each["calls"] for each in replayed(file, file, together=True)] == [2] * 6


def test_a_spec_that_is_not_loaded_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported once a file, and the run is shown without a spec."""
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join([json.dumps(RIGHT | {"spec": "gate"})] * 2), encoding="utf-8")
    found = replayed(file)

    assert [each["spec"] for each in found] == [None, None]
    assert capsys.readouterr().err == f"{file}: no spec 'gate' is loaded\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[1]", "run 1: expected an object with a list of calls"),
        ('{"calls": 3}', "run 1: expected an object with a list of calls"),
        ('{"calls": [{}]}', "run 1, call 1: expected the tool's name"),
        ('{"calls": ["x"]}', "run 1, call 1: expected an object"),
        ('{"calls": []}\n{"calls": ', "run 2: no JSON"),
    ],
)
def test_what_is_no_run(text: str, said: str, tmp_path: Path) -> None:
    """The message names the run and the call."""
    with pytest.raises(BadRun, match=said):
        read_runs(text.encode(), "file")

    file = tmp_path / "runs.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=said):
        replayed(file)


def test_spans_are_told_from_runs(tmp_path: Path) -> None:
    """A request on one line or over several is no run."""
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "x"}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    assert not is_plain(json.dumps(request).encode())

    file = tmp_path / "request.json"
    file.write_text(json.dumps(request, indent=1), encoding="utf-8")
    assert replayed(file) == []


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    """Of a recording as of runs: some editors write one, and a spec may have it, too."""
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
        {"key": "gen_ai.tool.name", "value": {"stringValue": "x"}},
    ]
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "execute_tool x"}
    request = {
        "resourceSpans": [{"scopeSpans": [{"spans": [{**span, "attributes": attributes}]}]}]
    }
    for record in (request, {"calls": [{"name": "x"}]}):
        file = tmp_path / "file.jsonl"
        file.write_text(json.dumps(record), encoding="utf-8-sig")
        (judged,) = replayed(file)
        assert [step["tool"] for step in judged["steps"]] == ["x"]


@pytest.mark.skipif(not CORE.exists(), reason="the published data is not beside the repo")
@pytest.mark.parametrize(
    ("name", "count", "calls"),
    [("replay_qwen2.5-0.5b_runs.json", 50, 11), ("tau_airline_gpt4o.jsonl", 68, 375)],
)
def test_the_published_runs_of_others(name: str, count: int, calls: int) -> None:
    """A small model that is mostly idle, and a real airline agent: every run and call is read."""
    runs = read_runs((CORE / name).read_bytes(), "file")

    assert (len(runs), sum(len(run.calls) for run in runs)) == (count, calls)
    assert len({run.session for run in runs}) == count


def table(files: list[Path], *options: str, specs: Path) -> list[str]:
    return ["replay", *map(str, files), "--specs", str(specs), *options]


def test_the_table_of_repeated_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has a line a run, means, the distribution over runs of one task, and the agents compared."""
    (tmp_path / "door.yaml").write_text(DOOR, encoding="utf-8")
    wrong = RIGHT | {"calls": RIGHT["calls"][::-1][:1], "run": "r3"}
    runs = [RIGHT, RIGHT | {"run": "r2"}, wrong, wrong | {"model": "big", "run": "r4"}]
    file = tmp_path / "runs.json"
    file.write_text(json.dumps(runs), encoding="utf-8")

    code = main(table([file], "--table", "--by", "agent", "--weights", "pc=1",
                      specs=tmp_path / "door.yaml"))  # fmt: skip
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert code == 0
    assert [line[0] for line in lines[1:5]] == ["r1", "r2", "r3", "r4"]
    assert ["HarmRate", "0.500000", "4"] in lines
    assert ["Eff", "1.000000", "2"] in lines
    [spread] = [line for line in lines if line[:3] == ["door", "tiny", "PrefixCrit"]]
    assert spread[3:5] == ["3", "0.667"]
    assert spread[-4:] == ["0.500", "1.000", "1.000", "0.000"]
    assert [line[0] for line in lines[-2:]] == ["tiny", "big"]
    assert [line[-2] for line in lines[-2:]] == ["yes", "no"]


def test_agents_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line per agent; no scalar without weights."""
    (tmp_path / "door.yaml").write_text(DOOR, encoding="utf-8")
    file = tmp_path / "run.json"
    file.write_text(json.dumps(RIGHT), encoding="utf-8")

    main(table([file], "--json", "--by", "agent", specs=tmp_path / "door.yaml"))

    assert json.loads(capsys.readouterr().out) == {
        "agent": "tiny",
        "runs": 1,
        "tasks": 1,
        "pc": 1.0,
        "pc_ktc": 1.0,
        "harm_free": 1.0,
        "prefix_crit": 1.0,
        "efficiency": 1.0,
        "harm_rate": 0.0,
        "efficiency_runs": 1,
        "front": True,
        "scalar": None,
    }


@pytest.mark.parametrize(
    "options",
    [["--weights", "pc=1"], ["--by", "agent", "--weights", "speed=1"], ["--by", "moon"]],
)
def test_usage(options: list[str], tmp_path: Path) -> None:
    """Weights without a comparison, of an unknown score; a comparison by something else."""
    with pytest.raises(SystemExit) as end:
        main(table([tmp_path / "x"], *options, specs=tmp_path))

    assert end.value.code == 2
