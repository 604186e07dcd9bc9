"""Rules over data hold of spans as of calls: shuffled, some sent twice, in requests of any size.

The runs go through the whole pipeline. What is told of each call is what a plain interpreter says that sees the whole run,
and what a monitor says that got the calls in order, each once.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from collector.decode.span import Span
from tests.collector.conftest import BASE, SECOND, Bench, Wire
from tests.property.test_data_rules import (
    ASKING_TOOLS,
    LEAVES,
    SPECS,
    VALUES,
    Step,
    events,
    expected,
    is_sharp,
    observed,
)

RUNS: Final = 20_000
SAMPLE: Final = 40
UNKNOWN_MAX: Final = 3
"""Results of a run that are not known; the interpreter tries all that they may be."""


def made_run(chance: Random) -> list[Step]:
    """Up to ten look-ups, questions and messages."""
    run: list[Step] = []
    for at in sorted(chance.sample(range(1, 45), chance.randint(1, 10))):
        kind = chance.random()
        if kind < 0.45:
            unknown = sum(each.tool in ("search", "look") and not each.result for each in run)
            run.append(_source(chance, 2 * at, may_be_unknown=unknown < UNKNOWN_MAX))
        elif kind < 0.9:
            run.append(_asking(chance, 2 * at + 1))
        else:
            said = chance.choices(LEAVES, k=chance.randrange(3))
            run.append(_step("user", f"Take {said}, not 55 xx.", 2 * at))
    return run


def _source(chance: Random, at: int, *, may_be_unknown: bool) -> Step:
    """A call that returns prices, or of which it is not known what it returned."""
    known = not may_be_unknown or chance.random() < 0.7
    prices = chance.choices(LEAVES, k=chance.randrange(4))
    return Step(
        chance.choice(("search", "look")),
        chance.choice(VALUES),
        ({"prices": prices},) if known else (),
        failed=chance.random() < 0.2,
        start=at,
        length=chance.choice((1, 1, 9)),
    )


def _asking(chance: Random, at: int) -> Step:
    """A call that a rule asks something of."""
    many = chance.random() < 0.3
    value = chance.choices(LEAVES, k=chance.randint(1, 2)) if many else chance.choice(VALUES)
    return _step(chance.choice(ASKING_TOOLS), value, at)


def _step(tool: str, value: Any, at: int) -> Step:
    return Step(tool, value, (), failed=False, start=at, length=0)


def span_of(wire: Wire, step: Step) -> Span:
    """A step as an instrumentation sends it."""
    times: dict[str, Any] = {"id": f"at {step.start}", "start": step.start, "end": step.end}
    attributes = {"gen_ai.conversation.id": "s"}
    if step.tool == "user":
        message = {"role": "user", "parts": [{"type": "text", "content": step.value}]}
        attributes |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": wire.json([message]),
        }
        return wire.span("chat", attributes, **times)
    name = "q" if step.tool in ("search", "look") else "v"
    if step.result:
        attributes["gen_ai.tool.call.result"] = wire.json(step.result[0])
    return wire.tool(
        step.tool,
        call_id=f"call {step.start}",
        arguments={name: step.value},
        status=2 if step.failed else 0,
        attributes=attributes,
        **times,
    )


def judged(run: list[Step], chance: Random) -> dict[int, bool | None]:
    """Start of each call that asks -> whether its condition holds."""
    bench, spans = Bench(SPECS), [span_of(Wire(), step) for step in run]
    again = chance.sample(spans, chance.randint(0, len(spans)))
    sent = chance.sample([*spans, *again], len(spans) + len(again))
    while sent:
        size = chance.randint(1, 4)
        bench.pipeline.consume(sent[:size], BASE + 3_600 * SECOND, "test")
        del sent[:size]
    harmful = {
        (found["spec"], (step["start_ns"] - BASE) // SECOND)
        for found in bench.monitor.find("s")
        for step in found["steps"]
        if step["kind"] == "harmful"
    }
    return {
        step.start: True
        if ("good", step.start) in harmful
        else False
        if ("bad", step.start) in harmful
        else None
        for step in run
        if step.tool in ASKING_TOOLS
    }


def assert_judged_as_by_the_interpreter(seed: int) -> int:
    """One run; returns of how many of its calls the answer is certain."""
    chance = Random(seed)
    run = made_run(chance)
    wanted, found = expected(run), judged(run, chance)
    assert found == observed(events(run)), seed
    for step in run:
        if step.tool in ASKING_TOOLS and (is_sharp(step) or found[step.start] is not None):
            assert found[step.start] is wanted[step.start], (seed, step)
    return sum(each is not None for each in found.values())


def test_a_sample_is_judged_as_by_the_interpreter() -> None:
    """The first runs of the law below; most have calls whose answer is certain."""
    assert sum(map(assert_judged_as_by_the_interpreter, range(SAMPLE))) > SAMPLE


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_runs_are_judged_as_by_the_interpreter() -> None:
    """20,000 runs: shuffled, doubled, overlapping, with results that are not known."""
    for seed in range(RUNS):
        assert_judged_as_by_the_interpreter(seed)
