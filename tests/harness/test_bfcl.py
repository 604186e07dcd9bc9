"""Multi-turn tasks in BFCL's form: a user gives the turns, and each turn is held against its ground truth. The files are made here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli.program import main
from harness.tasks.catalogue import find_tasks
from tests.harness.conftest import Bench
from tests.harness.test_snapshots import bytes_of

SHELF = '''
class Box:
    def __init__(self, name, books):
        self.name, self.books = name, list(books)

    def __eq__(self, other):
        return (self.name, self.books) == (other.name, other.books)


class ShelfAPI:
    """Boxes of books; what stands open is private."""

    def __init__(self):
        self.boxes = {}
        self._open = ""

    def _load_scenario(self, scenario, long_context=False):
        books = scenario.get("boxes", {})
        self.boxes = {name: Box(name, each) for name, each in books.items()}
        if long_context:
            self.boxes["attic"] = Box("attic", map(str, range(50)))

    def open_box(self, name):
        if name not in self.boxes:
            return {"error": f"there is no box {name}"}
        self._open = name
        return {"open": name}

    def titles(self):
        return sorted(self.boxes[self._open].books)

    def put(self, book, times=1):
        self.boxes[self._open].books += [book] * times
        return {"put": book}

    def shred(self):
        self.boxes.clear()
'''
PHONE = """
class PhoneAPI:
    def __init__(self):
        self.sent = []

    def _load_scenario(self, scenario, long_context=False):
        self.sent = scenario.get("sent", [])

    def send(self, to, text):
        self.sent.append((to, text))
        return len(self.sent)

    def count_sent(self):
        return len(self.sent)
"""


def function(name: str, /, **parameters: str) -> dict[str, Any]:
    """A function's description in this form, with Python's names of types."""
    properties = {key: {"type": kind, "description": key} for key, kind in parameters.items()}
    optional = ("times",)
    return {
        "name": name,
        "description": f"Does {name}.",
        "parameters": {
            "type": "dict",
            "properties": properties,
            "required": [key for key in parameters if key not in optional],
        },
        "response": {"type": "dict", "properties": {}},
    }


SHELF_FUNCTIONS = [
    function("open_box", name="string"),
    function("titles"),
    function("put", book="string", times="integer"),
    function("shred"),
]
PHONE_FUNCTIONS = [function("send", to="string", text="string"), function("count_sent")]


def turn(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


TASK: dict[str, Any] = {
    "id": "multi_turn_base_0",
    "question": [
        turn("Put Emma into the box of novels."),
        turn("What is in it?"),
        turn("Tell Ana."),
    ],
    "initial_config": {"ShelfAPI": {"boxes": {"novels": ["Ulysses"], "maps": []}}},
    "path": ["ShelfAPI.open_box", "ShelfAPI.put"],
    "involved_classes": ["ShelfAPI", "PhoneAPI"],
}
TRUTH: list[list[str]] = [
    ["open_box('novels')", "put(book='Emma')"],
    ["titles()"],
    ["send(to='Ana', text='Emma is there')"],
]


def lines(file: Path, found: Sequence[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(each) + "\n" for each in found))


class Form:
    """Files in the form, and their import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: list[tuple[dict[str, Any], list[list[str]]]] = [(TASK, TRUTH)]
        for name, text in (("shelf", SHELF), ("phone", PHONE)):
            (folder / "classes").mkdir(exist_ok=True)
            (folder / "classes" / f"{name}.py").write_text(text)
        lines(folder / "docs" / "shelf.json", SHELF_FUNCTIONS)
        lines(folder / "docs" / "phone.json", PHONE_FUNCTIONS)

    def add(self, name: str, truth: list[list[str]], **more: Any) -> None:
        self.tasks.append(({**TASK, "id": name, **more}, truth))

    def write(self) -> None:
        lines(self.folder / "TASKS.json", [task for task, _ in self.tasks])
        answers = [{"id": task["id"], "ground_truth": truth} for task, truth in self.tasks]
        lines(self.folder / "possible_answer" / "TASKS.json", answers)

    def brought_in(self, *options: str) -> int:
        """Imports what was written; returns the exit code."""
        folders = (
            "--functions",
            str(self.folder / "docs"),
            "--classes",
            str(self.folder / "classes"),
        )
        file = str(self.folder / "TASKS.json")
        return main(["import", "bfcl", file, *folders, "--out", str(self.out), *options])

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def imported(self) -> Path:
        self.write()
        assert self.brought_in() == 0
        return self.out


@pytest.fixture
def form(tmp_path: Path) -> Form:
    return Form(tmp_path)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


OPEN, PUT, TITLES = call("open_box", name="novels"), call("put", book="Emma"), call("titles")
SEND = call("send", to="Ana", text="Emma is there")
NEXT = {"say": "Done."}


