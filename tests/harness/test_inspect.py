"""Evals of Inspect are judged as they run, by the hook, and from their logs.

Takes the extra `inspect`: `make test-long`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main as offrails
from tests.end_to_end.conftest import Serve
from tests.end_to_end.conftest import serve as serve  # noqa: PLC0414 - a fixture
from tests.end_to_end.service import eventually
from tests.harness.test_live import SCORES

pytestmark = pytest.mark.long
pytest.importorskip("inspect_ai", reason="needs the extra inspect")

SPEC = """
id: sums
match: {inspect.task: sums}
alphabet:
  add: {tool: add}
  answer: {tool: submit}
golden:
  - [add, answer]
"""


def eval_log(folder: Path, endpoint: str | None) -> Path:
    """The log of the eval, which has sent its spans to an endpoint."""
    told = {} if endpoint is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    script = Path(__file__).parent / "inspect_eval.py"
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    status, location = done.stdout.split()[-2:]
    assert status == "success", done.stdout + done.stderr
    return Path(location)


def replayed(
    log: Path, specs: Path, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert offrails(["replay", str(log), "--specs", str(specs), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_hook_and_the_log_give_the_same_judgements(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A running service that got the hook's spans says of each sample what `replay` says of the log, step by step."""
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "sums.yaml").write_text(SPEC)
    service = serve("--specs", str(specs), OFFRAILS_HISTORY="complete")
    log = eval_log(tmp_path / "logs", f"http://{service.addresses['http']}")
    found = replayed(log, specs, capsys)
    assert len(found) == 2
    for each in found:
        assert (each["calls"], each["agent"]) == (4, "sums")
        live = eventually(partial(_live, service, each["session"]))
        assert [live[key] for key in SCORES] == [each[key] for key in SCORES]
        steps = [
            [
                (step["tool"], step["kind"], step["reason"], step["error"])
                for step in one["steps"]
            ]
            for one in (live, each)
        ]
        assert steps[0] == steps[1]
        assert [error for *_, error in steps[0]] == [False, True, True, False]


def _live(service: Any, session: str) -> dict[str, Any] | None:
    found = service.judgements(session)
    return found[0] if found and found[0]["calls"] == 4 else None


def test_learn_reads_a_log_with_its_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`learn --success inspect.score.NAME=VALUE` takes the samples that were scored so."""
    log = eval_log(tmp_path / "logs", None)
    out = tmp_path / "reference.yaml"
    arguments = ["--id", "sums", "--success", "inspect.score.includes=C", "--out", str(out)]
    assert offrails(["learn", str(log), *arguments]) == 0, capsys.readouterr().err
    assert "add" in out.read_text()


def test_a_file_that_is_no_log_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged log ends `replay` with exit code 1 and the file's name."""
    file = tmp_path / "bad.eval"
    file.write_text("no log")
    assert offrails(["replay", str(file), "--specs", "dfa_specs/farm_rover.yaml"]) == 1
    assert f"{file}: no log of Inspect" in capsys.readouterr().err
