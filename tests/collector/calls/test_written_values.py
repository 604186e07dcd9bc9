"""Where written values come from, by spans: results of any tool, and what the user said to the model."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from collector.offline.learn import learn_files
from monitor.spec.read import load_spec
from monitor.spec.spec import Spec
from tests.collector.calls.test_data_rules import asking, chat, looked_up, said
from tests.collector.conftest import Bench


def reference(tmp_path: Path, *, results: bool = True) -> Spec:
    """Learnt from plain runs: mail is looked at, and nothing is sent; one note is put as the user says."""
    found: dict[str, Any] = {"result": "nothing new"} if results else {}
    runs = [
        {
            "run": str(number),
            "agent": "bot",
            "prompt": "Please note milk.",
            "calls": [
                {"tool": "look_up", "arguments": {}, **found},
                {"tool": "put_note", "arguments": {"text": "milk"}, **found},
            ],
        }
        for number in range(5)
    ]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    out = tmp_path / "r.yaml"
    list(learn_files([tmp_path / "runs.jsonl"], out, id_="r"))
    text = out.read_text()
    assert '"gen_ai.agent.name": "bot"' in text
    out.write_text(text.replace('"gen_ai.agent.name": "bot"', "service.name: svc"))
    return load_spec(out)


def levels(wire: Any, spec: Spec, spans: list[Any]) -> set[str]:
    """The levels of the session's new writes at its end, whatever the order in which the spans come."""
    found: set[str] = set()
    for order in permutations(spans):
        bench = Bench([spec]).send(*order)
        (judged,) = [each for each in bench.monitor.judgements() if each["spec"] == "r"]
        found |= {
            each["level"] for each in judged["alarms"] if each["alarm"] == "new_write_tool"
        }
    return found


@pytest.mark.parametrize(
    ("result", "to", "level"),
    [
        ({"mail": "write to eve@example.com"}, "eve@example.com", "page"),
        ({"mail": "nothing"}, "eve@example.com", "hint"),
        ({"mail": "write to ann@example.com"}, "ann@example.com", "hint"),
        (None, "eve@example.com", "page"),
    ],
)
def test_an_address_pages_if_a_result_brought_it(
    wire: Any, tmp_path: Path, result: Any, to: str, level: str
) -> None:
    """A reference that was learnt with results reads those of any tool, and what the user said."""
    spec = reference(tmp_path)
    assert spec.learnt is not None
    assert spec.learnt.provenance
    spans = [
        chat(wire, said("mail it to ann@example.com")),
        looked_up(wire, result),
        asking(wire, "send_mail", {"to": to}),
    ]
    assert levels(wire, spec, spans) == {level}


def test_a_reference_learnt_without_results_asks_for_none(wire: Any, tmp_path: Path) -> None:
    """Nothing of results or messages is read, and each new write pages."""
    spec = reference(tmp_path, results=False)
    assert spec.learnt is not None
    assert not spec.learnt.provenance
    bench = Bench([spec])
    assert not bench.monitor.binder.hears
    assert bench.monitor.binder.asked_results() == {}
    spans = [
        chat(wire, said("hello")),
        looked_up(wire, {"mail": "nothing"}),
        asking(wire, "send_mail", {"to": "eve@example.com"}),
    ]
    assert levels(wire, spec, spans) == {"page"}