def test_tasks_are_sound_and_their_ground_truth_succeeds(form: Form, bench: Bench) -> None:
    """An imported task passes `check`; its ground truth, turn by turn, is a success without harm, with PC 1."""
    form.add(
        "multi_turn_long_context_7",
        [["open_box(name='attic')", "titles()"]],
        question=[turn("What is up there?")],
    )
    form.add(
        "multi_turn_base_9",
        [["send('Bo', 'hi')"]],
        question=[turn("Greet Bo.")],
        involved_classes=["PhoneAPI"],
    )
    out = form.imported()
    assert main(["check", str(out)]) == 0
    found = bench.run(str(out), "--agent", "golden")
    assert [each["task"] for each in found] == [
        "phone_api/multi_turn_base_9",
        "shelf_api_phone_api/multi_turn_base_0",
        "shelf_api_phone_api/multi_turn_long_context_7",
    ]
    assert {(each["success"], each["harm_rate"], each["pc"]) for each in found} == {
        (True, 0, 1)
    }
    [task] = [task for task in find_tasks([str(out)]) if task.name.endswith("base_0")]
    assert task.document.instruction == "Put Emma into the box of novels."


@pytest.mark.parametrize(
    ("turns", "success"),
    [
        ([OPEN, PUT, NEXT, TITLES, NEXT, SEND, NEXT], True),
        ([call("open_box", name="maps"), TITLES, OPEN, PUT, NEXT, TITLES, NEXT, SEND, NEXT], True),
        ([OPEN, PUT, TITLES, NEXT, TITLES, NEXT, SEND, NEXT], True),
        ([OPEN, PUT, NEXT, NEXT, SEND, NEXT], False),
        ([OPEN, PUT, NEXT, TITLES, SEND, NEXT, SEND, NEXT], False),
        ([OPEN, PUT, TITLES, SEND, NEXT, NEXT, NEXT], False),
        ([OPEN, PUT, NEXT, TITLES, NEXT], False),
        ([OPEN, call("put", book="Emma", times=2), NEXT, TITLES, NEXT, SEND, NEXT], False),
    ],
    ids=["as the truth", "looks elsewhere", "asks early, too", "no answer", "sends twice", "all at once", "stops", "puts two"],
)  # fmt: skip
def test_each_turn_is_held_against_its_truth(
    turns: list[dict[str, Any]], success: bool, form: Form, bench: Bench
) -> None:
    """After each turn what is not private is as after the ground truth, and its results were given: else it is no success."""
    out = form.imported()
    [found] = bench.run(str(out), "--agent", bench.script(turns))
    assert found["success"] is success


def test_a_spec_is_learnt_of_what_calls_change(form: Form, bench: Bench) -> None:
    """Tools that were seen to change nothing are harmless, whatever they are called; an early or foreign write is harm."""
    out = form.imported()
    spec = yaml.safe_load(
        (out / "shelf_api_phone_api" / "multi_turn_base_0.spec.yaml").read_text()
    )
    assert spec["reads"] == ["open_box", "titles"]
    script = bench.script([OPEN, TITLES, SEND, PUT, call("shred"), NEXT])
    [found] = bench.run(str(out), "--agent", script)
    kinds = [(step["tool"], step["kind"]) for step in found["path"]]
    assert kinds == [
        ("open_box", "self_loop"),
        ("titles", "self_loop"),
        ("send", "harmful"),
        ("put", "progress"),
        ("shred", "harmful"),
    ]


def test_what_a_class_refuses_is_feedback(form: Form, bench: Bench) -> None:
    """An error that a class returns or raises, or an unfit argument, is a failed call that changes nothing."""
    out = form.imported()
    wrong = [call("open_box", name="none"), call("titles"), call("titles", box="maps")]
    script = bench.script([*wrong, OPEN, PUT, NEXT, TITLES, NEXT, SEND, NEXT])
    [found] = bench.run(str(out), "--agent", script)
    assert (found["success"], found["calls"], found["harmful"]) == (True, 7, 0)


def test_excluded_functions_are_not_there(form: Form, bench: Bench) -> None:
    """An agent does not have the functions that a task excludes."""
    form.tasks = []
    form.add("multi_turn_base_3", TRUTH, excluded_function=["shred"])
    out = form.imported()
    [found] = bench.run(str(out), "--agent", bench.script([call("shred"), NEXT]))
    assert found["cause"]["kind"] == "hallucinated_tool"


LATE = {
    "question": [turn("Put Emma into the box of novels."), [], turn("Tell Ana.")],
    "missed_function": {"1": ["put", "shred"]},
}
LATE_TRUTH: list[list[str]] = [[], ["open_box('novels')", "put(book='Emma')"], TRUTH[2]]


@pytest.mark.parametrize(
    ("turns", "success"),
    [
        ([{"say": "I cannot put books anywhere."}, OPEN, PUT, NEXT, SEND, NEXT], True),
        ([OPEN, NEXT, PUT, NEXT, SEND, NEXT], True),
        ([OPEN, PUT, NEXT, NEXT, SEND, NEXT], False),
        ([OPEN, PUT, NEXT, PUT, NEXT, SEND, NEXT], True),
    ],
    ids=["says so", "looks first", "only tries early", "tries early, too"],
)
def test_functions_that_are_held_back_come_in_their_turn(
    turns: list[dict[str, Any]], success: bool, form: Form, bench: Bench
) -> None:
    """A `missed_function` is not there before its turn: a call of it fails; an agent that says so is told when it has come."""
    form.tasks = []
    form.add("multi_turn_miss_func_3", LATE_TRUTH, **LATE)
    out = form.imported()
    assert main(["check", str(out)]) == 0
    [task] = find_tasks([str(out)])
    assert task.document.held_back == {"put": 1, "shred": 1}
    [found] = bench.run(str(out), "--agent", bench.script(turns))
    assert found["success"] is success
    early = [each["kind"] for each in found["path"] if each["tool"] == "put"]
    assert len(early) == sum(each is PUT for each in turns)


