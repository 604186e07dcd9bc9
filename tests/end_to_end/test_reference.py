"""From recorded spans to a watched session: record, learn, serve, and a call that diverges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.end_to_end.service import eventually, run
from tests.end_to_end.traffic import GOLDEN, send

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.traffic import Rover


def test_record_learn_watch(serve: Serve, rover: Callable[..., Rover], tmp_path: Path) -> None:
    """A reference is learnt from recorded spans, and a live session diverges from it at call 1."""
    folder, out = tmp_path / "spans", tmp_path / "usual.yaml"
    recording = serve("--record", str(folder))
    for _ in range(2):
        session = rover().calls(*GOLDEN)
        send(recording, session.spans)
    recording.stop()
    files = [str(file) for file in folder.iterdir()]

    learnt = run("learn", *files, "--id", "usual", "--out", str(out))
    assert learnt.returncode == 0, learnt.stderr
    assert "learnt from 2 runs" in learnt.stdout

    drawn = run("draw", str(out))
    assert drawn.returncode == 0, drawn.stderr
    assert GOLDEN[0] in drawn.stdout
    replayed = run("replay", str(folder), "--specs", str(out), "--by", "task", "--json")
    task, _ = map(json.loads, replayed.stdout.splitlines())
    assert (task["task"], task["runs"], task["tss"]) == ("usual", 2, 1.0)

    service = serve("--specs", str(out), OFFRAILS_HISTORY="complete")
    odd = rover().calls("water")
    send(service, odd.spans)
    found = eventually(
        lambda: next((x for x in service.judgements(odd.session) if x["spec"]), None)
    )

    assert found["spec_kind"] == "reference"
    assert found["divergence"]["step"] == 1
    assert found["divergence"]["phase"] == "first_two"
    assert found["divergence"]["expected"] == [GOLDEN[0]]
    assert found["first_two_diverged"]
    assert 0 < found["steps"][0]["risk"] < 1
    assert all(str(file).endswith(".jsonl.gz") for file in files)
    assert json.dumps(found)
