"""A user of the world answers an agent; a model plans again at intervals; parts of a document that do not go together are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli.program import main as program
from harness.cli.program import main
from tests.harness.conftest import Bench
from tests.harness.test_snapshots import bytes_of

WORLD = """
from harness.world.world import ToolError, World

world = World("counter")
STATE = {"basket": [], "asked": 0}


@world.tool(writes=["basket"])
def put(state, item: str) -> str:
    "Puts something into the basket."
    state["basket"].append(item)
    return "there"


@world.tool()
def drop_all(state) -> str:
    "Lets everything fall."
    return "broken"


@world.user(reads=["basket"], writes=["asked"])
def guest(state, said, turn):
    state["asked"] += 1
    if turn == 0:
        return "And bread, please."
    if "bread" not in state["basket"] and turn < 3:
        return "I said bread."
    return None


@world.user()
def mute(state, said, turn):
    return " "


@world.user()
def gone(state, said, turn):
    raise ToolError("has left")


@world.user()
def rude(state, said, turn):
    raise RuntimeError("leaves")
"""
SPEC = """
id: counter
alphabet:
  milk: {tool: put, arguments: {item: milk}}
  bread: {tool: put, arguments: {item: bread}}
golden:
  - [milk, bread]
"""
TASK = """
task: counter
world: counter
instruction: Give the guest milk, then ask.
spec: counter.spec.yaml
environment: {user: guest}
evaluation:
  criterion: end_state
  end_state: {basket: [milk, bread], asked: 2}
golden:
  - - {tool: put, arguments: {item: milk}}
    - {tool: put, arguments: {item: bread}}
traps:
  - {tool: drop_all}
"""
MILK, BREAD = ({"tool": "put", "arguments": {"item": item}} for item in ("milk", "bread"))
ASKS = {"say": "Anything else?"}


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    """A task in which a guest says at the first answer what else is wanted."""
    folder = tmp_path / "counter"
    folder.mkdir()
    texts = {"counter.py": WORLD, "counter.spec.yaml": SPEC, "counter.yaml": TASK}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def test_a_user_answers_until_it_is_content(counter: Path, bench: Bench) -> None:
    """An agent that says something is answered, goes on, and ends when the user has nothing to say."""
    script = bench.script([MILK, ASKS, BREAD, {"say": "Here."}])
    [found] = bench.run(str(counter), "--agent", script)
    assert (found["success"], found["end"], found["answer"]) == (True, "done", "Here.")
    deaf = bench.script([MILK, ASKS, ASKS, ASKS, ASKS, ASKS])
    [found] = bench.run(str(counter), "--agent", deaf)
    assert (found["success"], found["calls"]) == (False, 1)
    assert found["cause"]["kind"] == "premature_end"


def test_what_was_said_is_in_the_spans(
    counter: Path, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader of the spans, such as `offrails judge`, sees instruction, calls, the user's answer and the end, in their order."""
    out = bench.out()
    script = bench.script([MILK, ASKS, BREAD, {"say": "Here."}])
    bench.run(str(counter), "--agent", script, out=out)
    capsys.readouterr()
    spans = str(out / "spans.otlp.jsonl")
    assert program(["judge", spans, "--judges", "GF", "--dry-run"]) == 0
    text = capsys.readouterr().out
    said = ("text: Give the guest", "milk", "text: Anything else?", "text: And bread", '"bread"', "text: Here.")  # fmt: skip
    places = [text.index(each) for each in said]
    assert places == sorted(places)
    assert text.count("text: Anything else?") == 1


def test_a_user_answers_an_agent_that_cannot_go_on(counter: Path, bench: Bench) -> None:
    """An agent that says that it cannot is answered as any other, and may go on; one that says nothing has given up."""
    cannot = {"say": "I cannot find the bread."}
    [found] = bench.run(
        str(counter), "--agent", bench.script([MILK, cannot, BREAD, {"say": "Here."}])
    )
    assert (found["success"], found["end"]) == (True, "done")
    [found] = bench.run(str(counter), "--agent", bench.script([MILK, BREAD, ASKS, cannot]))
    assert (found["success"], found["end"]) == (False, "gave_up")
    [found] = bench.run(str(counter), "--agent", bench.script([MILK, {"say": ""}, BREAD, ASKS]))
    assert (found["calls"], found["end"]) == (1, "gave_up")


