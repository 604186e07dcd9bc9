"""Spec files and folders, and YAML text as data with positions."""

from __future__ import annotations

import json
import os
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.engine import Monitor
from monitor.errors import SpecError
from monitor.findings import CODES, Finding
from monitor.spec.compiler.compile import compile_text
from monitor.spec.document.yaml_text import DEPTH_MAX, NODES_MAX, SIZE_MAX, parse
from monitor.spec.read import LoadedSpecs, load_spec, load_specs
from tests.monitor.spec.garbage import only_its_garbage

SPECS = Path(__file__).parent / "specs"
BUNDLED = Path(__file__).parents[3] / "dfa_specs"


def spec_text(name: str) -> str:
    return f"id: {name}\nalphabet: {{a: {{tool: a}}}}\ngolden: [[a]]\n"


def codes(found: tuple[Finding, ...] | list[Finding]) -> list[str]:
    return [each.code for each in found]


# --- files ------------------------------------------------------------------------------------


DAY = date(2026, 1, 1)
"""When the files are loaded."""


def stems(folder: str) -> list[Path]:
    """Files and folders, each named by what it shows."""
    return sorted((SPECS / folder).iterdir())


def fault(path: Path) -> str:
    """The code a file is named by, what follows a hyphen aside."""
    return path.stem.partition("-")[0]


@pytest.mark.parametrize("path", stems("good"), ids=lambda path: path.stem)
def test_good_file_loads_without_findings(path: Path) -> None:
    """Each small good spec compiles without a finding."""
    loaded = load_specs([path], DAY)
    assert loaded.findings == ()
    assert [spec.id for spec in loaded.specs] == [path.stem]


@pytest.mark.parametrize("path", stems("refused"), ids=lambda path: path.stem)
def test_refused_file_has_the_fault_it_is_named_by(path: Path) -> None:
    """Each small bad spec is refused with the code in its name, in a line of the file."""
    loaded = load_specs([path], DAY)
    assert loaded.refused
    errors = [each for each in loaded.findings if each.severity == "error"]
    assert codes(errors)[0] == fault(path)
    for each in errors:
        assert Path(each.file).is_relative_to(path)
        assert each.impact
        if path.exists():  # what cannot be read has no lines
            lines = Path(each.file).read_bytes().count(b"\n") + 1
            assert 1 <= each.line <= lines
            assert each.column >= 1


@pytest.mark.parametrize("path", stems("warned"), ids=lambda path: path.stem)
def test_warned_file_has_the_fault_it_is_named_by(path: Path) -> None:
    """Each small doubtful spec loads with the one warning of its name."""
    loaded = load_specs([path], DAY)
    assert not loaded.refused
    assert [each.code for each in loaded.findings] == [fault(path)]
    if path.is_dir():
        return  # a warning of the folder, not of a spec in it
    [spec] = loaded.specs
    [found] = spec.findings
    assert spec.findings == loaded.findings
    assert (found.line >= 1, found.column >= 1) == (True, True)


def test_every_code_has_a_file() -> None:
    """Each code of the table has an example file of its name."""
    named = {fault(path): path.parent.name for path in [*stems("refused"), *stems("warned")]}
    folders = {"error": "refused", "warning": "warned"}
    assert named == {code: folders[severity] for code, (severity, _) in CODES.items()}


def test_every_code_says_what_it_means_for_the_user() -> None:
    """An impact is a sentence, and no two codes share one."""
    impacts = [impact for _, impact in CODES.values()]
    assert all(impact[0].isupper() and impact.endswith(".") for impact in impacts)
    assert len(set(impacts)) == len(impacts)


def test_finding_is_one_line() -> None:
    """A finding reads FILE:LINE:COL: severity code: message (key), which editors can follow."""
    path = SPECS / "refused" / "undeclared_symbol.yaml"
    [found] = load_specs([path]).findings
    assert str(found) == (
        f"{path}:5:17: error undeclared_symbol: "
        "'bb' is not in the alphabet; did you mean 'b'? (golden.0.2)"
    )


def test_bundled_specs_are_clean() -> None:
    """The bundled specs load without a finding."""
    loaded = load_specs([BUNDLED])
    assert loaded.findings == ()
    assert {"farm_rover", "rover_policy"} <= {spec.id for spec in loaded.specs}


