"""`learn --record`: an agent's success at other tasks stands beside the risk, and is no part of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.archive.record import ArchiveRecord
from collector.archive.store import ArchiveStore
from collector.cli.main import main
from collector.offline.learn import BadLabels, Keys
from collector.offline.risk.agent_records import AgentRecords, read_records
from collector.telemetry.json_text import as_json
from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.reference.risk import mean_failure, record_risk, risk_with_record
from monitor.spec.read import load_specs
from tests.collector.archive.postgres_server import missing, server
from tests.collector.archive.sessions import made

FARM_ROVER = Path(__file__).parents[4] / "dfa_specs" / "farm_rover.yaml"
KEYS = Keys("task_id", "")
COUNTS = st.tuples(st.integers(0, 50), st.integers(0, 50))


def plain(agent: str, task: str, *, success: bool, tools: tuple[str, ...] = ("get_a",)) -> str:
    calls = [{"tool": tool, "arguments": {}} for tool in tools]
    record = {"run": f"{agent} {task} {success}", "agent": agent, "task_id": task}
    return json.dumps(record | {"success": success, "calls": calls}) + "\n"


def runs(file: Path) -> Path:
    """Ann succeeds at all tasks, bob at none."""
    file.write_text(
        "".join(
            plain(agent, task, success=agent == "ann")
            for agent in ("ann", "bob")
            for task in ("t1", "t2", "t3")
        )
    )
    return file


def test_records_are_of_other_tasks(tmp_path: Path) -> None:
    """What an agent did at the task itself is left out: it is the task's risk, not the agent's."""
    found = read_records(str(runs(tmp_path / "runs.jsonl")), KEYS, "success=true")
    assert found.elsewhere("t1") == {"ann": (2, 0), "bob": (0, 2)}
    assert found.elsewhere("new") == {"ann": (3, 0), "bob": (0, 3)}


@pytest.mark.parametrize("key", ["agent", "model", "pipeline"])
def test_benchmarks_name_their_agents_otherwise(tmp_path: Path, key: str) -> None:
    """The agent of a run is found by the keys that evaluations use, without `--agent`."""
    file = runs(tmp_path / "runs.jsonl")
    file.write_text(file.read_text().replace('"agent"', f'"{key}"'))
    found = read_records(str(file), KEYS, "success=true")
    assert found.elsewhere("new") == {"ann": (3, 0), "bob": (0, 3)}


def test_an_agent_of_one_task_has_no_record_there() -> None:
    """Nothing is known of an agent that did nothing else."""
    found = AgentRecords()
    found.add("ann", "t1", success=True)
    assert found.elsewhere("t1") == {}


@given(st.dictionaries(st.text(min_size=1, max_size=3), COUNTS, min_size=1), st.floats(0, 1))
def test_a_better_record_never_raises_the_risk(
    records: dict[str, tuple[int, int]], risk: float
) -> None:
    """The mean agent's risk stays as it is, and agents are ranked by their records."""
    told = {agent: risk_with_record(risk, records, agent) for agent in records}
    assert all(0 <= each <= 1 for each in told.values())
    ranked = sorted(records, key=lambda agent: record_risk(records, agent))
    assert [told[agent] for agent in ranked] == pytest.approx(sorted(told.values()), abs=1e-9)
    alone = {"one": (0, 0), **records}
    assert record_risk(alone, "one") == pytest.approx(mean_failure(alone))
    assert risk_with_record(0.3, alone, "one") == pytest.approx(0.3)


