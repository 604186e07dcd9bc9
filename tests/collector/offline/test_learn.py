"""The verb `learn`: the same reference from spans and plain runs, outcomes from anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.cli.main import main
from collector.offline.learn import BadLabels, learn_files, read_files
from collector.offline.replay import replay
from monitor.spec.learnt_reference import LearntReference
from monitor.spec.read import load_spec
from tests.costly import COSTLY

AIRLINE = Path(__file__).parents[3] / ".." / "shared" / "core" / "tau_airline_gpt4o.jsonl"
Call = tuple[str, dict[str, Any]]


def plain(file: Path, *runs: tuple[str, Sequence[Call], Any]) -> Path:
    """A file of plain runs: session, calls, reward."""
    records = [
        {"run": id_, "calls": [{"tool": t, "arguments": a} for t, a in calls], "reward": reward}
        for id_, calls, reward in runs
    ]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def text(value: Any) -> dict[str, Any]:
    return {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}


def spans(
    session: str, calls: Iterable[tuple[str, dict[str, Any], bool]], resource: dict[str, Any]
) -> str:
    """A run as one line of OTLP/JSON, as a framework exports it."""
    trace = hashlib.blake2b(session.encode(), digest_size=16).hexdigest()
    found = [
        {
            "traceId": trace,
            "spanId": f"{number:016x}",
            "name": f"execute_tool {tool}",
            "kind": 1,
            "startTimeUnixNano": str(10**18 + 10 * number),
            "endTimeUnixNano": str(10**18 + 10 * number + 5),
            "status": {"code": 2 if failed else 0},
            "attributes": [
                {"key": key, "value": text(value)}
                for key, value in {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": tool,
                    "gen_ai.conversation.id": session,
                    "gen_ai.tool.call.arguments": json.dumps(arguments),
                }.items()
            ],
        }
        for number, (tool, arguments, failed) in enumerate(calls, start=1)
    ]
    attributes = [{"key": key, "value": text(value)} for key, value in resource.items()]
    return json.dumps(
        {
            "resourceSpans": [
                {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": found}]}
            ]
        }
    )


A: Call = ("get_a", {"x": 1})
B: Call = ("book_b", {"x": 1})
RUNS = (("1", [A, B], 1.0), ("2", [A, B], 1.0), ("3", [B], 0.0))


def learnt(file: Path) -> LearntReference:
    found = load_spec(file).learnt
    assert found is not None
    return found


def told(reference: LearntReference) -> tuple[Any, ...]:
    """A reference without where it comes from."""
    return (
        reference.tools, reference.writes, reference.medoid, reference.nodes,
        reference.write_calls, reference.alarms, reference.called_by, reference.consistency,
    )  # fmt: skip


def test_spans_and_plain_runs_teach_the_same(tmp_path: Path) -> None:
    """Spans and plain runs of the same calls give one reference; `offrails.spec` is ignored."""
    one = plain(tmp_path / "plain.jsonl", *RUNS)
    other = tmp_path / "spans.jsonl"
    other.write_text(
        "\n".join(
            spans(
                id_,
                ((*call, False) for call in calls),
                {"reward": reward, "offrails.spec": "x"},
            )
            for id_, calls, reward in RUNS
        )
    )

    list(learn_files([one], tmp_path / "one.yaml", id_="r", success="reward=1"))
    list(learn_files([other], tmp_path / "other.yaml", id_="r", success="reward=1"))

    assert told(learnt(tmp_path / "one.yaml")) == told(learnt(tmp_path / "other.yaml"))


@pytest.mark.parametrize(
    "labels",
    [
        '{"1": true, "2": 1, "3": false}',
        '{"session": "1", "success": true}\n{"run": "2", "success": "pass"}\n'
        '{"session": "3", "success": 0}',
        "session,success\n1,1\n2,ok\n3,failed\n",
        "\ufeffsession,success\n1,1\n2,ok\n3,failed\n",
    ],
)
def test_labels(tmp_path: Path, labels: str) -> None:
    """Outcomes come from an object, JSON lines or CSV; runs without one are left out."""
    file = plain(tmp_path / "runs.jsonl", *RUNS, ("4", [B], None))
    (tmp_path / "labels").write_text(labels)

    found = read_files([file], labels=tmp_path / "labels")

    assert [run.success for run in found.runs] == [True, True, False]
    assert found.unlabelled == 1


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        ("{", 1),
        ('{"session": "1"}\n{"session": "2"}', 1),
        ('{"session": "1", "success": true}\n\n{"session": "2"', 3),
        ('{"session": "1", "success": true}\n[]', 2),
        ("session,success\n1,ok\n2\n", 3),
        ("session;success\n1;ok\n", 1),
    ],
)
def test_bad_labels(tmp_path: Path, labels: str, line: int) -> None:
    """A label file with a bad line is refused with the line and the expected form."""
    (tmp_path / "labels").write_text(labels)

    with pytest.raises(BadLabels, match=f":{line}: expected a session"):
        read_files([plain(tmp_path / "runs.jsonl", *RUNS)], labels=tmp_path / "labels")


def test_labels_of_other_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels that name no run, and a file that is not UTF-8, are refused with the file's name."""
    labels, out = tmp_path / "lab.csv", tmp_path / "r.yaml"
    labels.write_text("session,success\nanother,1\n")
    file = str(plain(tmp_path / "runs.jsonl", *RUNS))
    given_ = ["learn", file, "--id", "r", "--out", str(out), "--labels", str(labels)]

    assert main(given_) == 1
    assert f"no run has a label of {labels}" in capsys.readouterr().err
    labels.write_bytes(b"\xff\xfe")
    assert main(given_) == 1
    assert f"{labels}: expected UTF-8 text" in capsys.readouterr().err
    assert not out.exists()