def test_a_tool_that_is_held_back_comes_with_an_answer(counter: Path, bench: Bench) -> None:
    """A tool of `held_back` is unknown until the user has answered so often; `check` finds a way that calls it before."""
    file = counter / "counter.yaml"
    text = file.read_text().replace("traps:\n  - {tool: drop_all}\n", "held_back: {put: 1}\n")
    file.write_text(text)
    script = bench.script([MILK, ASKS, MILK, BREAD, {"say": "Here."}])
    [found] = bench.run(str(counter), "--agent", script)
    assert (found["success"], found["calls"]) == (True, 3)
    assert main(["check", str(counter)]) == 2
    file.write_text(
        text.replace(
            "put, arguments: {item: milk}", "put, say: [Well?], arguments: {item: milk}"
        )
    )
    assert main(["check", str(counter)]) == 0


def test_agents_without_a_model_say_their_last_text_again(counter: Path, bench: Bench) -> None:
    """Golden and faulty agents end their task with a user, too."""
    for agent in ("golden", "faulty:0.5"):
        assert [each["success"] for each in bench.run(str(counter), "--agent", agent)] == [True]


@pytest.mark.parametrize("user", ["rude", "gone"])
def test_a_user_that_breaks_is_the_environments_failure(
    user: str, counter: Path, bench: Bench
) -> None:
    """A user that raises ends the rollout as a failure of the user simulator, not of the agent."""
    file = counter / "counter.yaml"
    file.write_text(file.read_text().replace("guest}", user + "}"))
    [found] = bench.run(str(counter), "--agent", bench.script([MILK, ASKS]))
    cause = found["cause"]
    assert (found["end"], cause["category"], cause["kind"]) == (
        "error", "environment", "user_simulator",
    )  # fmt: skip
    assert bench.code == 1


def test_an_empty_answer_of_a_user_is_none(counter: Path, bench: Bench) -> None:
    """A user that says an empty text is content: it neither fails the rollout nor keeps it going."""
    file = counter / "counter.yaml"
    file.write_text(file.read_text().replace("guest}", "mute}").replace(", asked: 2", ""))
    script = bench.script([MILK, BREAD, ASKS, MILK])
    [found] = bench.run(str(counter), "--agent", script)
    assert (found["success"], found["calls"], found["end"]) == (True, 2, "done")


def test_what_a_user_says_is_recorded(counter: Path, bench: Bench) -> None:
    """Offline a user says what it said, and two runs are the same bytes."""
    recording, outs = str(bench.folder / "recording"), [bench.out(), bench.out()]
    bench.run(str(counter), "--agent", "golden", "--record", recording)
    for out in outs:
        [found] = bench.run(str(counter), "--agent", "golden", "--offline", recording, out=out)
        assert found["success"]
    assert bytes_of(outs[0]) == bytes_of(outs[1])


