"""Real airline runs sent call by call over OTLP: what is said then is what the report counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from tests.end_to_end.traffic import Rover, send
from tests.papers.airline import (
    RUNS,
    Judged,
    Tried,
    alarm,
    aucs,
    judged,
    seen,
    tried,
    watched_risks,
)

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

pytestmark = pytest.mark.skipif(
    not RUNS.exists(), reason="the recorded airline runs are absent"
)


def references(runs: list[Tried], folder: Path) -> list[tuple[str, Tried, int]]:
    """A reference for each run with calls, learnt of the other runs of its task."""
    found = []
    for number, one in enumerate(runs):
        others = [each for each in runs if each.task == one.task and each is not one]
        if one.run.calls:
            name = f"others-{number}"
            text = reference_text(learn([seen(each) for each in others]), name)
            (folder / f"{name}.yaml").write_text(text)
            found.append((name, one, sum(not each.failed for each in others)))
    return found


def told_online(service: Service, name: str, one: Tried, number: int) -> Judged:
    """Sends the calls one by one; the judgement is put together of what was said after each."""
    session = Rover(f"run-{number}", number + 1)
    steps, flags = [], {"unexpected_write": False, "first_two_diverged": False}
    for call in one.run.calls:
        before = len(session.spans)
        told = {"offrails.spec": name}
        session.call(call.tool, dict(call.arguments or {}), error=call.failed, **told)
        send(service, session.spans[before:])
        (now,) = [each for each in service.judgements(session.session) if each["spec"] == name]
        assert now["steps"][-1]["tool"] == call.tool
        steps.append({"risk": now["risk"]})
        flags = {flag: now[flag] or was for flag, was in flags.items()}
    return Judged(one, 0, {"steps": steps, **flags})


def test_over_the_wire_as_in_the_report(serve: Serve, tmp_path: Path) -> None:
    """Alarms and risks of all runs, received live, give the figures of the report."""
    runs = tried()
    wanted = references(runs, tmp_path)
    service = serve("--specs", str(tmp_path), OFFRAILS_HISTORY="complete")

    live = [
        told_online(service, name, one, number)._replace(references=count)
        for number, (name, one, count) in enumerate(wanted)
    ]

    report = judged(runs)
    for name in ("unexpected_write", "first_two_diverged"):
        assert alarm(live, name) == pytest.approx(alarm(report, name)), name
    assert aucs(watched_risks(live)) == pytest.approx(aucs(watched_risks(report)))
    for now, then in zip(live, report, strict=True):
        assert [step["risk"] for step in now.object["steps"]] == pytest.approx(
            [step["risk"] for step in then.object["steps"]]
        )
