"""Agents without a model do what their names say, on all bundled tasks."""

from __future__ import annotations

import json
from math import exp, lgamma, log
from pathlib import Path

import pytest

from harness.cli.program import main
from harness.tasks.catalogue import bundled, find_tasks
from tests.harness.conftest import LAB, Bench
from tests.samples import sampled

EACH_TASK = pytest.param(None, marks=pytest.mark.long)
"""Half a minute of work."""


@pytest.mark.parametrize("most", [1, EACH_TASK])
def test_all_bundled_tasks_are_sound(
    capsys: pytest.CaptureFixture[str], most: int | None
) -> None:
    """`check` makes each right way, read and trap of one task of each world, or of each task, and finds no fault."""
    named = [] if most is None else sample(most)
    assert main(["check", *named]) == 0, capsys.readouterr().out
    assert main(["check", str(LAB)]) == 0, capsys.readouterr().out
    tags = {tag for task in bundled() for tag in task.document.tags}
    assert tags == {"multi_agent", "safety", "search"}


def sample(most: int | None) -> list[str]:
    """The names of some tasks of each world, or of all."""
    return [task.name for world in (*CORE, *OTHERS) for task in find_tasks([world])[:most]]


CORE = (
    "agentic_arm", "agentic_farm", "automation", "communication", "computations", "crud",
    "desktop_manager", "events_scheduler", "file_management", "legal_compliance", "navigation",
    "transactions", "validation", "web_browsing", "writing",
)  # fmt: skip
"""Domains of paper 000, appendix A."""


OTHERS = ("archive", "mailbox", "shop", "workshop")
"""Worlds beside them: search, safety, a shop, several agents."""


@pytest.mark.parametrize("world", [*CORE, *OTHERS])
def test_each_world_has_what_a_bench_needs(world: str) -> None:
    """Each of CORE's fifteen domains and each other world has five tasks at least, with several right ways, traps and a pair that compensates."""
    tasks = find_tasks([world])
    assert {task.document.world for task in tasks} == {world}
    assert len(tasks) >= 5
    assert max(len(task.document.golden) for task in tasks) > 1
    assert all(task.document.traps for task in tasks)
    assert any(task.spec.undo for task in tasks)


def test_each_world_is_known_here() -> None:
    """No world is bundled that the lists above leave out; each world's tasks are in its folder, and found by its name."""
    assert {task.document.world for task in bundled()} == {*CORE, *OTHERS}
    named = [task.name for task in find_tasks([*CORE, *OTHERS])]
    assert sorted(named) == [task.name for task in bundled()]
    for task in bundled():
        assert task.file.parent.name == task.document.world == task.name.partition("/")[0]


@pytest.mark.parametrize("most", [1, EACH_TASK])
def test_golden_agents_succeed_without_harm(bench: Bench, most: int | None) -> None:
    """A golden rollout is a success with HarmRate 0 and PC 1, on one task of each world, or on all. `check` proves it of all their ways."""
    names = sample(most)
    found = bench.run(*names, "--agent", "golden", "--jobs", "2")
    assert len(found) == len(names)
    assert [
        each["session"]
        for each in found
        if (each["success"], each["harm_rate"], each["pc"], each["cause"]) != (True, 0, 1, None)
    ] == []
    assert bench.code == 0


@pytest.mark.parametrize("most", [1, EACH_TASK])
def test_random_agents_never_do_harm(bench: Bench, most: int | None) -> None:
    """A random legal agent makes no harmful call, on a task of every second world, or on any."""
    names = sample(most)[:: most and 2]
    found = bench.run(*names, "--agent", "random", "--jobs", "2")
    assert len(found) == len(names)
    assert sum(each["harmful"] for each in found) == 0
    assert sum(each["calls"] for each in found) > 2 * len(found)


@pytest.mark.parametrize("most", [1, EACH_TASK])
def test_a_faulty_agents_harm_has_its_rate(bench: Bench, most: int | None) -> None:
    """On one task of each world, or on all, the share of harmful calls is within the 99.9 % interval of RATE/(1+RATE)."""
    rate, n, names = 0.3, 2, sample(most)
    found = bench.run(*names, "--agent", f"faulty:{rate}", "--n", str(n), "--jobs", "2")
    assert len(found) == n * len(names)
    ways = [(task.document.golden, seed) for task in find_tasks(names) for seed in range(n)]
    golden = sum(len(each[seed % len(each)]) for each, seed in ways)
    low, high = binomial_interval(golden, rate)
    harmful, calls = (sum(each[key] for each in found) for key in ("harmful", "calls"))
    assert low / (golden + low) <= harmful / calls <= high / (golden + high)
    assert harmful == calls - golden, "each inserted call is harmful, and nothing else is"
    assert all(each["success"] for each in found)


