"""A world has checks of its own, tools that look at their arguments themselves, and installed packages where it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cli.program import main
from harness.tasks.criteria import holds
from tests.harness.conftest import Bench
from tests.harness.test_snapshots import bytes_of

WORLD = """
from harness.world.world import ToolError, World

world = World("desk")
STATE = {"count": 0}


def add(state, **given):
    if "by" not in given:
        raise ToolError("by how much?")
    state["count"] += int(given["by"])
    return state["count"]


world.tool(writes=["count"], parameters={"type": "object"}, lenient=True)(add)


@world.tool(writes=["count"])
def double(state) -> int:
    "Doubles it."
    state["count"] *= 2
    return state["count"]


@world.check(reads=["count"])
def is_six(state, start, answer, calls) -> bool:
    return start["count"] == 0 and state["count"] == 6 and answer == "six" and len(calls) == 2


@world.check(reads=["count"])
def is_broken(state, start, answer, calls) -> bool:
    raise ValueError("broken")
"""
SPEC = """
id: desk
alphabet:
  add: {tool: add}
  double: {tool: double}
golden:
  - [add, double]
"""
TASK = """
task: desk
world: desk
instruction: Make it six.
spec: desk.spec.yaml
evaluation: {criterion: check, check: is_six}
golden:
  - - {tool: add, arguments: {by: 3}}
    - {tool: double}
final: six
"""
ADD, DOUBLE = {"tool": "add", "arguments": {"by": "3"}}, {"tool": "double"}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A task of which a function of its world says whether it is done."""
    folder = tmp_path / "desk"
    folder.mkdir()
    for name, text in (("desk.py", WORLD), ("desk.spec.yaml", SPEC), ("desk.yaml", TASK)):
        (folder / name).write_text(text)
    return folder


def test_a_check_says_whether_a_task_is_done(desk: Path, bench: Bench) -> None:
    """A check sees start, end, answer and calls; what it says is the success, and `check` holds golden ways against it."""
    assert main(["check", str(desk)]) == 0
    done = bench.script([ADD, DOUBLE, {"say": "six"}])
    assert [each["success"] for each in bench.run(str(desk), "--agent", done)] == [True]
    other = bench.script([ADD, DOUBLE, {"say": "seven"}])
    assert [each["success"] for each in bench.run(str(desk), "--agent", other)] == [False]


def test_a_lenient_tool_takes_what_its_schema_does_not(desk: Path, bench: Bench) -> None:
    """A lenient tool gets arguments as they are, and what it raises is its own feedback."""
    script = bench.script([{"tool": "add"}, ADD, {"tool": "double"}, {"say": "six"}])
    [found] = bench.run(str(desk), "--agent", script)
    assert (found["calls"], found["success"]) == (3, False)
    assert found["cause"]["kind"] == "wrong_arguments"


def test_agents_cannot_call_checks(desk: Path, bench: Bench) -> None:
    """A check is no tool of the agent: calling it is calling what there is not."""
    script = bench.script([{"tool": "is_six"}, ADD, DOUBLE, {"say": "six"}])
    [found] = bench.run(str(desk), "--agent", script)
    assert found["cause"]["kind"] == "hallucinated_tool"


def test_checks_are_recorded_as_calls_are(desk: Path, bench: Bench) -> None:
    """Offline, a check answers from the recording; where it has no answer the rollout is an infrastructure failure."""
    recording = str(bench.folder / "recording")
    bench.run(str(desk), "--agent", "golden", "--record", recording)
    outs = [bench.out(), bench.out()]
    for out in outs:
        [found] = bench.run(str(desk), "--agent", "golden", "--offline", recording, out=out)
        assert found["success"]
    assert bytes_of(outs[0]) == bytes_of(outs[1])
    other = bench.script([{"tool": "add", "arguments": {"by": 3}}, DOUBLE, {"say": "seven"}])
    [missed] = bench.run(str(desk), "--agent", other, "--offline", recording)
    assert (missed["end"], missed["misses"]) == ("error", 1)
    assert missed["cause"]["category"] == "environment"