def test_folders_are_read_in_order_and_without_hidden_ones(tmp_path: Path) -> None:
    """Folders recursively, *.yaml and *.yml by name; a mounted ConfigMap's hidden copies once."""
    hidden = tmp_path / "..2026_01_31"
    (tmp_path / "sub").mkdir()
    hidden.mkdir()
    (tmp_path / "sub" / "a.yml").write_text(spec_text("sub"))
    (hidden / "linked.yaml").write_text(spec_text("linked"))
    (tmp_path / "linked.yaml").symlink_to(hidden / "linked.yaml")
    (tmp_path / "b.yaml").write_text(spec_text("b"))
    (tmp_path / "notes.txt").write_text("not a spec")
    loaded = load_specs([tmp_path, tmp_path / "b.yaml"])
    assert loaded.findings == ()
    assert [spec.id for spec in loaded.specs] == ["b", "linked", "sub"]


def test_duplicate_ids_are_refused(tmp_path: Path) -> None:
    """Two files with one id: the second is refused, and says where the first is."""
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text(spec_text("same"))
    loaded = load_specs([tmp_path])
    assert [spec.file for spec in loaded.specs] == [str(tmp_path / "one.yaml")]
    [found] = loaded.findings
    assert (found.code, found.file) == ("duplicate_spec_id", str(tmp_path / "two.yaml"))
    assert "one.yaml" in found.message


def test_one_bad_file_does_not_spoil_the_rest(tmp_path: Path) -> None:
    """Each file is compiled by itself."""
    (tmp_path / "bad.yaml").write_text("id: [")
    (tmp_path / "good.yaml").write_text(spec_text("good"))
    loaded = load_specs([tmp_path])
    assert loaded.refused
    assert [spec.id for spec in loaded.specs] == ["good"]


def test_missing_path_is_a_finding(tmp_path: Path) -> None:
    """A path that leads nowhere is an error, a folder without specs a warning."""
    loaded = load_specs([tmp_path / "nowhere", str(tmp_path)])
    assert codes(loaded.findings) == ["no_specs", "unreadable_file"]
    assert loaded.refused
    assert not load_specs([tmp_path]).refused
    assert load_specs([]) == LoadedSpecs((), ())


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_is_a_finding(tmp_path: Path) -> None:
    """A file without read permission is a finding."""
    path = tmp_path / "secret.yaml"
    path.write_text(spec_text("secret"))
    path.chmod(0)
    assert codes(load_specs([path]).findings) == ["unreadable_file"]


def test_file_of_any_suffix_can_be_named(tmp_path: Path) -> None:
    """The suffix matters only in folders. JSON is read as YAML."""
    path = tmp_path / "spec.json"
    path.write_text(
        json.dumps({"id": "j", "alphabet": {"a": {"tool": "a"}}, "golden": [["a"]]})
    )
    assert load_spec(path).id == "j"


def test_load_spec_raises_with_its_findings() -> None:
    """One file, one spec, or an error that carries where and why."""
    assert load_spec(str(SPECS / "warned" / "trap.yaml")).findings[0].code == "trap"
    with pytest.raises(SpecError, match=r"duplicate_key\.yaml:10:5: error") as caught:
        load_spec(SPECS / "refused" / "duplicate_key.yaml")
    assert codes(caught.value.findings) == ["duplicate_key"]


def test_large_files_are_refused_unread(tmp_path: Path) -> None:
    """A file above the limit is refused without looking at it."""
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (SIZE_MAX + 1))
    assert codes(load_specs([path]).findings) == ["too_large"]


# --- text -------------------------------------------------------------------------------------


