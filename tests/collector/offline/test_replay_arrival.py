"""`offrails replay` of a capture that is shuffled and doubled gives the original judgements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from collector.cli.main import main
from collector.offline.replay import replay
from monitor.spec.read import load_specs
from tests.captures import CAPTURES, NO_CAPTURES, SAMPLED_CAPTURES, capture_name
from tests.samples import sampled

SPECS = Path(__file__).parents[3] / "dfa_specs"
SERVICES = ["farm-rover", "rover-mcp-client", "rover-mcp-server"]

pytestmark = pytest.mark.skipif(not CAPTURES, reason=NO_CAPTURES)


def _singles(path: Path) -> list[dict[str, Any]]:
    """Requests of one span each."""
    return [
        {
            "resourceSpans": [
                {**group, "scopeSpans": [{**scope, "spans": [span]}]},
            ]
        }
        for line in path.read_text().splitlines()
        for group in json.loads(line)["resourceSpans"]
        for scope in group["scopeSpans"]
        for span in scope["spans"]
    ]


def _shuffled(path: Path, seed: int, file: Path) -> Path:
    """The capture's spans in any order, many of them twice, in requests of one to five."""
    chance = Random(seed)
    spans = _singles(path)
    spans += chance.sample(spans, len(spans) // 2)
    chance.shuffle(spans)
    lines = []
    while spans:
        size = chance.randint(1, 5)
        groups = [group for span in spans[:size] for group in span["resourceSpans"]]
        lines.append(json.dumps({"resourceSpans": groups}))
        del spans[:size]
    file.write_text("\n".join(lines) + "\n")
    return file


def _specs(tmp_path: Path) -> list[Path]:
    """The rover's task, the same turn by turn, and its policy, for every service."""
    found = []
    for name, changes in (
        ("farm_rover", {}),
        ("farm_rover", {"id": "by_turn", "scope": "turn"}),
        ("rover_policy", {}),
    ):
        document = yaml.safe_load((SPECS / f"{name}.yaml").read_text())
        document |= {"match": {"service.name": SERVICES}, **changes}
        found.append(tmp_path / f"{document['id']}.yaml")
        found[-1].write_text(yaml.safe_dump(document))
    return found


def _judgements(path: Path, specs: Sequence[Path]) -> list[dict[str, Any]]:
    """The judgement objects, which is all but what tells of the arrival."""
    loaded = load_specs(specs)
    assert not loaded.refused
    found = replay(
        [path],
        loaded.specs,
    )
    return [{key: value for key, value in each.items() if key != "coverage"} for each in found]


@pytest.mark.parametrize("seed", sampled(range(6), [0]))
@pytest.mark.parametrize("path", SAMPLED_CAPTURES, ids=capture_name)
def test_a_shuffled_capture_is_judged_alike(path: Path, seed: int, tmp_path: Path) -> None:
    """Order, doubles and batches of real spans change nothing, under a task and a policy."""
    specs = _specs(tmp_path)
    wanted = _judgements(path, specs)
    assert any(each["calls"] for each in wanted)
    assert _judgements(_shuffled(path, seed, tmp_path / path.name), specs) == wanted


def test_the_verb_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`offrails replay --json` of both files is equal, line by line, but for the coverage."""
    path = next(run for run in CAPTURES if run.name == "session.otlp.jsonl")
    specs = [text for spec in _specs(tmp_path) for text in ("--specs", str(spec))]
    printed = []
    for file in (path, _shuffled(path, 7, tmp_path / path.name)):
        main(["replay", "--json", *specs, str(file)])
        lines = capsys.readouterr().out.splitlines()
        printed.append([{**json.loads(line), "coverage": None} for line in lines])

    assert printed[0] == printed[1] != []
