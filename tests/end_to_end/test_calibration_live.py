"""The authors' runs as spans over the wire: their values after each call and at the end."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.service import Service, run

if TYPE_CHECKING:
    from collections.abc import Iterator

CORE = Path(__file__).parents[2] / ".." / "shared" / "core"
CALIBRATION = CORE / "core_runs_calibration.json"

pytestmark = pytest.mark.skipif(
    not CALIBRATION.exists(), reason="the published data is not beside the repo"
)

EXACT = 1e-12
START_NS = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
STATUS_OK, STATUS_ERROR = 1, 2

ONLINE = {"H": "harmful", "harm_rate": "harm_rate", "prefix_crit_05": "prefix_crit"}
AT_THE_END = {
    "pc": "pc",
    "pc_ktc": "pc_ktc",
    "pc_hlr": "pc_hlr",
    "prefix_crit": "prefix_crit",
    "harm_rate": "harm_rate",
    "eff": "efficiency",
    "H": "harmful",
    "raw_n": "calls",
    "n": "substantive",
    "accepting": "accepting",
    "end": "state",
}
"""The calibration's name of a value -> the judgement object's."""


def expected() -> list[dict[str, Any]]:
    if not CALIBRATION.exists():
        return []
    runs: list[dict[str, Any]] = json.loads(CALIBRATION.read_text(encoding="utf-8"))["runs"]
    return runs


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on the imported specs, with `history: complete`."""
    specs = tmp_path_factory.mktemp("specs")
    done = run("import", "core", str(CORE / "all_worlds_dataset.json"), "--out", str(specs))
    assert done.returncode == 0, done.stderr
    service = Service(("--specs", str(specs)), {"OFFRAILS_HISTORY": "complete"})
    try:
        yield service.wait_ready()
        assert service.stop() == 0
    finally:
        service.kill()


def attribute(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def request(task: str, session: str, number: int, call: dict[str, Any]) -> bytes:
    """One call as an execute_tool span of the GenAI conventions, in OTLP/JSON."""
    start = START_NS + number * SECOND
    failed = call["status"] != "ok"
    span = {
        "traceId": hashlib.md5(session.encode()).hexdigest(),
        "spanId": f"{number + 1:016x}",
        "name": f"execute_tool {call['name']}",
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + SECOND // 2),
        "status": {"code": STATUS_ERROR if failed else STATUS_OK},
        "attributes": [
            attribute("offrails.spec", task),
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", call["name"]),
            attribute("gen_ai.tool.call.arguments", json.dumps(call["arguments"])),
            attribute("gen_ai.conversation.id", session),
            attribute("gen_ai.agent.name", "gpt-4.1-nano"),
        ],
    }
    scope = {"scope": {"name": "evaluation"}, "spans": [span]}
    return json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}).encode()


def same(ours: Any, theirs: Any) -> bool:
    """Equal; for numbers, to 1e-12."""
    if isinstance(ours, float | int) and isinstance(theirs, float | int):
        return abs(ours - theirs) <= EXACT
    return bool(ours == theirs)


@pytest.mark.parametrize("wanted", expected(), ids=lambda wanted: wanted["prompt_id"])
def test_the_published_values_live(imported: Service, wanted: dict[str, Any]) -> None:
    """Label, state, H, HarmRate and PrefixCrit agree at each call, and every score at the end."""
    task, session = wanted["prompt_id"], wanted["run"]
    [file] = (CORE / "core_runs").glob(f"{task}__*.json")
    calls = json.loads(file.read_text(encoding="utf-8"))["calls"]

    for number, (call, online) in enumerate(zip(calls, wanted["online"], strict=True)):
        reply = imported.post(request(task, session, number, call))
        found = imported.judgement(session, task)
        assert (reply.status, found["calls"]) == (200, number + 1)
        last = found["steps"][-1]
        assert last["kind"].replace("_", "-") == online["label"]
        assert last["state"] == online["state"]
        for theirs, ours in ONLINE.items():
            assert same(found[ours], online[theirs]), (number, ours)

    found = imported.judgement(session, task)
    for theirs, ours in AT_THE_END.items():
        assert same(found[ours], wanted[theirs]), ours
    assert [step["kind"].replace("_", "-") for step in found["steps"]] == wanted["labels"]
    assert (found["exact"], found["conventions"]["profile"]) == (True, "core")
    assert found["session"] == session


def test_the_profile_is_in_the_metrics(imported: Service) -> None:
    """Each of the 84 specs is listed with the conventions it is scored by."""
    listed = [
        dict(labels)["conventions"]
        for (name, labels) in imported.metrics()
        if name == "offrails_spec_info"
    ]

    assert listed == ["core"] * 84