def test_an_agent_may_end_without_a_word_where_nothing_is_expected(
    counter: Path, bench: Bench
) -> None:
    """With `output: none` an agent that says nothing is done; else it has given up."""
    file = counter / "counter.yaml"
    plain = (
        file.read_text().replace("environment: {user: guest}\n", "").replace(", asked: 2", "")
    )
    script = bench.script([MILK, BREAD, {"say": ""}])
    file.write_text(plain)
    [spoke] = bench.run(str(counter), "--agent", script)
    file.write_text(plain + "output: none\n")
    [quiet] = bench.run(str(counter), "--agent", script)
    assert [(each["end"], each["success"]) for each in (spoke, quiet)] == [
        ("gave_up", False),
        ("done", True),
    ]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            "environment: {kind: global, state: {basket: []}}",
            "environment.state: expected none",
        ),
        ("environment: {kind: none, state: {basket: []}}", "environment.state: expected none"),
        (
            "evaluation: {criterion: end_state}",
            "evaluation.criterion: expected end_state or end_state_hash beside it",
        ),
        ("evaluation: {criterion: answer}", "evaluation.criterion: expected an answer with"),
        (
            "evaluation: {criterion: answer, answer: {}}",
            "evaluation.criterion: expected an answer with contains or regex beside it",
        ),
        (
            "evaluation: {criterion: answer, answer: {regex: '(?=a)'}}",
            "evaluation.answer.regex: ",
        ),
        (
            "evaluation: {criterion: end_state, end_state: {basket.0: {min: many}}}",
            "basket.0.min: expected a number, found 'many'",
        ),
        (
            "evaluation: {criterion: end_state, end_state: {basket: {length: 1.5}}}",
            "basket.length: expected a whole number from 0, found 1.5",
        ),
        (
            "evaluation: {criterion: end_state, end_state: {basket: {missing: 1}}}",
            "basket.missing: expected true or false, found 1",
        ),
        (
            "evaluation: {criterion: end_state, end_state: {basket: {length: .inf}}}",
            "basket.length: expected a whole number from 0, found inf",
        ),
        (
            "evaluation: {criterion: end_state, end_state: {basket: {min: .nan}}}",
            "basket.min: expected a number, found nan",
        ),
        (
            "evaluation: {criterion: answer, answer: {contains: ['']}}",
            "evaluation.answer.contains.0: ",
        ),
        ("held_back: {put: 1}", "held_back: expected environment.user beside it"),
        (
            "environment: {user: guest}\nheld_back: {drop_all: 1}\ntoolkit: [put]",
            "held_back: toolkit has no drop_all",
        ),
        ("environment: {user: guest}\nheld_back: {put: 0}", "held_back.put: "),
        ("agent: {kind: multi}", "agent: expected members"),
        ("agent: {members: {a: [put]}}", "agent: expected members"),
    ],
)
def test_parts_that_do_not_go_together_are_named(
    more: str, says: str, counter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A document whose keys contradict one another is refused with file, line and key."""
    file = counter / "counter.yaml"
    text = file.read_text().replace("environment: {user: guest}", more)
    if more.startswith("evaluation"):
        own = "evaluation:\n  criterion: end_state\n  end_state: {basket: [milk, bread], asked: 2}\n"
        text = text.replace(own, "")
    file.write_text(text)
    assert main(["check", str(counter)]) == 2
    assert says in capsys.readouterr().err


def test_tools_of_members_are_those_of_the_world(
    counter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A member that is given a tool that its world does not have is named by `check`."""
    file = counter / "counter.yaml"
    agent = "agent: {kind: multi, members: {ana: [put], bo: [fly]}}\n"
    file.write_text(file.read_text() + agent)
    assert main(["check", str(counter)]) == 2
    assert "agent.members.bo: counter.py has no fly" in capsys.readouterr().out


def test_a_state_that_is_no_mapping_is_named(
    counter: Path, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A world whose `STATE` is no dict is refused before the first rollout."""
    module = counter / "counter.py"
    module.write_text(module.read_text() + "\nSTATE = [1]\n")
    assert main(["run", str(counter), "--agent", "golden", "--out", str(bench.out())]) == 2
    assert (
        "world: counter.py: TypeError: STATE: expected a dict, found list"
        in capsys.readouterr().err
    )


def test_a_global_environment_is_that_of_the_world(counter: Path, bench: Bench) -> None:
    """With `kind: global` a task begins in the world's own state."""
    file = counter / "counter.yaml"
    file.write_text(
        file.read_text().replace("{user: guest}", "{kind: global}").replace(", asked: 2", "")
    )
    assert [each["success"] for each in bench.run(str(counter), "--agent", "golden")] == [True]


def test_a_task_without_a_state_is_checked_without_one(
    counter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `kind: none` there is no state, for `check` as for a run: a tool that needs some is told."""
    file = counter / "counter.yaml"
    file.write_text(
        file.read_text().replace("{user: guest}", "{kind: none}").replace(", asked: 2", "")
    )
    assert main(["check", str(counter)]) == 2
    assert "golden.0: call 1 put: KeyError: 'basket'" in capsys.readouterr().out
