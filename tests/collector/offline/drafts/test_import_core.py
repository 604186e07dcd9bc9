"""`offrails import core`: the written document, messages, refusals and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.offline.drafts.import_core import ImportResult, import_core, report
from monitor import load_spec, load_specs

DATASET = Path(__file__).parents[4] / ".." / "shared" / "core" / "all_worlds_dataset.json"
DEFECTIVE = {
    "configurations_5": "nondeterministic",
    "crud_3": "nondeterministic",
    "desktop_manager_6": "wrong_edge_source",
    "event_scheduler_4": "undeclared_symbol",
    "file_management_5": "undeclared_symbol",
    "transactions_3": "duplicate_state",
    "transactions_7": "undeclared_symbol",
    "validation_6": "overlapping_patterns",
}

ALPHABET = {
    "A": {"name": "World__open", "arguments": {"what": {"value": "door"}}},
    "B": {"name": "look", "arguments": {}},
}


def node(name: str, *edges: tuple[str, str], final: bool = False) -> dict[str, Any]:
    listed = [{"symbols": [symbol], "from": name, "to": to} for symbol, to in edges]
    return {"name": name, "is_final": final, "transitions": listed}


GOOD = [node("G0", ("A", "G1"), ("B", "G0")), node("G1", final=True)]
TWICE = [node("G0", ("A", "G1"), ("A", "G0")), node("G1", final=True)]
ENDLESS = [node("G0", ("B", "G0")), node("G1", final=True)]


def automaton(nodes: Any, expected: Any = None) -> dict[str, Any]:
    return {"dfa": {"nodes": nodes}, "alphabet": ALPHABET, "expected_sequence": expected}


def write(folder: Path, **documents: Any) -> list[Path]:
    files = []
    for name, data in documents.items():
        files.append(folder / f"{name}.json")
        text = data if isinstance(data, str) else json.dumps(data)
        files[-1].write_text(text, encoding="utf-8")
    return files


def imported(files: list[Path], out: Path, *, mend: bool = True) -> dict[str, ImportResult]:
    return {each.id: each for each in import_core(files, out, mend=mend)}


@pytest.mark.skipif(not DATASET.exists(), reason="the published data is not beside the repo")
def test_the_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """84 specs that check finds fine, a line for each repair, exit 0."""
    code = main(["import", "core", str(DATASET), "--out", str(tmp_path)])
    told = capsys.readouterr()
    lines = told.out.splitlines()

    assert (code, told.err) == (0, "")
    assert lines[-1] == f"84 specs written to {tmp_path}, 8 of them repaired; 0 refused"
    assert {line.split(":")[0] for line in lines[:-1]} == {
        f"repaired {id_}" for id_ in DEFECTIVE
    }
    assert main(["check", str(tmp_path)]) == 0
    assert "84 specs fine, 0 errors" in capsys.readouterr().out
    assert {path.stem for path in tmp_path.iterdir()} == {
        spec.id for spec in load_specs([tmp_path]).specs
    }


@pytest.mark.skipif(not DATASET.exists(), reason="the published data is not beside the repo")
def test_the_data_set_without_repairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each defective task is refused by name and defect, the other 76 are written; exit 1."""
    code = main(["import", "core", str(DATASET), "--out", str(tmp_path), "--no-repair"])
    told = capsys.readouterr()
    refused = dict(line.split(": ")[:2] for line in reversed(told.err.splitlines()))

    assert code == 1
    assert refused == {f"refused {id_}": code for id_, code in DEFECTIVE.items()}
    assert len(list(tmp_path.iterdir())) == 76
    assert not {path.stem for path in tmp_path.iterdir()} & DEFECTIVE.keys()


def test_the_written_document(tmp_path: Path) -> None:
    """The document has the id, the published conventions, and one line a symbol."""
    [file] = write(tmp_path, door_1=automaton(GOOD))
    imported([file], tmp_path / "out")

    assert (tmp_path / "out" / "door_1.yaml").read_text(encoding="utf-8") == (
        "# Imported.\n"
        "\n"
        'id: "door_1"\n'
        "conventions: core\n"
        "\n"
        "alphabet:\n"
        '  A: {tool: open, arguments: {what: "door"}}\n'
        "  B: {tool: look, arguments: {}}\n"
        "\n"
        "initial: G0\n"
        "accepting: [G1]\n"
        "transitions:\n"
        "  G0: {A: G1}\n"
        "  G1: {}\n"
        "reads:\n"
        "  G0: [B]\n"
    )