def test_references_carry_records_and_sessions_show_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two sessions that do the same, the agent that fails elsewhere is riskier; the risk itself is the same."""
    pytest.importorskip("sklearn")
    file, model = runs(tmp_path / "runs.jsonl"), tmp_path / "model"
    options = ["--risk", "--id", "r", "--success", "success=true", "--task", "task_id"]
    assert main(["learn", str(file), "--out", str(model), *options, "--record", str(file)]) == 0
    assert "records of 2 agents in 6 runs" in capsys.readouterr().out
    learnt = {spec.id: spec.learnt for spec in load_specs([model])}
    assert learnt["t1"] is not None
    assert learnt["t1"].agent_records == {"ann": (2, 0), "bob": (0, 2)}

    new = tmp_path / "new.jsonl"
    new.write_text("".join(plain(agent, "t1", success=True) for agent in ("ann", "bob", "cy")))
    assert main(["replay", str(new), "--specs", str(model), "--json"]) == 0
    ann, bob, cy = map(json.loads, capsys.readouterr().out.splitlines())
    assert ann["risk"] == bob["risk"] == cy["risk"]
    assert ann["risk_with_record"] < ann["risk"] < bob["risk_with_record"]
    assert bob["agent_record"]["failures"] == 2
    assert ann["agent_record"]["risk"] < bob["agent_record"]["risk"]
    assert cy["agent_record"] is cy["risk_with_record"] is None


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("nowhere.jsonl", "no such file"),
        ("archive", "OFFRAILS_ARCHIVE_DIR"),
        ("unnamed.jsonl", "no run there has an agent"),
    ],
)
def test_what_holds_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, told: str
) -> None:
    """A record that cannot be read is told by name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OFFRAILS_ARCHIVE_DIR", raising=False)
    (tmp_path / "unnamed.jsonl").write_text('{"run": "1", "success": true, "calls": []}\n')
    with pytest.raises(BadLabels, match=told):
        read_records(place, KEYS, "success=true")


def test_the_record_goes_with_many_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One reference has no other tasks: the option is refused, not passed over."""
    options: list[Any] = ["learn", str(tmp_path), "--out", "x", "--id", "r", "--record", "y"]
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert "--record go with --risk or --evaluate" in capsys.readouterr().err


def past() -> tuple[str, list[ArchiveRecord]]:
    """A task, and records of four sessions under it that have ended, two of them well, and of a live one."""
    (spec,) = load_specs([FARM_ROVER]).specs
    good = ("unlock_safety", "move", "scan", "open_valve", "water", "log")
    monitor = Monitor([spec], Limits(history_complete=True))
    for number, tools in enumerate((good, good, good[:3], ("water", *good))):
        for place, tool in enumerate(tools):
            at = SECOND * (1 + number) + 10 * place
            call = ToolCall(
                SessionKey("default", f"s{number}"), "rover", tool, {}, False, at, at + 5,
                bytes([number + 1]) * 16, bytes([place + 1]) * 8, b"", "", Evidence.EXECUTED,
                attributes={"offrails.spec": spec.id},
            )  # fmt: skip
            monitor.observe(call, at, quiet=True)
    monitor.tick(10 * SECOND + Limits().idle_ns)
    found = list(monitor.judgements())
    assert [each["ended"] for each in found] == ["idle"] * 4
    live = found[0] | {"ended": None, "session": "live"}
    return spec.id, [
        made(each["session"], begun=each["started"], object=as_json(each))
        for each in [*found, live]
    ]


@pytest.mark.parametrize("by_word", [False, True])
def test_an_archive_tells_how_agents_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_word: bool
) -> None:
    """A past session succeeded if it ended where its task is done, without harm; live ones are not counted."""
    task, sessions = past()
    store = ArchiveStore(tmp_path / "archive")
    store.write(sessions)
    store.close()
    monkeypatch.setenv("OFFRAILS_ARCHIVE_DIR", str(tmp_path / "archive"))

    records = read_records("archive" if by_word else str(tmp_path / "archive"), KEYS)
    assert records.elsewhere(task) == {}
    assert records.elsewhere("other") == {"rover": (2, 2)}


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
@pytest.mark.xdist_group("postgresql")
def test_a_database_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """`archive` is the database of OFFRAILS_ARCHIVE_URL, where that is set."""
    task, sessions = past()
    monkeypatch.delenv("OFFRAILS_ARCHIVE_DIR", raising=False)
    from collector.archive.postgresql import PostgresStore

    with server() as url:
        store = PostgresStore(url, "one")
        store.write(sessions)
        store.close()
        monkeypatch.setenv("OFFRAILS_ARCHIVE_URL", url)
        records = read_records("archive", KEYS)
    assert records.elsewhere(task) == {}
    assert records.elsewhere("other") == {"rover": (2, 2)}


def test_a_database_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the archive, and no password."""
    pytest.importorskip("psycopg")
    monkeypatch.setenv("OFFRAILS_ARCHIVE_URL", "postgresql://me:secret@127.0.0.1:1/nowhere")
    with pytest.raises(BadLabels, match="the archive cannot be read") as problem:
        read_records("archive", KEYS)
    assert "secret" not in str(problem.value)