def data(text: str) -> Any:
    document, found = parse(text, "t.yaml")
    assert found == []
    assert document is not None
    return document.data


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("Off", "Off"), ("y", "y"),
        ("2025-01-01", "2025-01-01"), ("12:30", "12:30"), ("1_000", "1_000"), ("0b1", "0b1"),
        ("true", True), ("True", True), ("FALSE", False), ("tRue", "tRue"),
        ("null", None), ("~", None), ("", None), ("NULL", None), ("nul", "nul"),
        ("12", 12), ("-12", -12), ("+1", 1), ("012", 12), ("0o14", 12), ("0xC", 12),
        ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("1E-2", 0.01), ("-.inf", float("-inf")),
        ("'12'", "12"), ('"true"', "true"), ("1.2.3", "1.2.3"), ("-", [None]), ("+", "+"), (".", "."),
        ("0o8", "0o8"), ("|\n  12\n", "12\n"),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema(written: str, value: Any) -> None:
    """YAML 1.2 core schema: no surprises with yes, no, dates and octal numbers."""
    found = data(f"key: {written}\n" if written != "-" else "key:\n  -\n")["key"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_texts() -> None:
    """Keys are texts, even if they look like numbers or booleans."""
    assert data("1: a\ntrue: b\n1.10: c\n~: d\n") == {
        "1": "a",
        "true": "b",
        "1.10": "c",
        "~": "d",
    }


def test_positions_are_of_keys_and_entries() -> None:
    """Each path has its line and column in the text, in flow style, too."""
    document, _ = parse("a:\n  b: [x, {c: 1.10}]\n", "t.yaml")
    assert document is not None
    assert document.place(("a",)) == (1, 1)
    assert document.place(("a", "b")) == (2, 3)
    assert document.place(("a", "b", 0)) == (2, 7)
    assert document.place(("a", "b", 1, "c")) == (2, 11)
    assert document.place(("a", "b", 1, "no", "such")) == (2, 10)
    assert document.texts["a", "b", 1, "c"] == "1.10"


def test_aliases_repeat_their_anchor() -> None:
    """An alias repeats the anchored value, and counts towards the bounds each time."""
    assert data("a: &x [1, 2]\nb: *x\nc: [*x, *x]\n") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": [[1, 2]] * 2,
    }


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: 1\na: 2\n", "duplicate_key", 2),
        ("a: {b: 1, 'b': 2}\n", "duplicate_key", 1),
        ("1: x\n'1': y\n", "duplicate_key", 2),
        ("a: *nobody\n", "invalid_yaml", 1),
        ("a: &a [*a]\n", "invalid_yaml", 1),
        ("? [1]\n: 2\n", "invalid_yaml", 1),
        ("? *a\n: 2\n", "invalid_yaml", 1),
        ("a: !local 1\n", "invalid_yaml", 1),
        ("a: !!str 1\n", "invalid_yaml", 1),
        ("a: b: c\n", "invalid_yaml", 1),
        ("a:\n\t- b\n", "invalid_yaml", 2),
        ("ä: 1\nb: \x01\n", "invalid_yaml", 2),
        ("a: " + "9" * 500 + "\n", "invalid_yaml", 1),
        ("a: \ud800\n", "not_utf8", 1),
        ("", "invalid_document", 1),
        ("---\na: 1\n...\n---\nb: 2\n", "several_documents", 4),
        ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "too_large", 1),
        ("- a\n" * (NODES_MAX + 1), "too_large", NODES_MAX),
        ("#" * (SIZE_MAX + 1), "too_large", 1),
    ],
    ids=range(19),
)
def test_bad_yaml_is_a_finding_with_its_line(text: str, code: str, line: int) -> None:
    """Bad YAML is a finding with its position, never an exception."""
    _, found = parse(text, "t.yaml")
    assert codes(found) == [code]
    assert abs(found[0].line - line) <= 1


def test_duplicates_do_not_hide_what_follows() -> None:
    """The first entry is kept, and the rest of the document is checked."""
    text = "id: a\nid: b\nalphabet: {a: {tool: a}}\ngolden: [[z]]\ngolden: [[y]]\n"
    spec, found = compile_text(text, "t.yaml")
    assert spec is None
    errors = [each for each in found if each.severity == "error"]
    assert codes(errors) == ["duplicate_key", "undeclared_symbol", "duplicate_key"]


def nested_aliases(width: int, height: int) -> str:
    lines = [f"x0: &x0 [{', '.join(['a'] * width)}]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * width)}]" for n in range(1, height)]
    return "\n".join(lines) + "\n"