def test_several_automata_and_one_without_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An automaton without a reachable end is refused by name and reason; the others are written."""
    files = write(tmp_path, one=automaton(GOOD), two=automaton(ENDLESS), three=automaton(GOOD))
    out = tmp_path / "out"
    code = main(["import", "core", *map(str, files), "--out", str(out)])
    told = capsys.readouterr()

    assert code == 1
    assert told.err == (
        "refused two: no_accepting_state_reachable: "
        "no accepting state can be reached from 'G0'\n"
    )
    assert told.out == f"2 specs written to {out}, 0 of them repaired; 1 refused\n"
    assert {path.name for path in out.iterdir()} == {"one.yaml", "three.yaml"}
    assert load_spec(out / "one.yaml").id == "one"


def test_a_broken_file_spoils_no_other(tmp_path: Path) -> None:
    """No JSON, no automaton: named, with the reason."""
    files = write(tmp_path, bad="{", odd=[1], fine=automaton(GOOD))
    found = imported(files, tmp_path / "out")

    assert [defect.code for defect in found[str(files[0])].refusals] == ["invalid_document"]
    assert "no JSON" in found[str(files[0])].refusals[0].message
    assert found["odd[0]"].refusals[0].message == "expected an object, found a number"
    assert found["fine"].file == tmp_path / "out" / "fine.yaml"


def test_without_repairs_a_defect_refuses(tmp_path: Path) -> None:
    """With them the same automaton is written, and the repair is in the file too."""
    files = write(tmp_path, twice=automaton(TWICE))
    strict = imported(files, tmp_path / "strict", mend=False)["twice"]
    mended = imported(files, tmp_path / "mended")["twice"]

    assert (strict.file, [each.code for each in strict.refusals]) == (
        None,
        ["nondeterministic"],
    )
    assert mended.file is not None
    assert "# Repaired: nondeterministic: 'A' leads from 'G0' to G1 and to G0; the second" in (
        mended.file.read_text(encoding="utf-8")
    )


@pytest.mark.parametrize(
    ("expected", "notes"),
    [
        (["A"], ()),
        (["B", "A"], ()),
        ([["A"], ["B", "A"]], ()),
        ([{"name": "World__open", "arguments": {"what": "door"}}], ()),
        (None, ()),
        (["A", "A"], ("the expected sequence is not accepted: step 2",)),
        (["B"], ("the expected sequence is not accepted: it does not end the task",)),
        ([{"name": "open", "arguments": {"what": "gate"}}],
         ("the expected sequence is not accepted: step 1",)),
        (["nothing"], ("the expected sequence is not accepted: step 1",)),
    ],
)  # fmt: skip
def test_the_expected_sequence_is_tried(tmp_path: Path, expected: Any, notes: Any) -> None:
    """If the automaton rejects its expected sequence, the verb reports it."""
    found = imported(write(tmp_path, one=automaton(GOOD, expected)), tmp_path / "out")["one"]

    assert found.file is not None
    assert found.notes == notes


def test_ids_stay_inside_the_folder(tmp_path: Path) -> None:
    """A hostile id names a harmless file; two ids of one file name are not both written."""
    record = {"nodes": GOOD, "alphabet": ALPHABET}
    names = ["../../evil", "a/b", "a_b", "A_B", "same", "same"]
    files = write(tmp_path, data=[{"prompt_id": name, **record} for name in names])
    found = list(import_core(files, tmp_path / "out", mend=True))

    assert [each.file.name if each.file else None for each in found] == [
        "_.._evil.yaml", "a_b.yaml", None, None, "same.yaml", None,
    ]  # fmt: skip
    assert {each.refusals[0].code for each in found if each.refusals} == {"duplicate_spec_id"}
    assert load_spec(tmp_path / "out" / "_.._evil.yaml").id == "../../evil"


def test_what_the_compiler_refuses_is_told_too(tmp_path: Path) -> None:
    """More than 10,000 golden paths: refused with the count."""
    states = [
        node(f"G{i}", *((symbol, f"G{i + 1}") for symbol in "ABCDEFGHIJK")) for i in range(4)
    ]
    letters = {letter: {"name": letter, "arguments": {}} for letter in "ABCDEFGHIJK"}
    data = {"dfa": [*states, node("G4", final=True)], "alphabet": letters}
    found = imported(write(tmp_path, many=data), tmp_path / "out")["many"]

    assert found.file is None
    assert found.refusals[0].code == "too_many_golden_paths"
    assert "10,001" in found.refusals[0].message or "14,641" in found.refusals[0].message


def test_terminals_are_not_told_what_to_do(tmp_path: Path) -> None:
    """Ids and messages are strangers' text: control characters are escaped."""
    files = write(tmp_path, data=[{"prompt_id": "\x1b[2Jx", "nodes": []}])
    lines = [line for _, line in report(import_core(files, tmp_path, mend=True), tmp_path)]

    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("arguments", [["nowhere.json"], []])
def test_usage(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file, or no file at all, gives exit code 2 and one line."""
    with pytest.raises(SystemExit) as end:
        main(["import", "core", *arguments, "--out", str(tmp_path)])

    assert end.value.code == 2
    assert capsys.readouterr().err
