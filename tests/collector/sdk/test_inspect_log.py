"""What a log of Inspect becomes, without Inspect: its reader is stood in for. `tests/harness/test_inspect.py` has the package."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from collector.decode.json import otlp_json
from collector.sdk.inspect_log import read_inspect_log


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The log that Inspect's reader gives."""
    found = SimpleNamespace(eval=SimpleNamespace(task="sums"), samples=[])
    for name in ("inspect_ai", "inspect_ai.log"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["inspect_ai.log"].read_eval_log = lambda _: found  # type: ignore[attr-defined]
    return found


def sample(**scores: Any) -> SimpleNamespace:
    """A sample without events, with scores."""
    values = {name: SimpleNamespace(value=value) for name, value in scores.items()}
    return SimpleNamespace(uuid="s1", id=1, epoch=1, events=[], scores=values)


def test_a_sample_that_was_not_scored_does_not_spoil_its_log(log: SimpleNamespace) -> None:
    """A score that is no number (Inspect's mark of a sample without one) is an attribute as any other."""
    log.samples = [sample(judge=math.nan), sample(judge=1.0, exact="C")]
    found = [otlp_json.decode(line).spans for line in read_inspect_log(Path("x.eval"))]
    [first], [second] = [[span.attributes() for span in spans] for spans in found]
    assert math.isnan(first["inspect.score.judge"])
    assert (second["inspect.score.judge"], second["inspect.score.exact"]) == (1.0, "C")