def test_a_reference_that_does_not_load_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A document that is too large is not one to serve."""
    calls = [{"tool": "read_" + "x" * 180, "arguments": {}}] * 6_000
    file, out = tmp_path / "runs.jsonl", tmp_path / "r.yaml"
    file.write_text(json.dumps({"run": "1", "calls": calls}))
    assert main(["learn", str(file), "--id", "r", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "error too_large" in said
    assert "It does not load as it is" in said
    assert "serve --specs" not in said


def test_several_agents_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One reference is made of all, and somebody should know."""
    run = [(*A, False), (*B, False)]
    file, arguments = tmp_path / "s.jsonl", ["--id", "r", "--out", str(tmp_path / "r.yaml")]
    lines = [spans(str(n), run, {"service.name": n}) for n in ("shop", "desk")]
    file.write_text(lines[0])
    assert main(["learn", str(file), *arguments]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "no one agent to watch" not in told.out
    file.write_text("\n".join(lines))

    assert main(["learn", str(file), *arguments]) == 0
    said = "these runs are of 2 agents, and one reference is learnt of all: desk, shop\n"
    told = capsys.readouterr()
    assert told.err == f"offrails: {said}"
    assert "no one agent to watch: live sessions are watched only if they name it" in told.out


@settings(COSTLY)
@given(st.permutations(range(4)), st.booleans())
def test_order_of_files(order: list[int], split: bool) -> None:
    """The order of the files does not change a byte of the document."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = [plain(folder / f"{run[0]}.jsonl", run) for run in RUNS[:3]]
        files.append(folder / "spans.jsonl")
        calls = [("get_a", {"x": 1}, False), ("book_b", {"x": 2}, True)]
        lines = [spans(f"s{n}", calls, {"reward": 1.0}) for n in range(2)]
        files[-1].write_text("\n".join(lines[::-1] if split else lines))
        told = [files, [files[place] for place in order]]
        for out, given_ in zip("ab", told, strict=True):
            list(learn_files(given_, folder / out, id_="r", success="reward=1"))

        assert (folder / "a").read_text() == (folder / "b").read_text()


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`learn` writes a spec that `check` accepts, and lists what to review."""
    file, out = plain(tmp_path / "runs.jsonl", *RUNS), tmp_path / "r.yaml"

    code = main(["learn", str(file), "--id", "r", "--out", str(out), "--success", "reward=1"])

    said = capsys.readouterr().out
    assert code == 0
    assert "please review): book_b" in said
    assert "new_write_tool" in said
    assert main(["check", str(out)]) == 0


def test_writes_are_given(tmp_path: Path) -> None:
    """Given writes are taken as they are."""
    out = tmp_path / "r.yaml"
    list(learn_files([plain(tmp_path / "x", *RUNS)], out, id_="r", writes="get_a, other"))

    assert learnt(out).writes == {"get_a", "other"}
    assert learnt(out).writes_from == "given"


def test_update(tmp_path: Path) -> None:
    """An update keeps id and given writes, counts the version up, and shows the difference."""
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    list(learn_files([plain(tmp_path / "x", *RUNS)], old, id_="r", writes="book_b"))
    runs = plain(tmp_path / "y", ("1", [A, ("find_c", {})], 1.0))

    said = "\n".join(learn_files([runs], new, id_="", update=old))

    spec = load_spec(new)
    assert (spec.id, spec.version) == ("r", "2")
    assert spec.learnt is not None
    assert spec.learnt.writes == {"book_b"}
    assert "+ tools: find_c" in said
    assert "- tools: book_b" in said
    assert "1 gone" in said


def test_what_cannot_be_learnt_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No runs or a bad outcome give one line and exit code 1; a missing file gives 2."""
    empty = tmp_path / "empty"
    empty.write_text("")
    out = str(tmp_path / "r.yaml")

    assert main(["learn", str(empty), "--id", "r", "--out", out]) == 1
    with pytest.raises(SystemExit, match="2"):
        main(["learn", str(tmp_path / "none"), "--id", "r", "--out", out])
    runs = str(plain(tmp_path / "x", *RUNS))
    assert main(["learn", runs, "--id", "r", "--out", out, "--success", "reward"]) == 1
    assert capsys.readouterr().err.count("offrails: ") == 3


@pytest.mark.parametrize("recorded", [False, True])
def test_an_outcome_that_no_run_has_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorded: bool
) -> None:
    """An outcome that no run has is an error, since all runs would count as failed."""
    file = tmp_path / "runs.jsonl"
    if recorded:
        file.write_text(spans("s", [("get_a", {"x": 1}, False)], {"reward": 1.0}))
    else:
        plain(file, *RUNS)
    arguments = ["learn", str(file), "--id", "r", "--out", str(tmp_path / "r"), "--success"]

    assert main([*arguments, "rewards=1"]) == 1
    assert "--success: no run has the attribute 'rewards'" in capsys.readouterr().err
    assert main([*arguments, "reward=7"]) == 0


def test_bound_by_the_agent_it_was_learnt_from(tmp_path: Path) -> None:
    """A reference learnt from one agent matches only that agent's sessions."""
    file = tmp_path / "spans.jsonl"
    run = [(*A, False), (*B, False)]
    file.write_text(spans("1", run, {"service.name": "shop"}))
    out = tmp_path / "r.yaml"
    list(learn_files([file], out, id_="r"))
    both = tmp_path / "both.jsonl"
    both.write_text(
        spans("2", run, {"service.name": "shop"})
        + "\n"
        + spans("3", run, {"service.name": "other"})
    )

    found = replay([both], [load_spec(out)], together=True)

    assert {each["session"]: each["spec"] for each in found} == {"2": "r", "3": None}


@pytest.mark.skipif(not AIRLINE.exists(), reason="the recorded airline runs are absent")
def test_real_runs_over_the_wire(tmp_path: Path) -> None:
    """Real runs sent as spans are judged as the plain runs are, hand-overs included."""
    records = [json.loads(line) for line in AIRLINE.read_text().splitlines()][:40]
    out = tmp_path / "r.yaml"
    list(learn_files([AIRLINE], out, id_="r", success="reward=1"))
    spec = load_spec(out)
    one, other = tmp_path / "plain.jsonl", tmp_path / "spans.jsonl"
    made = [record for record in records if record["calls"]]
    one.write_text("\n".join(json.dumps({**record, "spec": "r"}) for record in made))
    other.write_text(
        "\n".join(
            spans(
                f"task {record['task_id']} trial {record['trial']}",
                ((c["tool"], c["arguments"], bool(c["error"])) for c in record["calls"]),
                {"offrails.spec": "r"},
            )
            for record in made
        )
    )

    def facts(file: Path) -> dict[str, Any]:
        found = replay([file], [spec], together=True)
        keys = ("divergences", "unexpected_write", "first_two_diverged", "risk", "alarms")
        return {each["session"]: {key: each[key] for key in keys} for each in found}

    assert facts(one) == facts(other)
    assert len(facts(one)) == len(made)


def test_folders_of_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder stands for its whole recordings; folders for the output are made."""
    spans_, out = tmp_path / "spans", tmp_path / "specs" / "deep" / "r.yaml"
    spans_.mkdir()
    plain(spans_ / "a.jsonl", *RUNS)
    (spans_ / "b.jsonl.gz.open").write_bytes(b"half a file")

    assert main(["learn", str(spans_), "--id", "r", "--out", str(out)]) == 0
    assert f"learnt from {len(RUNS)} runs" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    assert main(["learn", str(tmp_path / "empty"), "--id", "r", "--out", str(out)]) == 1
    assert "no *.jsonl or *.jsonl.gz in this folder" in capsys.readouterr().err


def test_doubts_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Learning warns of a reference whose page would fire in every good run."""
    runs: list[tuple[str, Sequence[Call], Any]] = [
        (str(n), [("get_a", {}), (f"book_{n}", {})], 1.0) for n in range(4)
    ]
    out = tmp_path / "r.yaml"

    assert (
        main(["learn", str(plain(tmp_path / "x", *runs)), "--id", "r", "--out", str(out)]) == 0
    )
    assert (
        "warning noisy_alarm: new_write_tool was raised in 16 of 16" in capsys.readouterr().out
    )


def test_replay_tells_what_a_reference_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each session's first divergence, risk and alarms stand in the table."""
    usual = [(str(n), [("get_a", {}), ("book_b", {"x": 1})], 1.0) for n in range(3)]
    odd = plain(tmp_path / "odd", ("odd", [("drop_c", {}), ("book_b", {"x": 9})], 0.0))
    out = tmp_path / "r.yaml"
    main(["learn", str(plain(tmp_path / "x", *usual)), "--id", "r", "--out", str(out)])
    capsys.readouterr()

    assert main(["replay", str(odd), "--specs", str(out)]) == 0
    said = capsys.readouterr().out
    assert "against references: 1 of 1 raise an alarm" in said
    assert "call 1 wrong_tool, usual: get_a" in said
    assert "new_write_tool (page), new_arguments (hint)" in said


def mailed(number: int, *, success: bool = True, new: bool = False) -> dict[str, Any]:
    """A run that reads mail and answers it as the user said; one that is `new` deletes it, too."""
    calls: list[dict[str, Any]] = [
        {"tool": "read_mail", "arguments": {}, "result": "write to eve@x.example"},
        {"tool": "send_mail", "arguments": {"to": "ann"}, "result": "sent"},
    ]
    calls += [{"tool": "delete_mail", "arguments": {"id": "eve@x.example"}}] if new else []
    return {"run": str(number), "prompt": "Answer Ann.", "ok": success, "calls": calls}


def mails(file: Path, count: int, failed: int = 0) -> Path:
    runs = [mailed(number) for number in range(count)]
    runs += [mailed(count + number, success=False, new=True) for number in range(failed)]
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return file


def test_runs_with_results_teach_a_reference_that_asks(tmp_path: Path) -> None:
    """The user's words in `prompt` and one call's own values tell it; a run without results asks nothing."""
    file = mails(tmp_path / "x.jsonl", 5)
    (run, *_) = read_files([file]).runs
    assert [call.is_own for call in run.calls] == [False, True]
    list(learn_files([file], tmp_path / "r.yaml", id_="r"))
    assert learnt(tmp_path / "r.yaml").provenance

    bare = plain(tmp_path / "y", *RUNS)
    list(learn_files([bare], tmp_path / "s.yaml", id_="s"))
    assert "provenance" not in (tmp_path / "s.yaml").read_text()


@pytest.mark.parametrize(
    ("count", "bound", "told", "level"),
    [
        (40, "30", "at most 24 of 1,000", "page"),
        (10, "30", "it takes 33 usual runs at least", "hint"),
        (10, None, "at most 91 of 1,000", "page"),
        (10, "0", "no number of runs can", "hint"),
    ],
)
def test_a_bound_on_false_pages(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    count: int,
    bound: str | None,
    told: str,
    level: str,
) -> None:
    """`--false-pages` is kept by the conformal rule: where the usual runs are too few to promise it, nothing pages."""
    file, out = mails(tmp_path / "x.jsonl", count, failed=2), tmp_path / "r.yaml"
    options = ["--id", "r", "--out", str(out), "--success", "ok=true"]
    options += ["--false-pages", bound] if bound is not None else []
    assert main(["learn", str(file), *options]) == 0
    assert told in capsys.readouterr().out

    new = tmp_path / "new.jsonl"
    new.write_text(json.dumps(mailed(99, new=True) | {"spec": "r"}))
    assert main(["replay", str(new), "--specs", str(out), "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    (alarm,) = [each for each in judged["alarms"] if each["alarm"] == "new_write_tool"]
    assert alarm["level"] == level

    # The next version keeps what a person asked for.
    list(learn_files([file], tmp_path / "n.yaml", id_="", success="ok=true", update=out))
    assert learnt(tmp_path / "n.yaml").page_false_per_1000 == (bound and float(bound))


@pytest.mark.parametrize(
    ("count", "failed", "told"),
    [
        (40, 4, "the risk raises its alarm from 0."),
        (
            10,
            2,
            "the risk raises no alarm: 50 false ones in 1,000 usual runs cannot be promised",
        ),
        (10, 0, "no run is known to have failed"),
    ],
)
def test_what_the_risk_is_worth_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, failed: int, told: str
) -> None:
    """`learn` tells from where the risk raises its alarm, or why it tells nothing."""
    file, out = mails(tmp_path / "x.jsonl", count, failed=failed), tmp_path / "r.yaml"
    options = ["--id", "r", "--out", str(out), "--success", "ok=true"]
    assert main(["learn", str(file), *options]) == 0
    assert told in capsys.readouterr().out
    assert (learnt(out).risk_alarm == 1.0) is (count < 19)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--false-pages", "x"], "expected a number from 0 to 1000"),
        (["--false-pages", "nan"], "expected a number from 0 to 1000"),
        (["--draws", "3"], "--draws goes with --evaluate"),
        (["--draws", "0"], "expected a number from 1 to 1000"),
        (["--evaluate", "--false-pages", "5"], "goes with what is written"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    """They end with exit code 2 and one line."""
    with pytest.raises(SystemExit) as ended:
        main(["learn", str(tmp_path), "--out", "x", "--id", "r", *options])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