def test_a_check_that_breaks_is_the_environments_failure(desk: Path, bench: Bench) -> None:
    """A check that raises is told by `check`, and fails the rollout as infrastructure, not the agent."""
    file = desk / "desk.yaml"
    file.write_text(file.read_text().replace("is_six", "is_broken"))
    assert main(["check", str(desk)]) == 2
    [found] = bench.run(str(desk), "--agent", "golden")
    assert (found["end"], found["success"], bench.code) == ("error", False, 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("is_six}", "is_sixth}", "evaluation.check: desk.py has no check is_sixth"),
        (
            "final: six",
            "final: six\nattack: {calls: [], check: is_won}",
            "attack.check: desk.py has no check is_won",
        ),
        (
            "final: six",
            "final: six\nenvironment: {user: ana}",
            "environment.user: desk.py has no user ana",
        ),
    ],
)
def test_a_name_that_the_world_does_not_have_is_named(
    old: str, new: str, says: str, desk: Path, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt check or user is told by `check`, and fails a rollout as the environment's: the agent is not blamed."""
    file = desk / "desk.yaml"
    file.write_text(file.read_text().replace(old, new))
    assert main(["check", str(desk)]) == 2
    assert says in capsys.readouterr().out
    [found] = bench.run(str(desk), "--agent", "golden")
    assert (found["end"], found["cause"]["category"]) == ("error", "environment")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (", check: is_six", "", "evaluation.criterion: expected the name of a check"),
        ("final: six", "attack: {calls: []}", "attack: expected end_state or check"),
    ],
)
def test_a_criterion_without_its_check_is_named(
    old: str, new: str, says: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task that names a criterion and not what decides it is refused with file, line and key."""
    file = desk / "desk.yaml"
    file.write_text(file.read_text().replace(old, new))
    assert main(["check", str(desk)]) == 2
    assert says in capsys.readouterr().err


def test_packages_are_seen_where_a_task_asks_for_them(desk: Path, bench: Bench) -> None:
    """A world imports installed packages only if its task says so, and cannot write to them."""
    module, file = desk / "desk.py", desk / "desk.yaml"
    module.write_text("import httpx\n" + module.read_text())
    arguments = (str(desk), "--agent", "golden")
    if kind() != "none":
        assert main(["run", *arguments, "--out", str(bench.out())]) == 2
    file.write_text(file.read_text() + "environment: {packages: true}\n")
    [found] = bench.run(*arguments)
    assert found["success"]


def kind() -> str:
    from harness.sandbox.process import NoSandboxError, kind_here

    try:
        return kind_here()
    except NoSandboxError:
        return "none"


def test_a_faulty_agent_needs_a_trap(
    desk: Path, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task without traps is refused before the first rollout of a faulty agent, not in its midst."""
    out = str(bench.out())
    assert main(["run", str(desk), "--agent", "faulty:0.5", "--out", out]) == 2
    assert "traps: expected one at least" in capsys.readouterr().err


def test_an_import_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its extra the import ends with exit code 2 and the command that installs it."""
    import sys

    monkeypatch.setitem(sys.modules, "agentdojo", None)
    assert main(["import", "agentdojo", "--out", str(tmp_path)]) == 2
    assert "pip install 'offrails[agentdojo]'" in capsys.readouterr().err
    arguments: list[Any] = ["import", "agentdojo", "--version", "v9", "--out", str(tmp_path)]
    assert main(arguments) == 2
    assert "--version: expected one of v1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("predicate", "state", "expected"),
    [
        ({"box": {"contains": ["tea"]}}, {"box": {"tea": 1}}, False),
        ({"box": {"contains": "tea"}}, {"box": {"tea": 1}}, True),
        ({"box.--1": "tea"}, {"box": ["tea"]}, False),
        ({"box.²": "tea"}, {"box": ["tea", "cup", "pot"]}, False),
        ({"box." + "9" * 5000: "tea"}, {"box": ["tea"]}, False),
        ({"box.-1": "cup"}, {"box": ["tea", "cup"]}, True),
        ({"tea": {"missing": False, "min": 3}}, {"tea": 2}, False),
        ({"tea": {"missing": False, "min": 3}}, {"tea": 4}, True),
        ({"tea": {"missing": False, "min": 3}}, {}, False),
        ({"tea": {"missing": False}}, {"tea": None}, True),
        ({"tea": {"missing": True}}, {}, True),
        ({"tea": {"missing": True}}, {"tea": 1}, False),
    ],
)
def test_a_predicate_says_yes_or_no(predicate: Any, state: Any, expected: bool) -> None:
    """Whatever the end state has at its path, a predicate breaks no run, and all that it asks for counts."""
    assert holds(predicate, state) is expected