HOSTILE = {
    "alias bomb": nested_aliases(10, 60),
    "deep aliases": nested_aliases(1, 100),
    "deep lists": "[" * 500_000,
    "deep mappings": "{a: " * 250_000,
    "deep block": "".join(" " * n + "a:\n" for n in range(1_400)),
    "wide": "a: [" + "x," * 500_000 + "]",
    "many duplicates": "a: 1\n" * 200_000,
    "long text": "a: " + "x" * 1_000_000,
    "anchors": "".join(f"a{n}: &b{n} x\n" for n in range(45_000)),
    "alternation": "id: r\nalphabet: {a: {tool: a, arguments: {x: {regex: '"
    + "|".join(f"a{n}" for n in range(100_000))
    + "'}}}}\ngolden: [[a]]\n",
    "many regexes": "id: r\nalphabet:\n"
    + "".join(f"  s{n}: {{tool: t{n}, arguments: {{x: {{regex: '(a{{1,99}}){{9}}{n}'}}}}}}\n" for n in range(900))
    + "golden: [[s0]]\n",
    "many symbols of one tool": "id: s\nalphabet:\n"
    + "".join(f"  s{n}: {{tool: t, arguments: {{x: {{min: {n}}}}}}}\n" for n in range(1_000))
    + "golden: [[s0]]\n",
    "large table": "id: t\nalphabet:\n"
    + "".join(f"  s{n}: {{tool: t{n}}}\n" for n in range(1_000))
    + "golden:\n - [" + ", ".join(["s1"] * 5_000) + "]\n",
    "long word": "id: t\nalphabet: {a: {tool: a}}\ngolden:\n - [" + ", ".join("a" * 9_000) + "]\n",
    "ladder": "id: l\nalphabet: {a: {tool: a}, b: {tool: b}}\ninitial: 0\naccepting: [9000]\ntransitions:\n"
    + "".join(f"  {n}: {{a: {n + 1}, b: {n + 1}}}\n" for n in range(9_000)),
    "dense": "id: d\nalphabet:\n"
    + "".join(f"  s{n}: {{tool: t{n}}}\n" for n in range(100))
    + "initial: 0\naccepting: [99]\ntransitions:\n"
    + "".join(f"  {n}: {{{', '.join(f's{m}: {m}' for m in range(100) if m != n)}}}\n" for n in range(100)),
    "constraints": "id: c\nkind: policy\nalphabet:\n"
    + "".join(f"  s{n}: {{tool: t{n}}}\n" for n in range(1_000))
    + "constraints:\n"
    + "".join(f"  - chain_response: [s{n}, s{n + 1}]\n" for n in range(256)),
    "counts": "id: c\nkind: policy\nalphabet: {a: {tool: a}}\nconstraints:\n"
    + "  - at_most: [a, 9999]\n" * 100,
}  # fmt: skip


HOSTILE["constraints of a task"] = HOSTILE["constraints"].replace("kind: policy\n", "")


# As in `BOMBS` of test_fuzz_specs.py, which `make test` reads.
SIMILAR = ("anchors", "constraints", "constraints of a task", "many symbols of one tool")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.long) if each in SIMILAR else each
        for each in HOSTILE
    ],
)
def test_hostile_documents_cost_little(name: str) -> None:
    """Bombs of every kind end in a spec or in findings, within two seconds."""
    with only_its_garbage():
        before = time.thread_time()
        spec, found = compile_text(HOSTILE[name], "hostile.yaml")
        seconds = time.thread_time() - before
    assert seconds < 2
    assert spec is not None or found


ROVER = (BUNDLED / "farm_rover.yaml").read_text()
SNIPPETS = [
    "", "\n", ":", "- ", "[", "]", "{", "}", "&a ", "*a", "!!", "'", '"', "|", "#", "\t", "%", "~", "-1",
    "1e999", ".nan", "true", "regex: '('", "<<: x", "---\n", "\x00", "\ufeff", "scan", "done", "\u2028",
]  # fmt: skip


@given(
    st.sampled_from([ROVER, *(path.read_text() for path in stems("good"))]),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(SNIPPETS)),
        min_size=1, max_size=4,
    ),
)  # fmt: skip
def test_damaged_specs_give_findings_never_a_traceback(
    text: str, edits: list[tuple[float, int, str]]
) -> None:
    """Cut and spliced at random, a spec still compiles or is refused with findings."""
    for where, cut, snippet in edits:
        place = int(where * len(text))
        text = text[:place] + snippet + text[place + cut :]
    spec, found = compile_text(text, "damaged.yaml")
    assert spec is not None or any(each.severity == "error" for each in found)
    assert all("\n" not in str(each) for each in found)


