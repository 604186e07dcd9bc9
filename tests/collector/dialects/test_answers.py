"""Final answers of agents reach the comparison of sessions, from whichever span holds them."""

from __future__ import annotations

import json
from typing import Any

from monitor.spec.compiler.compile import compile_text

TASK = """\
id: t
kind: task
match: {service.name: svc}
alphabet:
  move: {tool: move}
golden: [[move]]
"""


def _said(text: str) -> dict[str, Any]:
    messages = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    return {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(messages)}


def _session(wire: Any, made: Any, number: int, *texts: str) -> None:
    """A session with one call and the model's final answer; it ends."""
    trace = f"trace{number}"
    made.send(wire.tool("move", trace=trace, start=1))
    for place, text in enumerate(texts):
        made.send(wire.span("chat", _said(text), trace=trace, start=2 + place))
    made.monitor.close(0)


def test_models_last_words_are_compared(wire: Any, bench: Any) -> None:
    """Two of three sessions end with the same answer: one pair of three agrees."""
    spec, findings = compile_text(TASK, "t.yaml")
    assert spec is not None, findings
    made = bench([spec])
    _session(wire, made, 1, "thinking", "done")
    _session(wire, made, 2, "done")
    _session(wire, made, 3, "done", "no: failed")
    (found,) = (each for each in made.monitor.totals.pairs.values() if each.spec == "t")
    assert found.repeats.output_agreement == 1 / 3


def test_contents_off_the_wire_give_no_agreement(wire: Any, bench: Any) -> None:
    """Contents that are not on the wire give no agreement, and not a perfect one."""
    spec, findings = compile_text(TASK, "t.yaml")
    assert spec is not None, findings
    made = bench([spec])
    for number in range(3):
        _session(wire, made, number)
    (found,) = (each for each in made.monitor.totals.pairs.values() if each.spec == "t")
    assert found.repeats.output_agreement is None
