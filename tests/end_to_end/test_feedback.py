"""`offrails feedback`: labels of people, from the command line to learning and to a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.end_to_end.service import eventually, run
from tests.end_to_end.traffic import Rover, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

SPEC = "dfa_specs/farm_rover.yaml"


def test_labels_come_back(serve: Serve, rover: Callable[..., Rover], tmp_path: Path) -> None:
    """A label of a live session is in the API, in `export --labels` of service and archive, and teaches `learn`."""
    archive = tmp_path / "archive"
    service = serve(
        "--specs", SPEC, OFFRAILS_ARCHIVE_DIR=str(archive), OFFRAILS_HISTORY="complete"
    )
    bad, good = rover().calls("water"), rover().calls("unlock_safety")
    for each in (bad, good):
        send(service, each.spans)
        eventually(partial(service.judgements, each.session))
    url = service.addresses["admin"]

    wrong = run("feedback", bad.session, "wrong", "--note", "it was agreed", "--url", url)
    assert (wrong.returncode, wrong.stderr) == (0, "")
    assert "is labelled wrong" in wrong.stdout
    assert run("feedback", good.session, "right", "--url", url).returncode == 0
    assert run("feedback", good.session, "wrong", "--url", url).returncode == 0
    assert run("feedback", good.session, "none", "--url", url).returncode == 0
    assert (
        run("feedback", good.session, "right", "--spec", "farm_rover", "--url", url).returncode
        == 0
    )

    def shown() -> list[str]:
        found = json.loads(service.get(f"/api/v1/sessions/{good.session}").body)
        return [each["label"] for each in found["labels"]]

    eventually(lambda: shown() == ["right", None, "wrong", "right"])
    [harmful] = [each for each in service.judgements(bad.session) if each["spec"]]
    assert harmful["harmful"]

    lines = tmp_path / "labels.jsonl"
    told = run("export", "--from", url, "--labels", "--out", str(lines))
    assert (told.returncode, told.stderr) == (0, "offrails: 2 labels\n")
    found = {each["session"]: each for each in map(json.loads, lines.read_text().splitlines())}
    # A verdict that harm was done is wrong, so the run was a success.
    assert (found[bad.session]["success"], found[bad.session]["note"]) == (
        True,
        "it was agreed",
    )
    assert (found[good.session]["success"], found[good.session]["spec"]) == (True, "farm_rover")
    service.stop()
    assert run("export", "--from", str(archive), "--labels").stdout == lines.read_text()

    runs = tmp_path / "runs.jsonl"
    runs.write_text(
        "".join(
            json.dumps({"run": each, "calls": [{"tool": "a", "arguments": {}}]}) + "\n"
            for each in (bad.session, good.session)
        )
    )
    learnt = run(
        "learn",
        str(runs),
        "--labels",
        str(lines),
        "--id",
        "r",
        "--out",
        str(tmp_path / "r.yaml"),
    )
    assert "learnt from 2 runs and 0 that failed" in learnt.stdout, learnt


def test_what_cannot_be_labelled(serve: Serve, rover: Callable[..., Rover]) -> None:
    """An unknown session, a service without an archive and no service at all: each is told in one line, code 1."""
    service = serve("--specs", SPEC)
    one = rover().calls("undock")
    send(service, one.spans)
    url = service.addresses["admin"]
    kept = run("feedback", one.session, "right", "--url", url)
    assert (kept.returncode, kept.stdout) == (1, "")
    assert "status 409" in kept.stderr
    assert "set archive.dir" in kept.stderr
    nobody = run("feedback", "x", "right", "--url", "127.0.0.1:9")
    assert (nobody.returncode, nobody.stderr.count("\n")) == (1, 1)
    assert run("feedback", "x", "maybe").returncode == 2


def test_an_unknown_session(serve: Serve, tmp_path: Path) -> None:
    """The service says that it knows no such session, whatever its name holds."""
    service = serve("--specs", SPEC, OFFRAILS_ARCHIVE_DIR=str(tmp_path / "archive"))
    for name in ("nobody", "a/b?c#d", "../x", "é\n"):
        asked = ("feedback", name, "right", "--url", service.addresses["admin"])
        for more in ((), ("--namespace", "\udcff"), ("--begun", "9" * 30)):
            told = run(*asked, *more)
            assert told.returncode == 1
            assert "no such session" in told.stderr
            assert told.stderr.count("\n") == 1