plain_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["a", "s", "t", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "s", "tool", "regex", "min"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


@given(
    st.sampled_from(["golden", "transitions", "policy", "reference"]),
    st.sampled_from(sorted({
        "id", "version", "description", "kind", "mode", "enforce", "severity", "match", "scope",
        "again", "alphabet", "initial", "accepting", "states", "transitions", "reads", "golden",
        "constraints", "conventions", "concurrent", "order", "undo",
    })),
    plain_data,
)  # fmt: skip
def test_any_value_anywhere_gives_findings_never_a_traceback(
    name: str, key: str, value: Any
) -> None:
    """Each key of a good spec replaced by any data: a spec or findings."""
    good = data((SPECS / "good" / f"{name}.yaml").read_text())
    spec, found = compile_text(json.dumps({**good, key: value}), "replaced.yaml")
    assert spec is not None or any(each.severity == "error" for each in found)


def test_a_link_that_leads_nowhere_is_no_spec_less(tmp_path: Path) -> None:
    """A dangling link to a spec is an error and is not skipped."""
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "elsewhere.yaml")

    loaded = load_specs([tmp_path])

    assert codes(loaded.findings) == ["unreadable_file"]


def test_a_folder_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not empty: the message names the folder, nested or not, and why."""
    nested = tmp_path / "team" / "secret"
    nested.mkdir(parents=True)
    (tmp_path / "good.yaml").write_text(spec_text("good"))
    (nested / "hidden.yaml").write_text(spec_text("hidden"))
    (tmp_path / ".git").mkdir()
    list_folder = os.scandir

    def refuse(*refused: Path) -> None:
        def scandir(path: Path) -> Any:
            if Path(path) in refused:
                raise PermissionError(13, "Permission denied", str(path))
            return list_folder(path)

        monkeypatch.setattr(os, "scandir", scandir)

    for folder in (tmp_path, nested):
        refuse(folder, tmp_path / ".git")
        loaded = load_specs([tmp_path])
        [found] = loaded.findings
        assert (found.code, found.file) == ("unreadable_file", str(folder))
        assert found.message == "this folder cannot be listed: Permission denied"
        assert loaded.refused
    refuse(tmp_path / ".git")
    assert [spec.id for spec in load_specs([tmp_path]).specs] == ["good", "hidden"]


def test_paths_that_lead_nowhere_are_errors(tmp_path: Path) -> None:
    """A dangling link, a circle of links, a file for a folder and a missing path are errors."""
    good = tmp_path / "good.yaml"
    good.write_text(spec_text("good"))
    gone, round_about = tmp_path / "gone", tmp_path / "circle"
    gone.symlink_to(tmp_path / "nowhere")
    round_about.symlink_to(round_about)
    for path in (gone, round_about, good / "specs", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        loaded = load_specs([path])
        assert codes(loaded.findings) == ["unreadable_file"], path
        assert loaded.refused
    (tmp_path / "circle.yaml").symlink_to(tmp_path / "circle.yaml")
    assert codes(load_specs([tmp_path]).findings) == ["unreadable_file"]


@pytest.mark.parametrize("call", ["stat", "open"])
def test_a_file_that_cannot_be_read_is_an_error_in_a_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """It is an error whether `stat` or `open` fails."""
    secret = tmp_path / "secret.yaml"
    if call == "stat":
        secret.symlink_to(tmp_path / "no" / "way")  # as if its target were in a closed folder
    else:
        secret.write_text(spec_text("secret"))
    real = Path.open

    def refused(self: Path, *args: Any, **named: Any) -> Any:
        if self == secret:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *args, **named)

    monkeypatch.setattr(Path, "open", refused)
    [found] = load_specs([tmp_path]).findings
    assert (found.code, found.message) == ("unreadable_file", "Permission denied")


def test_a_monitor_takes_what_was_loaded(tmp_path: Path) -> None:
    """`Monitor(load_specs(...))` judges under all specs, and no refused file is left out in silence."""
    (tmp_path / "good.yaml").write_text((BUNDLED / "farm_rover.yaml").read_text())
    assert list(Monitor(load_specs([tmp_path])).binder.judges) == ["farm_rover"]

    (tmp_path / "bad.yaml").write_text("id: [")
    with pytest.raises(SpecError, match=r"bad\.yaml"):
        Monitor(load_specs([tmp_path]))
    assert [each.id for each in load_specs([tmp_path]).specs] == ["farm_rover"]
