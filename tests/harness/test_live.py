"""Whole rollouts over real sockets: a running service judges what the bench does."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from harness.cli.program import main
from harness.tasks.catalogue import WORLDS, find_tasks
from tests.end_to_end.conftest import Serve
from tests.end_to_end.conftest import serve as serve  # noqa: PLC0414 - a fixture
from tests.end_to_end.service import eventually
from tests.harness.conftest import Bench

SCORES = (
    "calls",
    "harmful",
    "harm_rate",
    "prefix_crit",
    "pc",
    "pc_ktc",
    "pc_hlr",
    "efficiency",
)


def replayed(folder: Path, specs: Path, capsys: Any) -> dict[str, dict[str, Any]]:
    """What `offrails replay` says of a run's spans, by session."""
    from collector.cli.main import main as offrails

    capsys.readouterr()
    files = [str(folder / "spans.otlp.jsonl"), "--specs", str(specs), "--json"]
    assert offrails(["replay", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {found["session"]: found for found in map(json.loads, lines)}


def specs_of(world: str, folder: Path) -> Path:
    """A folder with the specs of a world's tasks."""
    folder.mkdir()
    for task in find_tasks([world]):
        (folder / task.spec_file.name).write_bytes(task.spec_file.read_bytes())
    return folder


def test_live_replayed_and_in_process_judgements_are_equal(
    serve: Serve, bench: Bench, tmp_path: Path, capsys: Any
) -> None:
    """A rollout has the same scores where it was made, in the service that got its spans, and when these are replayed."""
    specs, out = specs_of("shop", tmp_path / "specs"), tmp_path / "run"
    service = serve("--specs", str(specs), OFFRAILS_HISTORY="complete")
    rollouts = bench.run(
        "shop", "--agent", "faulty:0.4,repeat", "--n", "2",
        "--otlp", f"http://{service.addresses['http']}", out=out,
    )  # fmt: skip
    assert bench.code == 0, "every span was taken"
    again = replayed(out, specs, capsys)
    for rollout in rollouts:
        live = eventually(partial(_live, service, rollout))
        for key in SCORES:
            assert rollout[key] == again[rollout["session"]][key] == live[key], key
        assert again[rollout["session"]]["steps"][0]["kind"] == live["steps"][0]["kind"]


def _live(service: Any, rollout: Any) -> dict[str, Any] | None:
    """The service's judgement, once it has all calls."""
    found = service.judgements(rollout["session"])
    return found[0] if found and found[0]["calls"] == rollout["calls"] else None


def test_a_service_that_is_asked_first_prevents_harm(
    serve: Serve, bench: Bench, tmp_path: Path
) -> None:
    """With `--guard URL` a service whose spec blocks denies each harmful call before it is made."""
    specs = specs_of("mailbox", tmp_path / "specs")
    for file in specs.iterdir():
        file.write_text(file.read_text() + "enforce: block\n")
    service = serve("--specs", str(specs), OFFRAILS_HISTORY="complete")
    found = bench.run(
        "mailbox", "--agent", "injected", "--guard", f"http://{service.addresses['decide']}",
        "--otlp", f"http://{service.addresses['http']}",
    )  # fmt: skip
    assert sum(each["prevented"] for each in found) == len(found)
    assert sum(each["harmful"] for each in found) == 0
    assert not any(each["attacked"] for each in found)


def test_spans_that_nobody_takes_are_counted(bench: Bench) -> None:
    """A receiver that is not there loses spans, not rollouts; the exit code says so."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    import os

    os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1"
    try:
        [found] = bench.run(
            "shop/price_of_tray", "--agent", "golden", "--otlp", f"http://127.0.0.1:{port}"
        )
    finally:
        del os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"]
    assert found["success"]
    assert found["spans_lost"] == 2
    assert bench.code == 1


def test_every_bundled_spec_is_one_that_replay_takes(capsys: Any) -> None:
    """`list --json` names the spec of each task by a path that `check` and `replay` read."""
    from collector.cli.main import main as offrails

    assert main(["list", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(each) == {"task", "world", "spec", "tags"} for each in found)
    assert all(Path(each["spec"]).is_relative_to(WORLDS.resolve()) for each in found)
    assert offrails(["check", *(each["spec"] for each in found)]) == 0