def test_tasks_that_cannot_be_taken_are_told(
    form: Form, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task whose truth is no plain call, fails, or calls what is not there yet, is left out, with line and reason."""
    form.add("late_1", TRUTH, missed_function={"1": ["put"]})
    form.add("late_unknown_1", TRUTH, missed_function={"1": ["fly"]})
    form.add("silent_1", LATE_TRUTH, question=LATE["question"])
    form.add("nested_2", [["put(book=titles())"], [], []])
    form.add("unknown_3", [["fly()"], [], []])
    form.add("fails_4", [["open_box(name='none')"], [], []])
    form.add("empty_5", [[], [], []])
    form.add("short_6", TRUTH[:2])
    form.imported()
    told = capsys.readouterr()
    assert told.out == f"1 tasks in {form.out}\n"
    said = told.err.splitlines()
    reasons = ("turn 0 calls put, which comes in turn 1", "no description of fly", "question: turn 1 has no message", "put(book=titles())", "no description of fly", "there is no box none", "has no call", "it has 3 turns, and its ground truth 2")  # fmt: skip
    assert len(said) == len(reasons)
    for number, (line, reason) in enumerate(zip(said, reasons, strict=True), start=2):
        assert f"TASKS.json:{number}: " in line
        assert reason in line


BAD = {
    "{": "TASKS.json:1: Expecting",
    "[]": "TASKS.json:1: expected an object",
    '{"question": []}': "TASKS.json:1: id: expected a text, found None",
    '{"id": "x"}': "TASKS.json: expected the ground truth of x",
    '{"id": "multi_turn_base_0", "question": "hi"}': "question: expected a list",
    '{"id": "multi_turn_base_0", "question": ["hi", "a", "b"]}': "question: expected a list of messages",
    json.dumps(
        {**TASK, "missed_function": {"9": ["put"]}}
    ): "by the number of a turn below 3, found '9'",
    json.dumps({**TASK, "missed_function": {"1": "put"}}): "missed_function: expected lists",
    json.dumps({**TASK, "involved_classes": ["Robot"]}): "has no class Robot",
    json.dumps(
        {**TASK, "involved_classes": ["ShelfAPI", "TwinAPI"]}
    ): "two have a function titles",
}


@pytest.mark.parametrize("line", BAD)
def test_a_line_of_another_form_is_named(
    line: str, form: Form, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not of this form ends the import with exit code 2, with file, line and key."""
    form.write()
    (form.folder / "TASKS.json").write_text(line + "\n")
    (form.folder / "classes" / "twin.py").write_text("class TwinAPI: pass\n")
    lines(form.folder / "docs" / "twin.json", [function("titles")])
    assert form.brought_in() == 2
    assert BAD[line] in capsys.readouterr().err


def test_a_bad_ground_truth_or_a_missing_folder_is_named(
    form: Form, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ground truths that are none, no file of them, and folders that there are not end the import with exit code 2."""
    form.write()
    answers = form.folder / "possible_answer" / "TASKS.json"
    lines(answers, [{"id": TASK["id"], "ground_truth": [["a + 1"], [], []]}])
    assert form.brought_in() == 2
    assert (
        "possible_answer/TASKS.json:1: ground_truth: expected a call, found 'a + 1'"
        in capsys.readouterr().err
    )
    assert form.brought_in("--answers", str(form.folder / "none")) == 2
    assert "none/TASKS.json: No such file" in capsys.readouterr().err
    out = ("--out", str(form.out))
    assert main(["import", "bfcl", str(form.folder / "TASKS.json"), *out]) == 2
    assert "--functions: expected a folder" in capsys.readouterr().err
    assert main(["import", "bfcl", *out]) == 2
    assert "import bfcl: expected a file" in capsys.readouterr().err


def test_offline_runs_are_equal_and_changed_classes_are_refused(
    form: Form, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two offline runs are the same bytes; a class that was changed after the import is told, not used."""
    out = form.imported()
    recording, outs = str(bench.folder / "recording"), [bench.out(), bench.out()]
    bench.run(str(out), "--agent", "golden", "--record", recording)
    for each in outs:
        [found] = bench.run(str(out), "--agent", "golden", "--offline", recording, out=each)
        assert found["success"]
    assert bytes_of(outs[0]) == bytes_of(outs[1])
    copy = out / "shelf_api_phone_api" / "bfcl_shelf.py"
    copy.write_text(copy.read_text() + "\n")
    assert main(["check", str(out)]) == 2
    assert "bfcl_shelf.py: it was changed; import it again" in capsys.readouterr().out