def binomial_interval(n: int, p: float) -> tuple[int, int]:
    """The central 99.9 % of a binomial distribution."""
    below, k = 0.0, 0
    low = None
    while True:
        chosen = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
        below += exp(chosen + k * log(p) + (n - k) * log(1 - p))
        if low is None and below > 0.0005:
            low = k
        if below > 0.9995:
            assert low is not None
            return low, k
        k += 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("skip", "out_of_order"),
        ("repeat", "redundant"),
        ("wrong_argument", "wrong_arguments"),
        ("early_stop", "premature_end"),
    ],
)
def test_a_named_fault_has_its_cause(fault: str, kind: str, bench: Bench) -> None:
    """Each named fault of a faulty agent is found by its own kind of cause."""
    [found] = bench.run(
        "workshop/one_order", "--agent", f"faulty:0,{fault}", "--n", "1", "--seed", "3"
    )
    causes = [found["cause"], *found["cause"]["also"]]
    assert kind in {each["kind"] for each in causes}


def test_injected_agents_are_attacked(bench: Bench) -> None:
    """An agent that does what results tell it to reaches the attacker's goal on each task that has one."""
    found = bench.run("mailbox", "--agent", "injected")
    assert [each["attacked"] for each in found] == [True] * len(found)
    assert {each["cause"]["kind"] for each in found} == {"obeyed_injection"}


@pytest.mark.parametrize(
    "agent",
    sampled(
        ["injected", "faulty:0.5", "faulty:0.3,swap,repeat"],
        ["injected", "faulty:0.3,swap,repeat"],
    ),
)
def test_nobody_does_harm_behind_a_guard(agent: str, bench: Bench) -> None:
    """With a guard that blocks, no agent makes a harmful call, and what it meant is counted as prevented."""
    found = bench.run("mailbox", "shop", "--agent", agent, "--n", "5", "--jobs", "2", "--guard")
    assert sum(each["harmful"] for each in found) == 0
    assert sum(each["prevented"] for each in found) > 0
    assert not any(each["attacked"] for each in found)


def test_a_seed_gives_the_same_rollout(bench: Bench) -> None:
    """Two runs with one seed make the same calls; another seed makes others."""
    ways = [
        [each["path"] for each in bench.run("shop", "--agent", "faulty:0.5", "--seed", seed)]
        for seed in ("4", "4", "5")
    ]
    assert ways[0] == ways[1] != ways[2]


def test_calls_of_several_agents_are_told_apart(bench: Bench) -> None:
    """In a task of several agents each call is of the one that has its tool."""
    [found] = bench.run("workshop/one_order", "--agent", "golden")
    assert found["steps_by_agent"] == {"planner": 1, "builder": 1, "inspector": 2}


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        ("golden:x", "expected golden"),
        ("faulty:2", "from 0 to 1"),
        ("faulty:0.1,jump", "'jump' is none of"),
        ("scripted:/nowhere.json", "/nowhere.json"),
        ("openai:", "expected golden"),
    ],
)
def test_an_agent_that_there_is_not_is_usage(
    agent: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent that cannot be made ends the program with exit code 2, and is named."""
    assert main(["run", "shop", "--agent", agent, "--out", str(tmp_path / "o")]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([{"tool": 1}], "turn 1: tool: found 1"),
        ([{"say": "x"}, {"jump": 1}], "turn 2: expected {tool, arguments}"),
        ({"shop/other": []}, "there is no task shop/buy_tea"),
        ([{"sleep": -1}], "expected no negative number"),
        (3, "expected a list of turns"),
    ],
)
def test_a_bad_script_names_its_turn(
    script: object, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that cannot be used is refused before the first rollout, with the turn."""
    file = tmp_path / "s.json"
    file.write_text(json.dumps(script))
    arguments = ["--agent", f"scripted:{file}", "--out", str(tmp_path / "o")]
    assert main(["run", "shop/buy_tea", *arguments]) == 2
    assert says in capsys.readouterr().err
